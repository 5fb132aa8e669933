"""Hours added up by the database itself: what is asked of a whole fleet's weeks, which would be read row by row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import (
    JSON,
    ColumnElement,
    Connection,
    Float,
    Select,
    and_,
    case,
    cast,
    func,
    literal,
    select,
    tuple_,
    type_coerce,
)

from monitor.intervals.buckets import HOUR
from monitor.intervals.loads import Loads
from monitor.intervals.parts import only_mean
from monitor.model.counts import LatencyCounts
from monitor.model.interval import Interval
from monitor.model.server import ServerName
from monitor.store.edges import UnitEdges
from monitor.store.interval_rows import COLUMNS, to_interval
from monitor.store.repositories.history import lives_between
from monitor.store.tables.history import RollupProgressRow, RollupRow

_ROW = RollupRow.metadata.tables[RollupRow.__tablename__]
#: The family that a count belongs to, by its seconds: null where a page does not have the family.
_FAMILIES = {
    "speculation_seconds": ("num_drafts", "num_draft_tokens", "num_accepted_tokens"),
    "traffic_seconds": (
        "generation_tokens", "prompt_tokens", "cached_prompt_tokens", "engine_steps", "step_tokens", "preemptions",
    ),
    "latency_seconds": ("inter_token_total", "inter_token_count"),
}  # fmt: skip
#: Where `monitor.store.packing` has sum and count of the inter-token histogram.
_INTER_TOKEN = {"inter_token_total": 1, "inter_token_count": 2}


class SqlSums:
    """Sums over the rollups of an hour, as far as these reach."""

    def __init__(self, connection: Connection, edges: UnitEdges) -> None:
        self._connection = connection
        self._edges = edges

    def in_parts(
        self, servers: Sequence[ServerName], since: datetime, ends: Sequence[datetime]
    ) -> list[Interval]:
        """Hours of each life after `since` as one for each part that ends so; those that are gaps apart."""
        earlier = [(_ROW.c.end_at <= end, number) for number, end in enumerate(ends[:-1])]
        part = case(*earlier, else_=len(earlier)) if earlier else literal(0)
        read = _hours(servers, since, ends[-1]).add_columns(
            part.label("part"), self._side()["i"].label("inter_token")
        )
        if self._connection.dialect.name == "postgresql":
            # Kept apart: merged into the sums, each row's text would be parsed for every use of what is in it.
            read = read.offset(0)
        rows_of = read.subquery()
        inner = (rows_of.c.inter_token[place].as_float().label(name) for name, place in _INTER_TOKEN.items())
        hours = select(rows_of, *inner).subquery()
        keys = [hours.c[name] for name in ("server", "life", "part", "flags", "is_gap", "partial")]
        sums = [_added(hours.c, name).label(f"sum_{name}") for name in COLUMNS]
        more = [_exact(hours.c, name, "latency_seconds") for name in _INTER_TOKEN]
        rows = self._connection.execute(select(*more, *sums).group_by(*keys))
        return [_with_inter_token(to_interval(rest, self._edges), total, count) for total, count, *rest in rows]

    def by_load(
        self, servers: Sequence[ServerName], since: datetime, until: datetime, edges: Sequence[float]
    ) -> dict[ServerName, Loads]:
        """Tokens and seconds of the hours of each server by where the mean of running requests lies between `edges`."""
        place = case(*((_ROW.c.running_mean < edge, number) for number, edge in enumerate(edges)), else_=len(edges))
        hours = _hours(servers, since, until).add_columns(place.label("place")).where(
            ~_ROW.c.is_gap, ~_ROW.c.partial, _ROW.c.running_mean.is_not(None), _ROW.c.generation_tokens.is_not(None),
            _ROW.c.traffic_seconds > 0,
        ).subquery()  # fmt: skip
        sums = func.sum(hours.c.generation_tokens), func.sum(hours.c.traffic_seconds)
        found: dict[ServerName, Loads] = {}
        for server, number, tokens, seconds in self._connection.execute(
            select(hours.c.server, hours.c.place, *sums).group_by(hours.c.server, hours.c.place)
        ):
            found.setdefault(server, {})[number] = (tokens, seconds)
        return found

    def _side(self) -> ColumnElement[Any]:
        """The side text as a tree."""
        body: ColumnElement[Any] = _ROW.c.body
        # SQLite reads JSON out of a text as it is; a cast there would make a number of it.
        return cast(body, JSON) if self._connection.dialect.name == "postgresql" else type_coerce(body, JSON)


def _hours(servers: Sequence[ServerName], since: datetime, until: datetime) -> Select[Any]:
    reached = and_(
        RollupProgressRow.server == _ROW.c.server,
        RollupProgressRow.step == _ROW.c.step,
        RollupProgressRow.until >= _ROW.c.bucket,
    )
    return select(*(_ROW.c[name] for name in COLUMNS)).join(RollupProgressRow, reached).where(
        _ROW.c.step == HOUR,
        tuple_(_ROW.c.server, _ROW.c.life).in_(lives_between(servers, since, until)),
        _ROW.c.bucket > since,
        _ROW.c.bucket < until + timedelta(seconds=HOUR),
        _ROW.c.end_at > since,
        _ROW.c.end_at <= until,
    )  # fmt: skip


def _added(columns: Any, name: str) -> ColumnElement[Any]:
    """One column of a sum, by the rules of `monitor.intervals.adding.over_time`."""
    column = columns[name]
    family = next((seconds for seconds, counts in _FAMILIES.items() if name in counts), None)
    if family is not None:
        return _exact(columns, name, family)
    if name in ("server", "life", "flags", "is_gap", "partial"):
        return column  # type: ignore[no-any-return]
    if name == "start_at":
        return func.min(column)
    if name == "end_at" or name.endswith("_max"):
        return func.max(column)
    if name.endswith("_mean"):
        weight = case((and_(column.is_not(None), columns.gauges_seconds > 0), columns.gauges_seconds))
        return func.sum(column * weight) / func.nullif(func.sum(weight), literal(0.0, Float))
    return func.sum(column)


def _exact(columns: Any, name: str, family: str) -> ColumnElement[Any]:
    """Unknown in one hour that has the family is unknown in the sum."""
    return case((func.count(columns[name]) == func.count(columns[family]), func.sum(columns[name])))


def _with_inter_token(interval: Interval, total: float | None, count: float | None) -> Interval:
    if interval.latency is None or total is None or count is None:
        return interval
    return replace(interval, latency=LatencyCounts(inter_token=only_mean(total, count)))
