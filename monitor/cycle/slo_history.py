"""Feeds a book of SLOs from the store: what is older is read in coarser steps, so that a start never takes long.

Events add up, so they are read by the hour beyond three days and by five minutes beyond six hours. Time slices do not:
they are read by five minutes throughout, without the histograms where no slice needs them.

Of a large fleet that would be ten minutes of work: there events are read by the day beyond three days, by the hour
beyond one day and by five minutes beyond one hour, and time slices by the hour beyond one day.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from monitor.intervals.buckets import STEPS, complete_until
from monitor.model.interval import Interval
from monitor.model.life import CLOCKS_APART, Life
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


@dataclass(frozen=True, slots=True)
class _Ages:
    """Where the steps end that history is read in: all of it lies after `since`, up to `now`.

    Events are read by the day up to `days`, by the hour up to `hours`, by five minutes up to `fives`, then as they are;
    time slices by the hour up to `sliced_hours`.
    """

    since: datetime
    days: datetime
    hours: datetime
    sliced_hours: datetime
    fives: datetime
    now: datetime


def _ages(longest_seconds: float, now: datetime, is_large: bool) -> _Ages:
    since = complete_until(now - timedelta(seconds=longest_seconds), _HOUR)
    days = max(since, complete_until(now - _COARSEST_FROM, _DAY)) if is_large else since
    hours = max(days, complete_until(now - (_MANY_HOURS_FROM if is_large else _COARSEST_FROM), _HOUR))
    fives = max(since, complete_until(now - (_MANY_COARSE_FROM if is_large else _COARSE_FROM), _FIVE_MINUTES))
    return _Ages(since, days, hours, hours if is_large else since, fives, now)


def feed_book(
    book: SloBook, store: Store, groups: Iterable[Group], now: datetime, *,
    goes_on: Callable[[ServerName], bool] = lambda server: True, is_large: bool | None = None,
) -> None:
    """Feed everything that is stored up to `now`, server after server; `goes_on` is asked before each.

    `is_large`: whether they belong to a large fleet; None where the groups are all there is.
    One short transaction a server, so that nothing waits for it. Raises StoreError; what was read by then stays.
    """
    if not book.longest_seconds:
        return
    groups = list(groups)
    if is_large is None:
        is_large = sum(len(group.servers) for group in groups) > MANY
    ages = _ages(book.longest_seconds, now, is_large)
    for group in groups:
        with store.read() as unit:
            _feed_days_of_checks(book, unit, group.servers, ages)
        for server in group.servers:
            if not goes_on(server):
                return
            with store.read() as unit:
                _feed_server(book, unit, server, ages, group.limits.warmup_seconds)


def _feed_days_of_checks(book: SloBook, unit: Unit, servers: Sequence[ServerName], ages: _Ages) -> None:
    """Checks of all servers of a group at once: a day of each is one row."""
    if Indicator.UPTIME in book.indicators:
        for begun in _days(ages.since, ages.days):
            for checks in unit.checks.sums(servers, begun, begun + _ONE_DAY):
                book.add_checks(checks.server, checks.end, answered=checks.answered, missed=checks.missed)


def _feed_server(book: SloBook, unit: Unit, server: ServerName, ages: _Ages, warmup_seconds: float) -> None:
    """Feed the intervals of one server, and its checks that are not read by the day."""
    own, found = [server], book.indicators
    lives = unit.lives.of(server, ages.since - CLOCKS_APART, ages.now + CLOCKS_APART)
    if lives:
        book.learn(lives)
        _feed_intervals(book, unit, own, ages, planned_spans(unit, server, ages.since, lives, warmup_seconds),
                        min(life.first_seen for life in lives) - CLOCKS_APART)  # fmt: skip
    if Indicator.UPTIME in found:
        newest = complete_until(ages.now, _FIVE_MINUTES) + timedelta(seconds=_FIVE_MINUTES)
        for checks in unit.checks.between(own, ages.days, newest):
            book.add_checks(server, min(checks.end, ages.now), answered=checks.answered, missed=checks.missed)


def _feed_intervals(
    book: SloBook, unit: Unit, own: Sequence[ServerName], ages: _Ages, spans: Sequence[Span], first: datetime
) -> None:
    """Feed what its objectives need; nothing is looked for that would be older than `first`."""
    found = book.indicators

    def feed(intervals: Iterable[Interval], only: Container[Indicator]) -> None:
        for interval in intervals:
            book.add_interval(interval, planned=is_planned(interval, spans), only=only)

    def sums(begin: datetime, end: datetime, step: int, *, details: bool = True) -> list[Interval]:
        if max(begin, first) >= end:
            return []
        return unit.intervals.between_coarse(own, begin, end, step, details=details)

    if any(not one.is_sliced and one is not Indicator.UPTIME for one in found):
        feed(sums(ages.since, ages.days, _DAY), _EVENTS)
        feed(sums(ages.days, ages.hours, _HOUR), _EVENTS)
        feed(sums(ages.hours, ages.fives, _FIVE_MINUTES), _EVENTS)
    if any(one.is_sliced for one in found):
        details = Indicator.EFFICIENCY in found
        feed(sums(ages.since, ages.sliced_hours, _HOUR, details=details), SLICED)
        feed(sums(ages.sliced_hours, ages.fives, _FIVE_MINUTES, details=details), SLICED)
    if found - {Indicator.UPTIME}:
        feed(unit.intervals.between(own, ages.fives, ages.now), frozenset(Indicator))


def _days(since: datetime, until: datetime) -> Iterator[datetime]:
    """Beginnings of the days that end at `until` or a whole number of days before, the first of them before `since`."""
    while until > since:
        until -= _ONE_DAY
        yield until


def planned_spans(
    unit: Unit, server: ServerName, since: datetime, lives: Iterable[Life], warmup_seconds: float
) -> list[Span]:
    """When a change of ours had the server down or warming since then, and when one of its lives began and warmed up.

    Of a change that was undone only the way back is known by then.
    """
    warmup = timedelta(seconds=warmup_seconds)
    spans: list[Span] = []
    for change in unit.changes.of_server(server, since):
        begun = change.stop_asked_at or change.drained_at
        if begun is not None:
            ready = change.ready_at is not None and change.ready_at >= begun
            spans.append((begun, change.ready_at + warmup if ready and change.ready_at else change.entered_at))
    spans += [(life.first_seen, life.first_seen + warmup) for life in lives if life.counts_from_zero]
    return spans


def is_planned(interval: Interval, spans: Sequence[Span]) -> bool:
    """Whether the middle of the interval lies in one of `spans`, so that a short restart takes no whole hour out."""
    middle = interval.start + (interval.end - interval.start) / 2
    return any(begun < middle <= ended for begun, ended in spans)
