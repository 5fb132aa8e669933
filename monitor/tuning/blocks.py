"""Blocks of time of one server (a minute each, or less in tests), as the verdict of a change compares them.

Goodput here is tokens per second for each request being decoded: in open-loop traffic the tokens per second of the
whole server equal demand and cannot show a gain.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from monitor.intervals.adding import KNOWN, add_traffic, pool_histograms, sum_known
from monitor.model.counts import Histogram
from monitor.model.interval import Interval
from monitor.signals.accepted import add_accepted
from monitor.signals.load import error_ratio
from monitor.signals.steps import decode_batch, step_time
from monitor.signals.track import is_rateable

#: Length of a block unless told otherwise (seconds).
BLOCK_SECONDS = 60.0
#: Share of a block that must be covered; the block that is just filling is left out by this.
LEAST_COVERED = 0.6


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """What one server did in one block; None where it does not say. `slot` numbers blocks on the common time line."""

    slot: int
    end: datetime
    seconds: float
    #: Tokens per second for each request being decoded.
    goodput: float | None = None
    generation_tokens: float = 0.0
    batch: float | None = None
    prefill_tokens_per_step: float | None = None
    kv_usage: float | None = None
    acceptance_length: float | None = None
    step_seconds: float | None = None
    num_drafts: float = 0.0
    preemptions: float = 0.0
    responses: float = 0.0
    errors: float = 0.0
    time_to_first_token: Histogram | None = None
    time_per_output_token: Histogram | None = None


def slot_of(end: datetime, seconds: float) -> int:
    """Number of the block of `seconds` that `end` falls in, on one time line for all servers (an end belongs left)."""
    return math.ceil(end.timestamp() / seconds - 1e-9)


def blocks_of(intervals: Iterable[Interval], seconds: float = BLOCK_SECONDS) -> list[Block]:
    """Blocks of one server from its intervals, whatever its engines, by time.

    Gaps, half-seen intervals and blocks that are covered by less than `LEAST_COVERED` are left out.
    """
    slots: dict[int, list[Interval]] = {}
    for interval in intervals:
        if is_rateable(interval):
            slots.setdefault(slot_of(interval.end, seconds), []).append(interval)
    blocks = [_block(slot, slots[slot]) for slot in sorted(slots)]
    return [block for block in blocks if block.seconds >= LEAST_COVERED * seconds]


def _block(slot: int, intervals: Sequence[Interval]) -> Block:
    traffic = add_traffic([i.traffic for i in intervals if i.traffic is not None], KNOWN)
    accepted = add_accepted(intervals, None)
    steps = step_time(intervals, None)
    batch = decode_batch(intervals)
    ratio, responses, _ = error_ratio(traffic)
    by_engine: dict[str, float] = {}
    for i in intervals:
        by_engine[i.life] = by_engine.get(i.life, 0.0) + i.elapsed_seconds
    prefill = None
    if traffic is not None and traffic.engine_steps and traffic.prompt_tokens is not None:
        prefill = max(0.0, traffic.prompt_tokens - (traffic.cached_prompt_tokens or 0.0)) / traffic.engine_steps
    return Block(
        slot=slot,
        end=max(i.end for i in intervals),
        seconds=max(by_engine.values()),
        goodput=_goodput(intervals),
        generation_tokens=(traffic.generation_tokens or 0.0) if traffic else 0.0,
        batch=batch[0] if batch else None,
        prefill_tokens_per_step=prefill,
        kv_usage=_mean(intervals, lambda i: i.gauges.kv_usage_mean),
        acceptance_length=accepted.length if accepted else None,
        step_seconds=steps.seconds if steps else None,
        num_drafts=accepted.num_drafts if accepted else 0.0,
        preemptions=(traffic.preemptions or 0.0) if traffic else 0.0,
        responses=responses,
        errors=(ratio or 0.0) * responses,
        time_to_first_token=pool_histograms(i.latency.time_to_first_token for i in intervals if i.latency),
        time_per_output_token=pool_histograms(i.latency.time_per_output_token for i in intervals if i.latency),
    )


def _goodput(intervals: Sequence[Interval]) -> float | None:
    """Tokens over the time that requests spent decoding: sum of the inter-token times, else running x time."""
    tokens = spent = 0.0
    for i in intervals:
        made = i.traffic.generation_tokens if i.traffic else None
        if made is None:
            continue
        if i.latency and i.latency.inter_token and i.latency.inter_token.total > 0:
            between = i.latency.inter_token.total
        elif i.gauges.running_mean:
            between = i.gauges.running_mean * i.elapsed_seconds
        else:
            continue
        tokens += made
        spent += between
    return tokens / spent if tokens > 0 and spent > 0 else None


def _mean(intervals: Sequence[Interval], get: Callable[[Interval], float | None]) -> float | None:
    known = [(value, i.elapsed_seconds) for i in intervals if (value := get(i)) is not None]
    weight = sum_known(seconds for _, seconds in known)
    return sum(value * seconds for value, seconds in known) / weight if weight else None
