"""Keeps rows of the fleet's database like those of the local store: small tables that one daemon alone writes.

What was copied last is remembered by its hash, so that a turn costs a read of the local rows and writes what changed.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, TableClause, select

from monitor.errors import StoreError
from monitor.model.server import GroupName, ServerName
from monitor.store.checks_mirror import ChecksMirror
from monitor.store.copying import chunks, plain_table, put_rows
from monitor.store.refusals import StoreAway, StoreBusy
from monitor.store.sql import SqlStore
from monitor.store.tables import Base

log = logging.getLogger(__name__)

#: How far back changed rows are looked for: as long as a shared database may be away without a gap in its records.
_BACK = timedelta(days=35)


class Mirror:
    """What one daemon keeps alike; `servers` and `groups` are those it watches now."""

    def __init__(self, local: SqlStore, shared: SqlStore) -> None:
        self._local = local.database
        self._shared = shared.database
        #: Hashes of the rows that the last turn found, by table and key.
        self._known: dict[str, dict[tuple[Any, ...], int]] = {}
        self._checks = ChecksMirror(self._local, self._shared)

    def turn(self, servers: Sequence[ServerName], groups: Sequence[GroupName], now: datetime) -> int:
        """Copy what changed; the number of rows. Raises StoreError where the database is away."""
        copied = sum(self._copy(*wanted) for wanted in _wanted(servers, groups, now - _BACK))
        return copied + self._checks.turn(servers, now)

    def _copy(self, table: TableClause, where: ColumnElement[bool]) -> int:
        keys = [column.name for column in Base.metadata.tables[table.name].primary_key]
        before, known, copied = self._known.get(table.name, {}), dict[tuple[Any, ...], int](), 0
        with self._local.reading() as reading:
            for rows in chunks(reading, select(table).where(where)):
                found = {tuple(row[name] for name in keys): hash(tuple(row.values())) for row in rows}
                changed = [row for row, key in zip(rows, found, strict=True) if before.get(key) != found[key]]
                self._put(table, changed)
                known |= found
                copied += len(changed)
        self._known[table.name] = known
        return copied

    def bring_back(self, servers: Sequence[ServerName]) -> None:
        """Copy what the fleet's database has learned of these servers here: what is normal for them."""
        table = plain_table("baselines")
        with self._shared.reading() as reading:
            rows = [dict(row) for row in reading.execute(select(table).where(table.c.server.in_(servers))).mappings()]
        put_rows(self._local, table, rows)

    def _put(self, table: TableClause, rows: list[dict[str, Any]]) -> None:
        try:
            put_rows(self._shared, table, rows)
        except (StoreAway, StoreBusy):
            raise
        except StoreError as error:
            # Two hosts that changed one group at once: each has its record, the fleet's database takes one of them.
            log.warning("rows not taken by the fleet's database table=%s rows=%d: %s", table.name, len(rows), error)


def _wanted(
    servers: Sequence[ServerName], groups: Sequence[GroupName], since: datetime
) -> Iterator[tuple[TableClause, ColumnElement[bool]]]:
    """Tables in the order in which they refer to each other, and which rows of them are ours and new enough."""
    by_server = {"readings": "scraped_at", "baselines": "updated_at", "last_good": "at"}
    for name, moment in by_server.items():
        table = plain_table(name)
        yield table, table.c.server.in_(servers) & (table.c[moment] > since)
    for name, moment in {"decisions": "made_at", "rollouts": "created_at"}.items():
        table = plain_table(name)
        yield table, table.c.group_name.in_(groups) & (table.c[moment] > since)
    changes = plain_table("changes")
    yield changes, changes.c.server.in_(servers) & (changes.c.entered_at > since)
    alerts = plain_table("alerts")
    yield alerts, alerts.c.active_since > since
