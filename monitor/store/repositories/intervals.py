"""Intervals: one row of numbers, one side row of arrays and histograms. This is the path of every scrape."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Select, Table, and_, func, or_, select

from monitor.model.interval import GaugeSpan, Interval
from monitor.model.life import LifeId
from monitor.model.reading import Flag
from monitor.model.server import ServerName
from monitor.store.api import LifeTotals
from monitor.store.edges import UnitEdges
from monitor.store.packing import Unpacked, pack
from monitor.store.records import new_rows
from monitor.store.tables.history import IntervalDetailRow, IntervalRow, LifeRow

_ROW: Table = IntervalRow.metadata.tables[IntervalRow.__tablename__]
_SIDE: Table = IntervalRow.metadata.tables[IntervalDetailRow.__tablename__]
_KEY = (_ROW.c.server, _ROW.c.life, _ROW.c.end_at)
_INSERT = _ROW.insert()
_INSERT_SIDE = _SIDE.insert()
_INSERT_NEW = {
    dialect: new_rows(dialect, _ROW).on_conflict_do_nothing().returning(*_KEY)
    for dialect in ("sqlite", "postgresql")
}
#: A life's ends are asked with so much slack, since they may come from the clock of another machine.
_SLACK = timedelta(days=1)


class SqlIntervals:
    """Differences between heads."""

    def __init__(self, connection: Connection, edges: UnitEdges) -> None:
        self._connection = connection
        self._edges = edges

    def add(self, intervals: Iterable[Interval], *, skip_known: bool = False) -> int:
        """Store intervals; a known (life, end) is refused, or passed over with `skip_known`."""
        found = list(intervals)
        rows = [_values(interval) for interval in found]
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
        return [first[key] for key in stored]

    def between(
        self, servers: Sequence[ServerName] | None, since: datetime, until: datetime, *, details: bool = True
    ) -> list[Interval]:
        """Intervals whose end lies in (since, until], by end."""
        statement = (_WITH_DETAILS if details else _WITHOUT_DETAILS).where(
            IntervalRow.end > since,
            IntervalRow.end <= until,
            or_(LifeRow.ended.is_(None), LifeRow.ended > since - _SLACK),
            LifeRow.first_seen <= until + _SLACK,
        )
        if servers is not None:
            statement = statement.where(LifeRow.server.in_(servers))
        return [_interval(row, self._edges) for row in self._connection.execute(statement)]

    def last_end(self, server: ServerName) -> datetime | None:
        """End of the newest interval of `server`."""
        newest = (
            select(func.max(IntervalRow.end))
            .where(IntervalRow.server == LifeRow.server, IntervalRow.life == LifeRow.id)
            .correlate(LifeRow)
            .scalar_subquery()
        )
        return self._connection.execute(select(func.max(newest)).where(LifeRow.server == server)).scalar()

    def totals(self, life: LifeId) -> LifeTotals:
        """Sums over the stored intervals of one life."""
        server = select(LifeRow.server).where(LifeRow.id == life).scalar_subquery()
        where = (IntervalRow.server == server, IntervalRow.life == life)
        row = self._connection.execute(_TOTALS.where(*where)).one()
        return LifeTotals(**row._mapping)


def _reading(details: bool) -> Select[Any]:
    """Selects the numbers of intervals through their lives, each of which is one range of the key."""
    statement = select(_ROW, *((_SIDE.c.body,) if details else ()))
    statement = statement.join(LifeRow, and_(LifeRow.server == IntervalRow.server, LifeRow.id == IntervalRow.life))
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


def _values(interval: Interval) -> dict[str, Any]:
    """The row of an interval."""
    speculation, traffic, latency, gauges = (
        interval.speculation,
        interval.traffic,
        interval.latency,
        interval.gauges,
    )
    return {
        "server": interval.server,
        "life": interval.life,
        "end_at": interval.end,
        "start_at": interval.start,
        "elapsed_seconds": interval.elapsed_seconds,
        "speculation_seconds": interval.speculation_seconds if speculation else None,
        "num_drafts": speculation.num_drafts if speculation else None,
        "num_draft_tokens": speculation.num_draft_tokens if speculation else None,
        "num_accepted_tokens": speculation.num_accepted_tokens if speculation else None,
        "traffic_seconds": interval.traffic_seconds if traffic else None,
        "generation_tokens": traffic.generation_tokens if traffic else None,
        "prompt_tokens": traffic.prompt_tokens if traffic else None,
        "cached_prompt_tokens": traffic.cached_prompt_tokens if traffic else None,
        "engine_steps": traffic.engine_steps if traffic else None,
        "step_tokens": traffic.step_tokens if traffic else None,
        "rejections": traffic.rejections if traffic else None,
        "preemptions": traffic.preemptions if traffic else None,
        "latency_seconds": interval.latency_seconds if latency else None,
        "gauges_seconds": interval.gauges_seconds,
        "running_mean": gauges.running_mean,
        "running_max": gauges.running_max,
        "waiting_mean": gauges.waiting_mean,
        "waiting_max": gauges.waiting_max,
        "kv_usage_mean": gauges.kv_usage_mean,
        "kv_usage_max": gauges.kv_usage_max,
        "flags": " ".join(sorted(interval.flags)) or None,
        "is_gap": interval.is_gap,
        "partial": interval.partial,
    }


def _interval(row: Any, edges: UnitEdges) -> Interval:
    """The interval of a row: the columns of its table in their order, and its side row where that was asked for."""
    (
        server, life, end, start, elapsed,
        speculation_seconds, drafts, draft_tokens, accepted,
        traffic_seconds, generation, prompt, cached_prompt, steps, step_tokens, rejections, preemptions,
        latency_seconds, gauges_seconds,
        running_mean, running_max, waiting_mean, waiting_max, kv_mean, kv_max,
        flags, is_gap, partial, *side,
    ) = row  # fmt: skip
    unpacked = Unpacked(side[0] if side else None, edges.edges)
    return Interval(
        life=life,
        server=server,
        start=start,
        end=end,
        elapsed_seconds=elapsed,
        speculation=(
            None if speculation_seconds is None else unpacked.speculation(drafts, draft_tokens, accepted)
        ),
        speculation_seconds=speculation_seconds or 0.0,
        traffic=(
            None
            if traffic_seconds is None
            else unpacked.traffic(generation, prompt, cached_prompt, steps, step_tokens, rejections, preemptions)
        ),
        traffic_seconds=traffic_seconds or 0.0,
        latency=None if latency_seconds is None else unpacked.latency(),
        latency_seconds=latency_seconds or 0.0,
        gauges=GaugeSpan(running_mean, running_max, waiting_mean, waiting_max, kv_mean, kv_max),
        gauges_seconds=gauges_seconds,
        flags=frozenset(map(Flag, flags.split())) if flags else frozenset(),
        is_gap=is_gap,
        partial=partial,
    )
