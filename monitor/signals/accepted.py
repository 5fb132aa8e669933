"""Speculation counts of many intervals as one value, and what it says: survival, length, per-token acceptance.

It takes counts only where they may be believed, and never averages ratios: counts are added first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from monitor.intervals.adding import add_speculation
from monitor.model.counts import SpeculationCounts
from monitor.model.interval import Interval
from monitor.model.life import Setting
from monitor.signals.track import drafted_of
from monitor.signals.uncertainty import Estimate, ratio_estimate, within_draft_variance


@dataclass(frozen=True, slots=True)
class Accepted:
    """Added speculation counts with one (drafts, accepted tokens) block per interval. `survival` [0] is position 1."""

    num_drafts: float
    num_draft_tokens: float | None
    num_accepted_tokens: float
    survival: tuple[float, ...] | None
    #: Drafts that had the position, where the engine says it (drafts of varying length); None: all of them.
    reached: tuple[float, ...] | None
    #: Accepted at position per block, as long as `blocks`; None without positions.
    blocks_per_pos: tuple[tuple[float, ...], ...] | None
    blocks: tuple[tuple[float, float], ...]
    #: Whether the engine counts its drafts, so that they need not be guessed from their tokens.
    counts_drafts: bool = True

    @property
    def length(self) -> float:
        """Tokens per draft, bonus included: 1 + accepted / drafts (vLLM `v1/spec_decode/metrics.py`)."""
        return 1.0 + self.num_accepted_tokens / self.num_drafts

    @property
    def draft_variance(self) -> float:
        """Variance of accepted tokens within one draft, exact from positions, else that of a geometric run."""
        if self.survival is not None:
            return within_draft_variance(self.survival)
        mean = self.length - 1.0
        if self.num_draft_tokens is None:
            return mean * (1.0 + mean)
        tokens = max(1, round(self.num_draft_tokens / self.num_drafts))
        alpha = alpha_of_length(self.length, tokens)
        return within_draft_variance([alpha**i for i in range(1, tokens + 1)])

    def length_estimate(self) -> Estimate:
        """Acceptance length with its 95 % interval (at least 1)."""
        drafts, accepted = zip(*self.blocks, strict=True)
        estimate = ratio_estimate(accepted, drafts, self.draft_variance, bounds=(0.0, float("inf")))
        assert estimate is not None  # num_drafts > 0 by construction
        return Estimate(
            1.0 + estimate.value, 1.0 + estimate.low, 1.0 + estimate.high, estimate.design_effect, estimate.batches
        )


def alpha_of_length(length: float, tokens: int) -> float:
    """Per-token acceptance whose i.i.d. acceptance length at `tokens` is `length` (bisection; 0 to 1).

    Solves (1 - a^(k+1)) / (1 - a) = length (Leviathan et al. 2023, arXiv 2211.17192).
    """
    if length <= 1.0:
        return 0.0
    if length >= tokens + 1:
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        reached = 1.0
        for _ in range(tokens):
            reached = reached * middle + 1.0
        if reached < length:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def survival_of(counts_accepted: Sequence[float], drafts: float, drafted: Sequence[float] | None) -> tuple[float, ...]:
    """Survival by position, non-increasing: accepted over the drafts that reached the position where that is known.

    With drafts of varying length (n-gram, suffix, schedules) the drafts made are the wrong denominator for the later
    positions: a draft that never had the position could not be accepted there.
    """
    rates: list[float] = []
    for position, accepted in enumerate(counts_accepted):
        reached = drafted[position] if drafted is not None and position < len(drafted) else drafts
        rate = accepted / reached if reached > 0 else 0.0
        rates.append(min(1.0, rate, rates[-1] if rates else 1.0))
    return tuple(rates)


def add_accepted(intervals: Sequence[Interval], setting: Setting | None) -> Accepted | None:
    """Speculation counts of `intervals` added up; None where no draft was made or nothing reliable was counted."""
    tokens = setting.num_speculative_tokens if setting is not None else None
    blocks: list[tuple[float, float]] = []
    kept = []
    for interval in intervals:
        block = drafted_of(interval, setting)
        if block is not None and interval.speculation is not None:
            blocks.append(block[:2])
            kept.append(interval.speculation)
    pooled = add_speculation(kept)
    if pooled is None or pooled.num_accepted_tokens is None:
        return None
    drafts = sum(block[0] for block in blocks)
    per_pos = pooled.accepted_per_pos
    drafted = pooled.drafted_per_pos
    survival = survival_of(per_pos, drafts, drafted) if per_pos is not None else None
    per_draft = _tokens_per_draft(blocks, kept)
    if per_draft is None:
        per_draft = tokens
    return Accepted(
        num_drafts=drafts,
        num_draft_tokens=drafts * per_draft if per_draft is not None else None,
        num_accepted_tokens=pooled.num_accepted_tokens,
        survival=survival,
        reached=drafted,
        blocks_per_pos=tuple(count.accepted_per_pos or () for count in kept) if per_pos is not None else None,
        blocks=tuple(blocks),
        counts_drafts=all(count.num_drafts is not None for count in kept),
    )


def _tokens_per_draft(blocks: Sequence[tuple[float, float]], counts: Sequence[SpeculationCounts]) -> float | None:
    """Mean length of the drafts whose draft tokens are known; None where none are."""
    known = [
        (drafts, count.num_draft_tokens)
        for (drafts, _), count in zip(blocks, counts, strict=True)
        if count.num_draft_tokens is not None
    ]
    made = sum(drafts for drafts, _ in known)
    return sum(drafted for _, drafted in known) / made if made > 0 else None


def censored_alpha(accepted: Accepted, tokens: int | None) -> Estimate | None:
    """Acceptance per token tested, with a 95 % interval (0 to 1); None where draft lengths are unknown.

    Every draft tests tokens until the first miss or its end. Drafts accepted whole did not miss: they are censored,
    so that the maximum-likelihood estimate is accepted / tested, which does not fall with the setting. Position i is
    tested by the drafts that have it and were accepted up to the one before.
    Without positions it is the i.i.d. acceptance that gives the observed length.
    """
    if accepted.survival:
        before = (1.0, *accepted.survival[:-1])
        reached = accepted.reached or (accepted.num_drafts,) * len(before)
        tested = sum(drafts * rate for drafts, rate in zip(reached, before, strict=False))
        if tested <= 0:
            return None
        rate = min(1.0, accepted.num_accepted_tokens / tested)
        estimate = ratio_estimate(
            [taken for _, taken in accepted.blocks], _tested_by_block(accepted, tested),
            max(rate * (1 - rate), 1e-12), bounds=(0.0, 1.0),
        )
        if estimate is None:
            return None
        shift = rate - estimate.value
        return Estimate(
            rate, max(0.0, estimate.low + shift), min(1.0, estimate.high + shift),
            estimate.design_effect, estimate.batches,
        )
    if not tokens:
        return None
    length = accepted.length_estimate()
    value, low, high = (alpha_of_length(x, tokens) for x in (length.value, length.low, length.high))
    return Estimate(value, low, high, length.design_effect, length.batches)


def _tested_by_block(accepted: Accepted, tested: float) -> list[float]:
    """Tokens tested in each block, which add up to `tested`: a block that accepts more tests more, too.

    Taken as a share of the drafts, the two would vary apart, and a 95 % interval hold the truth in 99 % of windows.
    """
    per_pos = accepted.blocks_per_pos or ((),) * len(accepted.blocks)
    made = [drafts + sum(hits[:-1]) for (drafts, _), hits in zip(accepted.blocks, per_pos, strict=True)]
    scale = tested / sum(made)
    return [scale * one for one in made]
