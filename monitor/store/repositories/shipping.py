"""The queue of what the fleet's database lacks."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from sqlalchemy import Connection, Table, delete, func, select, tuple_

from monitor.intervals.buckets import STEPS, bucket_end
from monitor.model.server import ServerName
from monitor.store.contract.values import Unshipped
from monitor.store.edges import UnitEdges
from monitor.store.repositories.rollups import SqlRollups
from monitor.store.tables.history import IntervalDetailRow, IntervalRow, RollupRow, UnshippedRow

_INTERVAL: Table = IntervalRow.metadata.tables[IntervalRow.__tablename__]
_SIDE: Table = IntervalRow.metadata.tables[IntervalDetailRow.__tablename__]
_ROW: Table = UnshippedRow.metadata.tables[UnshippedRow.__tablename__]
_INSERT = _ROW.insert()


class SqlUnshipped:
    """What a local store has and the fleet's database has not."""

    def __init__(self, connection: Connection, edges: UnitEdges) -> None:
        self._connection = connection
        self._edges = edges

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

    def void(self, rows: Iterable[Unshipped]) -> None:
        """Take rows away, and the intervals that they name, also out of the rollups."""
        found = list(rows)
        self.remove(found)
        keys = [(row.server, row.life, row.end) for row in found if row.end is not None]
        first: dict[ServerName, datetime] = {}
        for begin in range(0, len(keys), 500):
            of_side, of_interval = (
                tuple_(table.c.server, table.c.life, table.c.end_at).in_(keys[begin : begin + 500])
                for table in (_SIDE, _INTERVAL)
            )
            self._connection.execute(delete(_SIDE).where(of_side))
            gone = delete(_INTERVAL).where(of_interval).returning(_INTERVAL.c.server, _INTERVAL.c.end_at)
            for server, end in self._connection.execute(gone):
                first[server] = min(end, first.get(server, end))
        rollups = SqlRollups(self._connection, self._edges)
        rollups.set_back(first)
        for server, end in first.items():
            for step in STEPS:
                # Added up anew from what is left: a bucket without any would stay.
                at = (RollupRow.server == server, RollupRow.step == step, RollupRow.bucket >= bucket_end(end, step))
                self._connection.execute(delete(RollupRow).where(*at))

    def count(self) -> int:
        """Rows in the queue."""
        return self._connection.execute(select(func.count()).select_from(_ROW)).scalar_one()
