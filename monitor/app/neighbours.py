"""The rest of the fleet as this host's page shows it: read from the fleet's database, in a thread of its own.

A page never waits for that database longer than a moment: what was read last is shown, with what is wrong where
there is something. Nothing is read while nobody looks.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Collection
from concurrent.futures import Future, wait
from functools import partial
from typing import Any, TypeVar

from monitor.clock import Clock
from monitor.errors import StoreError
from monitor.report.others import Others, read_others
from monitor.store import Store
from monitor.store.api import Unit

log = logging.getLogger(__name__)
Found = TypeVar("Found")

#: The fleet is read again when somebody looks and the last reading is older than this (seconds).
_FRESH_SECONDS = 30.0
#: Curves of a day move by the hour, and cost more than all the rest: they are made anew after so long (seconds).
_TRENDS_SECONDS = 300.0
#: Longest waits of a page (seconds): for the first reading of the fleet, and for one thing that is asked for.
_FIRST_SECONDS, _ASKED_SECONDS = 0.4, 4.0


class Neighbours:
    """Answers for the page of one host. Safe from any thread."""

    def __init__(
        self, shared: Store, host: str, clock: Clock, *, trouble: Callable[[], str],
        present: Callable[[], Collection[str]], read: Callable[[Unit], Others] | None = None,
        first_seconds: float = _FIRST_SECONDS, asked_seconds: float = _ASKED_SECONDS,
    ) -> None:
        """`trouble` is why the database cannot be used, where that is known; `present` are hosts with signs of life.

        `read` is used instead of a reading with the curves of a day.
        """
        self.host = host
        self.present = present
        self._shared = shared
        self._clock = clock
        self._away = trouble
        self._read = read or self._read_with_days
        self._first = first_seconds
        self._asked = asked_seconds
        #: The last reading, and since when (monotonic seconds); why the last try failed.
        self._newest: Others | None = None
        self._tried_at = self._drawn_at = 0.0
        self._failed = ""
        self._reading: Future[Others] | None = None
        #: A question that was not answered in time.
        self._late: Future[Any] | None = None
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._lock = threading.RLock()
        self._thread: threading.Thread | None = None

    def look(self) -> tuple[Others | None, str]:
        """The other hosts as last read, None before the first time; and what is wrong, empty where nothing is."""
        trouble = self._away()
        if trouble:
            return self._newest, f"the fleet's database is away: {trouble}"
        with self._lock:
            reading = self._reading
            is_due = reading is None or self._clock.monotonic() - self._tried_at > _FRESH_SECONDS
            if is_due and (reading is None or reading.done()):
                self._tried_at = self._clock.monotonic()
                reading = self._reading = self._begin(self._read)
                reading.add_done_callback(self._was_read)
        if self._newest is None and reading is not None:
            wait([reading], self._first)
        if self._newest is None and not self._failed:
            return None, "the servers of other hosts are being read"
        return self._newest, self._failed

    def ask(self, find: Callable[[Unit], Found]) -> Found:
        """One thing from the fleet's database. Raises StoreError where it does not come in time."""
        trouble = self._away()
        if trouble:
            raise StoreError(f"the fleet's database is away: {trouble}")
        # One page asks several times: while the first question hangs the others are not even put.
        asked = self._begin(find) if self._late is None or self._late.done() else self._late
        if asked is self._late or not wait([asked], self._asked).done:
            self._late = asked
            raise StoreError("the fleet's database does not answer in time")
        return asked.result()

    def close(self) -> None:
        """End the thread; what it is reading is not waited for."""
        if self._thread is not None:
            self._jobs.put(None)
            self._thread.join(1.0)
            self._thread = None

    def _read_with_days(self, unit: Unit) -> Others:
        moment, newest = self._clock.monotonic(), self._newest
        if newest is not None and moment - self._drawn_at <= _TRENDS_SECONDS:
            return read_others(unit, self.host, self._clock.now(), trends=newest.trends)
        found = read_others(unit, self.host, self._clock.now())
        self._drawn_at = moment
        return found

    def _begin(self, find: Callable[[Unit], Found]) -> Future[Found]:
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="neighbours", daemon=True)
                self._thread.start()
        made: Future[Found] = Future()
        self._jobs.put(partial(self._do, find, made))
        return made

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()

    def _do(self, find: Callable[[Unit], Any], made: Future[Any]) -> None:
        try:
            with self._shared.read() as unit:
                found = find(unit)
        except Exception as error:
            made.set_exception(error)
        else:
            made.set_result(found)

    def _was_read(self, reading: Future[Others]) -> None:
        error = reading.exception()
        if error is None:
            self._newest, self._failed = reading.result(), ""
            return
        if not isinstance(error, StoreError):
            log.error("other hosts cannot be shown", exc_info=error)
        self._failed = f"the servers of other hosts cannot be read: {error}"
