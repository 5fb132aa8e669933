"""Days of intervals as partitions of their own, on PostgreSQL: a day that is too old goes by dropping a table.

What lies outside the days that are there, from a clock that is wrong or an import, goes to the default partition and is
deleted from it like rows anywhere. The chunks of a hypertable of Timescale go like days, but Timescale makes them: rows
deleted one by one would leave them behind, empty, for ever. A table in no parts (SQLite) is left alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from sqlalchemy import Connection, text

from monitor.intervals.buckets import STEPS, complete_until
from monitor.store.tables.history import IntervalDetailRow, IntervalRow

#: Tables in days, by `end_at`. Rollups are a twentieth of them and stay whole.
PARTITIONED = (IntervalRow.__tablename__, IntervalDetailRow.__tablename__)
_DAY = timedelta(days=1)
#: Days made ahead: a job that does not run for a weekend must not send rows to the default partition.
_AHEAD_DAYS = 4
_FORM = "%Y%m%d"

_IS_PARTITIONED = text("SELECT relkind = 'p' FROM pg_class WHERE oid = to_regclass(:name)")
_PARTS = text("SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = to_regclass(:name)")
_HAS_TIMESCALE = text("SELECT to_regclass('timescaledb_information.chunks') IS NOT NULL")
_CHUNKS = text(
    "SELECT format('%I.%I', chunk_schema, chunk_name), range_start, range_end FROM timescaledb_information.chunks"
    " WHERE (hypertable_schema, hypertable_name) = (SELECT nspname, relname FROM pg_class"
    " JOIN pg_namespace ON pg_namespace.oid = relnamespace WHERE pg_class.oid = to_regclass(:name))"
)


@dataclass(frozen=True, slots=True)
class Partition:
    """One part of one table, as a rule a day in UTC: [begin, end)."""

    name: str
    begin: datetime
    end: datetime


def is_partitioned(connection: Connection, table: str) -> bool:
    """Whether the table is in days that are made here."""
    if connection.dialect.name != "postgresql":
        return False
    return bool(connection.execute(_IS_PARTITIONED, {"name": table}).scalar())


def partitions(connection: Connection, table: str) -> list[Partition]:
    """The days of a table that have a partition, or the chunks of a hypertable; oldest first."""
    found: list[Partition] = []
    if is_partitioned(connection, table):
        for (name,) in connection.execute(_PARTS, {"name": table}):
            day = name.rpartition(f"{table}_")[2].strip('"')
            if day.isdecimal():
                begin = datetime.strptime(day, _FORM).replace(tzinfo=UTC)
                found.append(Partition(name, begin, begin + _DAY))
    elif connection.dialect.name == "postgresql" and connection.execute(_HAS_TIMESCALE).scalar():
        found = [Partition(*row) for row in connection.execute(_CHUNKS, {"name": table})]
    return sorted(found, key=lambda one: one.begin)


def make_partitions(connection: Connection, now: datetime) -> list[str]:
    """Make the days from yesterday to some days ahead where they are missing; the names of new ones.

    Rows of such a day that went to the default partition meanwhile are moved.
    """
    today = complete_until(now, 86_400)
    made = []
    for table in PARTITIONED:
        if not is_partitioned(connection, table):
            continue
        known = {one.begin for one in partitions(connection, table)}
        for number in range(-1, _AHEAD_DAYS + 1):
            begin = today + number * _DAY
            if begin not in known:
                made.append(_make(connection, table, begin))
    return made


def _make(connection: Connection, table: str, begin: datetime) -> str:
    name = f"{table}_{begin:{_FORM}}"
    span = {"begin": begin, "end": begin + _DAY}
    # The name is ours and the day a number: nothing of it comes from outside.
    connection.execute(text(f"CREATE TABLE {name} (LIKE {table} INCLUDING ALL)"))
    connection.execute(
        text(
            f"WITH moved AS (DELETE FROM {table}_default WHERE end_at >= :begin AND end_at < :end RETURNING *)"
            f" INSERT INTO {name} SELECT * FROM moved"
        ),
        span,
    )
    first, last = f"{begin:%Y-%m-%d} 00:00:00+00", f"{begin + _DAY:%Y-%m-%d} 00:00:00+00"
    connection.execute(text(f"ALTER TABLE {table} ATTACH PARTITION {name} FOR VALUES FROM ('{first}') TO ('{last}')"))
    return name


def drop_partitions(connection: Connection, before: datetime) -> dict[str, int]:
    """Drop days that end at or before `before` and are rolled up whole; rows (as estimated) by table.

    Both tables of a day go together. A day with rows that are in no rollup yet stays.
    """
    dropped: dict[str, int] = {}
    details = {one.begin: one for one in partitions(connection, IntervalDetailRow.__tablename__)}
    for day in partitions(connection, IntervalRow.__tablename__):
        if day.end > before or not _is_rolled_up(connection, day):
            continue
        both = {IntervalRow.__tablename__: day, IntervalDetailRow.__tablename__: details.get(day.begin)}
        for table, part in both.items():
            if part is not None:
                rows = connection.execute(text(f"SELECT count(*) FROM {part.name}")).scalar_one()
                connection.execute(text(f"DROP TABLE {part.name}"))
                dropped[table] = dropped.get(table, 0) + rows
    return {table: rows for table, rows in dropped.items() if rows}


def _is_rolled_up(connection: Connection, day: Partition) -> bool:
    left = connection.execute(
        text(
            f"SELECT 1 FROM (SELECT server, max(end_at) AS newest FROM {day.name} GROUP BY server) AS day"
            " LEFT JOIN rollup_progress AS done ON done.server = day.server AND done.step = :step"
            " WHERE done.until_at IS NULL OR done.until_at < day.newest LIMIT 1"
        ),
        {"step": STEPS[0]},
    )
    return left.first() is None
