"""What an operator asks of a store: how old its rows are, how far rollups are behind."""

from __future__ import annotations

from sqlalchemy import Connection, func, select

from monitor.store.contract.values import Age, Lag
from monitor.store.edges import EdgesCache, UnitEdges
from monitor.store.repositories.intervals import SqlIntervals
from monitor.store.tables import Base
from monitor.store.tables.history import RollupProgressRow

#: Which column tells a row's age, the first that a table has.
_AGE_COLUMNS = (
    "end_at", "bucket", "at", "made_at", "created_at", "scraped_at", "updated_at", "entered_at", "first_seen",
    "active_since", "asked_at", "starts_at", "since_at", "expires_at", "next_attempt_at", "until_at", "last_true",
)  # fmt: skip


def ages(connection: Connection) -> tuple[Age, ...]:
    """Oldest and newest row of each table that has times, by name."""
    found = []
    for table in sorted(Base.metadata.tables.values(), key=lambda it: it.name):
        column = next((table.c[name] for name in _AGE_COLUMNS if name in table.c), None)
        if column is not None:
            oldest, newest = connection.execute(select(func.min(column), func.max(column))).one()
            found.append(Age(table=table.name, oldest=oldest, newest=newest))
    return tuple(found)


def lags(connection: Connection) -> tuple[Lag, ...]:
    """For each step, the server whose rollups are furthest behind its newest interval."""
    intervals = SqlIntervals(connection, UnitEdges(connection, EdgesCache()))
    rows = connection.execute(select(RollupProgressRow.step, RollupProgressRow.server, RollupProgressRow.until)).all()
    newest = intervals.last_ends()
    worst: dict[int, Lag] = {}
    for step, server, until in rows:
        end = newest.get(server)
        if end is None:
            continue
        known = worst.get(step)
        if known is None or end - until > known.newest - known.until:
            worst[step] = Lag(step_seconds=step, server=server, until=until, newest=end)
    return tuple(worst[step] for step in sorted(worst))
