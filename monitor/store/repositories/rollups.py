"""Rollups: intervals added up by buckets, so that long spans are read in few rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Compiled, Connection, Dialect, Select, Table, and_, func, select, tuple_, update

from monitor.intervals.buckets import STEPS, Bucket, bucket_end
from monitor.model.interval import Interval
from monitor.model.server import ServerName
from monitor.store.edges import UnitEdges
from monitor.store.interval_rows import COLUMNS, to_interval, to_row
from monitor.store.packing import pack
from monitor.store.records import new_rows
from monitor.store.repositories.history import lives_between
from monitor.store.tables.history import RollupProgressRow, RollupRow

_ROW: Table = RollupRow.metadata.tables[RollupRow.__tablename__]
_PUT: dict[str, Compiled] = {}


class SqlRollups:
    """Rows of the table, and up to where they reach."""

    def __init__(self, connection: Connection, edges: UnitEdges) -> None:
        self._connection = connection
        self._edges = edges

    def put(self, step: int, rows: dict[Bucket, Interval]) -> None:
        """Store buckets in place of what they held."""
        values = [
            to_row(interval)
            | {"step": step, "bucket": end, "kind": kind, "body": pack(interval, self._edges.number)}
            for (_, end, kind), interval in rows.items()
        ]
        if values:
            values.sort(key=lambda row: (row["server"], row["life"], row["bucket"], row["kind"]))
            self._connection.execute(_put(self._connection.dialect), values)  # type: ignore[call-overload]

    def between(
        self, step: int, servers: Sequence[ServerName] | None, since: datetime, until: datetime, *, details: bool
    ) -> list[Interval]:
        """Rows whose last interval ended in (since, until], by end."""
        statement = (_WITH_DETAILS if details else _WITHOUT_DETAILS).where(
            RollupRow.step == step,
            tuple_(RollupRow.server, RollupRow.life).in_(lives_between(servers, since, until)),
            RollupRow.bucket > since,
            RollupRow.bucket < until + timedelta(seconds=step),
            RollupRow.end > since,
            RollupRow.end <= until,
        )
        return [to_interval(row, self._edges) for row in self._connection.execute(statement)]

    def first(self, step: int, server: ServerName) -> datetime | None:
        """End of the oldest interval in the rollups of a server."""
        statement = select(func.min(RollupRow.end)).where(RollupRow.step == step, RollupRow.server == server)
        return self._connection.execute(statement).scalar()

    def progress(self, step: int, servers: Sequence[ServerName] | None = None) -> dict[ServerName, datetime]:
        """Up to which end each of the servers is rolled up; of all where that is None."""
        statement = select(RollupProgressRow.server, RollupProgressRow.until).where(RollupProgressRow.step == step)
        if servers is not None:
            statement = statement.where(RollupProgressRow.server.in_(servers))
        return {server: until for server, until in self._connection.execute(statement)}

    def lock(self, step: int, server: ServerName) -> datetime | None:
        """Up to which end a server is rolled up; late intervals wait for the end of this transaction."""
        where = (RollupProgressRow.server == server, RollupProgressRow.step == step)
        statement = select(RollupProgressRow.until).where(*where).with_for_update()
        return self._connection.execute(statement).scalar()

    def set_progress(self, step: int, server: ServerName, until: datetime) -> None:
        """Intervals of `server` up to that end are rolled up now."""
        insert = new_rows(self._connection.dialect.name, RollupProgressRow)
        insert = insert.values(server=server, step=step, until=until)
        self._connection.execute(
            insert.on_conflict_do_update(index_elements=["server", "step"], set_={"until_at": insert.excluded.until_at})
        )

    def set_back(self, first: Mapping[ServerName, datetime]) -> None:
        """Intervals have come in late, each server's first with that end: they are to be rolled up again."""
        for server, end in first.items():
            for step in STEPS:
                before = bucket_end(end, step) - timedelta(seconds=step)
                where = (RollupProgressRow.server == server, RollupProgressRow.step == step)
                late = update(RollupProgressRow).where(*where, RollupProgressRow.until > before)
                self._connection.execute(late.values(until=before))


def _put(dialect: Dialect) -> Compiled:
    known = _PUT.get(dialect.name)
    if known is None:
        insert = new_rows(dialect.name, _ROW)
        key = list(_ROW.primary_key)
        rest = {column.name: insert.excluded[column.name] for column in _ROW.c if column not in key}
        statement = insert.on_conflict_do_update(index_elements=key, set_=rest)
        known = _PUT[dialect.name] = statement.compile(dialect=dialect, column_keys=[column.name for column in _ROW.c])
    return known


def _reading(details: bool) -> Select[Any]:
    columns = [_ROW.c[name] for name in (*COLUMNS, *(("body",) if details else ()))]
    # What lies beyond is being rolled up again, and read from the intervals until then.
    reached = and_(
        RollupProgressRow.server == _ROW.c.server,
        RollupProgressRow.step == _ROW.c.step,
        RollupProgressRow.until >= _ROW.c.bucket,
    )
    statement = select(*columns).join(RollupProgressRow, reached)
    return statement.order_by(_ROW.c.end_at, _ROW.c.server, _ROW.c.life, _ROW.c.kind)


_WITH_DETAILS = _reading(True)
_WITHOUT_DETAILS = _reading(False)
