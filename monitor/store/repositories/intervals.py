"""Intervals: one row of numbers, one side row of arrays and histograms. This is the path of every scrape."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Select, Table, and_, func, select, tuple_

from monitor.errors import StoreError
from monitor.intervals.buckets import HOUR, STEPS, by_bucket
from monitor.intervals.loads import Loads, add_loads, by_load
from monitor.intervals.parts import by_part
from monitor.model.interval import Interval
from monitor.model.life import LifeId
from monitor.model.server import ServerName
from monitor.store.api import LifeTotals
from monitor.store.edges import UnitEdges
from monitor.store.interval_rows import COLUMNS, to_interval, to_row
from monitor.store.packing import pack
from monitor.store.records import new_rows
from monitor.store.repositories.history import lives_between
from monitor.store.repositories.rollups import SqlRollups
from monitor.store.repositories.sums import SqlSums
from monitor.store.tables.history import IntervalDetailRow, IntervalRow, LifeRow

_ROW: Table = IntervalRow.metadata.tables[IntervalRow.__tablename__]
_SIDE: Table = IntervalRow.metadata.tables[IntervalDetailRow.__tablename__]
_KEY = (_ROW.c.server, _ROW.c.life, _ROW.c.end_at)
_INSERT = _ROW.insert()
#: Three parameters a key: far below what both databases take in one statement.
_KEYS_AT_ONCE = 500
_INSERT_SIDE = _SIDE.insert()
_INSERT_NEW = {
    dialect: new_rows(dialect, _ROW).on_conflict_do_nothing().returning(*_KEY)
    for dialect in ("sqlite", "postgresql")
}


class SqlIntervals:
    """Differences between heads."""

    def __init__(self, connection: Connection, edges: UnitEdges) -> None:
        self._connection = connection
        self._edges = edges
        self._rollups = SqlRollups(connection, edges)

    def add(self, intervals: Iterable[Interval], *, skip_known: bool = False) -> int:
        """Store intervals; a known (life, end) is refused, or passed over with `skip_known`."""
        found = list(intervals)
        rows = [to_row(interval) for interval in found]
        if skip_known:
            found = self._insert_new(found, rows)
        elif rows:
            self._connection.execute(_INSERT, rows)
        sides = [
            {"server": interval.server, "life": interval.life, "end_at": interval.end, "body": body}
            for interval in found
            if (body := pack(interval, self._edges.number)) is not None
        ]
        if sides:
            self._connection.execute(_INSERT_SIDE, sides)
        return len(found)

    def _insert_new(self, intervals: list[Interval], rows: list[dict[str, Any]]) -> list[Interval]:
        """Insert the rows whose key is not stored, and give their intervals."""
        if not rows:
            return []
        result = self._connection.execute(_INSERT_NEW[self._connection.dialect.name], rows)
        stored = {(life, end) for _, life, end in result}
        first = {(interval.life, interval.end): interval for interval in reversed(intervals)}
        fresh = [first[key] for key in stored]
        earliest: dict[ServerName, datetime] = {}
        for interval in fresh:
            earliest[interval.server] = min(earliest.get(interval.server, interval.end), interval.end)
        self._rollups.set_back(earliest)
        return fresh

    def between(
        self,
        servers: Sequence[ServerName] | None,
        since: datetime,
        until: datetime,
        *,
        details: bool = True,
        limit: int | None = None,
    ) -> list[Interval]:
        """Intervals whose end lies in (since, until], by end; the first `limit` of them."""
        statement = (_WITH_DETAILS if details else _WITHOUT_DETAILS).where(
            tuple_(IntervalRow.server, IntervalRow.life).in_(lives_between(servers, since, until)),
            IntervalRow.end > since,
            IntervalRow.end <= until,
        )
        rows = self._connection.execute(statement.limit(limit))
        return [to_interval(row, self._edges) for row in rows]

    def of_keys(self, keys: Sequence[tuple[ServerName, LifeId, datetime]]) -> list[Interval]:
        """The intervals with these keys."""
        found: list[Interval] = []
        for begin in range(0, len(keys), _KEYS_AT_ONCE):
            some = tuple_(*_KEY).in_(keys[begin : begin + _KEYS_AT_ONCE])
            found += [to_interval(row, self._edges) for row in self._connection.execute(_WITH_DETAILS.where(some))]
        return sorted(found, key=_by_end)

    def between_coarse(
        self,
        servers: Sequence[ServerName] | None,
        since: datetime,
        until: datetime,
        step_seconds: int,
        *,
        details: bool = True,
    ) -> list[Interval]:
        """Intervals of (since, until] by buckets: from rollups as far as they reach, then from what is newer."""
        if step_seconds not in STEPS:
            raise StoreError(f"no rollups of {step_seconds} s are kept: expected one of {STEPS}")
        found = self._rollups.between(step_seconds, servers, since, until, details=details)
        known = self._servers(since, until) if servers is None else servers
        return sorted([*found, *self._newer(known, since, until, step_seconds, details=details)], key=_by_end)

    def in_parts(
        self, servers: Sequence[ServerName], since: datetime, until: datetime, origin: datetime, length: timedelta
    ) -> list[Interval]:
        """Hours of (since, until] by parts of that length, counted from `origin`, added up by the database."""
        if since >= until:
            return []
        numbers = range(math.floor((since - origin) / length) + 1, math.ceil((until - origin) / length))
        ends = [*(origin + length * number for number in numbers), until]
        found = SqlSums(self._connection, self._edges).in_parts(servers, since, ends)
        newer = self._newer(servers, since, until, HOUR, details=True)
        return sorted([*found, *by_part(newer, origin, length)], key=_by_end)

    def by_load(
        self, servers: Sequence[ServerName], since: datetime, until: datetime, edges: Sequence[float]
    ) -> dict[ServerName, Loads]:
        """Tokens and seconds of hours by their load."""
        found = SqlSums(self._connection, self._edges).by_load(servers, since, until, edges)
        newer = self._newer(servers, since, until, HOUR, details=False)
        return add_loads([found, by_load(newer, edges)])

    def _newer(
        self, servers: Sequence[ServerName], since: datetime, until: datetime, step: int, *, details: bool
    ) -> list[Interval]:
        """Buckets of what is not rolled up yet."""
        found: list[Interval] = []
        for begin, some in self._beyond(step, servers, since, until):
            found += by_bucket(self.parts(some, begin, until, step, details=details), step).values()
        return found

    def parts(
        self, servers: Sequence[ServerName], since: datetime, until: datetime, step: int, *, details: bool
    ) -> list[Interval]:
        """What buckets of that step are added up from: finer rollups as far as they reach, then the intervals."""
        if step == STEPS[0]:
            return self.between(servers, since, until, details=details)
        finer = STEPS[STEPS.index(step) - 1]
        found = self._rollups.between(finer, servers, since, until, details=details)
        for begin, some in self._beyond(finer, servers, since, until):
            found += self.parts(some, begin, until, finer, details=details)
        return found

    def _beyond(
        self, step: int, servers: Sequence[ServerName], since: datetime, until: datetime
    ) -> list[tuple[datetime, list[ServerName]]]:
        """Where the rollups of servers end, with those that end there; without the ones that reach beyond `until`."""
        reached = self._rollups.progress(step, servers)
        found: dict[datetime, list[ServerName]] = {}
        for server in servers:
            found.setdefault(max(since, reached.get(server, since)), []).append(server)
        return [(begin, some) for begin, some in found.items() if begin < until]

    def _servers(self, since: datetime, until: datetime) -> list[ServerName]:
        """Servers that may have intervals then."""
        lives = lives_between(None, since, until).subquery()
        return list(self._connection.execute(select(lives.c.server).distinct()).scalars())

    def last_ends(self) -> dict[ServerName, datetime | None]:
        """End of the newest interval of every server that ever had a life."""
        statement = select(LifeRow.server, _of_lives(func.max)).group_by(LifeRow.server).order_by(LifeRow.server)
        return {server: end for server, end in self._connection.execute(statement)}

    def last_end(self, server: ServerName) -> datetime | None:
        """End of the newest interval of `server`."""
        return self._end(server, func.max)

    def first_end(self, server: ServerName) -> datetime | None:
        """End of the oldest interval of `server`."""
        return self._end(server, func.min)

    def _end(self, server: ServerName, of: Callable[..., Any]) -> datetime | None:
        return self._connection.execute(select(_of_lives(of)).where(LifeRow.server == server)).scalar()

    def totals(self, life: LifeId) -> LifeTotals:
        """Sums over the stored intervals of one life."""
        server = select(LifeRow.server).where(LifeRow.id == life).scalar_subquery()
        where = (IntervalRow.server == server, IntervalRow.life == life)
        row = self._connection.execute(_TOTALS.where(*where)).one()
        return LifeTotals(**row._mapping)


def _reading(details: bool) -> Select[Any]:
    statement = select(*(_ROW.c[name] for name in COLUMNS), *((_SIDE.c.body,) if details else ()))
    if details:
        same = and_(*(_SIDE.c[column.name] == column for column in _KEY))
        statement = statement.join(_SIDE, same, isouter=True)
    return statement.order_by(_ROW.c.end_at, _ROW.c.server, _ROW.c.life)


_WITH_DETAILS = _reading(True)
_WITHOUT_DETAILS = _reading(False)
_TOTALS = select(
    func.count().label("intervals"),
    func.min(_ROW.c.start_at).label("first_start"),
    func.max(_ROW.c.end_at).label("last_end"),
    *(
        func.sum(_ROW.c[name]).label(name)
        for name in ("num_drafts", "num_draft_tokens", "num_accepted_tokens", "generation_tokens", "prompt_tokens")
    ),
)


def _of_lives(of: Callable[..., Any]) -> Any:
    """The first or last end among the lives of a server, each of which is one step into the key."""
    one = select(of(IntervalRow.end)).where(IntervalRow.server == LifeRow.server, IntervalRow.life == LifeRow.id)
    return of(one.correlate(LifeRow).scalar_subquery())


def _by_end(interval: Interval) -> tuple[datetime, str, str]:
    return interval.end, interval.server, interval.life
