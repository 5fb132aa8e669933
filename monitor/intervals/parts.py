"""Intervals added up over parts of a span, for curves: numbers alone, without arrays and histograms."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta

from monitor.intervals.buckets import added
from monitor.model.counts import Histogram, LatencyCounts
from monitor.model.interval import Interval


def by_part(intervals: Iterable[Interval], since: datetime, length: timedelta) -> list[Interval]:
    """Intervals of each life as one for each part of that length, counted from `since`; set apart as in buckets."""

    def end_of(end: datetime) -> datetime:
        return since + math.ceil((end - since) / length - 1e-9) * length

    return [bare(one) for one in added(intervals, end_of).values()]


def bare(interval: Interval) -> Interval:
    """The interval without arrays, maps and histograms.

    Of the inter-token histogram, whose mean is the time of a step, sum and count are left, in one bucket.
    """
    speculation, traffic, latency = interval.speculation, interval.traffic, interval.latency
    each = latency.inter_token if latency is not None else None
    return replace(
        interval,
        speculation=speculation and replace(speculation, accepted_per_pos=None, drafted_per_pos=None),
        traffic=traffic and replace(traffic, finished={}, http_responses={}, prompt_length=None, output_length=None),
        latency=latency and LatencyCounts(inter_token=each and only_mean(each.total, each.count)),
    )


def only_mean(total: float, count: float) -> Histogram:
    """A histogram that knows sum and number of what was observed, and nothing else."""
    return Histogram((math.inf,), (count,), total, count)
