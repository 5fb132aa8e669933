"""Starts managed servers again that went away by themselves, where their group asks for that (`keep_running`).

It only places the order: budget, leases, readiness and giving up are the action machine's, so a server that cannot
start is tried as often as its starts of the day allow and not in a loop.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import datetime

from monitor.actions.fleet import Managed
from monitor.actions.orders import Orders
from monitor.drivers.protocol import DriverStatus, ServerState
from monitor.errors import ActionError, MonitorError
from monitor.model.decision import Reason
from monitor.model.server import Group, ServerName
from monitor.store import Store

log = logging.getLogger(__name__)

#: Refusals that say "not now", or that were said before: not worth a line each evaluation.
_QUIET = frozenset({"active_rollout", "busy", "paused", "budget", "not_coordinator"})


class Reviver:
    """Looks after the managed servers of groups with `keep_running`; called by one thread."""

    def __init__(
        self, store: Store, orders: Orders, groups: Mapping[ServerName, Group], managed: Mapping[ServerName, Managed]
    ) -> None:
        """`groups` by server."""
        self._store = store
        self._orders = orders
        self._managed = {
            name: one
            for name, one in managed.items()
            if one.driver.acts and (group := groups.get(name)) is not None and group.limits.keep_running
        }

    def run(self, now: datetime) -> None:
        """Order the restart of each server that is gone without having been asked to go."""
        if not self._managed:
            return
        with self._store.read() as unit:
            busy = {change.server for change in unit.changes.active()}
        for name, one in self._managed.items():
            if name in busy:
                continue
            try:
                status = one.driver.status()
                if went_away(status):
                    why = f"it {status.describe()}"
                    self._orders.restart(name, why, now, requested_by="keep_running", reason=Reason.SERVER_DOWN)
            except ActionError as error:
                level = logging.DEBUG if error.reason in _QUIET else logging.WARNING
                log.log(level, "server not started again server=%s reason=%s: %s", name, error.reason, error)
            except MonitorError as error:
                log.warning("server cannot be looked at server=%s: %s", name, error)


def went_away(status: DriverStatus) -> bool:
    """Whether a server we started is gone without anybody having asked it to stop."""
    return status.state in (ServerState.EXITED, ServerState.LEFTOVERS) and not status.stop_asked
