"""The next step of one change: the states before a server is stopped, and the way into all others. Pure.

    planned -> draining -> restarting -> warming -> observing -> promoted
                  |            |            |           |
                  v            +------> undoing <-------+------> rolled_back
              abandoned                    |
                                           v
                                       abandoned (someone must act)

Before the server is stopped every doubt ends in `abandoned` with nothing touched. After it was stopped every doubt ends
in `undoing`, which brings the last good setting up, and only a server that cannot be brought up any more is given up.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from monitor.actions.bringup import bring_up
from monitor.actions.events import EventKind
from monitor.actions.measuring import observing, warming
from monitor.actions.step import Act, Refusal, Seen, Step, Terms
from monitor.actions.steps import entered, finish, go_back, is_draining, is_over
from monitor.actions.undo import drained_to_go_back
from monitor.drivers.protocol import ServerState
from monitor.model.rollout import Change, ChangeState, Outcome

#: How long a planned change may wait (for a peer, for a token) before somebody is told what for.
_WAITS_QUIETLY = timedelta(seconds=30)


def next_step(change: Change, seen: Seen, terms: Terms, now: datetime) -> Step | None:
    """What to do with `change` now; None where there is nothing to do but wait, or where it is final."""
    state = change.state
    if state is ChangeState.PLANNED:
        return _planned(change, seen, terms, now)
    if state is ChangeState.DRAINING:
        return _draining(change, seen, terms, now)
    if state is ChangeState.RESTARTING:
        return bring_up(change, seen, terms, now)
    if state is ChangeState.WARMING:
        return warming(change, seen, terms, now)
    if state is ChangeState.OBSERVING:
        return observing(change, seen, terms, now)
    if state is ChangeState.UNDOING:
        if is_draining(change):
            return drained_to_go_back(change, seen, terms, now)
        return bring_up(change, seen, terms, now)
    return None


def _planned(change: Change, seen: Seen, terms: Terms, now: datetime) -> Step | None:
    refusal = _refusal_before(change, seen, terms, now)
    if refusal is not None:
        # Something temporary is waited for until the change expires.
        return _abandon(change, seen, terms, now, refusal) if refusal.lasting else _waiting(change, refusal, now)
    taken = replace(change, process=seen.status.process, models=seen.models, command_hash=terms.base_hash)
    if seen.status.state is not ServerState.RUNNING or terms.is_stuck:
        # Nothing is served that could be waited for.
        down = replace(
            entered(taken, ChangeState.RESTARTING, now, None), stop_asked_at=now, traffic_held=True, sentence=""
        )
        sentence = f"restarting {change.server}, which {seen.status.describe()} and does not serve"
        return Step(change=down, act=Act.TAKE_OUT, event=EventKind.PROGRESS, sentence=sentence, again=True)
    sentence = f"draining {change.server} (up to {terms.limits.drain_seconds:g} s) to set {terms.goal.describe()}"
    draining = entered(taken, ChangeState.DRAINING, now, terms.limits.drain_seconds, sentence)
    return Step(
        change=replace(draining, traffic_held=True),
        act=Act.TAKE_OUT,
        event=EventKind.PROGRESS,
        sentence=sentence,
        good=None if terms.is_restart else change.current,
    )


def _waiting(change: Change, refusal: Refusal, now: datetime) -> Step | None:
    """Say once what a change waits for, where it does so for long: a rollout that stands still must not be a riddle."""
    if change.sentence or now - change.entered_at < _WAITS_QUIETLY:
        return None
    sentence = f"{change.server} waits: {refusal.sentence}"
    return Step(change=replace(change, sentence=sentence), event=EventKind.HELD, sentence=sentence)


def _refusal_before(change: Change, seen: Seen, terms: Terms, now: datetime) -> Refusal | None:
    """Why nothing may begin now; a lasting one ends the change."""
    if terms.cancelled:
        return Refusal(Outcome.CANCELLED, terms.cancelled, lasting=True)
    waits_for = f" (waited: {seen.refusal.sentence})" if seen.refusal else ""
    if is_over(terms.expires_at, now):
        return Refusal(Outcome.EXPIRED, f"what it rests on is too old by now{waits_for}", lasting=True)
    if terms.dry_run:
        return Refusal(Outcome.DRY_RUN, terms.dry_run, lasting=True)
    status = seen.status
    if status.state is ServerState.FOREIGN:
        return Refusal(Outcome.PRECONDITION_FAILED, f"not touched: {status.describe()}", lasting=True)
    if terms.is_restart:
        return seen.refusal
    if status.state is not ServerState.RUNNING:
        return Refusal(Outcome.PRECONDITION_FAILED, f"not tuned: the server {status.describe()}", lasting=True)
    if seen.is_serving is False:
        said = f" ({seen.refusal.sentence})" if seen.refusal else ""
        return Refusal(Outcome.PRECONDITION_FAILED, f"not tuned: the server does not serve{said}", lasting=True)
    if seen.refusal is not None:
        return seen.refusal
    if status.command_hash and status.command_hash != terms.base_hash:
        return Refusal(
            Outcome.PRECONDITION_FAILED,
            "its base command was edited since it was started: restart it first, then it is tuned again",
            lasting=True,
        )
    return None


def _draining(change: Change, seen: Seen, terms: Terms, now: datetime) -> Step | None:
    status = seen.status
    if status.state is not ServerState.RUNNING:
        sentence = f"{change.server} went away by itself while it was drained ({status.describe()}): bringing it back"
        return go_back(change, terms, now, outcome=Outcome.SERVER_DIED, sentence=sentence, serves=False)
    refusal = _refusal_while_draining(change, seen, terms)
    if refusal is not None:
        return _abandon(change, seen, terms, now, refusal)
    if not seen.taken_out:
        return Step(change=change, act=Act.TAKE_OUT, again=True)
    if terms.is_settled(seen):
        return _stop(change, terms, now, f"{change.server} is idle")
    if not is_over(change.deadline, now):
        return None
    waited = _still_busy(change, seen, terms)
    if terms.may_let_finish:
        return _stop(change, terms, now, f"{waited}; {change.server} lets them finish before it ends")
    if terms.may_cut:
        return _stop(change, terms, now, f"{waited} are cut (cut_after_drain)")
    return _abandon(change, seen, terms, now, Refusal(Outcome.DRAIN_TIMED_OUT, waited + _way_out(terms)))


def _still_busy(change: Change, seen: Seen, terms: Terms) -> str:
    lasted = f"after {terms.limits.drain_seconds:g} s"
    if seen.traffic.is_idle and not seen.is_kept_away:
        return f"its balancer has not asked /-/serving/{change.server} often enough {lasted}"
    if seen.traffic.busy == 0:
        return f"requests still come and go {lasted}"
    busy = "an unknown number of" if seen.traffic.busy is None else f"{seen.traffic.busy:g}"
    return f"{busy} requests still there {lasted}"


def _way_out(terms: Terms) -> str:
    """What would help a server that nobody keeps requests away from."""
    if terms.has_drain_control or not terms.limits.allow_downtime:
        return ""
    return (
        ". Nothing keeps new ones away: give it `drain` hooks and a second server, or let it finish its requests "
        f"(vLLM 0.18.0 on: --shutdown-timeout {terms.limits.drain_seconds:.0f} or more)"
    )


def _refusal_while_draining(change: Change, seen: Seen, terms: Terms) -> Refusal | None:
    if terms.cancelled:
        return Refusal(Outcome.CANCELLED, terms.cancelled)
    if seen.status.process != change.process:
        return Refusal(Outcome.PRECONDITION_FAILED, "someone restarted the server meanwhile")
    if terms.base_hash != change.command_hash:
        return Refusal(Outcome.PRECONDITION_FAILED, "its base command was edited meanwhile")
    if seen.take_out_error:
        return Refusal(
            Outcome.PRECONDITION_FAILED, f"it could not be taken out of its balancer: {seen.take_out_error}"
        )
    return seen.refusal


def _stop(change: Change, terms: Terms, now: datetime, why: str) -> Step:
    # The drain's deadline stays: should the last look find requests again, it goes on being drained.
    sentence = f"{why}: restarting it with {terms.goal.describe()}"
    stopping = replace(
        change,
        state=ChangeState.RESTARTING,
        entered_at=now,
        drained_at=now,
        stop_asked_at=now,
        sentence=sentence,
    )
    return Step(change=stopping, event=EventKind.PROGRESS, sentence=sentence, again=True)


def _abandon(change: Change, seen: Seen, terms: Terms, now: datetime, refusal: Refusal) -> Step:
    return finish(
        change,
        seen,
        terms,
        now,
        state=ChangeState.ABANDONED,
        outcome=refusal.outcome,
        sentence=f"{change.server} left as it was: {refusal.sentence}",
    )
