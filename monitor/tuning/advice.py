"""What the tuner answers, and the sentence that goes with every reason. It decides nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from monitor.model.decision import Action, Reason, ThresholdAnswer
from monitor.tuning.forecast import Forecast


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneAdvice:
    """One recommendation. `num_speculative_tokens` is the setting to be at (0 = off), None where it is unknown.

    Gains are ratios of goodput against the setting in force (0.05 = 5 %) with a 95 % interval, None where nothing is
    proposed. `forecasts` holds every setting that could be projected.
    """

    action: Action
    num_speculative_tokens: int | None
    reason: Reason
    sentence: str
    threshold: ThresholdAnswer
    gain: float | None = None
    gain_low: float | None = None
    gain_high: float | None = None
    forecasts: Mapping[int, Forecast] = field(default_factory=dict)


#: What to tell a person, by reason; the names in braces are filled in by `sentence`.
SENTENCES: Mapping[Reason, str] = {
    Reason.ABOVE_RAISE_THRESHOLD: "Acceptance is {rate}, above the threshold for raising.",
    Reason.BELOW_LOWER_THRESHOLD: "Acceptance is {rate}, below the threshold for lowering.",
    Reason.BETWEEN_THRESHOLDS: "Acceptance is {rate}, between the thresholds.",
    Reason.PREDICTED_GAIN: "{to} is predicted to serve {gain} more tokens per second than {now} ({low} to {high}).",
    Reason.NO_CANDIDATE_CLEARS_BAR: (
        "No other setting is predicted to be better than {now} by enough to be worth trying."
    ),
    Reason.IDENTIFY_DRAFT_COST: (
        "What a draft token costs here is not known yet: {to} is predicted at {gain} ({low} to {high}) against "
        "{now}; one trial tells, and is taken back if it loses."
    ),
    Reason.SPECULATION_DOES_NOT_PAY: (
        "Speculation does not pay at this load: without it {gain} more tokens per second are predicted ({low} to "
        "{high}). Turn it off by a restart; a setting of 0 in a schedule still costs."
    ),
    Reason.PREDICTED_LOSS: "{to} is predicted at {gain} ({low} to {high}) against {now}: it would not help.",
    Reason.TRIPS_OPPOSITE_TRIGGER: (
        "At {to} acceptance is predicted at {predicted}, which would trip the opposite rule."
    ),
    Reason.TOO_LITTLE_DATA: (
        "Too little has been seen at {now} for anything to be claimed: {short}."
    ),
    Reason.NO_DATA: "Nothing is known of the setting in force: no acceptance and no step time at {now}.",
    Reason.CONDITION_NOT_HELD: "The condition has not held for long enough.",
    Reason.AT_LIMIT: (
        "{to} is predicted to be better than {now}, but lies outside the limits set for this server or past the depth "
        "that its draft was trained for."
    ),
    Reason.REJECTED_BEFORE: (
        "{to} is predicted to be better than {now}, but was tried and lost; it waits until its time is over or "
        "the load has changed."
    ),
    Reason.GAIN_BELOW_RESTART_COST: (
        "{to} is predicted to be {gain} better than {now} ({low} to {high}): too little to repay a restart."
    ),
    Reason.ENGINE_ADAPTS_ITSELF: "The engine adapts the number of tokens by itself; acceptd stands down.",
    Reason.SCHEDULE_SET: (
        "The server follows a schedule by batch size, so that one number says nothing of it; acceptd stands down."
    ),
    Reason.DIFFUSION_MODEL: "A diffusion model drafts whole blocks; the number of tokens is part of the model.",
    Reason.BROKEN_DRAFT: (
        "Acceptance fell suddenly at an unchanged setting: a fault, not a setting. Restart the server, or turn "
        "speculation off; fewer tokens would hide it."
    ),
    Reason.WRONG_PAIR: (
        "Only {first} of first tokens are accepted: this draft does not fit this model. Use another draft or "
        "another method, or turn speculation off; fewer tokens will not mend it."
    ),
    Reason.DECAY_WITH_UPTIME: (
        "Acceptance decays with uptime while the traffic is the same: restart the server. Another setting would "
        "treat the symptom."
    ),
    Reason.SATURATED: (
        "Requests are waiting: capacity is short, and goodput now says little of the setting. Add capacity first;"
        " only fewer tokens, or none, would be proposed now."
    ),
    Reason.SPECULATION_OFF: (
        "Speculation is off, so that nothing is known of acceptance. Try {to} on one of several servers to find "
        "out."
    ),
    Reason.SETTING_UNKNOWN: "The number of speculative tokens in force is not known.",
    Reason.UNRELIABLE_COUNTERS: (
        "The counters contradict each other or are too good to be true; nothing is concluded from them."
    ),
    Reason.ENGINE_STUCK: "The engine is stuck: its numbers say nothing of the setting.",
    Reason.SERVER_DOWN: "The server went away by itself.",
    Reason.REQUESTED_BY_OPERATOR: "Asked for by an operator.",
}


def percent(ratio: float | None, *, is_signed: bool = False) -> str:
    """A ratio in per cent for people, e.g. `+4.2 %`."""
    if ratio is None:
        return "unknown"
    return f"{100 * ratio:{'+' if is_signed else ''}.1f} %"


def setting_words(tokens: int | None) -> str:
    """A number of speculative tokens in words."""
    if tokens is None:
        return "the unknown setting"
    return "speculation off" if tokens == 0 else f"{tokens} token{'' if tokens == 1 else 's'}"


def sentence(
    reason: Reason, *, now: int | None = None, to: int | None = None, forecast: Forecast | None = None, **words: str
) -> str:
    """The sentence of `reason`; parts that are not given read "unknown"."""
    parts = {
        "now": setting_words(now),
        "to": setting_words(to),
        "gain": percent(forecast.gain if forecast else None, is_signed=True),
        "low": percent(forecast.gain_low if forecast else None, is_signed=True),
        "high": percent(forecast.gain_high if forecast else None, is_signed=True),
        "predicted": percent(forecast.rate if forecast else None),
        "rate": "unknown", "short": "more is needed", "first": "few",
    }
    text = SENTENCES[reason].format(**{**parts, **words})
    return text[0].upper() + text[1:]
