"""The intervals that a report rests on: the more servers, the coarser, so that a fleet's week is read in seconds.

Counts are the same in sums of any length, and what is not rolled up yet is added to them. What moves with time is read
beside them in parts that the database adds up: curves, and how much was generated at which load.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from monitor.intervals.buckets import STEPS, bucket_end, complete_until
from monitor.intervals.loads import Loads, add_loads, by_load
from monitor.model.life import Life, LifeId
from monitor.model.server import ServerName
from monitor.report.history import load_pairs
from monitor.report.weekly import LOAD_EDGES
from monitor.signals.track import Pair
from monitor.store.api import Unit

#: Up to so many servers in the report: the newest two hours as scraped, else by five minutes; all by five minutes; by
#: the hour. Beyond, whole days with hours at the ends of the period: two weeks of a server are some 60 rows then, 336
#: by the hour, 4,032 by five minutes, 80,000 as scraped.
_AS_SCRAPED, _BY_MINUTES, _BY_HOURS = 8, 25, 100
#: Up to so many, what moves over time is read in parts of an hour at most beside the days; beyond, in parts as long as
#: a point of a curve: hours of a thousand servers take five seconds.
_WITH_HOURS = 500
_FIVE_MINUTES, _HOUR, _DAY = STEPS
#: Points of a trend over the period: an hour each in a week; of a large fleet six hours; of a very large one twelve.
TREND_POINTS, LARGE_TREND_POINTS, LARGEST_TREND_POINTS = 168, 28, 14

#: What a report on few servers reads as scraped: the first one of a new daemon has little else.
_YOUNG = timedelta(hours=2)

Pairs = dict[ServerName, list[Pair]]


@dataclass(frozen=True, slots=True)
class Read:
    """What was read of some servers: `pairs` for sums, also of the time before; `fine` for what moves with time.

    They are the same where `pairs` are fine enough; else `fine` is of the period alone and knows no positions.
    `loads` and `loads_before` are tokens and seconds by load (`weekly.LOAD_EDGES`), in the period and before.
    """

    pairs: Pairs
    fine: Pairs
    #: Points of a trend, at most.
    points: int
    loads: Mapping[ServerName, Loads]
    loads_before: Mapping[ServerName, Loads]


def read(
    unit: Unit, servers: Sequence[ServerName], start: datetime, end: datetime, before: timedelta, *, among: int,
    lives: Mapping[LifeId, Life] | None = None,
) -> Read:
    """Intervals of `servers` in the period (start, end] and in `before` it, for a report on `among` servers in all.

    `lives` are those of the whole fleet, where they have been read: one question instead of some for each server.
    """
    if among <= _BY_HOURS:
        few = _few(unit, servers, start, end, before, lives, among)
        spans = (start, end), (start - before, start)
        found_loads = (unit.intervals.by_load(servers, *span, LOAD_EDGES) for span in spans)
        return Read(few, few, TREND_POINTS, *found_loads)
    pairs: Pairs = {}
    loads = []
    # The period and what it is compared with begin and end at their own hours: no day is in both.
    for since, until in ((start, end), (start - before, start)):
        parts = []
        for first, last, step in _days_and_hours(since, until):
            found = load_pairs(unit, servers, first, last, coarse=step, known=lives)
            _add(pairs, found)
            # A day's mean is no load that another day can equal.
            hours = (interval for own in found.values() for _, interval in own)
            parts.append(by_load(hours, LOAD_EDGES) if step == _HOUR
                         else unit.intervals.by_load(servers, first, last, LOAD_EDGES))
        loads.append(add_loads(parts))
    points = LARGE_TREND_POINTS if among <= _WITH_HOURS else LARGEST_TREND_POINTS
    point = (end - start) / points
    part = point / math.ceil(point / timedelta(seconds=_HOUR)) if among <= _WITH_HOURS else point
    return Read(pairs, _in_parts(unit, servers, start, end, pairs, part), points, *loads)


def note(among: int) -> str:
    """What a report on so many servers says of its sums; empty where they are as fine as anybody looks."""
    if among <= _BY_MINUTES:
        return ""
    return f"Made from sums by the {'hour' if among <= _BY_HOURS else 'day'}."


def _few(
    unit: Unit, servers: Sequence[ServerName], start: datetime, end: datetime, before: timedelta,
    lives: Mapping[LifeId, Life] | None, among: int,
) -> Pairs:
    if among > _AS_SCRAPED:
        step = _FIVE_MINUTES if among <= _BY_MINUTES else _HOUR
        return load_pairs(unit, servers, start - before, end, coarse=step, known=lives)
    young = complete_until(end - _YOUNG, _FIVE_MINUTES)
    found = load_pairs(unit, servers, start - before, young, coarse=_FIVE_MINUTES, known=lives)
    _add(found, load_pairs(unit, servers, young, end, known=lives))
    return found


def _in_parts(
    unit: Unit, servers: Sequence[ServerName], start: datetime, end: datetime, pairs: Pairs, part: timedelta
) -> Pairs:
    """The period in parts: whole days as the database adds them up, the hours about them from `pairs`."""
    days = next(((first, last) for first, last, step in _days_and_hours(start, end) if step == _DAY), (end, end))
    lives = {life.id: life for own in pairs.values() for life, _ in own}
    found: Pairs = {
        name: [one for one in own if start < one[1].end <= days[0] or days[1] < one[1].end <= end]
        for name, own in pairs.items()
    }
    for one in unit.intervals.in_parts(servers, *days, start, part):
        if one.life in lives:
            found.setdefault(one.server, []).append((lives[one.life], one))
    # Objectives of time slices want them in order.
    return {name: sorted(own, key=lambda pair: pair[1].end) for name, own in found.items()}


def _add(found: Pairs, more: Pairs) -> None:
    for name, pairs in more.items():
        found.setdefault(name, []).extend(pairs)


def _days_and_hours(since: datetime, until: datetime) -> list[tuple[datetime, datetime, int]]:
    """A period as spans with the length of their sums: hours up to the first day's end, days, hours of the last one."""
    first, last = bucket_end(since, _DAY), complete_until(until, _DAY)
    if first >= last:
        return [(since, until, _HOUR)]
    spans = [(since, first, _HOUR), (first, last, _DAY), (last, until, _HOUR)]
    return [span for span in spans if span[0] < span[1]]
