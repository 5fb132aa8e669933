"""From what rules and tuner say of one group to one decision, taken or not, with its reason. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from monitor.cycle.experience import evidence
from monitor.model.decision import Action, Decision, DecisionId, Precondition, Reason, ThresholdAnswer
from monitor.model.life import LifeId, Setting
from monitor.model.outcome import ChangeKind, RuleOutcome, Truth, TuneFiring
from monitor.model.server import Group, ServerName
from monitor.model.signal import SignalSet
from monitor.signals.steps import ESTIMATED_WAY
from monitor.tuning import TuneAdvice, TuneInput, tune
from monitor.tuning.advice import setting_words
from monitor.tuning.forecast import Forecast, forecasts
from monitor.tuning.guard import Guarded, guard, sure_gain
from monitor.tuning.standdown import shortfalls
from monitor.tuning.threshold import why_they_differ

#: A decision rests on the traffic it saw; after this (seconds) it must be made anew.
LIFETIME_SECONDS = 3600.0

#: Reasons of the tuner that say "this is a fault, or not ours to tune": no rule may change the setting then.
FAULTS = frozenset(
    {
        Reason.ENGINE_STUCK,
        Reason.UNRELIABLE_COUNTERS,
        Reason.DIFFUSION_MODEL,
        Reason.ENGINE_ADAPTS_ITSELF,
        Reason.SCHEDULE_SET,
        Reason.BROKEN_DRAFT,
        Reason.DECAY_WITH_UPTIME,
        Reason.WRONG_PAIR,
        Reason.SETTING_UNKNOWN,
    }
)


#: Reasons that weigh tokens against their time: where the 70/50 rule says otherwise, that is why.
WEIGHED = frozenset(
    {
        Reason.PREDICTED_GAIN,
        Reason.PREDICTED_LOSS,
        Reason.TRIPS_OPPOSITE_TRIGGER,
        Reason.NO_CANDIDATE_CLEARS_BAR,
        Reason.IDENTIFY_DRAFT_COST,
        Reason.SPECULATION_DOES_NOT_PAY,
        Reason.GAIN_BELOW_RESTART_COST,
    }
)


#: What is said of a change where the page tells no step time.
_ESTIMATED = (
    "The page has neither histograms nor a count of steps, so that step times are estimates from running requests."
)


#: The same where the page counts no drafts (vLLM 0.8.3 and 0.8.4 print draft tokens alone).
_UNCOUNTED = (
    "The page counts no drafts: they are taken as draft tokens over the setting, too few where drafts are cut short."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is known of one group at one moment. `given` None: its servers do not agree on one setting."""

    group: Group
    setting: Setting
    lives: Mapping[ServerName, tuple[LifeId, ...]]
    window: SignalSet
    outcomes: Sequence[RuleOutcome]
    firings: Sequence[TuneFiring]
    given: TuneInput | None
    now: datetime
    decision_id: DecisionId


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    action: Action
    tokens: int | None
    reason: Reason
    sentence: str
    rule: str
    gain: float | None = None
    gain_low: float | None = None
    gain_high: float | None = None
    window_seconds: float = 0.0
    rule_evidence: Mapping[str, float | None] | None = None


def decide(question: Question) -> Decision:
    """The decision on one group; KEEP, with the most telling reason, where nothing is to be changed."""
    advice = tune(question.given) if question.given is not None else None
    answer = _answer(question, advice)
    if answer.action is not Action.KEEP:
        answer = replace(answer, sentence=" ".join([answer.sentence, *_doubts(question)]))
    setting = question.setting
    tokens = setting.num_speculative_tokens if answer.tokens is None else answer.tokens
    proposed = Setting(
        method=setting.method, num_speculative_tokens=tokens, draft_model=setting.draft_model,
        schedule=setting.schedule if tokens == setting.num_speculative_tokens else (),
    )
    return Decision(
        id=question.decision_id,
        group=question.group.name,
        servers=tuple(question.lives),
        rule=answer.rule,
        action=answer.action,
        reason=answer.reason,
        sentence=answer.sentence,
        current=setting,
        proposed=proposed,
        precondition=Precondition(dict(question.lives), setting),
        made_at=question.now,
        expires_at=question.now + timedelta(seconds=LIFETIME_SECONDS),
        gain=answer.gain,
        gain_low=answer.gain_low,
        gain_high=answer.gain_high,
        evidence=evidence(question.window, answer.rule_evidence or {}),
        window_seconds=answer.window_seconds or question.window.window_seconds,
        threshold=_threshold(advice, answer, setting),
    )


