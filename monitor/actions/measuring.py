"""A changed server that serves: warmed up, then observed until it is kept or taken back. Pure."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from monitor.actions.events import EventKind
from monitor.actions.judge import Judgement, Verdict, settle
from monitor.actions.step import Ready, Seen, Step, Terms
from monitor.actions.steps import after, entered, finish, go_back, is_over, token_of
from monitor.drivers.protocol import ServerState
from monitor.model.rollout import Change, ChangeState, Outcome


def warming(change: Change, seen: Seen, terms: Terms, now: datetime) -> Step | None:
    """The next step of a server that is ready and not yet judged; its numbers do not count."""
    trouble = _lost(change, seen, terms, now)
    if trouble is not None:
        return trouble
    if _is_called_off(terms):
        return _called_off(change, seen, terms, now)
    if not is_over(change.deadline, now):
        return None
    if terms.is_restart and seen.is_serving:
        return _end(change, seen, terms, now, ChangeState.PROMOTED, Outcome.RESTARTED, "restarted and serving")
    # Once more a token, now under traffic: a server that fails from the second request on is not observed for long.
    if seen.readiness is None or seen.readiness.ready is not Ready.YES:
        return _not_warm(change, seen, terms, now)
    if terms.is_restore:
        told = f"brought back to {terms.goal.describe()}"
        return _end(change, seen, terms, now, ChangeState.PROMOTED, Outcome.RESTORED, told)
    sentence = f"{change.server} is warm: observing it for up to {terms.limits.observe_seconds:g} s"
    watched = entered(change, ChangeState.OBSERVING, now, terms.limits.observe_seconds, sentence)
    return Step(change=watched, event=EventKind.PROGRESS, sentence=sentence)


def _not_warm(change: Change, seen: Seen, terms: Terms, now: datetime) -> Step | None:
    """Past the warm-up and not (any more) ready: what contradicts the change at once, what may pass after a while."""
    ready = seen.readiness.ready if seen.readiness is not None else Ready.NOT_YET
    contradicts = ready in (Ready.WRONG_SETTING, Ready.MODELS_MISSING)
    if not contradicts and not is_over(after(change.deadline or now, terms.timing.unready_seconds), now):
        return None
    said = seen.readiness.sentence if seen.readiness is not None else "it does not answer"
    if seen.is_paused:
        return _held(change, seen, terms, now, said)
    outcome = Outcome.WRONG_SETTING if contradicts else Outcome.NOT_GENERATING
    sentence = f"{change.server} was ready with {terms.goal.describe()} and is not any more: {said}"
    step = go_back(change, terms, now, outcome=outcome, sentence=sentence, serves=True)
    return _failed_later(step, seen, terms)


def observing(change: Change, seen: Seen, terms: Terms, now: datetime) -> Step | None:
    """The next step of a server whose new setting is being measured."""
    trouble = _lost(change, seen, terms, now)
    if trouble is not None:
        return trouble
    if _is_called_off(terms):
        return _called_off(change, seen, terms, now)
    if seen.judgement is None:
        return None
    over = is_over(change.deadline, now)
    judgement = settle(seen.judgement, terms.timing.unproved) if over else seen.judgement
    if judgement.verdict is Verdict.WATCH:
        return None
    told = f"{change.server}: {judgement.sentence}"
    if judgement.verdict is Verdict.PROMOTE:
        kept = replace(change, measured=judgement.measured)
        return _end(kept, seen, terms, now, ChangeState.PROMOTED, judgement.outcome or Outcome.MEASURED_BETTER, told)
    return _take_back(change, judgement, seen, terms, now, told)


def _take_back(
    change: Change, judgement: Judgement, seen: Seen, terms: Terms, now: datetime, told: str
) -> Step | None:
    if seen.is_paused:
        return _held(change, seen, terms, now, told)
    back = go_back(
        change,
        terms,
        now,
        outcome=judgement.outcome or Outcome.MEASURED_WORSE,
        sentence=told,
        serves=True,
        measured=judgement.measured,
    )
    return replace(back, rejects=True)


def _lost(change: Change, seen: Seen, terms: Terms, now: datetime) -> Step | None:
    """What to do where the server we started is not there any more, or does not serve."""
    status = seen.status
    if status.state is ServerState.RUNNING and status.process == change.process:
        if seen.is_serving is not False:
            return None
        sentence = f"{change.server} runs, but stopped serving with {terms.goal.describe()}"
        step = go_back(change, terms, now, outcome=Outcome.NOT_GENERATING, sentence=sentence, serves=False)
        return _failed_later(step, seen, terms)
    if status.state is ServerState.RUNNING and status.token != token_of(change):
        sentence = f"someone else restarted {change.server} meanwhile: left to them"
        return _end(change, seen, terms, now, ChangeState.ABANDONED, Outcome.PRECONDITION_FAILED, sentence)
    sentence = f"{change.server} was ready with {terms.goal.describe()} and then went away ({status.describe()})"
    step = go_back(change, terms, now, outcome=Outcome.SERVER_DIED, sentence=sentence, serves=False)
    return _failed_later(step, seen, terms)


def _failed_later(step: Step, seen: Seen, terms: Terms) -> Step:
    rejects = not terms.is_restart and not terms.is_restore
    return replace(step, event=EventKind.START_FAILED, detail=seen.log_tail, rejects=rejects)


def _is_called_off(terms: Terms) -> bool:
    return bool(terms.cancelled) and not terms.is_restart and not terms.is_restore


def _called_off(change: Change, seen: Seen, terms: Terms, now: datetime) -> Step | None:
    """Go back because someone asked for it, as soon as no pause forbids it."""
    if seen.is_paused:
        return _held(change, seen, terms, now, terms.cancelled)
    return go_back(change, terms, now, outcome=Outcome.CANCELLED, sentence=terms.cancelled, serves=True)


def _held(change: Change, seen: Seen, terms: Terms, now: datetime, why: str) -> Step | None:
    """A serving server is not stopped while a pause is on: say so once, and do not wait for ever."""
    most = after(change.deadline or change.entered_at, terms.timing.hold_most_seconds)
    if is_over(most, now):
        sentence = f"{change.server} stays at {terms.goal.describe()}, paused for too long to go back ({why})"
        step = _end(change, seen, terms, now, ChangeState.ABANDONED, Outcome.PAUSED, sentence)
        return replace(step, event=EventKind.MANUAL_ACTION)
    sentence = f"{change.server} goes back to {terms.undo_to.describe()} once the pause is lifted: {why}"
    if change.sentence.startswith(f"{change.server} goes back to"):
        return None
    return Step(change=replace(change, sentence=sentence), event=EventKind.HELD, sentence=sentence)


def _end(
    change: Change, seen: Seen, terms: Terms, now: datetime, state: ChangeState, outcome: Outcome, sentence: str
) -> Step:
    step = finish(change, seen, terms, now, state=state, outcome=outcome, sentence=sentence)
    return replace(step, good=terms.goal) if state is ChangeState.PROMOTED else step
