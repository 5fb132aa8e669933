"""Adding counts and intervals up: over time within a life; across engines, replicas and lives. No rate is averaged.

Over time counts and covered seconds add. Across engines counts add and rates add, never the seconds: eight engines that
each cover 15 s cover 15 s. A number that is unknown in one part is unknown in the sum; a family that one part lacks is
added from the others (its covered seconds say how far it reaches). Histograms add only with equal edges.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from monitor.model.counts import Counts, Histogram, LatencyCounts, SpeculationCounts, TrafficCounts
from monitor.model.interval import GaugeSpan, Interval
from monitor.model.reading import Flag


def add_speculation(parts: Sequence[SpeculationCounts]) -> SpeculationCounts | None:
    """Sum of speculation counts; a position that a part does not have counts 0 there. None without parts."""
    if not parts:
        return None
    return SpeculationCounts(
        num_drafts=_sum(part.num_drafts for part in parts),
        num_draft_tokens=_sum(part.num_draft_tokens for part in parts),
        num_accepted_tokens=_sum(part.num_accepted_tokens for part in parts),
        accepted_per_pos=_add_positions([part.accepted_per_pos for part in parts]),
        drafted_per_pos=_add_positions([part.drafted_per_pos for part in parts]),
    )


def add_traffic(parts: Sequence[TrafficCounts]) -> TrafficCounts | None:
    """Sum of token, step and request counts; None without parts."""
    if not parts:
        return None
    return TrafficCounts(
        generation_tokens=_sum(part.generation_tokens for part in parts),
        prompt_tokens=_sum(part.prompt_tokens for part in parts),
        cached_prompt_tokens=_sum(part.cached_prompt_tokens for part in parts),
        engine_steps=_sum(part.engine_steps for part in parts),
        step_tokens=_sum(part.step_tokens for part in parts),
        finished=_add_keys([part.finished for part in parts]),
        http_responses=_add_keys([part.http_responses for part in parts]),
        rejections=_sum_known(part.rejections for part in parts),
        preemptions=_sum(part.preemptions for part in parts),
        prompt_length=add_histograms([part.prompt_length for part in parts]),
        output_length=add_histograms([part.output_length for part in parts]),
    )


def add_latency(parts: Sequence[LatencyCounts]) -> LatencyCounts | None:
    """Sum of latency histograms; None without parts."""
    if not parts:
        return None
    return LatencyCounts(
        time_to_first_token=add_histograms([part.time_to_first_token for part in parts]),
        inter_token=add_histograms([part.inter_token for part in parts]),
        time_per_output_token=add_histograms([part.time_per_output_token for part in parts]),
        e2e_request=add_histograms([part.e2e_request for part in parts]),
        queue=add_histograms([part.queue for part in parts]),
    )


def add_histograms(parts: Sequence[Histogram | None]) -> Histogram | None:
    """Sum of histograms with equal edges; None where edges differ, one is unknown, or there are none."""
    known = [part for part in parts if part is not None]
    if not known or len(known) != len(parts) or any(part.edges != known[0].edges for part in known):
        return None
    return Histogram(
        known[0].edges,
        tuple(map(sum, zip(*(part.cumulative for part in known), strict=True))),
        sum(part.total for part in known),
        sum(part.count for part in known),
    )


def add_counts(parts: Sequence[Counts]) -> Counts:
    """Sum of counts, family by family; one that no part has is None."""
    return Counts(
        speculation=add_speculation([part.speculation for part in parts if part.speculation is not None]),
        traffic=add_traffic([part.traffic for part in parts if part.traffic is not None]),
        latency=add_latency([part.latency for part in parts if part.latency is not None]),
    )


def counts_of(interval: Interval) -> Counts:
    """The counts of an interval."""
    return Counts(interval.speculation, interval.traffic, interval.latency)


def over_time(intervals: Sequence[Interval]) -> Interval:
    """Intervals of one life as one, from the first start to the last end.

    Raises:
        ValueError: no intervals, or intervals of different lives (their seconds must not be added).
    """
    lives = {interval.life for interval in intervals}
    if len(lives) != 1:
        raise ValueError(f"adding over time wants the intervals of one life, found {len(lives)} lives")
    ordered = sorted(intervals, key=lambda interval: interval.end)
    total = add_counts([counts_of(interval) for interval in ordered])
    return Interval(
        life=ordered[0].life,
        server=ordered[0].server,
        start=ordered[0].start,
        end=ordered[-1].end,
        elapsed_seconds=sum(interval.elapsed_seconds for interval in ordered),
        speculation=total.speculation,
        speculation_seconds=sum(interval.speculation_seconds for interval in ordered),
        traffic=total.traffic,
        traffic_seconds=sum(interval.traffic_seconds for interval in ordered),
        latency=total.latency,
        latency_seconds=sum(interval.latency_seconds for interval in ordered),
        gauges=_gauges_over_time(ordered),
        gauges_seconds=sum(interval.gauges_seconds for interval in ordered),
        flags=frozenset[Flag]().union(*(interval.flags for interval in ordered)),
        is_gap=any(interval.is_gap for interval in ordered),
        partial=any(interval.partial for interval in ordered),
    )


@dataclass(frozen=True, slots=True)
class Across:
    """Several engines over the same time: their counts and rates together. Rates are None where one is unknown."""

    counts: Counts
    generation_tokens_per_second: float | None
    prompt_tokens_per_second: float | None
    drafts_per_second: float | None
    flags: frozenset[Flag]
    partial: bool


def across(intervals: Sequence[Interval]) -> Across:
    """Intervals of different engines or lives, one each, over about the same time. Gaps give no rates."""
    return Across(
        counts=add_counts([counts_of(interval) for interval in intervals]),
        generation_tokens_per_second=_sum(
            _rate(one, one.traffic.generation_tokens, one.traffic_seconds) for one in intervals if one.traffic
        ),
        prompt_tokens_per_second=_sum(
            _rate(one, one.traffic.prompt_tokens, one.traffic_seconds) for one in intervals if one.traffic
        ),
        drafts_per_second=_sum(
            _rate(one, one.speculation.num_drafts, one.speculation_seconds) for one in intervals if one.speculation
        ),
        flags=frozenset[Flag]().union(*(interval.flags for interval in intervals)),
        partial=any(interval.partial for interval in intervals),
    )


def _rate(interval: Interval, count: float | None, seconds: float) -> float | None:
    return None if count is None or seconds <= 0 or interval.is_gap else count / seconds


def _sum(values: Iterable[float | None]) -> float | None:
    """Sum; None where any part is unknown, or there are none."""
    total, seen = 0.0, False
    for value in values:
        if value is None:
            return None
        total, seen = total + value, True
    return total if seen else None


def _sum_known(values: Iterable[float | None]) -> float | None:
    """Sum of the known parts: for numbers of a whole server, which only one of its engines carries."""
    return _sum([value for value in values if value is not None])


def _add_positions(parts: Sequence[tuple[float, ...] | None]) -> tuple[float, ...] | None:
    known = [part for part in parts if part is not None]
    if not known or len(known) != len(parts):
        return None
    return tuple(sum(column) for column in zip_longest(*known, fillvalue=0.0))


def _add_keys(parts: Iterable[Mapping[str, float]]) -> dict[str, float]:
    total: Counter[str] = Counter()
    for part in parts:
        for key, value in part.items():
            total[key] += value  # type: ignore[assignment]  # Counter is typed for int; floats add alike
    return dict(total)


def _gauges_over_time(intervals: Sequence[Interval]) -> GaugeSpan:
    def mean(get: Callable[[GaugeSpan], float | None]) -> float | None:
        rows = [
            (value, one.gauges_seconds)
            for one in intervals
            if (value := get(one.gauges)) is not None and one.gauges_seconds > 0
        ]
        seconds = sum(weight for _, weight in rows)
        return sum(value * weight for value, weight in rows) / seconds if rows else None

    def most(get: Callable[[GaugeSpan], float | None]) -> float | None:
        return max((value for one in intervals if (value := get(one.gauges)) is not None), default=None)

    return GaugeSpan(
        running_mean=mean(lambda span: span.running_mean),
        running_max=most(lambda span: span.running_max),
        waiting_mean=mean(lambda span: span.waiting_mean),
        waiting_max=most(lambda span: span.waiting_max),
        kv_usage_mean=mean(lambda span: span.kv_usage_mean),
        kv_usage_max=most(lambda span: span.kv_usage_max),
    )