def _doubts(question: Question) -> list[str]:
    """What a change rests on that the page does not tell, in sentences."""
    row = question.given.current if question.given is not None else None
    estimated = question.window.value("step_seconds_way") == ESTIMATED_WAY
    uncounted = row is not None and not row.counts_drafts
    return [_ESTIMATED] * estimated + [_UNCOUNTED] * uncounted


def _threshold(advice: TuneAdvice | None, answer: _Answer, setting: Setting) -> ThresholdAnswer | None:
    if advice is None:
        return None
    said, now = advice.threshold, setting.num_speculative_tokens
    differ = why_they_differ(said, now if answer.tokens is None else answer.tokens, now)
    differ = differ if answer.reason in WEIGHED else ""
    words = f"{said.action.value}" + (f" to {said.num_speculative_tokens}" if said.action is not Action.KEEP else "")
    return ThresholdAnswer(said.action, said.num_speculative_tokens, f"{words}. {said.sentence} {differ}".strip())


def _answer(question: Question, advice: TuneAdvice | None) -> _Answer:
    rule = question.outcomes[0].rule if question.outcomes else "none"
    if question.given is None or advice is None:
        words = "The servers of the group are not at one known setting; nothing is concluded for it."
        if not question.lives:
            words = "No page of this group has been read yet; nothing is concluded for it."
        return _Answer(action=Action.KEEP, tokens=None, reason=Reason.SETTING_UNKNOWN, sentence=words, rule=rule)
    if advice.reason in FAULTS:
        return _of_advice(advice, "tuner", question)
    answers = [_of_firing(firing, question, question.given, advice) for firing in question.firings]
    acting = [answer for answer in answers if answer.action is not Action.KEEP]
    if acting or answers:
        return (acting or answers)[0]
    return _not_held(question, advice, rule)


def _of_advice(advice: TuneAdvice, rule: str, question: Question, firing: TuneFiring | None = None) -> _Answer:
    return _Answer(
        action=advice.action, tokens=advice.num_speculative_tokens, reason=advice.reason, sentence=advice.sentence,
        rule=rule, gain=advice.gain, gain_low=advice.gain_low, gain_high=advice.gain_high,
        window_seconds=firing.window_seconds if firing else 0.0, rule_evidence=firing.evidence if firing else None,
    )


def _of_firing(firing: TuneFiring, question: Question, given: TuneInput, advice: TuneAdvice) -> _Answer:
    now = question.setting.num_speculative_tokens
    change = firing.change
    if change.kind is ChangeKind.TUNER and firing.guard == "sure":
        return _guarded(firing, "", sure_gain(given), advice.action)
    if change.kind is ChangeKind.TUNER:
        return _of_advice(advice, firing.rule, question, firing)
    assert now is not None  # a setting without a number never gets past the faults
    if change.kind is ChangeKind.OFF:
        target = 0
    elif change.kind is ChangeKind.SET:
        target = change.tokens or now
    else:
        target = now + (change.tokens or 0)
    held = _held_words(firing)
    if now == 0 and target != 0 and change.kind is ChangeKind.STEP:
        words = f"{held} Speculation is off here: a step from nothing is no setting."
        return _keep(firing, Reason.SPECULATION_OFF, words)
    low, high = given.limits.minimum, given.limits.maximum
    if firing.guard is not None and change.kind is ChangeKind.STEP and now > 0 and target < low:
        # Below the smallest setting lies off; the guard says whether that pays. The literal rule stays where it is.
        target = 0
    if target == 0 and now > 0 and not given.limits.allow_off and change.kind is ChangeKind.OFF:
        return _keep(firing, Reason.AT_LIMIT, f"{held} Switching off is not allowed here (limits.allow_off).")
    is_off = target == 0 and given.limits.allow_off and (change.kind is ChangeKind.OFF or firing.guard is not None)
    if target == now or not (is_off or low <= target <= high):
        return _keep(firing, Reason.AT_LIMIT, f"{held} The limits {low} to {high} allow no such step from {now}.")
    action = Action.OFF if target == 0 else Action.RAISE if target > now else Action.LOWER
    if firing.guard is not None:
        return _guarded(firing, held, guard(given, target), action)
    if target in question.group.limits.never:
        return _keep(firing, Reason.AT_LIMIT, f"{held} {target} is never to be set here (limits.never).")
    if target in given.rejected:
        words = f"{held} {target} was tried and lost; it rests until its time is over or the load has changed."
        return _keep(firing, Reason.REJECTED_BEFORE, words)
    reason = Reason.ABOVE_RAISE_THRESHOLD if action is Action.RAISE else Reason.BELOW_LOWER_THRESHOLD
    forecast = _forecast(given, advice, target)
    words = held if forecast else f"{held} {_not_known(given, target)}"
    return _Answer(
        action=action, tokens=target, reason=reason, sentence=words, rule=firing.rule,
        gain=forecast.gain if forecast else None, gain_low=forecast.gain_low if forecast else None,
        gain_high=forecast.gain_high if forecast else None, window_seconds=firing.window_seconds,
        rule_evidence=firing.evidence,
    )


