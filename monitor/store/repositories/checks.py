"""Checks of servers, counted: which were answered and which were not. It owns no meaning of either."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from sqlalchemy import Connection, Integer, Table, cast, func, select

from monitor.model.record import Checks
from monitor.model.server import ServerName
from monitor.store.records import new_rows
from monitor.store.tables.history import ChecksRow

_ROW: Table = ChecksRow.metadata.tables[ChecksRow.__tablename__]


class SqlChecks:
    """Counts by server and bucket."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add(self, checks: Iterable[Checks]) -> None:
        """Add counts to what their buckets hold."""
        # By key, so that two transactions never wait for each other in a circle.
        rows = sorted(checks, key=lambda one: (one.server, one.end))
        insert = new_rows(self._connection.dialect.name, _ROW)
        more = {name: _ROW.c[name] + insert.excluded[name] for name in ("answered", "missed")}
        insert = insert.on_conflict_do_update(index_elements=["server", "end_at"], set_=more)
        for one in rows:
            self._connection.execute(
                insert, {"server": one.server, "end_at": one.end, "answered": one.answered, "missed": one.missed}
            )

    def between(self, servers: Sequence[ServerName] | None, since: datetime, until: datetime) -> list[Checks]:
        """Buckets of (since, until], by end and server."""
        statement = select(_ROW).where(ChecksRow.end > since, ChecksRow.end <= until)
        if servers is not None:
            statement = statement.where(ChecksRow.server.in_(servers))
        rows = self._connection.execute(statement.order_by(_ROW.c.end_at, _ROW.c.server))
        return [Checks(server, end, answered, missed) for server, end, answered, missed in rows]

    def sums(self, servers: Sequence[ServerName], since: datetime, until: datetime) -> list[Checks]:
        """All buckets of (since, until] of each server as one, by server."""
        # PostgreSQL adds integers up to numbers of any size, which Python would see as Decimal.
        counts = [cast(func.sum(column), Integer) for column in (ChecksRow.answered, ChecksRow.missed)]
        statement = (
            select(ChecksRow.server, func.max(ChecksRow.end), *counts)
            .where(ChecksRow.end > since, ChecksRow.end <= until, ChecksRow.server.in_(servers))
            .group_by(ChecksRow.server)
            .order_by(ChecksRow.server)
        )
        return [Checks(server, end, answered, missed) for server, end, answered, missed in
                self._connection.execute(statement)]
