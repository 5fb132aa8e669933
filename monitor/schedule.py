"""When things run: tickers on the monotonic clock for the loop, APScheduler for what follows the calendar.

A clock set back stops intervals of APScheduler, so nothing that guards a server hangs on it: it knows weeks and nights.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from datetime import time
from typing import Any, Protocol
from zoneinfo import ZoneInfo

from apscheduler.events import EVENT_JOB_ERROR, EVENT_JOB_MAX_INSTANCES, EVENT_JOB_MISSED, JobEvent
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.cron import CronTrigger

from monitor.clock import Clock
from monitor.errors import FatalError

log = logging.getLogger(__name__)

#: A calendar job that was held up (suspend, load) still runs if it is no later than this (seconds): a weekly report an
#: hour late is wanted, and the job itself knows whether its week is already done.
MISFIRE_GRACE_SECONDS = 6 * 3600


class Counters(Protocol):
    """What scheduling tells of itself."""

    def loop_exists(self, name: str) -> None:
        """A loop begins, and may raise what it should not."""

    def job_exists(self, job: str) -> None:
        """A calendar job is planned, and may be missed or raise."""

    def unexpected_error(self, where: str) -> None:
        """A run raised what it should not."""

    def job_missed(self, job: str) -> None:
        """A calendar job was missed or refused."""

    def job_failed(self, job: str) -> None:
        """A calendar job raised."""


def out_of_memory(where: str, error: MemoryError) -> FatalError:
    """What ends a daemon that gets no more memory: a new process begins with little, and nothing stored is lost."""
    made = FatalError(
        f"out of memory in {where}: the daemon ends, to be started anew; raise its limits (MemoryMax, LimitDATA)"
    )
    made.__cause__ = error
    return made


class Ticker:
    """Calls `run` every `interval` seconds in a thread of its own; a long run delays the next, never doubles it."""

    def __init__(
        self,
        name: str,
        run: Callable[[], None],
        interval: float,
        *,
        clock: Clock,
        counters: Counters,
        fatal: Callable[[FatalError], None],
    ) -> None:
        self._name = name
        self._run = run
        self._interval = interval
        self._clock = clock
        self._counters = counters
        self._fatal = fatal
        self._wake = threading.Event()
        self._stopping = False
        self._thread: threading.Thread | None = None
        counters.loop_exists(name)

    def start(self) -> None:
        """Start; the first run is at once."""
        self._stopping = False
        thread = threading.Thread(target=self._loop, name=self._name, daemon=True)
        thread.start()
        self._thread = thread

    def wake(self) -> None:
        """Run now rather than at the next turn."""
        self._wake.set()

    def stop(self, timeout: float = 30.0) -> None:
        """Run no more; waits for a run under way, at most `timeout` seconds."""
        self._stopping = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join(timeout)
            if self._thread.is_alive():
                log.error("run did not end in time loop=%s timeout=%.0fs", self._name, timeout)
            self._thread = None

    def _loop(self) -> None:
        due = self._clock.monotonic()
        while not self._stopping:
            self._wake.clear()
            try:
                self._run()
            except FatalError as error:
                self._fatal(error)
                return
            except MemoryError as error:
                self._fatal(out_of_memory(self._name, error))
                return
            except Exception:
                self._counters.unexpected_error(self._name)
                log.exception("run failed unexpectedly loop=%s", self._name)
            now = self._clock.monotonic()
            # Runs that were asked for in between do not put off the next regular one.
            due = min(max(due + self._interval, now), now + self._interval)
            self._wake.wait(max(0.0, due - now))


class Calendar:
    """Jobs that follow the calendar of a time zone."""

    def __init__(self, counters: Counters) -> None:
        self._counters = counters
        self._scheduler = BackgroundScheduler(
            timezone=ZoneInfo("UTC"),
            job_defaults={"coalesce": True, "max_instances": 1, "misfire_grace_time": MISFIRE_GRACE_SECONDS},
        )
        self._scheduler.add_listener(self._missed, EVENT_JOB_MISSED | EVENT_JOB_MAX_INSTANCES)
        self._scheduler.add_listener(self._failed, EVENT_JOB_ERROR)

    def weekly(self, job: str, run: Callable[[], None], day: str, at: time, zone: str) -> None:
        """Run every week on `day` (mon to sun; numbers are refused, since cron and APScheduler disagree on 0)."""
        trigger = CronTrigger(day_of_week=day, hour=at.hour, minute=at.minute, timezone=ZoneInfo(zone))
        self._add(job, run, trigger)

    def daily(self, job: str, run: Callable[[], None], at: time, zone: str = "UTC") -> None:
        """Run every day."""
        self._add(job, run, CronTrigger(hour=at.hour, minute=at.minute, timezone=ZoneInfo(zone)))

    def hourly(self, job: str, run: Callable[[], None], minute: int, *, every_minutes: int = 60) -> None:
        """Run every hour at that minute, and in its rest again after so many."""
        minutes = ",".join(map(str, range(minute, 60, every_minutes)))
        self._add(job, run, CronTrigger(minute=minutes, timezone=ZoneInfo("UTC")))

    def start(self) -> None:
        """Start the scheduler's thread."""
        self._scheduler.start()

    def stop(self) -> None:
        """Stop; waits for a job under way."""
        if self._scheduler.running:
            self._scheduler.shutdown(wait=True)

    def _add(self, job: str, run: Callable[[], None], trigger: CronTrigger) -> None:
        self._counters.job_exists(job)
        self._scheduler.add_job(run, trigger, id=job)

    def _missed(self, event: JobEvent) -> None:
        self._counters.job_missed(event.job_id)
        log.warning("calendar job missed job=%s", event.job_id)

    def _failed(self, event: Any) -> None:
        self._counters.job_failed(event.job_id)
        log.error("calendar job failed job=%s", event.job_id, exc_info=event.exception)
