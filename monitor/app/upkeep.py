"""What keeps the stores in order, by the calendar: rolling up, ending the lives of retired servers, pruning."""

from __future__ import annotations

import logging
from datetime import time

from monitor.app.sharing import Sharing
from monitor.app.watched import end_lives_of_retired
from monitor.clock import Clock
from monitor.config.fleet import kept
from monitor.config.model import Config
from monitor.schedule import Calendar
from monitor.store import Store

log = logging.getLogger(__name__)

#: Time between two turns of rolling up (minutes). What is not rolled up yet is added up by whoever reads it: an hour of
#: a thousand servers takes longer than anybody waits for a report.
ROLL_UP_MINUTES = 5


class Upkeep:
    """Upkeep of the local store, and of the fleet's where this daemon has that role."""

    def __init__(self, config: Config, store: Store, sharing: Sharing | None, clock: Clock) -> None:
        self._config = config
        self._store = store
        self._sharing = sharing
        self._clock = clock

    def put_into(self, calendar: Calendar) -> None:
        """Enter every job."""
        calendar.daily("prune", self.prune, time(3, 19))
        # A backup that holds its locks every night, or a host that is off then, must not keep it away for ever.
        calendar.hourly("pruning that was missed", self.prune_late, 49)
        calendar.hourly("roll up", self.roll_up, 2, every_minutes=ROLL_UP_MINUTES)

    def roll_up(self) -> None:
        """Keep long spans cheap to read: a start and a report read what is rolled up."""
        end_lives_of_retired(self._store, self._clock.now())
        log.debug("rolled up rows=%s", self._store.roll_up(self._clock.now()))
        if self._sharing is not None:
            self._sharing.roll_up()

    def prune(self) -> None:
        """Delete what is past its time."""
        self._prune_local()
        shared = self._config.store.shared
        if self._sharing is not None and shared is not None:
            self._sharing.prune(kept(shared.retention))

    def prune_late(self) -> None:
        """Delete what earlier nights left."""
        now, shared = self._clock.now(), self._config.store.shared
        if self._store.is_overdue(now, kept(self._config.store.retention)):
            self._prune_local()
        if self._sharing is not None and shared is not None:
            self._sharing.prune_late(kept(shared.retention))

    def _prune_local(self) -> None:
        gone = self._store.prune(self._clock.now(), kept(self._config.store.retention))
        log.info("pruned rows=%s", gone)
