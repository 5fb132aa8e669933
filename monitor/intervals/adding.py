"""Adding counts and intervals up: over time within a life; counts also across engines, replicas and lives.

Over time counts and covered seconds add; across engines never the seconds: eight engines that each cover 15 s cover
15 s. A family that one part lacks is added from the others (its covered seconds say how far it reaches). What a number
is that one part does not know is a question of what the sum is for: see `Adding`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from monitor.model.counts import Counts, Histogram, LatencyCounts, SpeculationCounts, TrafficCounts
from monitor.model.interval import GaugeSpan, Interval
from monitor.model.reading import Flag


def sum_all(values: Iterable[float | None]) -> float | None:
    """Sum; None where any part is unknown, or there are none."""
    parts = list(values)
    known = [value for value in parts if value is not None]
    return sum(known) if known and len(known) == len(parts) else None


def sum_known(values: Iterable[float | None]) -> float | None:
    """Sum of the known parts; None where none is known."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def add_histograms(parts: Iterable[Histogram | None]) -> Histogram | None:
    """Sum of histograms with equal edges; None where edges differ, one is unknown, or there are none."""
    everything = list(parts)
    known = [part for part in everything if part is not None]
    if len(known) < len(everything) or any(part.edges != known[0].edges for part in known):
        return None
    return pool_histograms(known)


def pool_histograms(parts: Iterable[Histogram | None]) -> Histogram | None:
    """Sum of the known histograms with the edges of the last (an engine upgrade may change them); None without any."""
    known = [part for part in parts if part is not None]
    if not known:
        return None
    edges = known[-1].edges
    known = [part for part in known if part.edges == edges]
    return Histogram(
        edges,
        tuple(map(sum, zip(*(part.cumulative for part in known), strict=True))),
        sum(part.total for part in known),
        sum(part.count for part in known),
    )


@dataclass(frozen=True, slots=True)
class Adding:
    """What a sum makes of parts that do not know a number, or have a histogram with other edges."""

    numbers: Callable[[Iterable[float | None]], float | None]
    histograms: Callable[[Iterable[Histogram | None]], Histogram | None]


#: For sums that stand for their parts (rollups, totals): unknown in one part is unknown in the sum.
EXACT = Adding(sum_all, add_histograms)
#: For samples of a window (means, quantiles, shares): what is known of it.
KNOWN = Adding(sum_known, pool_histograms)


def add_speculation(parts: Sequence[SpeculationCounts]) -> SpeculationCounts | None:
    """Sum of speculation counts, exact; a position that a part does not have counts 0 there. None without parts."""
    if len(parts) < 2:
        return parts[0] if parts else None
    return SpeculationCounts(
        num_drafts=sum_all(part.num_drafts for part in parts),
        num_draft_tokens=sum_all(part.num_draft_tokens for part in parts),
        num_accepted_tokens=sum_all(part.num_accepted_tokens for part in parts),
        accepted_per_pos=_add_positions([part.accepted_per_pos for part in parts]),
        drafted_per_pos=_add_positions([part.drafted_per_pos for part in parts]),
    )


def add_traffic(parts: Sequence[TrafficCounts], how: Adding = EXACT) -> TrafficCounts | None:
    """Sum of token, step and request counts; None without parts."""
    if not parts:
        return None

    def total(get: Callable[[TrafficCounts], float | None]) -> float | None:
        return how.numbers(map(get, parts))

    return TrafficCounts(
        generation_tokens=total(lambda part: part.generation_tokens),
        prompt_tokens=total(lambda part: part.prompt_tokens),
        cached_prompt_tokens=total(lambda part: part.cached_prompt_tokens),
        engine_steps=total(lambda part: part.engine_steps),
        step_tokens=total(lambda part: part.step_tokens),
        finished=add_keys(part.finished for part in parts),
        http_responses=add_keys(part.http_responses for part in parts),
        rejections=sum_known(part.rejections for part in parts),  # of a whole server: one of its engines carries them
        preemptions=total(lambda part: part.preemptions),
        prompt_length=how.histograms(part.prompt_length for part in parts),
        output_length=how.histograms(part.output_length for part in parts),
    )


def add_latency(parts: Sequence[LatencyCounts], how: Adding = EXACT) -> LatencyCounts | None:
    """Sum of latency histograms; None without parts."""
    if not parts:
        return None
    return LatencyCounts(
        time_to_first_token=how.histograms(part.time_to_first_token for part in parts),
        inter_token=how.histograms(part.inter_token for part in parts),
        time_per_output_token=how.histograms(part.time_per_output_token for part in parts),
        e2e_request=how.histograms(part.e2e_request for part in parts),
        queue=how.histograms(part.queue for part in parts),
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


def _add_positions(parts: Sequence[tuple[float, ...] | None]) -> tuple[float, ...] | None:
    known = [part for part in parts if part is not None]
    if not known or len(known) != len(parts):
        return None
    length = max(map(len, known))
    if any(len(part) != length for part in known):
        known = [part + (0.0,) * (length - len(part)) for part in known]
    return tuple(map(sum, zip(*known, strict=True)))


def add_keys(parts: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Sum of each key's values."""
    total: dict[str, float] = {}
    for part in parts:
        for key, value in part.items():
            total[key] = total.get(key, 0.0) + value
    return total


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
