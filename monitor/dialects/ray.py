"""vLLM's counters through Ray, which prints one only from its first increment above 0 on: what is missing was 0.

Source: `RayCounterWrapper.inc` in vLLM's `v1/metrics/ray_wrappers.py` returns without a word where it is given 0.
"""

from __future__ import annotations

import math

from monitor.model.counts import SpeculationCounts

#: Draft tokens a draft beyond which the two counters are wrong and show no setting.
_MAX_MEAN_DRAFT = 1000
#: What the mean draft may be above the setting since Ray does not export both counters at one moment (tokens).
_TORN = 0.02


def least_tokens(highest: int | None, drafts: float | None, drafted: float | None) -> int | None:
    """num_speculative_tokens as far as such a page shows it: what was never accepted is missing.

    `highest` is the number of positions on the page.
    """
    if not drafts or drafted is None or drafted > _MAX_MEAN_DRAFT * drafts:
        return highest
    return max(highest or 0, math.ceil(drafted / drafts - _TORN)) or None


def with_zeros(counts: SpeculationCounts, tokens: int | None, *, has_accepted: bool) -> SpeculationCounts:
    """The counts with 0 for what was never above it. `has_accepted`: a counter of accepted tokens is on the page."""
    if counts.num_drafts is None:
        return counts
    accepted = counts.num_accepted_tokens if has_accepted else 0.0
    at = counts.accepted_per_pos
    if at is None and accepted != 0:
        return counts
    known = at or ()
    return SpeculationCounts(
        num_drafts=counts.num_drafts,
        num_draft_tokens=counts.num_draft_tokens,
        num_accepted_tokens=accepted,
        accepted_per_pos=(*known, *[0.0] * ((tokens or 0) - len(known))) or None,
        drafted_per_pos=counts.drafted_per_pos,
    )
