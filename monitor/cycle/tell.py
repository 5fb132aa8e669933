"""Rollout events as notices in the thread of the decision that began them. Pages are alerts' business, not events'.

A failed restart also raises the alert RestartFailed; were the event a page too, on-call would be woken twice for one
fault. So events are told in the thread, with the log's last lines, and the alert carries the page.
"""

from __future__ import annotations

from monitor.actions.events import EventKind, RolloutEvent
from monitor.actions.journal import EventSink
from monitor.clock import Clock
from monitor.cycle.act import AnswerSink
from monitor.model.decision import Decision, DecisionId
from monitor.model.notice import Notice
from monitor.model.record import Command, CommandKind
from monitor.model.rollout import Measured
from monitor.notify.compose import answered_notice, rollout_notice
from monitor.notify.routing import Routing
from monitor.notify.words import duration_words
from monitor.store.api import Unit

_TITLES = {
    EventKind.STARTED: "rollout started",
    EventKind.PROGRESS: "rollout",
    EventKind.HELD: "rollout waits",
    EventKind.START_FAILED: "the new setting did not start",
    EventKind.MANUAL_ACTION: "someone must act",
    EventKind.CHANGE_PROMOTED: "change kept",
    EventKind.CHANGE_ROLLED_BACK: "change rolled back",
    EventKind.CHANGE_ABANDONED: "change abandoned",
    EventKind.FINISHED: "rollout finished",
}

#: Events worth a new post in the channel rather than a line in the thread: the end, and what a person must do.
_LOUD = frozenset({EventKind.MANUAL_ACTION, EventKind.FINISHED})
_TAIL_CHARACTERS = 1500


def event_sink(receivers: Routing, *, simulated: bool) -> EventSink:
    """A sink that queues each event's notice in the transaction that stores the event."""

    def queue(unit: Unit, event: RolloutEvent) -> None:
        notice = notice_of(unit, event, simulated=simulated)
        unit.outbox.queue(notice, receivers(notice), event.at)

    return queue


def answer_sink(receivers: Routing, clock: Clock, *, simulated: bool) -> AnswerSink:
    """A sink that tells what came of a request about a decision, where its recommendation stands."""

    def queue(unit: Unit, command: Command, decision: Decision | None, outcome: str, is_taken: bool) -> None:
        if decision is None and command.kind in (CommandKind.APPROVE, CommandKind.REJECT):
            # One that can no longer be acted on.
            decision = unit.decisions.get(DecisionId(command.subject))
        if decision is None:
            return
        now = clock.now()
        notice = answered_notice(decision, command, outcome, now, is_taken=is_taken, simulated=simulated)
        unit.outbox.queue(notice, receivers(notice), now)

    return queue


def notice_of(unit: Unit, event: RolloutEvent, *, simulated: bool) -> Notice:
    """What is said of one event."""
    rollout = unit.rollouts.get(event.rollout)
    change = unit.changes.get(event.change) if event.change else None
    measured = change.measured if change is not None else rollout.measured if rollout is not None else None
    fields: list[tuple[str, str]] = []
    if rollout is not None:
        fields.append(("change", f"{rollout.current.describe()} -> {rollout.proposed.describe()}"))
    if measured is not None and event.kind in (
        EventKind.CHANGE_PROMOTED, EventKind.CHANGE_ROLLED_BACK, EventKind.FINISHED
    ):
        fields.append(("measured goodput", measured_words(measured)))
    text = event.sentence
    if event.detail:
        text += f"\nLast lines of its log:\n{event.detail[-_TAIL_CHARACTERS:]}"
    where = f"{event.group}: {event.server}" if event.server else str(event.group)
    key = f"rollout:{event.rollout}:{event.kind}:{event.change or ''}:{event.at.isoformat()}"
    return rollout_notice(
        thread=f"decision:{rollout.decision}" if rollout is not None else f"rollout:{event.rollout}",
        key=key, title=f"{where}, {_TITLES[event.kind]}", text=text, now=event.at, group=event.group, fields=fields,
        in_thread=event.kind not in _LOUD, simulated=simulated,
    )


def measured_words(measured: Measured) -> str:
    """A measured gain with its interval and what it rests on."""
    if measured.gain is None:
        return f"not measurable ({measured.method})"
    text = f"{measured.gain:+.1%}"
    if measured.gain_low is not None and measured.gain_high is not None:
        text += f" ({measured.gain_low:+.1%} to {measured.gain_high:+.1%})"
    return f"{text}, {measured.method}, {duration_words(60.0 * measured.minutes)}"
