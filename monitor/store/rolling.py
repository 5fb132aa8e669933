"""Keeping rollups up to date: five minutes from what was scraped, an hour from five minutes."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from sqlalchemy import Connection, Table, select, tuple_

from monitor.intervals.buckets import STEPS, bucket_end, by_bucket, complete_until
from monitor.model.interval import Interval
from monitor.model.life import LifeId
from monitor.model.server import ServerName
from monitor.store.database import Database
from monitor.store.edges import EdgesCache, UnitEdges
from monitor.store.interval_rows import COLUMNS, to_interval
from monitor.store.repositories.history import lives_between
from monitor.store.repositories.intervals import SqlIntervals
from monitor.store.repositories.rollups import SqlRollups
from monitor.store.tables.history import RollupRow

_ROW: Table = RollupRow.metadata.tables[RollupRow.__tablename__]

#: A bucket that began filling is closed after so long, though no later interval says that it is complete: the server
#: is gone. Intervals that come in even later, from another store, set the rollups back.
SETTLED = timedelta(days=1)
#: Rolled up in one transaction, by step (seconds): some 1,400 rows an engine, a tenth of a second.
_SPAN = {300: timedelta(hours=6), 3600: timedelta(days=5), 86_400: timedelta(days=120)}


def roll_up(database: Database, cache: EdgesCache, now: datetime) -> int:
    """Bring the rollups of all servers up to their newest complete buckets; the number of rows written."""
    with database.reading() as connection:
        edges = UnitEdges(connection, cache)
        last = SqlIntervals(connection, edges).last_ends()
        reached = {step: SqlRollups(connection, edges).progress(step) for step in STEPS}
    written = 0
    for server, newest in last.items():
        if newest is None:
            continue
        for step in STEPS:
            end = min(bucket_end(newest, step), complete_until(max(newest, now - SETTLED), step))
            at: datetime | None = reached[step].get(server)
            while at is None or at < end:
                with database.writing(durable=False) as connection:
                    edges = UnitEdges(connection, cache)
                    at, rows = _roll(connection, edges, server, step, end)
                edges.keep()
                written += rows
    return written


def _roll(
    connection: Connection, edges: UnitEdges, server: ServerName, step: int, end: datetime
) -> tuple[datetime, int]:
    """Roll up one span of one server; up to where it is rolled up now, and the rows written."""
    rollups = SqlRollups(connection, edges)
    begin = rollups.lock(step, server)
    if begin is None:
        first = _first(connection, edges, server, step)
        begin = end if first is None else bucket_end(first, step) - timedelta(seconds=step)
    if begin >= end:
        return begin, 0
    until = min(end, begin + _SPAN[step])
    parts = SqlIntervals(connection, edges).parts([server], begin, until, step, details=True)
    buckets = by_bucket(_whole(parts, _held(connection, edges, server, step, begin, until), step), step)
    rollups.put(step, buckets)
    rollups.set_progress(step, server, until)
    return until, len(buckets)


def _held(
    connection: Connection, edges: UnitEdges, server: ServerName, step: int, begin: datetime, until: datetime
) -> list[Interval]:
    """What buckets of (begin, until] hold already: something has come late, or they were set back."""
    statement = select(*(_ROW.c[name] for name in (*COLUMNS, "body"))).where(
        RollupRow.step == step,
        tuple_(RollupRow.server, RollupRow.life).in_(lives_between([server], begin, until)),
        RollupRow.bucket > begin, RollupRow.bucket <= until,
    )  # fmt: skip
    return [to_interval(row, edges) for row in connection.execute(statement)]


def _whole(parts: list[Interval], held: list[Interval], step: int) -> list[Interval]:
    """What buckets are added up from: their parts, or what they held and the parts beyond that.

    A bucket that holds more than its parts do was added up from some that are pruned.
    """
    now, before = _spans(parts, step), _spans(held, step)
    lacking = {
        key: (start, end) for key, (start, end) in before.items()
        if key in now and (start < now[key][0] or end > now[key][1])
    }
    kept = [one for one in held if _key(one, step) in lacking]
    return kept + [one for one in parts if (span := lacking.get(_key(one, step))) is None or _is_beyond(one, *span)]


def _spans(intervals: Iterable[Interval], step: int) -> dict[tuple[LifeId, datetime], tuple[datetime, datetime]]:
    """From when to when the intervals of each life and bucket are."""
    found: dict[tuple[LifeId, datetime], tuple[datetime, datetime]] = {}
    for one in intervals:
        start, end = found.get(_key(one, step), (one.start, one.end))
        found[_key(one, step)] = min(start, one.start), max(end, one.end)
    return found


def _key(interval: Interval, step: int) -> tuple[LifeId, datetime]:
    return interval.life, bucket_end(interval.end, step)


def _is_beyond(interval: Interval, start: datetime, end: datetime) -> bool:
    return interval.end <= start or interval.start >= end


def _first(connection: Connection, edges: UnitEdges, server: ServerName, step: int) -> datetime | None:
    """Where a step that a server has no rollups of begins: rollups of the finer step may outlive the intervals."""
    first = SqlIntervals(connection, edges).first_end(server)
    if step == STEPS[0]:
        return first
    finer = SqlRollups(connection, edges).first(STEPS[STEPS.index(step) - 1], server)
    return min((end for end in (first, finer) if end is not None), default=None)
