"""Feeds a book of SLOs from the store: what is older is read in coarser steps, so that a start never takes long.

Events add up, so they are read by the hour beyond three days and by five minutes beyond six hours. Time slices do not:
they are read by five minutes throughout, without the histograms where no slice needs them.

Of a large fleet that would be ten minutes of work: there events are read by the day beyond three days, by the hour
beyond one day and by five minutes beyond one hour, and time slices by the hour beyond one day.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from datetime import datetime, timedelta

from monitor.intervals.buckets import STEPS, complete_until
from monitor.model.interval import Interval
from monitor.model.server import Group, ServerName
from monitor.model.slo import SLICED, Indicator
from monitor.slo.book import SloBook
from monitor.store import Store
from monitor.store.api import Unit

#: Ages from which events are read by five minutes and by the hour: where the ledger keeps no finer buckets either.
_COARSE_FROM, _COARSEST_FROM = timedelta(hours=6), timedelta(days=3)
_FIVE_MINUTES, _HOUR, _DAY = STEPS
#: Servers from which a fleet is large, and its ages of five minutes and hours. Days begin where hours do elsewhere.
MANY = 100
_MANY_COARSE_FROM, _MANY_HOURS_FROM = timedelta(hours=1), timedelta(days=1)

_ONE_DAY = timedelta(days=1)
_EVENTS = frozenset(Indicator) - SLICED
#: A stretch of time: after the first moment, up to the second.
Span = tuple[datetime, datetime]


def feed_book(
    book: SloBook, store: Store, groups: Iterable[Group], now: datetime, *,
    goes_on: Callable[[ServerName], bool] = lambda server: True, is_large: bool | None = None,
) -> None:
    """Feed everything that is stored up to `now`, server after server; `goes_on` is asked before each.

    `is_large`: whether they belong to a large fleet; None where the groups are all there is.
    One short transaction a server, so that nothing waits for it. Raises StoreError; what was read by then stays.
    """
    groups = list(groups)
    if is_large is None:
        is_large = sum(len(group.servers) for group in groups) > MANY
    for group in groups:
        for server in group.servers:
            if not goes_on(server):
                return
            with store.read() as unit:
                feed_server(
                    book, unit, server, now, warmup_seconds=group.limits.warmup_seconds, is_large=is_large
                )


def feed_server(
    book: SloBook, unit: Unit, server: ServerName, now: datetime, *, warmup_seconds: float, is_large: bool = False
) -> None:
    """Feed what is stored of one server up to `now`, as far back as the longest period goes."""
    if not book.longest_seconds:
        return
    since = complete_until(now - timedelta(seconds=book.longest_seconds), _HOUR)
    days = max(since, complete_until(now - _COARSEST_FROM, _DAY)) if is_large else since
    coarsest = max(days, complete_until(now - (_MANY_HOURS_FROM if is_large else _COARSEST_FROM), _HOUR))
    coarse = max(since, complete_until(now - (_MANY_COARSE_FROM if is_large else _COARSE_FROM), _FIVE_MINUTES))
    slices = coarsest if is_large else since
    book.learn(unit.lives.of(server, since, now))
    spans = planned_spans(unit, server, since, now, warmup_seconds)

    def feed(intervals: Iterable[Interval], only: Container[Indicator]) -> None:
        for interval in intervals:
            book.add_interval(interval, planned=is_planned(interval, spans), only=only)

    own, found = [server], book.indicators

    def sums(begin: datetime, end: datetime, step: int, *, details: bool = True) -> list[Interval]:
        return unit.intervals.between_coarse(own, begin, end, step, details=details) if begin < end else []

    if any(not one.is_sliced and one is not Indicator.UPTIME for one in found):
        feed(sums(since, days, _DAY), _EVENTS)
        feed(sums(days, coarsest, _HOUR), _EVENTS)
        feed(sums(coarsest, coarse, _FIVE_MINUTES), _EVENTS)
    if any(one.is_sliced for one in found):
        details = Indicator.EFFICIENCY in found
        feed(sums(since, slices, _HOUR, details=details), SLICED)
        feed(sums(slices, coarse, _FIVE_MINUTES, details=details), SLICED)
    if found - {Indicator.UPTIME}:
        feed(unit.intervals.between(own, coarse, now), frozenset(Indicator))
    if Indicator.UPTIME in found:
        found_checks = [
            checks for begun in _days(since, days) for checks in unit.checks.sums(own, begun, begun + _ONE_DAY)
        ]
        newest = complete_until(now, _FIVE_MINUTES) + timedelta(seconds=300)
        for checks in [*found_checks, *unit.checks.between(own, days, newest)]:
            book.add_checks(server, min(checks.end, now), answered=checks.answered, missed=checks.missed)


def _days(since: datetime, until: datetime) -> Iterator[datetime]:
    """Beginnings of the days that end at `until` or a whole number of days before, the first of them before `since`."""
    while until > since:
        until -= _ONE_DAY
        yield until


def planned_spans(
    unit: Unit, server: ServerName, since: datetime, until: datetime, warmup_seconds: float
) -> list[Span]:
    """When a change of ours had the server down or warming, and when it warmed up after anybody's restart.

    Of a change that was undone only the way back is known by then.
    """
    warmup = timedelta(seconds=warmup_seconds)
    spans: list[Span] = []
    for change in unit.changes.of_server(server, since):
        begun = change.stop_asked_at or change.drained_at
        if begun is not None:
            ready = change.ready_at is not None and change.ready_at >= begun
            spans.append((begun, change.ready_at + warmup if ready and change.ready_at else change.entered_at))
    lives = unit.lives.of(server, since, until)
    spans += [(life.first_seen, life.first_seen + warmup) for life in lives if life.counts_from_zero]
    return spans


def is_planned(interval: Interval, spans: Sequence[Span]) -> bool:
    """Whether the middle of the interval lies in one of `spans`, so that a short restart takes no whole hour out."""
    middle = interval.start + (interval.end - interval.start) / 2
    return any(begun < middle <= ended for begun, ended in spans)
