"""Starts managed servers that are not running when the daemon starts. Later absences are `cycle/revive.py`'s."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Collection
from datetime import datetime

from monitor.actions.fleet import Fleet
from monitor.actions.records import starts_left
from monitor.drivers.protocol import ServerState
from monitor.errors import MonitorError
from monitor.model.record import AuditEntry, Restart
from monitor.model.server import Group, ServerName
from monitor.store import Store

log = logging.getLogger(__name__)

#: Beginning of the token of a start that belongs to no change.
_BOOT = "boot-"


def start_servers(
    store: Store, fleet: Fleet, wanted: Collection[ServerName], group_of: Callable[[ServerName], Group | None],
    now: datetime,
) -> list[ServerName]:
    """Start each of the `wanted` servers that is gone, never one in the hands of a change; which were started."""
    started = []
    with store.read() as unit:
        busy = {change.server for change in unit.changes.active()}
    for name, one in fleet.managed.items():
        if name not in wanted or name in busy or not one.driver.acts:
            continue
        try:
            status = one.driver.status()
            if status.is_gone:
                if _start(store, fleet, name, group_of(name), now):
                    started.append(name)
            else:
                log.info("managed server %s server=%s", status.describe(), name)
        except MonitorError as error:
            log.error("managed server not started server=%s: %s", name, error)
    return started


def patience_seconds(group: Group | None) -> float:
    """How long a server of the group may take to start; 0 for one without a group."""
    return 0.0 if group is None else group.limits.start_seconds + group.limits.first_start_seconds


def still_starting(
    fleet: Fleet, group_of: Callable[[ServerName], Group | None], last_ok: Callable[[ServerName], datetime | None],
    now: datetime,
) -> set[ServerName]:
    """Servers that we started, that run, that have not answered since, and whose time to start is not over.

    Large models load for many minutes; until then an unanswered page is what was to be expected. One whose process went
    away is not starting any more.
    """
    found = set()
    for name, one in fleet.managed.items():
        group, answered = group_of(name), last_ok(name)
        if group is None or not one.driver.acts:
            continue
        try:
            status = one.driver.status()
        except MonitorError:
            continue
        began = status.started_at
        if status.state is not ServerState.RUNNING or began is None or not status.token.startswith(_BOOT):
            continue
        if (answered is None or answered < began) and (now - began).total_seconds() < patience_seconds(group):
            found.add(name)
    return found


def _start(store: Store, fleet: Fleet, name: ServerName, group: Group | None, now: datetime) -> bool:
    """Start one with its last good setting, or with the operator's where that was edited since; counted and written."""
    driver = fleet.managed[name].driver
    launcher = driver.launcher
    with store.write() as unit:
        if group is not None and starts_left(unit, name, group.limits, now) <= 0:
            log.error("managed server not started: its starts of the day are used up server=%s", name)
            return False
        good = unit.last_good.get(name)
        keep = good is not None and good.command_hash == launcher.base_hash
        setting = good.setting if good is not None and keep else launcher.base_setting
        sentence = f"{name} was not running when acceptd started: starting it with {setting.describe()}"
        unit.restarts.add(Restart(name, now, sentence, "begun"))
        unit.audit.add(AuditEntry(now, "acceptd", "server.start", name, sentence))
    log.info("starting managed server server=%s setting=%s", name, setting.describe())
    driver.start(setting, f"{_BOOT}{secrets.token_hex(4)}")
    return True
