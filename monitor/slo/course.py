"""How an objective fared over its period: its budget as it was spent, its burn rate step by step. It owns no events."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import accumulate

from monitor.model.slo import Slo
from monitor.slo.burn import burn_rate
from monitor.slo.ledger import Ledger

#: Steps of a course: as many as a chart can show.
_STEPS = 180


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """An objective in one scope over its period, or over as much of it as is known, in steps by their ends.

    The oldest is first, the last under way.

    `error_budget_remaining`: of the whole period's budget, what the events up to then had left; the last
    is the objective's own figure. `burn_rate` is that of each step alone. None where nothing was counted.
    """

    slo: Slo
    scope: Mapping[str, str]
    groups: frozenset[str]
    step_seconds: float
    times: tuple[datetime, ...]
    error_budget_remaining: tuple[float | None, ...]
    burn_rate: tuple[float | None, ...]


def course_of(
    slo: Slo, ledger: Ledger, scope: Mapping[str, str], now: datetime, groups: frozenset[str] = frozenset()
) -> Course:
    """The course of one objective until `now`."""
    period = slo.period_days * 86_400.0
    width, steps = ledger.steps(now, period, _STEPS)
    allowed = sum(total.valid for _, total in steps) * slo.error_budget
    known = ledger.known(now, period)
    spent = list(accumulate(total.valid - total.good for _, total in steps))
    return Course(
        slo=slo, scope=scope, groups=groups, step_seconds=width, times=tuple(end for end, _ in steps),
        error_budget_remaining=tuple(1.0 - known * one / allowed if allowed > 0 else None for one in spent),
        burn_rate=tuple(burn_rate(slo, total) for _, total in steps),
    )  # fmt: skip
