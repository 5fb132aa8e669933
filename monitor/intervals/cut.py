"""Intervals from two pages of one life. It owns covered seconds, flags and gauges over time, not when lives begin."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from monitor.dialects import llamacpp, sglang, vllm_v0, vllm_v1
from monitor.dialects.trust import contradiction, flags_of, torn_slack
from monitor.intervals.differences import subtract
from monitor.intervals.track import Seen
from monitor.model.counts import Counts, Gauges
from monitor.model.interval import GaugeSpan, Interval
from monitor.model.life import Head, Life
from monitor.model.reading import Flag

#: An interval longer than this many scrapes is a gap: counts are kept, no rates are drawn.
GAP_SCRAPES = 3.0
#: Shortest covered time of a life's first interval (seconds), where clocks of two machines disagree.
_MIN_COVERED_SECONDS = 1.0
#: Engines that print a counter only from its first observation on.
_LAZY = frozenset({vllm_v0.DIALECT, sglang.DIALECT})
#: A counter that was not on the page before counts from 0 up to so many, and so many per second since: an engine's
#: first minutes. More is a life's worth, and the page before had lost it.
FIRST_COUNTS, FIRST_COUNTS_PER_SECOND = 2000.0, 1000.0
#: What a page says of its samples holds for intervals that end with it; the other flags are about totals.
_INHERITED = frozenset({Flag.DUPLICATE_SERIES, Flag.QUANTIZED_COUNTERS, Flag.BAD_SAMPLE})
_ROUNDING_RATIO = 1e-5
#: What nearly all intervals have: one object, since Python makes each empty set anew.
_NO_FLAGS: frozenset[Flag] = frozenset()
#: Wall and monotonic clock may differ by this much (seconds) before the wall clock counts as set.
CLOCK_STEP_SECONDS = 1.0
#: Numbers that are worked out from averages on V0 and may fall by themselves.
_ESTIMATED = frozenset({"num_drafts", "num_draft_tokens", "num_accepted_tokens"})


def most_new(seconds: float) -> float:
    """The largest count that an engine can have made in so many seconds, if its counter was not on the page before."""
    return FIRST_COUNTS + FIRST_COUNTS_PER_SECOND * seconds


@dataclass(frozen=True, slots=True)
class Cut:
    """An interval and the numbers that fell in it without a restart."""

    interval: Interval | None
    fallen: tuple[str, ...] = ()


def cut_between(
    life: Life, head: Head, gauges: Gauges | None, seen: Seen, *, scrape_seconds: float | None
) -> Cut:
    """The interval from a life's head to a page of the same life."""
    elapsed = seen.moment.seconds_since(head.at, head.monotonic, head.boot_id)
    if elapsed <= 0:
        return Cut(None)  # clocks cannot tell how long: the next page will count it
    lazy = seen.dialect in _LAZY or not seen.engine.prints_zeros
    # vLLM's Rust front end, whose pages have no start times, prints speculation from the first draft on.
    late = seen.dialect == vllm_v1.DIALECT and not seen.starts.is_known()
    difference = subtract(seen.engine.counts, head.counts, lazy=lazy, late=late, most=most_new(elapsed))
    counts = _believable(_without_moved_setting(difference.counts, head.counts, seen), seen, difference.fallen)
    fallen = [name for name in difference.fallen if not (seen.dialect == vllm_v0.DIALECT and name in _ESTIMATED)]
    is_gap = _is_gap(elapsed, scrape_seconds)
    interval = _interval(
        life,
        head,
        seen,
        counts,
        elapsed=elapsed,
        covered=elapsed,
        gauges=None if is_gap else _over_time(gauges, seen.engine.gauges),
        is_gap=is_gap,
    )
    return Cut(interval, tuple(fallen))


def cut_from_zero(
    life: Life, head: Head, seen: Seen, *, scrape_seconds: float | None, wall_is_known: bool, after_reset: bool
) -> Cut:
    """The first interval of a life born after `head`: all that the page counts happened since.

    `after_reset` says that another life ended in the interval, whose last counts nobody saw.
    """
    elapsed = seen.moment.seconds_since(head.at, head.monotonic, head.boot_id)
    if elapsed <= 0:
        return Cut(None)
    born = seen.starts.latest
    covered = elapsed
    if born is not None and wall_is_known:
        covered = min(elapsed, max(_MIN_COVERED_SECONDS, seen.moment.at.timestamp() - born))
    return Cut(
        _interval(
            life,
            head,
            seen,
            seen.engine.counts,
            elapsed=elapsed,
            covered=covered,
            is_gap=_is_gap(elapsed, scrape_seconds),
            partial=after_reset,
        )
    )


def _is_gap(elapsed: float, scrape_seconds: float | None) -> bool:
    return scrape_seconds is not None and elapsed > GAP_SCRAPES * scrape_seconds


