"""Intervals added up by buckets of equal length: what rollups and memory hold of older times. It owns no table."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from monitor.intervals.adding import over_time
from monitor.model.interval import Interval
from monitor.model.life import LifeId

#: Lengths of buckets that are kept (seconds), each a multiple of the one before: five minutes is the default window of
#: signals, an hour is what a year can be drawn from, a day (UTC) is kept for ever.
STEPS = (300, 3600, 86_400)
HOUR = STEPS[1]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

#: Which bucket an interval lies in: its life, the bucket's end, and what sets it apart there.
Bucket = tuple[LifeId, datetime, str]


def bucket_end(end: datetime, step: int) -> datetime:
    """End of the bucket (end - step, end] that holds the moment; buckets are counted from 1970 in UTC."""
    length = timedelta(seconds=step)
    return _EPOCH - (_EPOCH - end) // length * length


def complete_until(end: datetime, step: int) -> datetime:
    """The newest end of a bucket that is at or before the moment."""
    length = timedelta(seconds=step)
    return _EPOCH + (end - _EPOCH) // length * length


def by_bucket(intervals: Iterable[Interval], step: int) -> dict[Bucket, Interval]:
    """Intervals of each life and bucket as one.

    Those with flags and partial ones are added apart from the others, since they are left out of some signals and would
    take the whole bucket with them. A gap no longer than the bucket is none in it: a rate over the bucket holds.
    """
    inside = (replace(one, is_gap=False) if one.is_gap and one.elapsed_seconds <= step else one for one in intervals)
    return added(inside, lambda end: bucket_end(end, step))


def added(intervals: Iterable[Interval], end_of: Callable[[datetime], datetime]) -> dict[Bucket, Interval]:
    """Intervals of each life and bucket as one, each in the bucket whose end is `end_of` its own; gaps stay gaps."""
    parts: dict[Bucket, list[Interval]] = {}
    for interval in intervals:
        parts.setdefault((interval.life, end_of(interval.end), _kind(interval)), []).append(interval)
    return {bucket: over_time(found) for bucket, found in parts.items()}


def _kind(interval: Interval) -> str:
    words = [*sorted(interval.flags), *(["gap"] if interval.is_gap else []), *(["partial"] if interval.partial else [])]
    return " ".join(words)
