"""SLOs as plain data for terminal, page and JSON."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from monitor.model.alert import Alert
from monitor.model.rollout import Rollout
from monitor.report.views import alert_view, rollout_view
from monitor.slo.burn import BURN_ALERT, Burn, SloStatus
from monitor.slo.course import Course


def slo_view(status: SloStatus) -> dict[str, Any]:
    """One SLO in one scope; unknown numbers are None. Ratios are 0 to 1, burn rates multiples of the allowed rate."""
    slo, attained = status.slo, status.attainment
    return {
        "name": slo.name,
        "indicator": slo.indicator.value,
        "threshold": slo.threshold,
        "group": status.scope.get("group") or None,
        "groups": sorted(status.groups),
        "server": status.scope.get("server"),
        "model": status.scope.get("model"),
        "objective": slo.objective,
        "period_days": slo.period_days,
        "report_only": slo.report_only,
        "reached": attained.sli,
        "good": attained.good,
        "valid": attained.valid,
        "error_budget_remaining": attained.error_budget_remaining,
        "known": attained.known,
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
        "known": burn.known,
        "burning": burn.is_burning,
        "reason": burn.reason,
    }


def course_view(course: Course, rollouts: Iterable[Rollout], alerts: Iterable[Alert]) -> dict[str, Any]:
    """How one SLO fared in one scope: `rows` by steps, oldest first, with what was changed and what fired for it."""
    slo, scope = course.slo, course.scope
    since = course.times[0] if course.times else None
    rows = zip(course.times, course.error_budget_remaining, course.burn_rate, strict=True)
    return {
        "name": slo.name,
        "group": scope.get("group") or None,
        "server": scope.get("server"),
        "model": scope.get("model"),
        "objective": slo.objective,
        "period_days": slo.period_days,
        "report_only": slo.report_only,
        "step_seconds": course.step_seconds,
        "rows": [{"at": at.isoformat(), "error_budget_remaining": left, "burn_rate": rate} for at, left, rate in rows],
        "rollouts": [
            rollout_view(one) for one in rollouts
            if one.group in course.groups and since is not None and one.created_at >= since
        ],
        "alerts": [
            alert_view(one) for one in alerts
            if one.name == BURN_ALERT and one.labels.get("slo") == slo.name and one.fired_at is not None
            and all(one.labels.get(label) == value for label, value in scope.items())
            and since is not None and one.fired_at >= since
        ],
    }  # fmt: skip
