"""The literal 70/50 rule: raise by one above 70 % acceptance, lower by one below 50 %. It predicts nothing."""

from __future__ import annotations

from monitor.model.decision import Action, Reason, ThresholdAnswer
from monitor.tuning.advice import percent, sentence, setting_words
from monitor.tuning.observed import Limits, Row

#: Acceptance rates (accepted / drafted) above and below which the rule acts.
RAISE_ABOVE, LOWER_BELOW = 0.70, 0.50


def rate_of(row: Row | None, tokens: int | None) -> float | None:
    """Accepted of drafted tokens (0 to 1); None without drafts, or where the row says nothing of acceptance."""
    if row is None or not tokens:
        return None
    if row.survival:
        return sum(row.survival) / tokens
    return (row.length - 1.0) / tokens if row.length is not None else None


def threshold_answer(row: Row | None, tokens: int | None, limits: Limits) -> ThresholdAnswer:
    """What the rule says of the row in force, within the limits; keep where there is no acceptance to judge."""
    rate = rate_of(row, tokens)
    if rate is None or tokens is None:
        return ThresholdAnswer(Action.KEEP, tokens, "No acceptance to judge.")
    if rate > RAISE_ABOVE:
        reason, action, target = Reason.ABOVE_RAISE_THRESHOLD, Action.RAISE, min(tokens + 1, limits.maximum)
    elif rate < LOWER_BELOW:
        reason, action, target = Reason.BELOW_LOWER_THRESHOLD, Action.LOWER, max(tokens - 1, limits.minimum)
    else:
        reason, action, target = Reason.BETWEEN_THRESHOLDS, Action.KEEP, tokens
    text = sentence(reason, rate=percent(rate))
    if (action is Action.RAISE and target <= tokens) or (action is Action.LOWER and target >= tokens):
        return ThresholdAnswer(Action.KEEP, tokens, f"{text} The limit is reached.")
    return ThresholdAnswer(action, target, text)


def why_they_differ(answer: ThresholdAnswer, proposed: int | None, now: int | None) -> str:
    """One sentence on why the rule and the tuner disagree; empty where they agree."""
    if answer.num_speculative_tokens == proposed or proposed is None or now is None:
        return ""
    return (
        f"The 70/50 rule would be at {setting_words(answer.num_speculative_tokens)}: it looks at the acceptance rate "
        "alone, which falls with every further token whether that token pays or not; the tuner weighs the tokens "
        "gained against the time they cost."
    )
