"""When tuning is the wrong answer: facts of the server, too little data, counters that cannot be believed."""

from __future__ import annotations

from monitor.model.decision import Action, Reason
from monitor.tuning.observed import Drafting, Fact, Row, TuneInput
from monitor.tuning.threshold import rate_of

#: Acceptance that no drafter with weights reaches on real text; lookup does, over looping text.
PERFECT_RATE = 0.999
#: First-position acceptance below which a drafter with weights does not fit its model.
WRONG_PAIR_RATE = 0.15

#: What each fact makes of a recommendation, the first one that holds decides.
_FACTS: tuple[tuple[Fact, Action, Reason], ...] = (
    (Fact.STUCK, Action.KEEP, Reason.ENGINE_STUCK),
    (Fact.UNRELIABLE, Action.KEEP, Reason.UNRELIABLE_COUNTERS),
    (Fact.DIFFUSION, Action.KEEP, Reason.DIFFUSION_MODEL),
    (Fact.ADAPTS_ITSELF, Action.KEEP, Reason.ENGINE_ADAPTS_ITSELF),
    (Fact.SCHEDULE, Action.KEEP, Reason.SCHEDULE_SET),
    (Fact.FELL_SUDDENLY, Action.RESTART, Reason.BROKEN_DRAFT),
    (Fact.DECAYS, Action.RESTART, Reason.DECAY_WITH_UPTIME),
)


def stand_down(given: TuneInput) -> tuple[Action, Reason] | None:
    """Action and reason where no setting may be proposed; None where the numbers may be used."""
    for fact, action, reason in _FACTS:
        if fact in given.facts:
            return action, reason
    now, row = given.num_speculative_tokens, given.current
    if now is None:
        return Action.KEEP, Reason.SETTING_UNKNOWN
    if row is None or (now > 0 and row.survival is None and row.length is None):
        return Action.KEEP, Reason.NO_DATA
    if is_too_little(row, now, given):
        return Action.KEEP, Reason.TOO_LITTLE_DATA
    rate = rate_of(row, now)
    if rate is not None and rate >= PERFECT_RATE and given.drafting is not Drafting.LOOKUP:
        return Action.KEEP, Reason.UNRELIABLE_COUNTERS
    return None


def is_too_little(row: Row, tokens: int, given: TuneInput) -> bool:
    """Whether the row is known to rest on less than a claim needs; what is unknown does not bar."""
    return bool(shortfalls(row, tokens, given))


def shortfalls(row: Row, tokens: int, given: TuneInput) -> list[str]:
    """What the row has too little of for a claim, in words ("100 of 5000 drafts"); empty where it has enough."""
    parts = (
        (row.num_drafts if tokens > 0 else None, given.need_drafts, "drafts"),
        (row.finished_requests, given.need_requests, "finished requests"),
        (row.covered_seconds, given.need_seconds, "seconds"),
    )
    return [f"{has:.0f} of {need:.0f} {what}" for has, need, what in parts if has is not None and has < need]


def is_wrong_pair(given: TuneInput) -> bool:
    """Whether a drafter with weights has hardly any first token accepted: never fitted, so no number of tokens fits."""
    row = given.current
    if row is None or given.drafting is Drafting.LOOKUP or not given.num_speculative_tokens:
        return False
    if row.survival:
        return row.survival[0] < WRONG_PAIR_RATE
    return row.length is not None and row.length - 1.0 < WRONG_PAIR_RATE
