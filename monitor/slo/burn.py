"""Burn rates and budgets of one SLO in one scope, and what they are worth as alerts. It owns no events.

burn rate = share of bad events / error budget: 1 spends exactly the budget in the period.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from monitor.model.alert import Severity
from monitor.model.duration import format_duration
from monitor.model.outcome import RuleOutcome, Truth
from monitor.model.slo import Attainment, Slo
from monitor.slo.ledger import Ledger, Total
from monitor.slo.windows import BurnWindow

#: Name of the alert; the label `slo` says which.
BURN_ALERT = "ErrorBudgetBurn"

#: How long a burn alert fires on (seconds): the short window already makes it end soon after the burn.
KEEP_FIRING_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class Burn:
    """Burn rates over the two windows of one row of the table; None without enough events. `reason` says why.

    `known` is the share of the long window that was watched (0 to 1): less than 1 only where an objective is new.
    """

    window: BurnWindow
    long: float | None
    short: float | None
    reason: str = ""
    is_watched: bool = True
    known: float = 1.0

    @property
    def is_burning(self) -> bool:
        """Whether both windows exceed the factor, and with it the window's share of the budget is gone.

        One lost minute in the first hours of a daemon is a high rate, and next to nothing of a budget of 30 days.
        """
        if self.long is None or self.short is None:
            return False
        return self.known * self.long > self.window.factor and self.short > self.window.factor


@dataclass(frozen=True, slots=True)
class SloStatus:
    """One SLO in one scope at one moment. `scope` are its labels (`group`, `server`, `model`).

    `exhausted_in_seconds`: until the budget is gone at the burn rate of the last hour; 0 when it is, None when it does
    not burn.
    """

    attainment: Attainment
    scope: Mapping[str, str]
    burns: tuple[Burn, ...]
    burn_rate: float | None
    exhausted_in_seconds: float | None
    #: The groups whose servers it counts.
    groups: frozenset[str] = frozenset()

    @property
    def slo(self) -> Slo:
        """The SLO."""
        return self.attainment.slo


def burn_rate(slo: Slo, total: Total) -> float | None:
    """Burn rate of a window; None without events."""
    return (1.0 - total.good / total.valid) / slo.error_budget if total.valid > 0 else None


def status_of(
    slo: Slo, windows: Sequence[BurnWindow], ledger: Ledger, scope: Mapping[str, str], now: datetime,
    groups: frozenset[str] = frozenset(),
) -> SloStatus:
    """Attainment, burn rates and time to exhaustion at `now`; `groups` are those whose servers it counts."""
    period = slo.period_days * 86400.0
    whole = ledger.total(now, period)
    attainment = Attainment(slo=slo, good=whole.good, valid=whole.valid, known=ledger.known(now, period))
    rate = burn_rate(slo, ledger.total(now, 3600.0))
    left = attainment.error_budget_remaining
    exhausted = None
    if left is not None and left <= 0:
        exhausted = 0.0
    elif left is not None and rate:
        exhausted = left * period / rate
    return SloStatus(attainment, scope, tuple(_burn(slo, w, ledger, now) for w in windows), rate, exhausted, groups)


def shortest(slo: Slo, window: BurnWindow) -> float:
    """The short window (seconds), long enough to hold a slice: one counts once it is over."""
    return max(window.short_seconds, 2 * slo.slice_seconds) if slo.indicator.is_sliced else window.short_seconds


def _burn(slo: Slo, window: BurnWindow, ledger: Ledger, now: datetime) -> Burn:
    least = shortest(slo, window)
    long, short = ledger.total(now, max(window.long_seconds, least)), ledger.total(now, least)
    if not long.is_watched or not short.is_watched:
        seconds = window.short_seconds if long.is_watched else window.long_seconds
        return Burn(window, None, None, f"nothing measured in {format_duration(seconds)}", is_watched=False)
    if long.valid < max(slo.minimum_events, 1e-9):
        what = f"{long.valid:.0f} of the {slo.minimum_events:.0f} events needed" if slo.minimum_events else "no events"
        return Burn(window, None, None, f"{what} in {format_duration(window.long_seconds)}")
    # No event in the short window is no bad event: it is not burning now.
    known = ledger.known(now, max(window.long_seconds, least))
    return Burn(window, burn_rate(slo, long), burn_rate(slo, short) or 0.0, known=known)


def burn_outcomes(status: SloStatus) -> tuple[RuleOutcome, ...]:
    """The SLO's alerts, one a severity, as outcomes for `step_alerts`; none for an SLO that is only reported.

    True when any window of that severity burns; no data when none does and one is not measured at all. Too few events
    are false: a budget counted in events is not burnt by events that do not come.
    """
    if status.slo.report_only:
        return ()
    severities = dict.fromkeys(burn.window.severity for burn in status.burns)
    return tuple(_outcome(status, severity) for severity in severities)


def _outcome(status: SloStatus, severity: Severity) -> RuleOutcome:
    slo = status.slo
    burns = [burn for burn in status.burns if burn.window.severity is severity]
    burning = [burn for burn in burns if burn.is_burning]
    blind = [burn for burn in burns if not burn.is_watched]
    truth = Truth.TRUE if burning else Truth.NO_DATA if blind else Truth.FALSE
    labels = {
        **status.scope, "alertname": BURN_ALERT, "slo": slo.name, "indicator": str(slo.indicator),
        "severity": str(severity),
    }  # fmt: skip
    evidence: dict[str, float | None] = {"error_budget_remaining": status.attainment.error_budget_remaining}
    for burn in burns:
        evidence[f"burn_rate_{format_duration(burn.window.long_seconds)}"] = burn.long
        evidence[f"burn_rate_{format_duration(burn.window.short_seconds)}"] = burn.short
    where = ", ".join(value for _, value in sorted(status.scope.items()))
    return RuleOutcome(
        rule=f"{BURN_ALERT}:{slo.name}:{severity}",
        scope=where,
        truth=truth,
        labels=labels,
        annotations=_texts(status, burning[0], where) if burning else {},
        evidence=evidence,
        reason="; ".join(burn.reason for burn in burns if burn.reason),
        keep_firing_for_seconds=KEEP_FIRING_SECONDS,
    )


def _texts(status: SloStatus, burn: Burn, where: str) -> dict[str, str]:
    slo, left = status.slo, status.attainment.error_budget_remaining
    gone = status.exhausted_in_seconds
    ends = "" if gone is None else " It is spent." if gone <= 0 else f" At this rate it is spent in {_days(gone)}."
    budget = "" if left is None else f" {max(0.0, left):.1%} of the budget of {slo.period_days:g} days is left.{ends}"
    return {
        "summary": f"{where}: {slo.name} fails {burn.long or 0.0:.1f} times as often as its objective allows",
        "description": (
            f"Over {format_duration(burn.window.long_seconds)} {(burn.long or 0.0) * slo.error_budget:.2%} of the "
            f"events were bad, {slo.error_budget:.2%} are allowed; over "
            f"{format_duration(burn.window.short_seconds)} {(burn.short or 0.0) * slo.error_budget:.2%}.{budget}"
        ),
        "runbook": "error-budget-burn",
    }


def _days(seconds: float) -> str:
    return format_duration(round(seconds / 3600) * 3600 if seconds >= 7200 else round(seconds / 60) * 60)
