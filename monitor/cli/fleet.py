"""The fleet's database, as commands reach it; and what other hosts watch, beside this host's own. It prints nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from monitor.app.membership import hosts_of
from monitor.app.neighbours import Neighbours
from monitor.cli.context import Context, find_config
from monitor.clock import Clock
from monitor.config.load import load, secret
from monitor.errors import ConfigError, MonitorError, Problem, StoreError
from monitor.model.server import Group
from monitor.report.others import Others, alerts_elsewhere, alerts_here, joined, read_others
from monitor.report.trends import hour_trends
from monitor.store import Store
from monitor.store.api import Unit
from monitor.store.opening import open_store
from monitor.store.sql import SqlStore

Trends = Mapping[str, Sequence[float | None]]


@contextmanager
def shared_store(context: Context) -> Iterator[SqlStore]:
    """The database that the configuration names; opening does not reach it yet. Raises ConfigError where it names none.

    Without a configuration file of the command's own it is the one that the daemon of the data folder runs with.
    """
    path = find_config(context.config_path) or _of_daemon(context)
    settings = load(path).store.shared
    if settings is None:
        where = str(path or "configuration")
        raise ConfigError([Problem("store.shared", "nothing", "the address of the fleet's database", where)])
    with closing(open_store(settings.url, password=secret(settings, "password"))) as store:
        yield store


def with_fleet(
    context: Context, here: Mapping[str, Any], now: datetime, window: float, *, trends: bool = False
) -> tuple[dict[str, Any], Trends]:
    """`here` with the servers of all hosts, as the page shows them; and the last hour of the others' acceptance.

    Where the database cannot be read, `fleet.trouble` says why and this host's own are what there is.
    """
    host = context.running().host
    with context.reading() as store, store.read() as unit:
        ours = alerts_here(unit)
    others: Others | None = None
    present, trouble = {host}, ""
    hour: Trends = {}
    with shared_store(context) as shared:
        try:
            with shared.read() as unit:
                others, present, hour = read_fleet(unit, host, now, window, trends=trends)
        except StoreError as error:
            trouble = f"the servers of other hosts cannot be read: {error}"
    return joined(dict(here), others, host, present=present, trouble=trouble, ours=ours), hour


def read_fleet(
    unit: Unit, host: str, now: datetime, window: float, *, trends: bool
) -> tuple[Others, set[str], Trends]:
    """What other hosts than `host` watch, the hosts that give signs of life, and the last hour of those servers."""
    others = read_others(unit, host, now, window_seconds=window, trends={})
    present = {host, *(one.name for one in hosts_of(unit, now) if one.silent_since is None)}
    groups = [Group(name=one["name"], servers=tuple(others.members(one["name"]))) for one in others.view["groups"]]
    return others, present, hour_trends(unit, groups, now) if trends else {}


def alerts_of_fleet(
    context: Context, ours: Sequence[Mapping[str, Any]], since: datetime, now: datetime
) -> tuple[list[dict[str, Any]], str]:
    """`ours` and the alerts of all other hosts, each with its host, the oldest first; and why those are missing."""
    host = context.running().host
    found = [{**alert, "host": host} for alert in ours]
    trouble = ""
    with context.reading() as store, store.read() as unit:
        known = alerts_here(unit)
    with shared_store(context) as shared:
        try:
            with shared.read() as unit:
                found += alerts_elsewhere(unit, since, now, known)
        except StoreError as error:
            trouble = f"the alerts of other hosts cannot be read: {error}"
    return sorted(found, key=lambda one: str(one["since"])), trouble


class FleetInSight:
    """The fleet kept current beside this host's own figures, which its database neither delays nor stops."""

    def __init__(self, context: Context, shared: Store, clock: Clock, window: float) -> None:
        self._context = context
        self._clock = clock
        self._window = window
        self._host = context.running().host
        self._present = {self._host}
        self._hour: Trends = {}
        self._near = Neighbours(
            shared, self._host, clock, trouble=lambda: "", present=lambda: self._present, read=self._read
        )

    def join(self, here: Mapping[str, Any]) -> tuple[dict[str, Any], Trends]:
        """As `with_fleet`, with what was read last; it waits for nothing but, for a moment, the first reading."""
        with self._context.reading() as store, store.read() as unit:
            ours = alerts_here(unit)
        others, trouble = self._near.look()
        return joined(dict(here), others, self._host, present=self._present, trouble=trouble, ours=ours), self._hour

    def close(self) -> None:
        """Read no more."""
        self._near.close()

    def _read(self, unit: Unit) -> Others:
        found, self._present, self._hour = read_fleet(
            unit, self._host, self._clock.now(), self._window, trends=True
        )
        return found


@contextmanager
def fleet_in_sight(
    context: Context, clock: Clock, window: float, *, wanted: bool
) -> Iterator[Callable[[Mapping[str, Any]], tuple[dict[str, Any], Trends]]]:
    """What makes of this host's view that of the fleet, for a command that looks again and again.

    Where that is not wanted the view stays as it is. Raises ConfigError where hosts share no database.
    """
    if not wanted:
        yield lambda here: (dict(here), {})
        return
    with shared_store(context) as shared, closing(FleetInSight(context, shared, clock, window)) as fleet:
        yield fleet.join


def _of_daemon(context: Context) -> Path | None:
    try:
        named = context.running().config_file
    except MonitorError:
        return None
    return Path(named) if named else None
