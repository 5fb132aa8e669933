"""Copying everything from one store into another, whichever databases they are in; what is known there stays as it is.

Rows go as they are stored, without becoming values of the model: text stays text, moments change their form with the
database. Numbers that a database gave (of histogram edges, of audit lines) are given anew. Leases are not copied: they
say who works now.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Select, TableClause, Text, column, select, table

from monitor.model.server import ServerName
from monitor.store.columns import Nested, PlainText, Word
from monitor.store.database import Database
from monitor.store.edges import EdgesCache, UnitEdges
from monitor.store.overlaps import without_overlaps
from monitor.store.packing import renumbered
from monitor.store.records import new_rows
from monitor.store.repositories.rollups import SqlRollups
from monitor.store.tables import Base
from monitor.store.tables.acting import LeaseRow, RejectionRow, RestartRow
from monitor.store.tables.history import (
    HistogramEdgesRow,
    IntervalDetailRow,
    IntervalRow,
    RollupProgressRow,
    RollupRow,
)
from monitor.store.tables.telling import AuditRow, NoticeRow

#: Rows in one transaction: between two of them others have their turn.
_CHUNK = 1000
#: Rows that are known by their content alone: the number is all the key they have.
_BY_CONTENT = {row.__tablename__ for row in (AuditRow, RejectionRow, RestartRow)}
_NUMBERED = {*_BY_CONTENT, NoticeRow.__tablename__}
_LEFT_OUT = {row.__tablename__ for row in (LeaseRow, HistogramEdgesRow, IntervalDetailRow)}
#: After the intervals: a copied interval sets rollups that are there back, and not those that are copied with it.
_LAST = [RollupRow.__tablename__, RollupProgressRow.__tablename__]

Told = Callable[[str, int], None]
Row = dict[str, Any]


def copy(source: Database, target: Database, edges: EdgesCache, told: Told) -> dict[str, int]:
    """Copy all rows; how many were new in `target`, by table. `told` hears of each chunk: the table and rows so far.

    Both must have the newest schema. Copying twice adds nothing the second time, and what a life counted in a span of
    time that `target` has in other pieces is not added to it.
    """
    copied: dict[str, int] = {}
    with source.reading() as reading:
        numbers = _copy_edges(reading, target, edges)
        for name in _order():
            seen = copied[name] = 0
            for rows in chunks(reading, _by_key(plain_table(name))):
                seen += len(rows)
                if name == IntervalRow.__tablename__:
                    added = _copy_intervals(reading, target, rows, numbers)
                else:
                    added = _copy_rows(target, name, rows, numbers)
                copied[name] += added
                told(name, seen)
    return copied


def _order() -> list[str]:
    names = [one.name for one in Base.metadata.sorted_tables if one.name not in (*_LEFT_OUT, *_LAST)]
    return [*names, *_LAST]


def plain_table(name: str) -> TableClause:
    """The table with text where the model has nested values and words: nothing is decoded on its way."""
    text = (Nested, Word, PlainText)
    columns = Base.metadata.tables[name].columns
    return table(name, *(column(c.name, Text() if isinstance(c.type, text) else c.type) for c in columns))


def put_rows(database: Database, plain: TableClause, rows: Sequence[Row]) -> None:
    """Write rows in place of those with their keys."""
    if not rows:
        return
    keys = [column.name for column in Base.metadata.tables[plain.name].primary_key]
    with database.writing(durable=True) as connection:
        insert = new_rows(connection.dialect.name, plain)
        rest = {column.name: insert.excluded[column.name] for column in plain.c if column.name not in keys}
        connection.execute(insert.on_conflict_do_update(index_elements=keys, set_=rest), list(rows))


def chunks(reading: Connection, statement: Select[Any]) -> Iterator[list[Row]]:
    """Its rows, some at a time: all of a large table would be gigabytes."""
    result = reading.execution_options(yield_per=_CHUNK).execute(statement)
    for rows in result.mappings().partitions(_CHUNK):
        yield [dict(row) for row in rows]


def _by_key(plain: TableClause) -> Select[Any]:
    return select(plain).order_by(*(plain.c[c.name] for c in Base.metadata.tables[plain.name].primary_key))


def _copy_edges(reading: Connection, target: Database, cache: EdgesCache) -> Mapping[int, int]:
    """The number in the target of each number in the source."""
    rows = reading.execute(select(HistogramEdgesRow.number, HistogramEdgesRow.edges)).all()
    with target.writing(durable=True) as connection:
        edges = UnitEdges(connection, cache)
        numbers = {number: edges.number(tuple(map(float, json.loads(text)))) for number, text in rows}
    edges.keep()
    return numbers


def _copy_rows(target: Database, name: str, rows: Sequence[Row], numbers: Mapping[int, int]) -> int:
    plain = plain_table(name)
    with target.writing(durable=True) as connection:
        if name in _NUMBERED:
            rows = [{key: value for key, value in row.items() if key != "number"} for row in rows]
        if name in _BY_CONTENT:
            rows = _unknown(connection, plain, rows)
        if name == RollupRow.__tablename__:
            rows = without_overlaps(connection, plain, rows, ("step", "server", "life"), "bucket")
            rows = [row | {"body": renumbered(row["body"], numbers)} for row in rows]
        if not rows:
            return 0
        key = "number" if name in _NUMBERED else next(iter(Base.metadata.tables[name].primary_key)).name
        insert = new_rows(connection.dialect.name, plain).on_conflict_do_nothing().returning(plain.c[key])
        return len(connection.execute(insert, rows).all())


def _unknown(connection: Connection, plain: TableClause, rows: Sequence[Row]) -> list[Row]:
    """Rows of which the target has none that is alike. Those in the time of the chunk are few."""
    names = list(rows[0])
    at = plain.c["at"]
    times = [row["at"] for row in rows]
    known = connection.execute(select(*(plain.c[name] for name in names)).where(at >= min(times), at <= max(times)))
    there = {tuple(row) for row in known}
    return [row for row in rows if tuple(row[name] for name in names) not in there]


def _copy_intervals(reading: Connection, target: Database, rows: Sequence[Row], numbers: Mapping[int, int]) -> int:
    """Intervals that are new, with their side rows; rollups that are there already are set back."""
    plain, side = plain_table(IntervalRow.__tablename__), plain_table(IntervalDetailRow.__tablename__)
    first, last = rows[0], rows[-1]
    keys = tuple(side.c[name] for name in ("server", "life", "end_at"))
    # The chunk is one range of the key, and the side rows have the same key.
    beside = reading.execute(
        select(side).where(
            _from(keys, first, at_least=True), _from(keys, last, at_least=False),
        )
    ).mappings()
    bodies = {(row["server"], row["life"], row["end_at"]): row["body"] for row in beside}
    with target.writing(durable=False) as connection:
        rows = without_overlaps(connection, plain, rows, ("server", "life"), "end_at")
        if not rows:
            return 0
        dialect = connection.dialect.name
        insert = new_rows(dialect, plain).on_conflict_do_nothing()
        returning = insert.returning(plain.c.server, plain.c.life, plain.c.end_at)
        new = [tuple(row) for row in connection.execute(returning, list(rows))]
        sides = [
            {"server": server, "life": life, "end_at": end, "body": renumbered(bodies[server, life, end], numbers)}
            for server, life, end in new
            if (server, life, end) in bodies
        ]
        if sides:
            connection.execute(new_rows(dialect, side).on_conflict_do_nothing(), sides)
        earliest: dict[ServerName, datetime] = {}
        for server, _, end in new:
            earliest[server] = min(earliest.get(server, end), end)
        SqlRollups(connection, UnitEdges(connection, EdgesCache())).set_back(earliest)
    return len(new)


def _from(keys: Sequence[Any], row: Row, *, at_least: bool) -> Any:
    """Whether a key is not before (or not after) that of `row`, column by column."""
    server, life, end = keys
    at = (row["server"], row["life"], row["end_at"])
    if at_least:
        return (server > at[0]) | ((server == at[0]) & ((life > at[1]) | ((life == at[1]) & (end >= at[2]))))
    return (server < at[0]) | ((server == at[0]) & ((life < at[1]) | ((life == at[1]) & (end <= at[2]))))
