"""Deleting what is too old, table by table, in transactions short enough to scrape between them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, delete, exists, func, not_, or_, select
from sqlalchemy.orm import aliased

from monitor.intervals.buckets import STEPS
from monitor.model.alert import AlertState
from monitor.model.decision import Action, DecisionState
from monitor.model.life import LifeId
from monitor.model.notice import DeliveryState
from monitor.model.record import BENCHMARK
from monitor.model.server import ServerName
from monitor.store.api import Retention
from monitor.store.database import Database
from monitor.store.partitions import drop_partitions, make_partitions, partitions
from monitor.store.refusals import StoreBusy
from monitor.store.tables.acting import BaselineRow, DecisionRow, RejectionRow, RestartRow
from monitor.store.tables.asking import CommandRow, PauseRow, SilenceRow
from monitor.store.tables.base import Base
from monitor.store.tables.history import (
    ChecksRow,
    HeadRow,
    IntervalDetailRow,
    IntervalRow,
    LifeRow,
    ReadingRow,
    RollupProgressRow,
    RollupRow,
    WatchedRow,
)
from monitor.store.tables.telling import AlertRow, AuditRow, DeliveryRow, EvidenceRow, NoticeRow

#: The head of a life that ended is kept so long (days), for people who ask why it ended.
_ENDED_HEADS_DAYS = 1.0
_OPEN_DECISIONS = (DecisionState.AWAITING_APPROVAL, DecisionState.APPROVED)

Old = tuple[type[Base], ColumnElement[bool]]


#: Days go whole, and once a day: what is older than its time by more was left by a night.
OVERDUE = timedelta(days=2, hours=2)


def is_overdue(database: Database, now: datetime, keep: Retention) -> bool:
    """Whether intervals are here that earlier nights should have deleted: it was locked, away or off then."""
    return bool(_lives_with_old_intervals(database, now - timedelta(hours=keep.raw_hours) - OVERDUE))


def prune(database: Database, now: datetime, keep: Retention) -> dict[str, int]:
    """Delete what is older than `keep` allows; the number of rows deleted by table, only tables with some.

    Intervals that are not rolled up yet stay, however old. Raises StoreBusy where a dump keeps days from being made and
    dropped, once all else is done.
    """
    cut = now - timedelta(hours=keep.raw_hours)
    deleted: dict[str, int] = {}
    busy: StoreBusy | None = None
    try:
        with database.writing(durable=True) as connection:
            make_partitions(connection, now)
            deleted |= drop_partitions(connection, cut)
    except StoreBusy as error:
        busy = error
    with database.reading() as connection:
        # The days that stay go whole, some hours later; row by row goes what is older than all of them.
        cut = min([cut, *(day.begin for day in partitions(connection, IntervalRow.__tablename__))])
    for server, life, rolled_until in _lives_with_old_intervals(database, cut):
        until = min(cut, rolled_until + timedelta(microseconds=1))
        with database.writing(durable=False) as connection:
            for part in (IntervalDetailRow, IntervalRow):
                old = and_(part.server == server, part.life == life, part.end < until)
                _count(deleted, part, _delete(connection, part, old))
    for row, where in _old(now, cut, keep):
        with database.writing(durable=False) as connection:
            _count(deleted, row, _delete(connection, row, where))
    if busy is not None:
        raise busy
    return deleted


def _lives_with_old_intervals(database: Database, cut: datetime) -> list[tuple[ServerName, LifeId, datetime]]:
    """Lives, and up to where their servers are rolled up."""
    old = exists().where(IntervalRow.server == LifeRow.server, IntervalRow.life == LifeRow.id, IntervalRow.end < cut)
    statement = (
        select(LifeRow.server, LifeRow.id, RollupProgressRow.until)
        .join(RollupProgressRow, RollupProgressRow.server == LifeRow.server)
        .where(RollupProgressRow.step == STEPS[0], old)
    )
    with database.reading() as connection:
        return [(server, life, until) for server, life, until in connection.execute(statement)]


def _old(now: datetime, raw: datetime, keep: Retention) -> Iterator[Old]:
    """What is too old, and over, in each table."""
    history = now - timedelta(days=keep.history_days)
    notices = now - timedelta(days=keep.notices_days)
    ended = select(LifeRow.id).where(LifeRow.ended < now - timedelta(days=_ENDED_HEADS_DAYS))
    yield HeadRow, HeadRow.life.in_(ended)
    for step, days in zip(STEPS, (keep.five_minutes_days, keep.hours_days, keep.days_days), strict=True):
        yield RollupRow, and_(RollupRow.step == step, RollupRow.bucket < now - timedelta(days=days))
    measured = exists().where(IntervalRow.server == LifeRow.server, IntervalRow.life == LifeRow.id)
    added_up = exists().where(RollupRow.server == LifeRow.server, RollupRow.life == LifeRow.id)
    yield LifeRow, and_(LifeRow.ended < history, not_(measured), not_(added_up))
    yield WatchedRow, WatchedRow.retired_at < history
    yield ReadingRow, ReadingRow.scraped_at < raw
    yield ChecksRow, ChecksRow.end < now - timedelta(days=keep.five_minutes_days)
    yield DecisionRow, _old_decisions(now - timedelta(days=keep.keep_decisions_days), history)
    yield RejectionRow, RejectionRow.until < history
    yield RestartRow, RestartRow.at < history
    yield BaselineRow, BaselineRow.updated_at < history
    yield AlertRow, and_(
        AlertRow.state.in_((AlertState.RESOLVED, AlertState.INACTIVE)),
        func.coalesce(AlertRow.resolved_at, AlertRow.last_true, AlertRow.active_since) < history,
    )
    pending = exists().where(DeliveryRow.notice == NoticeRow.id, DeliveryRow.state == DeliveryState.PENDING)
    yield NoticeRow, and_(NoticeRow.created_at < notices, not_(pending))
    yield CommandRow, CommandRow.done_at < notices
    # Benchmarks are part of what a server's life was.
    evidence = now - timedelta(days=keep.evidence_days)
    yield EvidenceRow, or_(EvidenceRow.at < history, and_(EvidenceRow.at < evidence, EvidenceRow.what != BENCHMARK))
    yield AuditRow, AuditRow.at < history
    yield SilenceRow, SilenceRow.ends_at < history
    yield PauseRow, PauseRow.until < history


def _old_decisions(keeps: datetime, history: datetime) -> ColumnElement[bool]:
    """All but a group's newest, and but those that wait for someone."""
    other = aliased(DecisionRow)
    newest = select(func.max(other.made_at)).where(other.group == DecisionRow.group).scalar_subquery()
    old = (DecisionRow.made_at < history) | and_(DecisionRow.action == Action.KEEP, DecisionRow.made_at < keeps)
    return and_(old, DecisionRow.state.not_in(_OPEN_DECISIONS), DecisionRow.made_at < newest)


def _delete(connection: Connection, row: type[Base], where: ColumnElement[bool]) -> int:
    return connection.execute(delete(row).where(where)).rowcount


def _count(deleted: dict[str, int], row: Any, rows: int) -> None:
    if rows:
        deleted[row.__tablename__] = deleted.get(row.__tablename__, 0) + rows
