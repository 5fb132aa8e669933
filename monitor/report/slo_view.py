"""SLOs as plain data for terminal, page and JSON."""

from __future__ import annotations

from typing import Any

from monitor.slo.burn import Burn, SloStatus


def slo_view(status: SloStatus) -> dict[str, Any]:
    """One SLO in one scope; unknown numbers are None. Ratios are 0 to 1, burn rates multiples of the allowed rate."""
    slo, attained = status.slo, status.attainment
    return {
        "name": slo.name,
        "indicator": slo.indicator.value,
        "threshold": slo.threshold,
        "group": status.scope.get("group") or None,
        "server": status.scope.get("server"),
        "model": status.scope.get("model"),
        "objective": slo.objective,
        "period_days": slo.period_days,
        "report_only": slo.report_only,
        "reached": attained.sli,
        "good": attained.good,
        "valid": attained.valid,
        "error_budget_remaining": attained.error_budget_remaining,
        "burn_rate": status.burn_rate,
        "exhausted_in_seconds": status.exhausted_in_seconds,
        "burning": any(burn.is_burning for burn in status.burns),
        "windows": [_burn_view(burn) for burn in status.burns],
    }


def _burn_view(burn: Burn) -> dict[str, Any]:
    return {
        "name": burn.window.name,
        "severity": burn.window.severity.value,
        "long_seconds": burn.window.long_seconds,
        "short_seconds": burn.window.short_seconds,
        "factor": burn.window.factor,
        "long": burn.long,
        "short": burn.short,
        "burning": burn.is_burning,
        "reason": burn.reason,
    }