def _interval(
    life: Life,
    head: Head,
    seen: Seen,
    counts: Counts,
    *,
    elapsed: float,
    covered: float,
    is_gap: bool,
    gauges: GaugeSpan | None = None,
    partial: bool = False,
) -> Interval:
    speculation, traffic, latency = counts.speculation, counts.traffic, counts.latency
    return Interval(
        life=life.id,
        server=life.server,
        start=_start(head, seen, elapsed),
        end=seen.moment.at,
        elapsed_seconds=elapsed,
        speculation=speculation,
        speculation_seconds=covered if speculation is not None else 0.0,
        traffic=traffic,
        traffic_seconds=covered if traffic is not None else 0.0,
        latency=latency,
        latency_seconds=covered if latency is not None else 0.0,
        gauges=gauges or GaugeSpan(),
        gauges_seconds=elapsed if gauges is not None else 0.0,
        flags=_flags(counts, seen),
        is_gap=is_gap,
        partial=partial,
    )


def _start(head: Head, seen: Seen, elapsed: float) -> datetime:
    """When the interval began by the wall clock of its end: a clock that was set in between does not stretch it."""
    by_wall = (seen.moment.at - head.at).total_seconds()
    if abs(by_wall - elapsed) <= CLOCK_STEP_SECONDS:
        return head.at
    return seen.moment.at - timedelta(seconds=elapsed)


def _without_moved_setting(counts: Counts, head: Counts, seen: Seen) -> Counts:
    """Draft tokens that were worked out as steps x k hold only while k stands still (SGLang's adaptive mode)."""
    now, before, grown = seen.engine.counts.speculation, head.speculation, counts.speculation
    if seen.dialect != sglang.DIALECT or now is None or before is None or grown is None:
        return counts
    per_step = (now.num_draft_tokens, now.num_drafts), (before.num_draft_tokens, before.num_drafts)
    if all(tokens is not None and drafts is not None for tokens, drafts in per_step) and (
        (now.num_draft_tokens or 0) * (before.num_drafts or 0) == (before.num_draft_tokens or 0) * (now.num_drafts or 0)
    ):
        return counts
    return replace(counts, speculation=replace(grown, num_draft_tokens=None))


def _believable(counts: Counts, seen: Seen, fallen: Sequence[str]) -> Counts:
    """The counts without those of speculation where they were worked out from numbers that do not hold.

    V0's are from averages that lag by a few seconds and may come out impossible; SGLang's from tokens and requests.
    """
    grown = counts.speculation
    if seen.dialect == sglang.DIALECT and not {"generation_tokens", "finished"}.isdisjoint(fallen):
        return replace(counts, speculation=None)
    if seen.dialect != vllm_v0.DIALECT or grown is None:
        return counts
    drafted, accepted = grown.num_draft_tokens, grown.num_accepted_tokens
    is_possible = drafted is not None and accepted is not None and accepted <= drafted
    return counts if is_possible else replace(counts, speculation=None)


def _flags(counts: Counts, seen: Seen) -> frozenset[Flag]:
    flags = set(seen.flags & _INHERITED)
    speculation = counts.speculation
    if speculation is None or seen.dialect == vllm_v0.DIALECT:
        return frozenset(flags) or _NO_FLAGS
    positions = seen.engine.num_speculative_tokens
    at_one_moment = seen.dialect == llamacpp.DIALECT or seen.starts.process is not None
    slack = 2 * torn_slack(seen.engine, at_one_moment) + _rounding(seen)
    flags |= flags_of(speculation, positions, slack)
    # SGLang's setting may have moved in between, and Ray's page shows a lower bound: neither bounds the counts.
    limit = positions if seen.dialect != sglang.DIALECT and seen.engine.prints_zeros else None
    if contradiction(speculation, positions=limit, traffic=counts.traffic, slack=slack) is not None:
        flags.add(Flag.IDENTITIES_BROKEN)
    return frozenset(flags) or _NO_FLAGS


def _rounding(seen: Seen) -> float:
    if Flag.QUANTIZED_COUNTERS not in seen.flags:
        return 0.0
    counts = seen.engine.counts
    known = [counts.traffic.generation_tokens if counts.traffic is not None else None]
    if counts.speculation is not None:
        known += [counts.speculation.num_draft_tokens, counts.speculation.num_drafts]
    return 2 * _ROUNDING_RATIO * max((value for value in known if value is not None), default=0.0)


def _over_time(before: Gauges | None, now: Gauges) -> GaugeSpan:
    """Means and maxima between two looks: the mean of both (a straight line between them is all that is known)."""
    before = before or now

    def mean(get: Callable[[Gauges], float | None]) -> float | None:
        known = [value for value in (get(before), get(now)) if value is not None]
        return sum(known) / len(known) if known else None

    def most(get: Callable[[Gauges], float | None]) -> float | None:
        return max((value for value in (get(before), get(now)) if value is not None), default=None)

    return GaugeSpan(
        running_mean=mean(lambda gauges: gauges.running),
        running_max=most(lambda gauges: gauges.running),
        waiting_mean=mean(lambda gauges: gauges.waiting),
        waiting_max=most(lambda gauges: gauges.waiting),
        kv_usage_mean=mean(lambda gauges: gauges.kv_usage),
        kv_usage_max=most(lambda gauges: gauges.kv_usage),
    )
