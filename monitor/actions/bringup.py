"""Stopping a server and bringing it up with one setting, on the way there (`restarting`) and back (`undoing`). Pure.

The phase follows from what is written down: not stopped yet, stopped and not started, started and not ready.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from monitor.actions.events import EventKind
from monitor.actions.step import Act, Ready, Seen, Step, Terms
from monitor.actions.steps import after, drain_again, entered, finish, give_up, go_back, is_ours, is_over, token_of
from monitor.drivers.failures import FailureKind, StartFailure
from monitor.drivers.protocol import ServerState
from monitor.model.life import Setting
from monitor.model.rollout import Change, ChangeState, Outcome

#: A request to end that was stored this long ago and not made is stored anew, so that its time limit is a whole one.
_LATE_SECONDS = 5.0
#: On the way back, and for a plain restart, a server that serves is enough, whatever else is odd about it.
_GOOD_ENOUGH = (Ready.WRONG_SETTING, Ready.MODELS_MISSING, Ready.CANNOT_ASK, Ready.NO_PAGE)


def bring_up(change: Change, seen: Seen, terms: Terms, now: datetime) -> Step | None:
    """The next step towards a server that serves with the setting its state asks for."""
    if terms.cancelled and change.state is ChangeState.RESTARTING and not terms.is_restart and not terms.is_restore:
        if _serves_on(change, seen):
            return Step(change=drain_again(change, now), again=True)
        return _undo(change, seen, terms, now, Outcome.CANCELLED, terms.cancelled)
    if change.stopped_at is None:
        return _stopping(change, seen, terms, now)
    if change.started_at is None:
        return _starting(change, seen, terms, now)
    return _readying(change, seen, terms, now)


def _serves_on(change: Change, seen: Seen) -> bool:
    """Whether the drained server was not asked to end yet (we died in between): others may be using it again."""
    is_running = seen.status.state is ServerState.RUNNING and not seen.status.stop_asked
    return is_running and change.drained_at is not None and change.stopped_at is None and change.killed_at is None


def _must_be_drained(seen: Seen, terms: Terms) -> bool:
    """Whether the server that was started serves, if otherwise than asked, and is in use or covered by a pause."""
    serves = seen.readiness is not None and seen.readiness.ready in (Ready.YES, *_GOOD_ENOUGH)
    # What we told the balancer before we died is not known: it may have been put back.
    is_kept_away = terms.has_drain_control and seen.taken_out
    return serves and (seen.is_paused or not is_kept_away)


def _goal(change: Change, terms: Terms) -> Setting:
    return terms.undo_to if change.state is ChangeState.UNDOING else terms.goal


def _stopping(change: Change, seen: Seen, terms: Terms, now: datetime) -> Step | None:
    status = seen.status
    if status.state is ServerState.RUNNING and not is_ours(change, status):
        return _taken_over(change, seen, terms, now)
    if status.is_gone or status.state is ServerState.FOREIGN:
        return Step(change=replace(change, stopped_at=now, deadline=None), again=True)
    if change.killed_at is None:
        return _ending(change, seen, terms, now)
    if not is_over(change.deadline, now):
        # Written down and perhaps not done, or something was born meanwhile: killing twice does no harm.
        return Step(change=change, act=Act.KILL)
    sentence = f"{change.server} cannot be ended: it {status.describe()} even after SIGKILL. Nothing is started on top"
    if change.state is ChangeState.UNDOING:
        return give_up(change, now, Outcome.UNDO_FAILED, sentence)
    return _undo(change, seen, terms, now, Outcome.STOP_FAILED, sentence)


def _ending(change: Change, seen: Seen, terms: Terms, now: datetime) -> Step | None:
    """A server that is to end by itself, until it must be killed."""
    if seen.status.state is ServerState.LEFTOVERS:
        soon = after(now, terms.timing.leftover_seconds)
        if change.deadline is None or change.deadline > soon:
            return Step(change=replace(change, deadline=soon))
        over = is_over(change.deadline, now)
    elif not seen.status.stop_asked:
        return _ask_to_end(change, seen, terms, now)
    else:
        over = is_over(after(change.stop_asked_at or now, terms.end_seconds), now)
    if not over:
        return None
    killing = replace(change, killed_at=now, deadline=after(now, terms.timing.kill_seconds))
    return Step(change=killing, act=Act.KILL, sentence=f"{change.server} did not end in time: killed")


def _ask_to_end(change: Change, seen: Seen, terms: Terms, now: datetime) -> Step:
    """The last look before a server is asked to end: one that was drained must still be idle.

    That it is asked was stored before, so that nothing but this look lies between idle and SIGTERM; and if we died in
    between, others may be using it again.
    """
    was_drained = change.drained_at is not None
    may_be_busy = is_over(change.deadline, now) and (terms.may_cut or terms.may_let_finish)
    if was_drained and (seen.is_paused or not (may_be_busy or seen.traffic.is_idle)):
        return Step(change=drain_again(change, now))
    failing = seen.stop_failing_seconds
    if failing is not None and failing >= terms.timing.stop_ask_seconds:
        return _cannot_ask(change, seen, terms, now, was_drained)
    asked = change.stop_asked_at
    if asked is None or is_over(after(asked, _LATE_SECONDS), now):
        later = replace(change, stop_asked_at=now, drained_at=now if was_drained else None)
        return Step(change=later, again=True)
    return Step(change=change, act=Act.ASK_STOP)


def _cannot_ask(change: Change, seen: Seen, terms: Terms, now: datetime, was_drained: bool) -> Step:
    """The driver cannot ask the server to end: one that serves goes on serving, any other is killed, if that works."""
    if was_drained:
        sentence = f"{change.server} cannot be asked to end ({seen.stop_error}): it serves on as it is"
        left = finish(
            change, seen, terms, now, state=ChangeState.ABANDONED, outcome=Outcome.STOP_FAILED, sentence=sentence
        )
        return replace(left, event=EventKind.MANUAL_ACTION)
    killing = replace(change, killed_at=now, deadline=after(now, terms.timing.kill_seconds))
    return Step(
        change=killing, act=Act.KILL, sentence=f"{change.server} cannot be asked to end ({seen.stop_error}): killed"
    )


def _starting(change: Change, seen: Seen, terms: Terms, now: datetime) -> Step | None:
    status = seen.status
    if status.state is ServerState.RUNNING:
        if not is_ours(change, status):
            return _taken_over(change, seen, terms, now)
        return Step(change=replace(change, stopped_at=None, killed_at=None, drained_at=None, deadline=None))
    if change.retry_at is not None and now < change.retry_at:
        return None
    if not status.is_gone:
        if change.deadline is None:
            return Step(change=replace(change, deadline=after(now, terms.timing.port_seconds)))
        if not is_over(change.deadline, now):
            return None
        blocked = StartFailure(FailureKind.PORT_IN_USE, False, False, status.describe())
        return _failed(change, seen, terms, now, blocked)
    undoing = change.state is ChangeState.UNDOING
    if seen.starts_left < 1 or change.attempts >= terms.timing.starts_most:
        used = f"{change.server} is down and no start is left for today ({change.attempts} tried here)"
        return give_up(change, now, Outcome.UNDO_FAILED, used, seen.log_tail)
    if not undoing and seen.starts_left < 2 and not terms.is_restart:
        last = f"one start of {change.server} is left for today: it belongs to the setting that works"
        return _undo(change, seen, terms, now, Outcome.START_FAILED, last)
    setting = _goal(change, terms)
    starting = replace(
        change,
        attempts=change.attempts + 1,
        started_at=now,
        retry_at=None,
        # The setting that worked gets more time: killing a server that is merely slow would leave people without one.
        deadline=after(now, terms.start_seconds * (2 if undoing else 1)),
    )
    sentence = f"starting {change.server} with {setting.describe()}"
    return Step(change=starting, act=Act.START, setting=setting, counts_start=True, sentence=sentence)


def _readying(change: Change, seen: Seen, terms: Terms, now: datetime) -> Step | None:
    status = seen.status
    if seen.start_error is not None:
        return _failed(change, seen, terms, now, seen.start_error)
    if status.token != token_of(change):
        if status.state is ServerState.RUNNING and not is_ours(change, status):
            return _taken_over(change, seen, terms, now)
        if is_over(after(change.started_at or now, terms.timing.port_seconds), now):
            never = StartFailure(FailureKind.UNKNOWN, False, False, f"it could not be started ({status.describe()})")
            return _failed(change, seen, terms, now, never)
        # Written down and not done: we died in between, or the driver asked to try again.
        return Step(change=change, act=Act.START, setting=_goal(change, terms))
    if status.state is not ServerState.RUNNING:
        unknown = StartFailure(FailureKind.UNKNOWN, False, True, f"it {status.describe()}")
        return _failed(change, seen, terms, now, seen.failure or unknown)
    readiness = seen.readiness
    if readiness is None:
        return None
    lenient = change.state is ChangeState.UNDOING or terms.is_restart
    if readiness.ready is Ready.YES or (lenient and readiness.ready in _GOOD_ENOUGH):
        return _ready(change, seen, terms, now, readiness.sentence)
    outcome = {
        Ready.WRONG_SETTING: Outcome.WRONG_SETTING,
        Ready.MODELS_MISSING: Outcome.WRONG_SETTING,
        Ready.NOT_GENERATING: Outcome.NOT_GENERATING,
    }.get(readiness.ready)
    if outcome is None and is_over(change.deadline, now):
        outcome = Outcome.START_TIMED_OUT
    if outcome is None:
        return None
    if outcome is Outcome.START_TIMED_OUT:
        said = f"not ready within {terms.start_seconds:g} s: {readiness.sentence}"
    else:
        said = readiness.sentence
    return _failed(change, seen, terms, now, StartFailure(FailureKind.UNKNOWN, False, True, said), outcome)


def _ready(change: Change, seen: Seen, terms: Terms, now: datetime, remark: str) -> Step:
    up = replace(change, ready_at=now, process=seen.status.process, deadline=None, retry_at=None)
    if change.state is ChangeState.UNDOING:
        sentence = f"{change.server} serves again with {terms.undo_to.describe()}: {change.sentence}"
        back = finish(
            up,
            seen,
            terms,
            now,
            state=ChangeState.ROLLED_BACK,
            outcome=change.outcome or Outcome.RESTORED,
            sentence=sentence,
        )
        return replace(back, good=terms.undo_to)
    took = _seconds(change.started_at, now)
    down = _seconds(change.stop_asked_at or change.stopped_at, now)
    sentence = f"{change.server} is ready with {terms.goal.describe()} after {took} s (down {down} s); {remark}"
    if seen.put_back_failures >= terms.timing.put_back_tries:
        # It serves, and nobody sends it anything: a person must look, the setting is not the reason.
        return finish(
            up, seen, terms, now, state=ChangeState.ABANDONED, outcome=Outcome.PUT_BACK_FAILED, sentence=sentence
        )
    warm = replace(entered(up, ChangeState.WARMING, now, terms.limits.warmup_seconds, sentence), traffic_held=False)
    return Step(change=warm, act=Act.PUT_BACK, act_first=True, event=EventKind.PROGRESS, sentence=sentence)


def _failed(
    change: Change,
    seen: Seen,
    terms: Terms,
    now: datetime,
    failure: StartFailure,
    outcome: Outcome = Outcome.START_FAILED,
) -> Step:
    """A start that did not lead to a serving server."""
    goal = _goal(change, terms)
    sentence = f"{change.server} did not come up with {goal.describe()}: {failure.sentence}"
    if failure.line:
        sentence += f" [{failure.line[:300]}]"
    undoing = change.state is ChangeState.UNDOING
    again = failure.retryable and change.attempts < terms.timing.tries_of_new_setting and seen.starts_left >= 2
    if not undoing and not again:
        step = _undo(change, seen, terms, now, outcome, sentence)
        rejects = failure.blames_setting and not terms.is_restart and not terms.is_restore
        return replace(step, event=EventKind.START_FAILED, detail=seen.log_tail, rejects=rejects)
    if undoing and (seen.starts_left < 1 or change.attempts >= terms.timing.starts_most):
        return give_up(
            change,
            now,
            Outcome.UNDO_FAILED,
            f"{sentence}. {change.attempts} starts were tried, the server is down",
            seen.log_tail,
        )
    retry_at = now + timedelta(seconds=_backoff(change.attempts, terms))
    fresh = replace(
        change,
        drained_at=None,
        killed_at=None,
        stopped_at=None,
        started_at=None,
        deadline=None,
        retry_at=retry_at,
    )
    wait = f"; trying again in {_backoff(change.attempts, terms):g} s"
    return Step(change=fresh, event=EventKind.PROGRESS, sentence=sentence + wait, detail=seen.log_tail, again=True)


def _undo(change: Change, seen: Seen, terms: Terms, now: datetime, outcome: Outcome, sentence: str) -> Step:
    serves = _must_be_drained(seen, terms)
    step = go_back(change, terms, now, outcome=outcome, sentence=sentence, serves=serves)
    if terms.goal != terms.undo_to:
        return step
    # A plain restart goes back to what has just failed: not at once.
    return replace(step, change=replace(step.change, retry_at=after(now, _backoff(change.attempts, terms))))


def _taken_over(change: Change, seen: Seen, terms: Terms, now: datetime) -> Step:
    """Someone else started the server while it was ours: theirs stays."""
    sentence = f"someone else started {change.server} meanwhile ({seen.status.describe()}): left to them"
    return finish(
        change,
        seen,
        terms,
        now,
        state=ChangeState.ABANDONED,
        outcome=Outcome.PRECONDITION_FAILED,
        sentence=sentence,
    )


def _backoff(attempts: int, terms: Terms) -> float:
    """Rest before the next start (seconds): doubled with each one tried."""
    timing = terms.timing
    return float(min(timing.backoff_seconds * 2 ** max(0, attempts - 1), timing.backoff_most_seconds))


def _seconds(since: datetime | None, now: datetime) -> str:
    return "?" if since is None else f"{(now - since).total_seconds():.0f}"
