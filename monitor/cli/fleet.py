"""The fleet's database, as commands reach it; and what other hosts watch, beside this host's own. It prints nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from monitor.app.membership import hosts_of
from monitor.cli.context import Context, find_config
from monitor.config.load import load, secret
from monitor.errors import ConfigError, MonitorError, Problem, StoreError
from monitor.model.server import Group
from monitor.report.others import Others, alerts_here, joined, read_others
from monitor.report.trends import hour_trends
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


def _of_daemon(context: Context) -> Path | None:
    try:
        named = context.running().config_file
    except MonitorError:
        return None
    return Path(named) if named else None
