"""One scrape: fetch, read, difference, store. Life, head, interval and reading go in one transaction, or none of them.

So what is stored equals the server's own counters to the digit, also across our own death: the next page is compared
with the head that was stored, never with one that was only in memory.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Protocol

from monitor.clock import Clock
from monitor.cycle.history import History
from monitor.cycle.settings import KnownSetting, SettingFinder
from monitor.dialects import ServerReader
from monitor.dialects.llamacpp import START_HEADER
from monitor.errors import NotAsked, ScrapeError, StoreError
from monitor.intervals.server import advance
from monitor.intervals.track import Context, EventKind, Step, Track
from monitor.model.counts import Counts
from monitor.model.interval import Interval
from monitor.model.life import LastReading, Life, StartEvidence
from monitor.model.reading import Reading, Verdict
from monitor.model.server import Server, ServerName
from monitor.scrape.client import ACCEPT_PAGE, ServerClient
from monitor.store.pages import Page

log = logging.getLogger(__name__)

NO_COUNTS = Counts()
#: Evidence of a new life that the finder of settings cannot see in the page's start times.
_UNTOLD = frozenset({StartEvidence.COUNTERS_FELL, StartEvidence.SETTING_CHANGED})
#: Unknown names shown in one log line.
_SHOWN_NAMES = 20
#: Unknown names remembered; a server that makes up new ones for every page must not fill memory and log.
_MOST_NAMES = 1_000


class Counters(Protocol):
    """What collecting tells of itself."""

    def scraped(self, server: str, verdict: str, seconds: float) -> None:
        """One scrape ended."""

    def server_up(self, server: str, up: bool, unix_seconds: float) -> None:
        """Whether the last page could be read."""

    def intervals_stored(self, server: str, count: int) -> None:
        """So many intervals were stored."""

    def unknown_series(self, server: str, count: int) -> None:
        """So many names of an engine that no table knows were met for the first time."""


class Listener(Protocol):
    """Who else hears of pages, once they are stored."""

    def noted(self, reading: Reading, lives: Iterable[Life], intervals: Iterable[Interval]) -> None:
        """A page was stored, with the lives and intervals that it brought."""


class NoListener:
    """Nobody."""

    def noted(self, reading: Reading, lives: Iterable[Life], intervals: Iterable[Interval]) -> None:
        """Nothing."""


@dataclass(slots=True)
class _State:
    """What is remembered of one server between pages; touched by one scrape at a time."""

    reader: ServerReader
    track: Track
    last_ok: datetime | None = None
    complaint: str = ""
    tried: bool = False


class Collector:
    """Scrapes servers one at a time each; safe for different servers from different threads."""

    def __init__(
        self,
        servers: Mapping[ServerName, Server],
        clients: Mapping[ServerName, ServerClient],
        keep: Callable[[Page], None],
        history: History,
        *,
        readers: Callable[[ServerName], ServerReader],
        tracks: Mapping[ServerName, Track],
        last_ok: Mapping[ServerName, datetime],
        settings: SettingFinder,
        interval_seconds: float,
        timeout_seconds: float,
        boot_id: str,
        clock: Clock,
        counters: Counters,
        listener: Listener | None = None,
    ) -> None:
        """`keep` stores a page whole, or raises StoreError."""
        self._servers = servers
        self._clients = clients
        self._keep = keep
        self._history = history
        self._settings = settings
        self._interval = interval_seconds
        self._timeout = timeout_seconds
        self._boot_id = boot_id
        self._clock = clock
        self._counters = counters
        self._listener = listener or NoListener()
        self._lock = threading.Lock()
        self._unknown: set[str] = set()
        #: Whether the store refused the newest page that it was given.
        self._unstored = False
        self._states = {
            name: _State(readers(name), tracks.get(name, Track(server=name)), last_ok.get(name)) for name in servers
        }

    def scrape(self, name: ServerName) -> None:
        """Fetch one page of `name` and store what it says; a page that cannot be had is stored as its verdict."""
        began = self._clock.monotonic()
        state, server = self._states[name], self._servers[name]
        state.tried = True
        try:
            reading = self._fetch(state, server)
        except NotAsked as error:
            # Our own lack says nothing about the server: it must not look down, nor its objective missed.
            self._complain(name, state, "not_asked", str(error))
            self._counters.scraped(name, "not_asked", self._clock.monotonic() - began)
            return
        self.bring(name, reading, began=began)

    def read(self, name: ServerName, body: bytes, at: datetime) -> Reading:
        """What a page of `name` says that someone else scraped at that moment."""
        state = self._states[name]
        # Its monotonic clock is the other's wall clock: the only one it has.
        return state.reader.read(body, scraped_at=at, monotonic=at.timestamp(), version=self._settings.version(name))

    def bring(
        self, name: ServerName, reading: Reading, *, began: float | None = None, boot_id: str | None = None,
        scrape_seconds: float | None = None,
    ) -> None:
        """Store what a reading of `name` brings; `boot_id` and `scrape_seconds` where others than ours scraped it."""
        began = self._clock.monotonic() if began is None else began
        state, server = self._states[name], self._servers[name]
        state.tried = True
        step, known = self._advance(state, server, reading, boot_id or self._boot_id, scrape_seconds or self._interval)
        refined = replace(reading, verdict=step.verdict, reason=step.reason, state=step.state, flags=step.flags)
        readable = bool(refined.engines)
        if readable:
            state.last_ok = refined.scraped_at
        try:
            self._keep(_page(step, refined, state.last_ok))
        except StoreError as error:
            # The track stays as stored: the next page's interval then covers this one too, and nothing is lost.
            if not self._unstored:
                log.error("page not stored server=%s (said once for all servers): %s", name, error)
            self._unstored = True
            self._counters.scraped(name, "not_stored", self._clock.monotonic() - began)
            return
        if self._unstored:
            self._unstored = False
            log.info("pages are stored again server=%s", name)
        state.track = step.track
        if known is not None and known.restarted:
            self._settings.restart_seen(name)
        self._report_unknown(name, state.reader.unknown)
        self._history.add(step.lives, step.intervals, refined.scraped_at)
        self._listener.noted(refined, step.lives, step.intervals)
        self._tell(name, state, refined, step)
        self._counters.scraped(name, refined.verdict.value, self._clock.monotonic() - began)
        self._counters.server_up(name, readable, refined.scraped_at.timestamp())
        self._counters.intervals_stored(name, len(step.intervals))

    def bring_past(
        self, name: ServerName, readings: Iterable[Reading], *, boot_id: str, scrape_seconds: float
    ) -> int:
        """Store readings of the past of a server, newer than what is known of it, together; the number of intervals.

        They are history: nobody is told of them, and they are no checks. Raises StoreError; nothing is stored then.
        """
        state = self._states[name]
        track, last_ok, found = state.track, state.last_ok, list[Step]()
        last: Reading | None = None
        for reading in readings:
            found.append(advance(track, reading, boot_id=boot_id, context=Context(scrape_seconds=scrape_seconds)))
            track = found[-1].track
            last = replace(reading, verdict=found[-1].verdict, reason=found[-1].reason, state=found[-1].state)
            if last.engines:
                last_ok = last.scraped_at
        if last is None:
            return 0
        lives = {life.id: life for step in found for life in step.lives}
        heads = {head.life: head for step in found for head in step.heads}
        intervals = tuple(interval for step in found for interval in step.intervals)
        newest = LastReading(_without_counts(last), last_ok)
        self._keep(Page(
            lives=tuple(lives.values()), known=_going_on(track), heads=tuple(heads.values()), intervals=intervals,
            last=newest,
        ))
        state.track, state.last_ok = track, last_ok
        self._history.add(lives.values(), intervals, last.scraped_at)
        self._counters.intervals_stored(name, len(intervals))
        return len(intervals)

    def tried_all(self) -> bool:
        """Whether every server was asked at least once."""
        return all(state.tried for state in self._states.values())

    def last_ok(self, name: ServerName) -> datetime | None:
        """When the server last gave a page with engine metrics; None where it never did."""
        return self._states[name].last_ok

    def last_page(self, name: ServerName) -> bytes:
        """The bytes of the newest answer, for evidence."""
        return self._states[name].reader.last()

    def _fetch(self, state: _State, server: Server) -> Reading:
        try:
            answer = self._clients[server.name].get(
                server.metrics_url, deadline_seconds=self._timeout, accept=ACCEPT_PAGE
            )
        except NotAsked:
            raise
        except ScrapeError as error:
            return Reading(
                server=server.name, scraped_at=self._clock.now(), monotonic=self._clock.monotonic(), dialect="none",
                verdict=Verdict.SCRAPE_ERROR, reason=f"{error.reason}: {error}",
            )
        return state.reader.read(
            answer.body, scraped_at=self._clock.now(), monotonic=self._clock.monotonic(), status=answer.status,
            content_type=answer.content_type or None, version=self._settings.version(server.name),
            start_mark=answer.headers.get(START_HEADER),
        )

    def _advance(
        self, state: _State, server: Server, reading: Reading, boot_id: str, scrape_seconds: float
    ) -> tuple[Step, KnownSetting | None]:
        known = self._settings.of(server, reading)
        step = advance(state.track, reading, boot_id=boot_id, context=_context(known, scrape_seconds))
        if any(life.evidence in _UNTOLD and life.first_seen == reading.scraped_at for life in step.lives):
            # The counters alone told that it is another process: what was known of the last one may be wrong.
            self._settings.forget(server.name)
            known = self._settings.of(server, reading)
            step = advance(state.track, reading, boot_id=boot_id, context=_context(known, scrape_seconds))
        return step, known

    def _tell(self, name: ServerName, state: _State, reading: Reading, step: Step) -> None:
        """Log what changed, once: a failure that repeats is counted, its end is logged."""
        for event in step.events:
            level = logging.WARNING if event.kind is EventKind.NOTED else logging.INFO
            log.log(level, "life event=%s server=%s life=%s: %s", event.kind.value, name, event.life, event.text)
        self._complain(name, state, reading.verdict.value, "" if reading.engines else reading.reason)

    def _complain(self, name: ServerName, state: _State, verdict: str, complaint: str) -> None:
        if complaint and not state.complaint:
            log.warning("page cannot be used server=%s verdict=%s: %s", name, verdict, complaint)
        elif state.complaint and not complaint:
            log.info("page can be read again server=%s", name)
        state.complaint = complaint

    def _report_unknown(self, name: ServerName, names: frozenset[str]) -> None:
        """Names that no table knows: each is logged once, and counted, for all servers together."""
        with self._lock:
            new = names - self._unknown if names and len(self._unknown) < _MOST_NAMES else frozenset()
            self._unknown |= new
        if new:
            shown = ", ".join(sorted(new)[:_SHOWN_NAMES]) + (", ..." if len(new) > _SHOWN_NAMES else "")
            log.warning("series that acceptd does not know server=%s count=%d: %s", name, len(new), shown)
            self._counters.unknown_series(name, len(new))


def _context(known: KnownSetting | None, scrape_seconds: float) -> Context:
    if known is None:
        return Context(scrape_seconds=scrape_seconds)
    return Context(
        scrape_seconds=scrape_seconds, restarted=known.restarted, said=known.said, engine_version=known.engine_version
    )


def _page(step: Step, reading: Reading, last_ok: datetime | None) -> Page:
    return Page(
        lives=step.lives, known=_going_on(step.track), heads=step.heads, intervals=step.intervals,
        last=LastReading(_without_counts(reading), last_ok),
    )


def _going_on(track: Track) -> tuple[Life, ...]:
    return tuple(engine.life for engine in track.engines.values())


def _without_counts(reading: Reading) -> Reading:
    """The reading as it is kept: its counts are in the heads already."""
    engines = tuple(replace(engine, counts=NO_COUNTS, v0=None) for engine in reading.engines)
    return replace(reading, engines=engines)
