"""The intervals that a report rests on: the more servers, the coarser, so that a fleet's week is read in seconds.

Counts are the same in sums of any length. What is drawn over time, and objectives of time slices, are as fine as hours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from monitor.intervals.buckets import STEPS, bucket_end, complete_until
from monitor.model.life import Life, LifeId
from monitor.model.server import ServerName
from monitor.report.history import load_pairs
from monitor.signals.track import Pair
from monitor.store.api import Unit

#: Up to so many servers in the report: the newest two hours as scraped, else by five minutes; all by five minutes; by
#: the hour. Beyond, whole days with hours at the ends of the period: two weeks of a server are some 50 rows then, 336
#: by the hour, 4,032 by five minutes, 80,000 as scraped.
_AS_SCRAPED, _BY_MINUTES, _BY_HOURS = 8, 25, 100
#: Beyond that what moves over time is read by the day too: hours of a thousand servers take ten seconds.
_WITH_HOURS = 500
_FIVE_MINUTES, _HOUR, _DAY = STEPS
#: Points of a trend: an hour each over a week; six hours; a day.
TREND_POINTS, LARGE_TREND_POINTS, _DAYS = 168, 28, 7

#: What a report on few servers reads as scraped: the first one of a new daemon has little else.
_YOUNG = timedelta(hours=2)

Pairs = dict[ServerName, list[Pair]]


@dataclass(frozen=True, slots=True)
class Read:
    """What was read of some servers: `pairs` for sums; `hours` for what moves over time, where days are too coarse."""

    pairs: Pairs = field(default_factory=dict)
    hours: Pairs | None = None
    #: Points of a trend.
    points: int = TREND_POINTS


def read(
    unit: Unit, servers: Sequence[ServerName], start: datetime, end: datetime, before: timedelta, *, among: int,
    lives: Mapping[LifeId, Life] | None = None,
) -> Read:
    """Intervals of `servers` in the period (start, end] and in `before` it, for a report on `among` servers in all.

    `lives` are those of the whole fleet, where they have been read: one question instead of some for each server.
    """
    newer = among <= _BY_MINUTES
    found = _read(unit, servers, start, end, before, lives, among=among, newer=newer)
    # Of a fleet that has only just begun nothing is rolled up yet.
    return found if newer or found.pairs else _read(unit, servers, start, end, before, lives, among=among, newer=True)


def note(among: int) -> str:
    """What a report on so many servers says of its sums; empty where they are as fine as anybody looks."""
    if among <= _BY_MINUTES:
        return ""
    step = "hour" if among <= _BY_HOURS else "day"
    return f"Made from sums by the {step}, up to the last hour that was rolled up."


def _read(
    unit: Unit, servers: Sequence[ServerName], start: datetime, end: datetime, before: timedelta,
    lives: Mapping[LifeId, Life] | None, *, among: int, newer: bool,
) -> Read:
    found: Pairs = {}
    if among <= _AS_SCRAPED:
        young = complete_until(end - _YOUNG, _FIVE_MINUTES)
        found = load_pairs(unit, servers, start - before, young, coarse=_FIVE_MINUTES, known=lives)
        for name, pairs in load_pairs(unit, servers, young, end, known=lives).items():
            found.setdefault(name, []).extend(pairs)
        return Read(found)
    if among <= _BY_HOURS:
        step = _FIVE_MINUTES if among <= _BY_MINUTES else _HOUR
        return Read(load_pairs(unit, servers, start - before, end, coarse=step, newer=newer, known=lives))
    # The period and what it is compared with begin and end at their own hours: no day is in both.
    for since, until in ((start - before, start), (start, end)):
        for first, last, step in _days_and_hours(since, until):
            for name, pairs in load_pairs(
                unit, servers, first, last, coarse=step, newer=newer, known=lives
            ).items():
                found.setdefault(name, []).extend(pairs)
    if among > _WITH_HOURS:
        return Read(found, {name: [one for one in own if one[1].end > start] for name, own in found.items()}, _DAYS)
    hours = load_pairs(unit, servers, start, end, coarse=_HOUR, details=False, newer=newer, known=lives)
    return Read(found, hours, LARGE_TREND_POINTS)


def _days_and_hours(since: datetime, until: datetime) -> list[tuple[datetime, datetime, int]]:
    """A period as spans with the length of their sums: hours up to the first day's end, days, hours of the last one."""
    first, last = bucket_end(since, _DAY), complete_until(until, _DAY)
    if first >= last:
        return [(since, until, _HOUR)]
    spans = [(since, first, _HOUR), (first, last, _DAY), (last, until, _HOUR)]
    return [span for span in spans if span[0] < span[1]]
