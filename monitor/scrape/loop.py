"""When each server is scraped: a heap on the monotonic clock, two pools of threads, one scrape a server at a time.

A clock that is set back or ahead changes nothing here. Starts are spread over the interval, so that a thousand servers
do not answer in the same moment, but in small bunches: waking up for a few at once costs a third less. A server whose
last scrape took long waits for its answer among its like, in a pool of its own, so that a rack that hangs never holds
up the others. Late, missed and overlapping runs are counted through `Counters`.
"""

from __future__ import annotations

import heapq
import logging
import math
import threading
import zlib
from collections.abc import Callable, Iterable
from typing import Protocol

from monitor.clock import Clock
from monitor.model.server import ServerName
from monitor.scrape.workers import Workers

log = logging.getLogger(__name__)

#: A scrape that starts this much after its time (seconds) counts as late.
LATE_SECONDS = 1.0
#: A scrape that takes more than this share of the interval is slow: healthy servers answer within milliseconds.
SLOW_SHARE = 0.5
#: Starts are put off to the next multiple of this (seconds), or of a quarter of a shorter interval. With 80 servers a
#: second one scrape took 1.6 ms of CPU time in bunches and 2.3 ms one by one (`tests/bench/scrape.py`).
BUNCH_SECONDS = 0.25
#: Share of the workers that slow servers have to themselves.
SLOW_WORKERS_SHARE = 0.25


class Counters(Protocol):
    """What the loop tells of itself."""

    def scrape_late(self, server: str, seconds: float) -> None:
        """A scrape started `seconds` after its time."""

    def scrape_missed(self, server: str, count: int) -> None:
        """So many scrapes were left out, since their time passed while none could start."""

    def scrape_overlapping(self, server: str) -> None:
        """A scrape was due while the one before was still under way."""

    def unexpected_error(self, where: str) -> None:
        """A scrape raised what it should not."""


def first_due(name: ServerName, now: float, interval: float, servers: int) -> float:
    """When a server is scraped first (monotonic seconds): the same one always at the same place among so many.

    The first page of a small fleet is wanted at once; a large one is spread over its interval.
    """
    share = zlib.crc32(name.encode()) / 2**32
    bunch = min(BUNCH_SECONDS, interval / 4)
    return math.ceil((now + share * min(interval, 0.05 * servers)) / bunch) * bunch


class ScrapeLoop:
    """Calls `scrape(server)` for every server each `interval` seconds until stopped."""

    def __init__(
        self,
        scrape: Callable[[ServerName], None],
        *,
        interval: float,
        workers: int,
        clock: Clock,
        counters: Counters,
    ) -> None:
        self._scrape = scrape
        self._interval = interval
        self._pool = Workers(workers, "scrape", self._one)
        self._slow_pool = Workers(max(1, round(SLOW_WORKERS_SHARE * workers)), "scrape-slow", self._one)
        self._clock = clock
        self._counters = counters
        self._heap: list[tuple[float, ServerName]] = []
        #: When each server is due; a heap entry that says otherwise is void (the server left, or left and came back).
        self._due: dict[ServerName, float] = {}
        #: Servers whose scrape waits for a worker or is under way.
        self._running: set[ServerName] = set()
        #: Servers whose last scrape was slow.
        self._slow: set[ServerName] = set()
        self._changed = threading.Condition()
        self._stopping = False
        self._thread: threading.Thread | None = None

    def set_servers(self, names: Iterable[ServerName]) -> None:
        """Scrape these servers from now on; those that stay keep their rhythm."""
        wanted = set(names)
        now = self._clock.monotonic()
        with self._changed:
            for name in wanted - self._due.keys():
                self._plan(name, first_due(name, now, self._interval, len(wanted)))
            for name in self._due.keys() - wanted:
                del self._due[name]
                self._slow.discard(name)
            self._changed.notify()

    def start(self) -> None:
        """Start the loop and its threads. Raises FatalError where the machine gives no more threads."""
        self._stopping = False
        self._pool.start()
        self._slow_pool.start()
        thread = threading.Thread(target=self._run, name="scrape-loop", daemon=True)
        thread.start()
        self._thread = thread

    def stop(self) -> None:
        """Start no more scrapes and wait for those under way (their deadline bounds the wait)."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(timeout=5)
            self._thread = None
        self._pool.stop()
        self._slow_pool.stop()
        self._running.clear()

    def _run(self) -> None:
        while True:
            with self._changed:
                if self._stopping:
                    return
                now = self._clock.monotonic()
                if not self._heap or self._heap[0][0] > now:
                    self._changed.wait(self._heap[0][0] - now if self._heap else None)
                    continue
                due, name = heapq.heappop(self._heap)
                if self._due.get(name) != due:
                    continue
                late = now - due
                missed = int(late // self._interval)
                self._plan(name, due + self._interval * (missed + 1))
                overlapping = name in self._running
                if not overlapping:
                    self._running.add(name)
                    (self._slow_pool if name in self._slow else self._pool).submit(name, due)
            if missed:
                self._counters.scrape_missed(name, missed)
            if overlapping:
                self._counters.scrape_overlapping(name)

    def _plan(self, name: ServerName, due: float) -> None:
        self._due[name] = due
        heapq.heappush(self._heap, (due, name))

    def _one(self, name: ServerName, due: float) -> None:
        began = self._clock.monotonic()
        if began - due > LATE_SECONDS:
            self._counters.scrape_late(name, began - due)
        try:
            self._scrape(name)
        except MemoryError:
            # The next one would fail as well: the thread ends, and with it the daemon, to be started anew.
            raise
        except Exception:
            # One server's surprise must not end the others' scrapes; it is logged whole and counted.
            self._counters.unexpected_error("scrape")
            log.exception("scrape failed unexpectedly server=%s", name)
        with self._changed:
            if self._clock.monotonic() - began > SLOW_SHARE * self._interval:
                self._slow.add(name)
            else:
                self._slow.discard(name)
            self._running.discard(name)
