"""Keeps managed servers running where their group says so: one that went away by itself is started again.

It only orders restarts; the machine carries them out. A crash loop is broken by growing rests and the day's budget.
"""

from __future__ import annotations

import logging
from datetime import datetime, timedelta

from monitor.actions.events import RolloutEvent
from monitor.actions.fleet import Fleet, Managed
from monitor.actions.orders import Orders
from monitor.actions.records import DAY
from monitor.actions.step import Timing
from monitor.drivers.protocol import ServerState
from monitor.errors import ActionError
from monitor.model.decision import Reason
from monitor.model.server import Group, ServerName
from monitor.store.api import Store

logger = logging.getLogger(__name__)

#: Rests between starts of a crash loop: doubled with each start of the last day, up to this (seconds).
_MOST_REST = 3600.0


class Keeper:
    """Orders the start of servers that went away. One that was stopped on request stays stopped."""

    def __init__(self, store: Store, fleet: Fleet, orders: Orders, *, timing: Timing | None = None) -> None:
        self._store = store
        self._fleet = fleet
        self._orders = orders
        self._timing = timing or Timing()
        self._said: dict[ServerName, str] = {}

    def tick(self, now: datetime) -> list[RolloutEvent]:
        """Order what is due; what was begun. Nothing is ordered for a server that a change is working on."""
        events: list[RolloutEvent] = []
        with self._store.read() as unit:
            busy = {change.server for change in unit.changes.active()}
        for group in self._fleet.groups.values():
            if not group.limits.keep_running:
                continue
            for name in group.servers:
                managed = self._fleet.managed.get(name)
                if managed is not None and managed.driver.acts and name not in busy:
                    events += self._keep(name, managed, group, now)
        return events

    def _keep(self, name: ServerName, managed: Managed, group: Group, now: datetime) -> list[RolloutEvent]:
        try:
            status = managed.driver.status()
            if status.state not in (ServerState.EXITED, ServerState.LEFTOVERS) or status.stop_asked:
                self._said.pop(name, None)
                return []
            if now < self._rest_until(name, now):
                return []
            why = f"it {status.describe()} by itself (keep_running)"
            _, events = self._orders.restart(
                name, why, now, requested_by="keep_running", reason=Reason.REQUESTED_BY_OPERATOR
            )
        except ActionError as error:
            # Said once, not at every tick: ServerDown pages anyway.
            if self._said.get(name) != error.reason:
                logger.warning("server=%s is down and is not started reason=%s: %s", name, error.reason, error)
            self._said[name] = error.reason
            return []
        return events

    def _rest_until(self, name: ServerName, now: datetime) -> datetime:
        with self._store.read() as unit:
            starts = unit.restarts.since(name, now - DAY)
        if not starts:
            return now
        rest = min(self._timing.backoff_seconds * 2 ** (len(starts) - 1), _MOST_REST)
        return starts[-1].at + timedelta(seconds=rest)
