"""The burn-rate windows, as a table with its sources, and which of them an SLO can ever trip. It measures nothing.

An alert fires while the burn rate exceeds the factor over a long window (enough budget is gone to matter) and over a
short one (it is still going). Google SRE workbook, "Alerting on SLOs", table 5-8 (14.4, 6, 1 over 30 days, short window
one twelfth of the long one); the row 1 d / 2 h and the 7-day shares are sloth's, `internal/prometheus/alert_windows`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from monitor.model.alert import Severity
from monitor.model.duration import format_duration
from monitor.model.slo import Slo

_HOUR = 3600.0
_DAY = 24 * _HOUR

#: Shortest period an SLO may have (days): there is no published table for less.
MIN_PERIOD_DAYS = 7.0


@dataclass(frozen=True, slots=True)
class BurnWindow:
    """Two windows (seconds) and the burn rate that must be exceeded over both, which is `share` of the budget gone.

    factor = share of the budget x period / long window.
    """

    name: str
    severity: Severity
    long_seconds: float
    short_seconds: float
    share: float
    factor: float


#: Name, severity, long and short window, share of the budget that is gone when it fires: by shortest period (days).
_TABLES: dict[float, tuple[tuple[str, Severity, float, float, float], ...]] = {
    28.0: (
        ("page_quick", Severity.PAGE, _HOUR, _HOUR / 12, 0.02),
        ("page_slow", Severity.PAGE, 6 * _HOUR, _HOUR / 2, 0.05),
        ("ticket_quick", Severity.TICKET, _DAY, 2 * _HOUR, 0.10),
        ("ticket_slow", Severity.TICKET, 3 * _DAY, 6 * _HOUR, 0.10),
    ),
    7.0: (
        ("page_quick", Severity.PAGE, _HOUR, _HOUR / 12, 0.08),
        ("page_slow", Severity.PAGE, 6 * _HOUR, _HOUR / 2, 0.125),
        ("ticket_quick", Severity.TICKET, _DAY, 2 * _HOUR, 0.20),
        ("ticket_slow", Severity.TICKET, 3 * _DAY, 6 * _HOUR, 0.42),
    ),
}

WINDOW_NAMES = tuple(row[0] for row in _TABLES[28.0])


def burn_windows(period_days: float, names: Iterable[str] = WINDOW_NAMES) -> tuple[BurnWindow, ...]:
    """The windows called `names`, in the table's order, with factors for a period of so many days.

    30 days give 14.4, 6, 3 and 1. Raises ValueError for a period under 7 days or an unknown name.
    """
    if period_days < MIN_PERIOD_DAYS:
        raise ValueError(f"period of {period_days:g} days: expected at least {MIN_PERIOD_DAYS:g}")
    wanted = set(names)
    unknown = sorted(wanted - set(WINDOW_NAMES))
    if unknown:
        raise ValueError(f"window {', '.join(unknown)}: expected some of {', '.join(WINDOW_NAMES)}")
    table = _TABLES[28.0 if period_days >= 28.0 else 7.0]
    return tuple(
        BurnWindow(name, severity, long, short, share, share * period_days * _DAY / long)
        for name, severity, long, short, share in table
        if name in wanted
    )


def max_burn_rate(objective: float) -> float:
    """The burn rate when every event is bad: 1 / (1 - objective)."""
    return 1.0 / (1.0 - objective)


def unreachable(slo: Slo, windows: Iterable[BurnWindow]) -> str | None:
    """Why some of `windows` can never fire for `slo`, with the arithmetic and the ways out; None when all can."""
    limit = max_burn_rate(slo.objective)
    dead = [window for window in windows if window.factor >= limit]
    if not dead:
        return None
    parts = [
        f"{w.name} asks for more than {w.factor:.4g} ({w.share:.3g} of a {slo.period_days:g}-day budget in "
        f"{format_duration(w.long_seconds)})"
        for w in dead
    ]
    needed = 1.0 - 1.0 / max(window.factor for window in dead)
    alive = [w.name for w in burn_windows(slo.period_days) if w.factor < limit]
    ways = [f"an objective above {needed:.4g}"]
    ways += [f"`windows: [{', '.join(alive)}]`"] if alive else []
    ways += ["`report_only: true`"]
    return (
        f"{' or '.join(ways)}: an objective of {slo.objective:g} leaves {slo.error_budget:.4g} for errors, so the burn "
        f"rate is never above 1 / {slo.error_budget:.4g} = {limit:.4g}, but {' and '.join(parts)}"
    )
