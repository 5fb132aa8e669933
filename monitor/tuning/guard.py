"""The guarded rule: a change that a threshold asks for is made only if it is predicted to help and to stay helpful.

It keeps the triggers of the 70/50 rule and refuses what they get wrong: changes predicted to lose, and changes that
would trip the opposite trigger and be taken back by it. Where no trigger fires it still makes a change whose gain is
sure: between the thresholds lie settings that lose a third of the goodput.
"""

from __future__ import annotations

from dataclasses import dataclass

from monitor.model.decision import Action, Reason
from monitor.tuning.advice import sentence
from monitor.tuning.decision import tune, worth
from monitor.tuning.forecast import Forecast, forecasts
from monitor.tuning.observed import Fact, TuneInput
from monitor.tuning.standdown import is_wrong_pair, shortfalls, stand_down
from monitor.tuning.threshold import LOWER_BELOW, RAISE_ABOVE, rate_of

#: Lower bound (95 %) of a gain that is acted on although no trigger fires (ratio).
SURE_GAIN = 0.03


@dataclass(frozen=True, slots=True)
class Guarded:
    """Whether a change may be made, the setting it would lead to, why, and what is predicted of it."""

    is_allowed: bool
    num_speculative_tokens: int | None
    reason: Reason
    sentence: str
    forecast: Forecast | None = None


def guard(
    given: TuneInput, proposed: int, *, raise_above: float = RAISE_ABOVE, lower_below: float = LOWER_BELOW
) -> Guarded:
    """Whether going to `proposed` (0 = off) may be made: within limits, not rejected, predicted to help, and stable.

    A raise is refused where the predicted rate is below `lower_below`, a lowering where it is above `raise_above`:
    the opposite trigger would undo it. Nothing known of step time or acceptance refuses too.
    """
    now = given.num_speculative_tokens
    refusal = stand_down(given)
    if refusal is not None:
        return _refuse(given, proposed, refusal[1])
    assert now is not None  # stand_down has looked
    limits = given.limits
    is_inside = limits.minimum <= proposed <= min(limits.maximum, limits.trained_depth or limits.maximum)
    if not (is_inside if proposed else limits.allow_off) or proposed == now:
        return _refuse(given, proposed, Reason.AT_LIMIT)
    if proposed in given.rejected:
        return _refuse(given, proposed, Reason.REJECTED_BEFORE)
    if is_wrong_pair(given) and proposed > 0:
        return _refuse(given, proposed, Reason.WRONG_PAIR)
    if Fact.SATURATED in given.facts and proposed > now:
        return _refuse(given, proposed, Reason.SATURATED)
    forecast = forecasts(given, max(proposed, now)).get(proposed)
    if forecast is None:
        return _refuse(given, proposed, Reason.NO_DATA)
    rate = forecast.rate
    if rate is not None and ((proposed > now and rate < lower_below) or (proposed < now and rate > raise_above)):
        return _refuse(given, proposed, Reason.TRIPS_OPPOSITE_TRIGGER, forecast)
    if forecast.gain <= 0.0:
        return _refuse(given, proposed, Reason.PREDICTED_LOSS, forecast)
    if worth(forecast, given) <= 0.0:
        return _refuse(given, proposed, Reason.GAIN_BELOW_RESTART_COST, forecast)
    text = sentence(Reason.PREDICTED_GAIN, now=now, to=proposed, forecast=forecast)
    return Guarded(True, proposed, Reason.PREDICTED_GAIN, text, forecast)


def guarded_step(given: TuneInput, direction: Action) -> Guarded:
    """One step in the direction that a threshold asks for (raise or lower); below the smallest setting lies off.

    Raises:
        ValueError: when the direction is neither raise nor lower.
    """
    if direction not in (Action.RAISE, Action.LOWER):
        raise ValueError(f"direction {direction}: expected raise or lower")
    now = given.num_speculative_tokens
    if now is None:
        return _refuse(given, None, Reason.SETTING_UNKNOWN)
    if direction is Action.RAISE:
        return guard(given, now + 1)
    return guard(given, now - 1 if now > given.limits.minimum else 0)


def sure_gain(given: TuneInput) -> Guarded:
    """The tuner's own change, if even the lower bound of its gain is above `SURE_GAIN`; no mere trials."""
    advice = tune(given)
    target = advice.num_speculative_tokens
    forecast = advice.forecasts.get(target) if target is not None else None
    if advice.action not in (Action.RAISE, Action.LOWER, Action.OFF) or forecast is None:
        return Guarded(False, target, advice.reason, advice.sentence, forecast)
    if forecast.gain_low <= SURE_GAIN:
        return _refuse(given, target, Reason.GAIN_BELOW_RESTART_COST, forecast)
    return Guarded(True, target, advice.reason, advice.sentence, forecast)


def guarded(given: TuneInput) -> Guarded:
    """The whole guarded rule set on one observation: the trigger's step if the guard lets it, else a sure gain."""
    rate = rate_of(given.current, given.num_speculative_tokens)
    if rate is not None and not LOWER_BELOW <= rate <= RAISE_ABOVE:
        step = guarded_step(given, Action.RAISE if rate > RAISE_ABOVE else Action.LOWER)
        if step.is_allowed:
            return step
    return sure_gain(given)


def _refuse(given: TuneInput, proposed: int | None, reason: Reason, forecast: Forecast | None = None) -> Guarded:
    row, now = given.current, given.num_speculative_tokens
    text = sentence(
        reason, now=now, to=proposed, forecast=forecast,
        short=", ".join(shortfalls(row, now, given)) if row is not None and now is not None else "nothing yet",
        first=f"{100 * row.survival[0]:.0f} %" if row is not None and row.survival else "few",
    )
    return Guarded(False, proposed, reason, text, forecast)
