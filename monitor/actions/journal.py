"""Writing a step down: change, history, audit, budget, last good setting, rejection, event. One transaction a step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

from monitor.actions.events import EventKind, RolloutEvent
from monitor.actions.step import Step
from monitor.model.decision import Decision
from monitor.model.life import Setting
from monitor.model.record import AuditEntry, LastGood, Rejection, Restart
from monitor.model.rollout import Change, Rollout
from monitor.model.server import GroupName
from monitor.store.api import Unit

#: Who acts, in the audit trail, where no person asked.
ACTOR = "acceptd"
#: Days before a setting that lost is tried again: the first, second and any later time.
_REST_DAYS = (1, 7, 30)
#: Lines of history kept with a change.
_HISTORY = 60

EventSink = Callable[[Unit, RolloutEvent], None]


def ignore_event(unit: Unit, event: RolloutEvent) -> None:
    """An event sink that does nothing."""


class Journal:
    """Writes steps; events go to `sink` in the same transaction, so that no notice is lost or queued twice."""

    def __init__(self, sink: EventSink = ignore_event) -> None:
        self._sink = sink

    def write(
        self, unit: Unit, step: Step, rollout: Rollout, decision: Decision | None, base_hash: str, now: datetime
    ) -> tuple[Change, list[RolloutEvent]]:
        """Store one step of a change; the change as stored, and what happened."""
        change = _with_history(step, now)
        unit.changes.update(change)
        if step.sentence:
            what = f"change.{change.state}"
            unit.audit.add(AuditEntry(now, ACTOR, what, change.id, step.sentence))
        if step.counts_start:
            unit.restarts.add(Restart(change.server, now, f"{rollout.id}: {step.sentence}", "begun"))
        if step.good is not None:
            unit.last_good.put(LastGood(change.server, step.good, base_hash, now))
        if step.rejects and rollout.current != rollout.proposed:
            reject(unit, rollout.group, rollout.proposed, step.sentence, decision, now)
        if step.event is None:
            return change, []
        event = RolloutEvent(
            rollout=rollout.id,
            group=rollout.group,
            kind=step.event,
            sentence=step.sentence or change.sentence,
            at=now,
            change=change.id,
            server=change.server,
            detail=step.detail,
        )
        self._sink(unit, event)
        return change, [event]

    def tell(
        self, unit: Unit, rollout: Rollout, kind: EventKind, sentence: str, now: datetime, actor: str = ACTOR
    ) -> RolloutEvent:
        """Store that something happened to a rollout as a whole."""
        unit.audit.add(AuditEntry(now, actor, f"rollout.{kind}", rollout.id, sentence))
        event = RolloutEvent(rollout=rollout.id, group=rollout.group, kind=kind, sentence=sentence, at=now)
        self._sink(unit, event)
        return event


def reject(
    unit: Unit, group: GroupName, setting: Setting, sentence: str, decision: Decision | None, now: datetime
) -> None:
    """Store that `setting` lost, so that it is not tried again for 1, then 7, then 30 days."""
    tokens = setting.num_speculative_tokens
    if tokens is None:
        return
    times = 1 + sum(
        1 for r in unit.rejections.of(group) if (r.num_speculative_tokens, r.method) == (tokens, setting.method)
    )
    evidence = decision.evidence if decision is not None else {}
    unit.rejections.add(
        Rejection(
            group=group,
            num_speculative_tokens=tokens,
            method=setting.method,
            at=now,
            until=now + timedelta(days=_REST_DAYS[min(times, len(_REST_DAYS)) - 1]),
            times=times,
            sentence=sentence,
            batch=evidence.get("batch"),
            acceptance_length=evidence.get("acceptance_length"),
            measured_at=decision.current.num_speculative_tokens if decision is not None else None,
        )
    )


def _with_history(step: Step, now: datetime) -> Change:
    if not step.sentence:
        return step.change
    line = f"{now:%Y-%m-%dT%H:%M:%SZ} {step.change.state}: {step.sentence}"
    return replace(step.change, history=(*step.change.history, line)[-_HISTORY:])
