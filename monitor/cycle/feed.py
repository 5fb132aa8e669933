"""Brings pages that a Prometheus-compatible store has scraped to the collector, as if we had scraped them.

One query brings the new samples of up to `_INSTANCES` targets since the last one, however long ago that was (to a
day): a daemon that was down loses nothing of what the store has. What lies further back comes in coarse steps, of a
target met for the first time its past, so that there is advice on the first day.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Protocol

from monitor.clock import Clock
from monitor.errors import MonitorError, ScrapeError
from monitor.model.reading import Reading, Verdict
from monitor.model.server import ServerName
from monitor.scrape.api_pages import UP, TargetPage, target_pages
from monitor.scrape.prometheus_api import PrometheusApi, selector_of

log = logging.getLogger(__name__)

#: Stands in heads for the clock that the store's times come from.
BOOT_ID = "prometheus"
#: Targets asked for in one query: some 5,000 series, a few MB.
_INSTANCES = 50
#: Samples of so long a time in one query, and the furthest back that samples are caught up with.
_WINDOW, _CATCH_UP = timedelta(minutes=30), timedelta(days=1)
#: History is taken over in pieces of this length.
_PAST = timedelta(days=1)
#: A target without a new sample for so many intervals does not answer.
_SILENT_INTERVALS = 4.0
#: Distances between pages that are remembered, to tell the store's own interval.
_REMEMBERED = 20
#: Samples of two targets with one instance that lie nearer than so many intervals are two scrapes of one page.
_APART_INTERVALS = 1.5
#: Days of a target's history in a row that a store does not give before its past is given up.
_REFUSED_DAYS = 2
#: A store's clock that is behind ours by less is not told from a slow answer (its own word is in whole seconds).
_BEHIND = timedelta(seconds=5)


class Pages(Protocol):
    """Who takes the pages: the collector."""

    def read(self, name: ServerName, body: bytes, at: datetime) -> Reading:
        """What a page says."""

    def bring(
        self, name: ServerName, reading: Reading, *, boot_id: str | None = None, scrape_seconds: float | None = None
    ) -> None:
        """Store a reading."""

    def bring_past(
        self, name: ServerName, readings: Iterator[Reading], *, boot_id: str, scrape_seconds: float
    ) -> int:
        """Store readings of the past."""

    def last_ok(self, name: ServerName) -> datetime | None:
        """When its newest page was taken."""


class Feed:
    """The targets of one store; `poll` is called by one thread."""

    def __init__(
        self,
        api: PrometheusApi,
        pages: Pages,
        instances: Mapping[str, ServerName],
        clock: Clock,
        *,
        name: str,
        pattern: str,
        selector: str,
        instance_label: str,
        interval_seconds: float,
        delay_seconds: float,
        backfill_seconds: float,
        step_seconds: float,
        goes_on: Callable[[], bool] = lambda: True,
    ) -> None:
        """`pattern`: names of the series that are read; `instances`: servers by the value of their label."""
        self._api = api
        self._pages = pages
        self._instances = dict(instances)
        self._clock = clock
        self._name = name
        self._pattern = pattern
        self._selector = selector
        self._label = instance_label
        self._interval = interval_seconds
        self._delay = timedelta(seconds=delay_seconds)
        self._backfill = timedelta(seconds=backfill_seconds)
        self._step = max(1, round(step_seconds))
        self._goes_on = goes_on
        self._last: dict[str, datetime] = {}
        self._distances: dict[str, deque[float]] = {}
        #: Lines of each target's newest page.
        self._lines: dict[str, int] = {}
        #: By how much the store's clock is behind ours: its samples have its times.
        self._behind = timedelta()
        #: Why the store could not be asked; empty where it answered.
        self.trouble = ""

    def poll(self) -> None:
        """Bring what is new. A store that does not answer says nothing about its targets: none is called down."""
        try:
            for chunk in _chunks(sorted(self._instances)):
                self._poll(chunk)
        except ScrapeError as error:
            if not self.trouble:
                log.error("pages of a store cannot be had source=%s: %s", self._name, error)
            self.trouble = str(error)
            return
        if self.trouble:
            log.info("store of pages answers again source=%s", self._name)
        self.trouble = ""

    def close(self) -> None:
        """Close its connections."""
        self._api.close()

    def _poll(self, chunk: Sequence[str]) -> None:
        if self._api.said_at is None:
            # Its first word: from when on samples are new is a moment of its clock.
            self._api.newest(selector_of(UP, self._selector, self._label, tuple(chunk)), self._clock.now())
            self._compare_clocks()
        end = self._end()
        for instance in chunk:
            self._begin(instance, end)
            # Whoever comes after us must not meet us still at it: what is left is brought by the next one.
            if not self._goes_on():
                return
        reached = max(min(self._last[instance] for instance in chunk), end - _CATCH_UP)
        # Samples that come late to the store, by an interval or two, are met again and sorted out by their time.
        slack = timedelta(seconds=2 * self._interval)
        while reached < end and self._goes_on():
            until = min(end, reached + _WINDOW)
            selector = selector_of(self._pattern, self._selector, self._label, tuple(chunk))
            found = self._api.raw(selector, until, (until - reached + slack).total_seconds())
            for instance, pages in target_pages(found, self._label, self._apart).items():
                if not self._goes_on():
                    return
                self._take(instance, pages)
            reached = until
        self._compare_clocks()
        for instance in chunk:
            self._note_silence(instance)

    def _end(self) -> datetime:
        """Up to when all samples should have arrived, by the store's clock where it is behind ours."""
        return self._clock.now() - self._behind - self._delay

    def _compare_clocks(self) -> None:
        said = self._api.said_at
        behind = self._clock.now() - said if said is not None else timedelta()
        behind = behind if behind > _BEHIND else timedelta()
        if abs(behind - self._behind) > _BEHIND:
            log.warning("the clock of a store is behind ours source=%s seconds=%.0f: its pages are as much older",
                        self._name, behind.total_seconds())
        self._behind = behind

    def _apart(self, instance: str) -> float:
        return _APART_INTERVALS * self._spacing(instance)

    def _begin(self, instance: str, end: datetime) -> None:
        """Where a target goes on, once its past is brought as far as samples are not caught up with."""
        if instance in self._last:
            return
        server = self._instances[instance]
        known = self._pages.last_ok(server)
        if self._backfill and (known is None or known < end - _CATCH_UP):
            since = end - self._backfill
            step = timedelta(seconds=self._step)
            self._take_past(instance, server, since if known is None else max(since, known + step), end)
            known = self._pages.last_ok(server)
        self._last[instance] = known if known is not None else end - timedelta(seconds=2 * self._interval)

    def _take(self, instance: str, pages: Sequence[TargetPage]) -> None:
        server = self._instances.get(instance)
        if server is None:
            return
        for page in pages:
            at, before = _moment(page.at), self._last[instance]
            if at <= before:
                continue
            if self._is_in_part(instance, page):
                return
            self._last[instance] = at
            # The first page is only where distances are counted from.
            if instance in self._distances:
                self._distances[instance].append((at - before).total_seconds())
            self._distances.setdefault(instance, deque(maxlen=_REMEMBERED))
            reading = self._reading(server, page)
            self._pages.bring(server, reading, boot_id=BOOT_ID, scrape_seconds=self._spacing(instance))

    def _is_in_part(self, instance: str, page: TargetPage) -> bool:
        """Whether a page lacks series that a store behind this one has: it is asked for again, for a while."""
        if page.body is None:
            return False
        lines, waits = page.body.count(b"\n"), self._api.is_partial and not self._is_silent(instance)
        if waits and lines < self._lines.get(instance, 0):
            return True
        self._lines[instance] = lines
        return False

    def _is_silent(self, instance: str) -> bool:
        return (self._end() - self._last[instance]).total_seconds() > _SILENT_INTERVALS * self._spacing(instance)

    def _spacing(self, instance: str) -> float:
        """The store's own scrape interval: the least distance of late; ours until there are a few."""
        found = self._distances.get(instance, ())
        return min(found) if len(found) > 2 else max(self._interval, *found, 0.0)

    def _note_silence(self, instance: str) -> None:
        if not self._is_silent(instance):
            return
        silent = (self._end() - self._last[instance]).total_seconds()
        server, now = self._instances[instance], self._clock.now() - self._behind
        reason = f"no_sample: {self._name} has had no sample of {instance} for {silent:.0f} s"
        reason += ", and answers in part only" if self._api.is_partial else ""
        self._pages.bring(server, _missed(server, now, reason), boot_id=BOOT_ID)

    def _take_past(self, instance: str, server: ServerName, at: datetime, end: datetime) -> None:
        """History in steps, day by day. Raises ScrapeError where the store answers nothing: all is tried again then.

        A day that it does not give is left out, and after some of them what is left.
        """
        brought = refused = 0
        step = timedelta(seconds=self._step)
        while at < end and refused < _REFUSED_DAYS and self._goes_on():
            until = min(end, at + _PAST)
            try:
                brought += self._past_of(instance, server, at, until)
                refused = 0
            except MonitorError as error:
                self._api.newest(selector_of(UP, self._selector, self._label, (instance,)), end)
                log.warning("history not taken over source=%s server=%s from=%s: %s", self._name, server,
                            at.isoformat(timespec="minutes"), error)
                refused += 1
            at = until + step
        log.info("history taken over source=%s server=%s intervals=%d", self._name, server, brought)

    def _past_of(self, instance: str, server: ServerName, at: datetime, until: datetime) -> int:
        selector = selector_of(self._pattern, self._selector, self._label, (instance,))
        found = self._api.steps(selector, at, until, self._step)
        # At steps the samples of all targets have the same times.
        pages = target_pages(found, self._label, lambda instance: self._step / 2)
        # A step without an answer is a hole, not news: what was down then is not down now.
        good = [page for page in pages.get(instance, ()) if page.body is not None]
        readings = (self._reading(server, page) for page in good)
        return self._pages.bring_past(server, readings, boot_id=BOOT_ID, scrape_seconds=self._step)

    def _reading(self, server: ServerName, page: TargetPage) -> Reading:
        at = _moment(page.at)
        if page.body is None:
            return _missed(server, at, f"unreachable: {self._name} could not scrape it")
        return self._pages.read(server, page.body, at)


def _missed(server: ServerName, at: datetime, reason: str) -> Reading:
    return Reading(
        server=server, scraped_at=at, monotonic=at.timestamp(), dialect="none", verdict=Verdict.SCRAPE_ERROR,
        reason=reason,
    )


def _moment(unix_seconds: float) -> datetime:
    return datetime.fromtimestamp(unix_seconds, UTC)


def _chunks(names: Sequence[str]) -> Iterator[Sequence[str]]:
    for begin in range(0, len(names), _INSTANCES):
        yield names[begin : begin + _INSTANCES]
