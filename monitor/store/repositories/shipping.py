"""The queue of what the fleet's database lacks."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import Connection, Table, delete, func, select

from monitor.model.server import ServerName
from monitor.store.contract.values import Unshipped
from monitor.store.tables.history import UnshippedRow

_ROW: Table = UnshippedRow.metadata.tables[UnshippedRow.__tablename__]
_INSERT = _ROW.insert()


class SqlUnshipped:
    """What a local store has and the fleet's database has not."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add(self, rows: Iterable[Unshipped]) -> None:
        """Put rows at the end."""
        values = [{"server": row.server, "life": row.life, "end_at": row.end} for row in rows]
        if values:
            self._connection.execute(_INSERT, values)

    def waiting(self) -> dict[ServerName, int]:
        """Rows of each server, in the order of their oldest ones."""
        first = func.min(_ROW.c.number)
        statement = select(_ROW.c.server, func.count()).group_by(_ROW.c.server).order_by(first)
        return {server: rows for server, rows in self._connection.execute(statement)}

    def of(self, servers: Iterable[ServerName]) -> list[Unshipped]:
        """All rows of these servers, in order."""
        statement = select(_ROW.c.number, _ROW.c.server, _ROW.c.life, _ROW.c.end_at)
        statement = statement.where(_ROW.c.server.in_(list(servers))).order_by(_ROW.c.number)
        return [Unshipped(*row) for row in self._connection.execute(statement)]

    def remove(self, rows: Iterable[Unshipped]) -> None:
        """Take rows away."""
        numbers = [row.number for row in rows]
        for begin in range(0, len(numbers), 500):
            self._connection.execute(delete(_ROW).where(_ROW.c.number.in_(numbers[begin : begin + 500])))

    def forget(self, servers: Iterable[ServerName]) -> int:
        """Take away all rows of these servers."""
        return self._connection.execute(delete(_ROW).where(_ROW.c.server.in_(list(servers)))).rowcount

    def count(self) -> int:
        """Rows in the queue."""
        return self._connection.execute(select(func.count()).select_from(_ROW)).scalar_one()