def _forecast(given: TuneInput, advice: TuneAdvice, target: int) -> Forecast | None:
    """What is predicted of a setting that a rule asks for, however far it lies; None where nothing may be claimed."""
    if not advice.forecasts:
        return None
    return advice.forecasts.get(target) or forecasts(given, target).get(target)


def _not_known(given: TuneInput, target: int) -> str:
    """In words, that nothing is predicted of a setting, and for want of what."""
    seen = [setting_words(tokens) for tokens in sorted(given.observed)]
    row, now = given.current, given.num_speculative_tokens
    short = shortfalls(row, now, given) if row is not None and now is not None else []
    listed = " and ".join(one for one in (", ".join(seen[:-1]), *seen[-1:]) if one)
    known = f"so far {listed} were seen" if seen else "no setting was seen"
    wanting = f", the present setting for {', '.join(short)}" if short else ""
    return f"What {setting_words(target)} would bring is not known: {known}{wanting}."


def _guarded(firing: TuneFiring, held: str, said: Guarded, action: Action) -> _Answer:
    forecast = said.forecast
    if not said.is_allowed:
        return _keep(firing, said.reason, f"{held} {said.sentence}".strip())
    return _Answer(
        action=action, tokens=said.num_speculative_tokens, reason=said.reason,
        sentence=f"{held} {said.sentence}".strip(), rule=firing.rule, gain=forecast.gain if forecast else None,
        gain_low=forecast.gain_low if forecast else None, gain_high=forecast.gain_high if forecast else None,
        window_seconds=firing.window_seconds, rule_evidence=firing.evidence,
    )


def _keep(firing: TuneFiring, reason: Reason, words: str) -> _Answer:
    return _Answer(
        action=Action.KEEP, tokens=None, reason=reason, sentence=words, rule=firing.rule,
        window_seconds=firing.window_seconds, rule_evidence=firing.evidence,
    )


def _held_words(firing: TuneFiring) -> str:
    # The group stands before every sentence of a decision already.
    prefix = f"{firing.labels.get('group', '')}: "
    summary = firing.annotations.get("summary", f"Rule {firing.rule} holds").removeprefix(prefix)
    summary = summary[:1].upper() + summary[1:]
    return f"{summary} (over {_minutes(firing.window_seconds)}, for {_minutes(firing.held_seconds)})."


def _minutes(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def _not_held(question: Question, advice: TuneAdvice, rule: str) -> _Answer:
    """No rule fired: because none holds, because one has not held for long enough, or for want of data."""
    holding = [outcome for outcome in question.outcomes if outcome.truth is Truth.TRUE]
    blind = [outcome for outcome in question.outcomes if outcome.truth is Truth.NO_DATA]
    if holding:
        outcome = holding[0]
        words = f"Rule {outcome.rule} holds, but not yet for {_minutes(outcome.for_seconds)}."
        return _Answer(action=Action.KEEP, tokens=None, reason=Reason.CONDITION_NOT_HELD, sentence=words,
                       rule=outcome.rule, rule_evidence=outcome.evidence)
    if blind and len(blind) == len(question.outcomes):
        outcome = blind[0]
        few = "needed" in outcome.reason
        reason = Reason.TOO_LITTLE_DATA if few else Reason.NO_DATA
        words = f"No rule can be judged: {outcome.reason}."
        return _Answer(action=Action.KEEP, tokens=None, reason=reason, sentence=words, rule=outcome.rule,
                       rule_evidence=outcome.evidence)
    rate = question.window.value("acceptance_rate")
    shown = "unknown" if rate is None else f"{rate:.1%}"
    words = f"Acceptance is {shown}: no rule asks for a change."
    if blind:
        words += f" Rule {blind[0].rule} cannot be judged: {blind[0].reason}."
    return _Answer(action=Action.KEEP, tokens=None, reason=Reason.BETWEEN_THRESHOLDS, sentence=words, rule=rule)
