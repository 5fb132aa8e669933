"""The course of a rollout through its servers: who is next, when it is over, what is brought back. Pure.

A group ends uniform: all on the new setting, or all on the old one. The exception is a server that could not be brought
up at all: then nothing else is touched, since healthy servers are worth more than equal ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from monitor.actions.events import EventKind
from monitor.model.rollout import Change, ChangeId, ChangeState, Outcome, Rollout, RolloutState

#: Ends of a change after which no other server is touched.
_HANDS_OFF = (Outcome.UNDO_FAILED, Outcome.STOP_FAILED, Outcome.PUT_BACK_FAILED, Outcome.DRY_RUN)


@dataclass(frozen=True, slots=True, kw_only=True)
class CourseStep:
    """What to store for the rollout as a whole."""

    rollout: Rollout
    update: tuple[Change, ...] = ()
    add: tuple[Change, ...] = ()
    event: EventKind | None = None
    sentence: str = ""


def front(changes: Sequence[Change]) -> Change | None:
    """The one change that may act now: the first that is not final. None where all are."""
    return next((c for c in sorted(changes, key=lambda c: c.position) if not c.state.is_final), None)


def is_restore(change: Change, rollout: Rollout) -> bool:
    """Whether the change brings a server back to the group's former setting."""
    return rollout.current != rollout.proposed and change.proposed == rollout.current


def next_in_rollout(rollout: Rollout, changes: Sequence[Change], now: datetime) -> CourseStep | None:
    """What to do with the rollout as a whole; None while a change is under way, or where it is over."""
    if rollout.state is not RolloutState.ACTIVE:
        return None
    own = [c for c in changes if not is_restore(c, rollout)]
    loser = next((c for c in own if c.state.is_final and c.state is not ChangeState.PROMOTED), None)
    if loser is None and not _is_called_off(rollout):
        if all(c.state is ChangeState.PROMOTED for c in own):
            return _promoted(rollout, own, now)
        return None
    return _going_back(rollout, changes, own, loser, now)


def _is_called_off(rollout: Rollout) -> bool:
    return rollout.outcome is not None


def _promoted(rollout: Rollout, own: Sequence[Change], now: datetime) -> CourseStep:
    judged = next((c for c in own if c.measured is not None), own[0])
    servers = f"{len(own)} server{'s' if len(own) != 1 else ''}"
    sentence = f"{rollout.group}: {rollout.proposed.describe()} on {servers}. {judged.sentence}"
    done = replace(
        rollout,
        state=RolloutState.PROMOTED,
        finished_at=now,
        outcome=judged.outcome,
        sentence=sentence,
        measured=judged.measured,
    )
    return CourseStep(rollout=done, event=EventKind.FINISHED, sentence=sentence)


def _going_back(
    rollout: Rollout, changes: Sequence[Change], own: Sequence[Change], loser: Change | None, now: datetime
) -> CourseStep | None:
    waiting = [c for c in own if c.state is ChangeState.PLANNED]
    if waiting and loser is not None:
        told = f"not touched: {loser.sentence}"
        dropped = tuple(_dropped(c, now, told) for c in waiting)
        return CourseStep(rollout=rollout, update=dropped)
    if any(not c.state.is_final for c in changes):
        return None
    changed = [c for c in own if c.state is ChangeState.PROMOTED]
    restored = {c.server for c in changes if is_restore(c, rollout)}
    left = [c for c in changed if c.server not in restored]
    hands_off = any(c.outcome in _HANDS_OFF for c in changes)
    if left and not hands_off and rollout.current != rollout.proposed:
        first = max(c.position for c in changes) + 1
        restores = tuple(_restore(c, rollout, first + n, now) for n, c in enumerate(left))
        names = ", ".join(c.server for c in left)
        sentence = f"{rollout.group}: bringing {names} back to {rollout.current.describe()}"
        return CourseStep(rollout=rollout, add=restores, event=EventKind.PROGRESS, sentence=sentence)
    return _over(rollout, changes, changed, loser, now)


def _over(
    rollout: Rollout, changes: Sequence[Change], changed: Sequence[Change], loser: Change | None, now: datetime
) -> CourseStep:
    went_back = [c for c in changes if c.state is ChangeState.ROLLED_BACK or is_restore(c, rollout)]
    state = RolloutState.ROLLED_BACK if went_back else RolloutState.ABANDONED
    if any(c.outcome in _HANDS_OFF for c in changes):
        state = RolloutState.ABANDONED
    brought_back = {c.server for c in changes if is_restore(c, rollout) and c.state is ChangeState.PROMOTED}
    mixed = [c.server for c in changed if c.server not in brought_back]
    why = loser.sentence if loser is not None else rollout.sentence
    sentence = f"{rollout.group}: {why}"
    if mixed:
        sentence += f". Still at {rollout.proposed.describe()}: {', '.join(mixed)}"
    done = replace(
        rollout,
        state=state,
        finished_at=now,
        outcome=rollout.outcome or (loser.outcome if loser is not None else Outcome.CANCELLED),
        sentence=sentence,
        measured=next((c.measured for c in changes if c.measured is not None), None),
    )
    return CourseStep(rollout=done, event=EventKind.FINISHED, sentence=sentence)


def close(
    rollout: Rollout, changes: Sequence[Change], stuck: Change, now: datetime
) -> tuple[Rollout, tuple[Change, ...]]:
    """The end of a rollout that nobody can carry on: `stuck` is the change that no daemon has a driver for."""
    sentence = (
        f"{rollout.group}: {stuck.server} is not managed by any daemon any more, so its change (in state "
        f"{stuck.state}) was closed as it stands: look at the server"
    )
    told = "not touched: its rollout was closed"
    ended = tuple(
        _dropped(c, now, told) if c is not stuck else replace(_dropped(c, now, ""), sentence=sentence)
        for c in changes
        if not c.state.is_final
    )
    closed = replace(
        rollout, state=RolloutState.ABANDONED, finished_at=now, outcome=Outcome.CANCELLED, sentence=sentence
    )
    return closed, ended


def _dropped(change: Change, now: datetime, told: str) -> Change:
    return replace(
        change,
        state=ChangeState.ABANDONED,
        entered_at=now,
        deadline=None,
        outcome=Outcome.CANCELLED,
        sentence=f"{change.server} {told}",
    )


def _restore(change: Change, rollout: Rollout, position: int, now: datetime) -> Change:
    return Change(
        id=ChangeId(f"{change.id}-back"),
        rollout=rollout.id,
        server=change.server,
        position=position,
        state=ChangeState.PLANNED,
        current=rollout.proposed,
        proposed=rollout.current,
        entered_at=now,
    )
