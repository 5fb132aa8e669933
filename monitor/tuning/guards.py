"""Guards of a change under observation: harm that takes it back at once, without statistics of the gain."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from monitor.intervals.adding import pool_histograms
from monitor.model.counts import Histogram
from monitor.tuning.blocks import Block

#: Standard errors by which slow answers must outnumber the usual share of them: chance does that once in a thousand.
CHANCE_ERRORS = 3.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Guards:
    """Bounds that a changed server must keep, over the last `blocks` blocks, compared with before and with controls.

    Latencies go by the last `blocks` blocks in which something was answered, however long ago they are.

    `ttft_seconds`/`tpot_seconds` are the p95 limits of the server's SLOs, None where it has none.
    """

    blocks: int = 3
    #: Share of failed answers above which a change goes back (and twice what it was before).
    error_ratio: float = 0.01
    min_responses: float = 20.0
    #: Preemptions against controls or before, and the least rate per minute that counts at all.
    preemption_factor: float = 3.0
    min_preemptions_per_minute: float = 1.0
    #: Worsening of p95 latency against before (controls' own change removed) that is harm whatever the SLO.
    latency_factor: float = 2.0
    #: Least worsening that is harm by that factor (seconds): edges of vLLM's buckets double from 0.02 to 0.04 s, so
    #: that a p95 twice as high may be one request more in the next. Goodput is judged anyway.
    ttft_harm_seconds: float = 0.05
    tpot_harm_seconds: float = 0.01
    min_observations: float = 20.0
    ttft_seconds: float | None = None
    tpot_seconds: float | None = None
    #: Mean KV cache use above which the draft has taken too much memory, if it was below before.
    kv_usage: float = 0.97


def tripped(
    before: Sequence[Block], after: Sequence[Block], controls: Sequence[Block], guards: Guards
) -> str | None:
    """A sentence on the first guard that is broken; None while all hold. `controls` are blocks of the same time."""
    recent = after[-guards.blocks :]
    if not recent:
        return None
    errors, responses = sum(b.errors for b in recent), sum(b.responses for b in recent)
    if responses >= guards.min_responses and errors / responses > max(guards.error_ratio, 2 * _error_ratio(before)):
        return f"{errors:.0f} of {responses:.0f} answers failed since the change"
    reason = _preemptions(before, recent, controls, guards)
    if reason is not None:
        return reason
    if len(recent) < guards.blocks:
        return None
    usage, usual = _mean_kv(recent), _mean_kv(before)
    if usage is not None and usage > guards.kv_usage and (usual is None or usual <= guards.kv_usage):
        return f"KV cache use is {usage:.0%}, above {guards.kv_usage:.0%}"
    return _latency("TTFT", before, after, controls, guards, guards.ttft_seconds) or _latency(
        "TPOT", before, after, controls, guards, guards.tpot_seconds
    )


def _error_ratio(blocks: Sequence[Block]) -> float:
    responses = sum(b.responses for b in blocks)
    return sum(b.errors for b in blocks) / responses if responses > 0 else 0.0


def _preemption_rate(blocks: Sequence[Block]) -> float:
    seconds = sum(b.seconds for b in blocks)
    return 60.0 * sum(b.preemptions for b in blocks) / seconds if seconds > 0 else 0.0


def _preemptions(
    before: Sequence[Block], recent: Sequence[Block], controls: Sequence[Block], guards: Guards
) -> str | None:
    rate = _preemption_rate(recent)
    usual = _preemption_rate(controls if controls else before)
    if rate >= guards.min_preemptions_per_minute and rate > guards.preemption_factor * usual:
        return f"{rate:.1f} preemptions a minute against {usual:.1f} {'on the others' if controls else 'before'}"
    return None


def _mean_kv(blocks: Sequence[Block]) -> float | None:
    known = [b.kv_usage for b in blocks if b.kv_usage is not None]
    return sum(known) / len(known) if known else None


def _seen(name: str, blocks: Sequence[Block]) -> list[Histogram]:
    """What blocks observed of a latency; one without an answer says nothing of it."""
    found = [block.time_to_first_token if name == "TTFT" else block.time_per_output_token for block in blocks]
    return [seen for seen in found if seen is not None and seen.edges and seen.cumulative[-1] > 0]


def _latency(
    name: str, before: Sequence[Block], after: Sequence[Block], controls: Sequence[Block], guards: Guards,
    limit: float | None,
) -> str | None:
    """Harm to a latency: over its SLO while the others (or the time before) are inside, or far worse than before."""
    recent = _seen(name, after)[-guards.blocks :]
    if len(recent) < guards.blocks:
        return None
    pooled = [pool_histograms(seen) for seen in (recent, _seen(name, before), _seen(name, controls))]
    told = [one if one is not None and one.count >= guards.min_observations else None for one in pooled]
    now, usual, others = (one.quantile(0.95) if one is not None else None for one in told)
    peer, reference = (others, told[2]) if others is not None else (usual, told[1])
    if now is None or peer is None or reference is None:
        return None
    if limit is not None and now > limit >= peer and _is_lasting(recent, reference, limit):
        return f"{name} p95 is {now:.3g} s, over its limit of {limit:.3g} s ({peer:.3g} s elsewhere)"
    floor = max(x for x in (usual, others, 0.0) if x is not None)
    least = guards.ttft_harm_seconds if name == "TTFT" else guards.tpot_harm_seconds
    bound = max(guards.latency_factor * floor, floor + least)
    if floor > 0 and now > bound and _is_lasting(recent, reference, bound):
        return f"{name} p95 is {now:.3g} s, {now / floor:.1f} times what it was"
    return None


def _is_lasting(recent: Sequence[Histogram], reference: Histogram, bound: float) -> bool:
    """Whether more observations lie above `bound` than chance has it (`CHANCE_ERRORS`), some of them in every block.

    The p95 of twenty requests is the second slowest of them: two that waited for something else in the same second
    would take a change back.
    """
    slow = [seen.cumulative[-1] - seen.at_most(bound) for seen in recent]
    total = reference.cumulative[-1]
    share = (total - reference.at_most(bound) + 1.0) / (total + 2.0)
    expected = share * sum(seen.cumulative[-1] for seen in recent)
    return min(slow) > 0 and sum(slow) > expected + CHANCE_ERRORS * math.sqrt(expected * (1.0 - share)) + 1.0
