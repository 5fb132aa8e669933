"""Keeping rollups up to date: five minutes from what was scraped, an hour from five minutes."""

from __future__ import annotations

from datetime import datetime, timedelta

from sqlalchemy import Connection

from monitor.intervals.buckets import STEPS, bucket_end, by_bucket, complete_until
from monitor.model.server import ServerName
from monitor.store.database import Database
from monitor.store.edges import EdgesCache, UnitEdges
from monitor.store.repositories.intervals import SqlIntervals
from monitor.store.repositories.rollups import SqlRollups

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
    buckets = by_bucket(SqlIntervals(connection, edges).parts([server], begin, until, step, details=True), step)
    rollups.put(step, buckets)
    rollups.set_progress(step, server, until)
    return until, len(buckets)


def _first(connection: Connection, edges: UnitEdges, server: ServerName, step: int) -> datetime | None:
    """Where a step that a server has no rollups of begins: rollups of the finer step may outlive the intervals."""
    first = SqlIntervals(connection, edges).first_end(server)
    if step == STEPS[0]:
        return first
    finer = SqlRollups(connection, edges).first(STEPS[STEPS.index(step) - 1], server)
    return min((end for end in (first, finer) if end is not None), default=None)
