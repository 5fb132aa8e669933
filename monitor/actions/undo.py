"""Going back from a setting that serves but lost: the server is drained as on the way there. Pure."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from monitor.actions.events import EventKind
from monitor.actions.step import Act, Seen, Step, Terms
from monitor.actions.steps import after, finish, is_ours, is_over
from monitor.drivers.protocol import ServerState
from monitor.model.rollout import Change, ChangeState, Outcome


def drained_to_go_back(change: Change, seen: Seen, terms: Terms, now: datetime) -> Step | None:
    """The next step of a change in `undoing` whose server still serves with the new setting.

    It is never cut off: where it cannot be drained it serves on, and the way back is tried again later.
    """
    status = seen.status
    if status.state is not ServerState.RUNNING:
        # It went away by itself: nothing is left to wait for.
        return Step(change=replace(change, stop_asked_at=now, deadline=None, retry_at=None), again=True)
    if not is_ours(change, status):
        sentence = f"someone restarted {change.server} before it was taken back: left to them"
        return _leave(change, seen, terms, now, Outcome.PRECONDITION_FAILED, sentence)
    if seen.is_serving is False:
        sentence = f"{change.server} stopped serving: not waited for"
        ending = replace(change, stop_asked_at=now, deadline=None, retry_at=None)
        return Step(change=ending, sentence=sentence, again=True)
    if is_over(after(change.entered_at, terms.timing.undo_drain_most_seconds), now):
        sentence = f"{change.server} stays at {terms.goal.describe()}: it could not be drained to go back"
        step = _leave(change, seen, terms, now, Outcome.DRAIN_TIMED_OUT, f"{sentence} ({change.sentence})")
        return replace(step, event=EventKind.MANUAL_ACTION)
    if change.retry_at is not None:
        return _resting(change, seen, terms, now)
    if not seen.taken_out and not seen.take_out_error:
        return Step(change=change, act=Act.TAKE_OUT, again=True)
    over = is_over(change.deadline, now)
    if not seen.is_paused and (terms.is_settled(seen) or (over and (terms.may_cut or terms.may_let_finish))):
        stopping = replace(change, drained_at=now, stop_asked_at=now)
        sentence = f"stopping {change.server} to go back to {terms.undo_to.describe()}"
        return Step(change=stopping, event=EventKind.PROGRESS, sentence=sentence, again=True)
    if not over:
        return None
    rest = replace(change, retry_at=after(now, terms.timing.undo_drain_again_seconds), deadline=None)
    return Step(change=rest, sentence=f"{change.server} could not be drained to go back yet: it serves on meanwhile")


def _resting(change: Change, seen: Seen, terms: Terms, now: datetime) -> Step | None:
    if change.traffic_held:
        if seen.put_back_failures >= terms.timing.put_back_tries:
            return None
        return Step(change=replace(change, traffic_held=False), act=Act.PUT_BACK, act_first=True)
    if not is_over(change.retry_at, now):
        return None
    again = replace(change, retry_at=None, traffic_held=True, deadline=after(now, terms.limits.drain_seconds))
    return Step(change=again, act=Act.TAKE_OUT)


def _leave(change: Change, seen: Seen, terms: Terms, now: datetime, outcome: Outcome, sentence: str) -> Step:
    return finish(change, seen, terms, now, state=ChangeState.ABANDONED, outcome=outcome, sentence=sentence)
