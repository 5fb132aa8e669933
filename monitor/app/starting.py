"""Starts managed servers that are not running when the daemon starts. Later absences are `cycle/revive.py`'s."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Collection
from datetime import datetime

from monitor.actions.fleet import Fleet
from monitor.actions.records import starts_left
from monitor.errors import MonitorError
from monitor.model.record import AuditEntry, Restart
from monitor.model.server import Group, ServerName
from monitor.store import Store

log = logging.getLogger(__name__)


def start_servers(
    store: Store, fleet: Fleet, wanted: Collection[ServerName], group_of: Callable[[ServerName], Group | None],
    now: datetime,
) -> None:
    """Start each of the `wanted` servers that is gone; never one in the hands of an unfinished change."""
    with store.read() as unit:
        busy = {change.server for change in unit.changes.active()}
    for name, one in fleet.managed.items():
        if name not in wanted or name in busy or not one.driver.acts:
            continue
        try:
            status = one.driver.status()
            if status.is_gone:
                _start(store, fleet, name, group_of(name), now)
            else:
                log.info("managed server %s server=%s", status.describe(), name)
        except MonitorError as error:
            log.error("managed server not started server=%s: %s", name, error)


def _start(store: Store, fleet: Fleet, name: ServerName, group: Group | None, now: datetime) -> None:
    """Start one with its last good setting, or with the operator's where that was edited since; counted and written."""
    driver = fleet.managed[name].driver
    launcher = driver.launcher
    with store.write() as unit:
        if group is not None and starts_left(unit, name, group.limits, now) <= 0:
            log.error("managed server not started: its starts of the day are used up server=%s", name)
            return
        good = unit.last_good.get(name)
        keep = good is not None and good.command_hash == launcher.base_hash
        setting = good.setting if good is not None and keep else launcher.base_setting
        sentence = f"{name} was not running when acceptd started: starting it with {setting.describe()}"
        unit.restarts.add(Restart(name, now, sentence, "begun"))
        unit.audit.add(AuditEntry(now, "acceptd", "server.start", name, sentence))
    log.info("starting managed server server=%s setting=%s", name, setting.describe())
    driver.start(setting, f"boot-{secrets.token_hex(4)}")
