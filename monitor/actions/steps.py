"""How steps are made: entering a state, leaving for good, going back. Shared by the states of the machine."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from monitor.actions.events import EventKind
from monitor.actions.step import Act, Seen, Step, Terms
from monitor.drivers.protocol import DriverStatus
from monitor.model.rollout import Change, ChangeState, Measured, Outcome

_MOMENTS = (
    "entered_at", "deadline", "drained_at", "stop_asked_at", "killed_at", "stopped_at", "started_at", "ready_at",
    "retry_at",
)  # fmt: skip
_FINAL_EVENTS = {
    ChangeState.PROMOTED: EventKind.CHANGE_PROMOTED,
    ChangeState.ROLLED_BACK: EventKind.CHANGE_ROLLED_BACK,
    ChangeState.ABANDONED: EventKind.CHANGE_ABANDONED,
}


def after(now: datetime, seconds: float) -> datetime:
    """The moment `seconds` after `now`."""
    return now + timedelta(seconds=seconds)


def is_over(deadline: datetime | None, now: datetime) -> bool:
    """Whether a deadline has passed; one that was never set has not."""
    return deadline is not None and now >= deadline


def token_of(change: Change) -> str:
    """What marks the change's latest start, so that it is known again after our death."""
    return f"{change.id}.{change.attempts}"


def is_ours(change: Change, status: DriverStatus) -> bool:
    """Whether the process that runs is the one the change began with, or one that it started."""
    return status.process == change.process or status.token.startswith(f"{change.id}.")


def entered(change: Change, state: ChangeState, now: datetime, seconds: float | None, sentence: str = "") -> Change:
    """`change` in `state` from now on, with a deadline `seconds` away (None: none)."""
    return replace(
        change,
        state=state,
        entered_at=now,
        deadline=None if seconds is None else after(now, seconds),
        sentence=sentence or change.sentence,
    )


def is_draining(change: Change) -> bool:
    """Whether the change is in `undoing` and its server, which serves, is being drained for the way back."""
    return change.state is ChangeState.UNDOING and change.stop_asked_at is None


def drain_again(change: Change, now: datetime) -> Change:
    """Back to draining, under the deadline that the drain had."""
    if change.state is ChangeState.UNDOING:
        return replace(change, drained_at=None, stop_asked_at=None)
    return replace(change, state=ChangeState.DRAINING, entered_at=now, drained_at=None, stop_asked_at=None)


def moved(change: Change, by: timedelta) -> Change:
    """`change` with every moment of it moved by the same span."""
    moments = {name: getattr(change, name) for name in _MOMENTS}
    return replace(change, **{name: at + by for name, at in moments.items() if at is not None})


def finish(
    change: Change,
    seen: Seen,
    terms: Terms,
    now: datetime,
    *,
    state: ChangeState,
    outcome: Outcome,
    sentence: str,
    measured: Measured | None = None,
) -> Step:
    """The last step of a change whose server serves: traffic is sent to it again first, then it is final.

    A balancer that keeps refusing is the one thing that is left to a person.
    """
    done = replace(
        entered(change, state, now, None, sentence),
        outcome=outcome,
        measured=measured or change.measured,
        traffic_held=False,
        retry_at=None,
    )
    step = Step(change=done, event=_FINAL_EVENTS[state], sentence=sentence)
    if not change.traffic_held:
        return step
    if seen.put_back_failures >= terms.timing.put_back_tries:
        told = f"{sentence}. It serves, but could not be put back into its balancer: {seen.put_back_error}"
        stuck = replace(done, traffic_held=True, sentence=told)
        return Step(change=stuck, event=EventKind.MANUAL_ACTION, sentence=told)
    return replace(step, act=Act.PUT_BACK, act_first=True)


def give_up(change: Change, now: datetime, outcome: Outcome, sentence: str, detail: str = "") -> Step:
    """The last step of a change whose server does not serve and that nothing more can be done for: page someone.

    Traffic stays held away; the next change or restart that brings the server up sends it again.
    """
    done = replace(entered(change, ChangeState.ABANDONED, now, None, sentence), outcome=outcome, retry_at=None)
    return Step(change=done, event=EventKind.MANUAL_ACTION, sentence=sentence, detail=detail)


def go_back(
    change: Change,
    terms: Terms,
    now: datetime,
    *,
    outcome: Outcome,
    sentence: str,
    serves: bool,
    measured: Measured | None = None,
) -> Step:
    """Begin to go back to the last good setting. A server that serves is drained first, as on the way there."""
    back = replace(
        entered(change, ChangeState.UNDOING, now, terms.limits.drain_seconds if serves else None, sentence),
        outcome=outcome,
        measured=measured or change.measured,
        traffic_held=True,
        drained_at=None,
        # What does not serve is asked to end at once; what serves is drained first.
        stop_asked_at=None if serves else now,
        killed_at=None,
        stopped_at=None,
        started_at=None,
        ready_at=None,
        retry_at=None,
    )
    return Step(change=back, act=Act.TAKE_OUT, event=EventKind.PROGRESS, sentence=sentence, again=not serves)
