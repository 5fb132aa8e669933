"""Writes down which servers are watched, which have gone, and ends the lives of those that stay away."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from monitor.intervals.server import ABSENT_SECONDS
from monitor.model.record import AuditEntry, Watched
from monitor.model.server import Group, Mode, Server
from monitor.store import Store

log = logging.getLogger(__name__)

_ALWAYS = timedelta(days=36_500)


def note_watched(store: Store, servers: Sequence[Server], groups: Sequence[Group], host: str, now: datetime) -> None:
    """Store the servers watched from now on; those of this host that are not among them retire. Raises StoreError."""
    modes = {name: group.mode for group in groups for name in group.servers}
    with store.read() as unit:
        known = {one.server: one for one in unit.servers.all(now - _ALWAYS)}
    rows = []
    for server in servers:
        old = known.get(server.name)
        goes_on = old is not None and old.retired_at is None and old.host == host
        rows.append(
            Watched(
                server=server.name, group=server.group, host=host, url=server.base_url, engine=server.engine,
                mode=modes.get(server.name, Mode.OBSERVE), labels=dict(server.labels),
                since=old.since if old is not None and goes_on else now,
            )
        )
    here = {server.name for server in servers}
    gone = [one for one in known.values() if one.host == host and one.retired_at is None and one.server not in here]
    new = [row for row in rows if row.since == now]
    changed = [row for row in rows if known.get(row.server) != row]
    entries = [AuditEntry(now, "acceptd", "server.watched", row.server, f"{row.url} in {row.group}") for row in new]
    entries += [
        AuditEntry(now, "acceptd", "server.retired", one.server, f"{one.url}: no longer configured or found")
        for one in gone
    ]
    if not (changed or gone):
        return
    with store.write() as unit:
        unit.servers.put([*changed, *(replace(one, retired_at=now) for one in gone)])
        for entry in entries:
            unit.audit.add(entry)
    if gone:
        log.info("servers retired count=%d: %s", len(gone), ", ".join(one.server for one in gone[:20]))


def end_lives_of_retired(store: Store, now: datetime) -> int:
    """End the lives of servers that left longer ago than an engine may be absent; how many. Raises StoreError.

    Until then they may come back and go on, counts and all.
    """
    left = now - timedelta(seconds=ABSENT_SECONDS)
    with store.read() as unit:
        retired = [one for one in unit.servers.all(now - _ALWAYS) if one.retired_at and one.retired_at < left]
        ended = [
            replace(life, ended=head.at if (head := unit.heads.get(life.id)) is not None else one.retired_at)
            for one in retired
            for life in unit.lives.open_of(one.server)
        ]
    if ended:
        with store.write() as unit:
            for life in ended:
                unit.lives.update(life)
    return len(ended)
