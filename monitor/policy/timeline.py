"""Rules carried over a stretch of time: evaluation after evaluation, with alerts and timers kept in between.

What `rules test` and `rules replay` share. It owns no time and reads no store: the moments are given.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from monitor.model.alert import Alert
from monitor.model.outcome import TuneFiring
from monitor.model.record import RuleTimer
from monitor.policy.alerts import TransitionKind, step_alerts
from monitor.policy.evaluate import CREDIT_SECONDS, NEVER_CHANGED, Evaluation, Signals, TimerKey, evaluate
from monitor.policy.rule import RuleSet, Scope


@dataclass(slots=True)
class Timeline:
    """Rules, and what must be remembered from one evaluation to the next."""

    rules: RuleSet
    scopes: Sequence[Scope]
    credit_seconds: float = CREDIT_SECONDS
    alerts: tuple[Alert, ...] = ()
    timers: dict[TimerKey, RuleTimer] = field(default_factory=dict)

    def step(
        self, now: datetime, signals: Signals, settled: Mapping[str, datetime] = NEVER_CHANGED
    ) -> tuple[Evaluation, list[ReplayEvent]]:
        """Evaluate once at `now`; what the rules said, and what began or ended by it. `settled`: see `evaluate`."""
        said = evaluate(
            self.rules, signals, self.scopes, self.timers, now, credit_seconds=self.credit_seconds, settled=settled
        )
        stepped = step_alerts(self.alerts, said.outcomes, now, credit_seconds=self.credit_seconds)
        self.alerts, self.timers = stepped.alerts, dict(said.timers)
        events = [
            ReplayEvent(now, _EVENTS[t.kind], t.alert.name, _where(t.alert.labels), alert=t.alert)
            for t in stepped.transitions
            if t.kind in _EVENTS
        ]
        return said, events


class EventKind(StrEnum):
    """What a replay tells."""

    ALERT_FIRING = "alert_firing"
    ALERT_RESOLVED = "alert_resolved"
    TUNE_BEGAN = "tune_began"
    #: It holds on: what it asks may have another answer by now.
    TUNE_HOLDS = "tune_holds"
    TUNE_ENDED = "tune_ended"


_EVENTS = {TransitionKind.FIRING: EventKind.ALERT_FIRING, TransitionKind.RESOLVED: EventKind.ALERT_RESOLVED}


class Moment(NamedTuple):
    """A moment that rules are evaluated at; `settled` says since when scopes are at their settings."""

    at: datetime
    signals: Signals
    settled: Mapping[str, datetime] = NEVER_CHANGED


@dataclass(frozen=True, slots=True)
class ReplayEvent:
    """Something these rules would have done at `at`: an alert's beginning or end, or a tuning rule's."""

    at: datetime
    kind: EventKind
    rule: str
    scope: str
    alert: Alert | None = None
    firing: TuneFiring | None = None


def replay(
    rules: RuleSet,
    moments: Iterable[Moment],
    scopes: Sequence[Scope],
    *,
    credit_seconds: float = CREDIT_SECONDS,
    again_seconds: float = math.inf,
) -> Iterator[ReplayEvent]:
    """What `rules` would have done over past `moments`, in order.

    A tuning rule that holds on is told when it begins, and again every `again_seconds`. The setting did not change as
    the rules asked, so a tuning event says what was asked, not what had come of it.
    """
    timeline = Timeline(rules, scopes, credit_seconds)
    going_on: dict[TimerKey, TuneFiring] = {}
    told: dict[TimerKey, datetime] = {}
    for now, signals, settled in moments:
        said, events = timeline.step(now, signals, settled)
        yield from events
        held = {(firing.rule, firing.scope): firing for firing in said.firings}
        for key, firing in held.items():
            is_new = key not in going_on
            if is_new or (now - told[key]).total_seconds() >= again_seconds:
                told[key] = now
                kind = EventKind.TUNE_BEGAN if is_new else EventKind.TUNE_HOLDS
                yield ReplayEvent(now, kind, firing.rule, firing.scope, firing=firing)
        # No data neither begins nor ends anything; a condition seen false does, or one that begins anew elsewhere.
        ended = [key for key in going_on if _is_over(said.timers[key], key in held, now)]
        for key in ended:
            yield ReplayEvent(now, EventKind.TUNE_ENDED, *key, firing=going_on.pop(key))
        going_on |= held


def _is_over(timer: RuleTimer, is_held: bool, now: datetime) -> bool:
    return timer.held_since is None or (not is_held and timer.last_true == now)


def _where(labels: Mapping[str, str]) -> str:
    return next((f"{name}:{labels[name]}" for name in ("server", "group", "host") if name in labels), "")
