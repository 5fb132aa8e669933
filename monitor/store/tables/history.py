"""Tables of what was measured: lives, heads, intervals, newest readings."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from sqlalchemy import ForeignKey, ForeignKeyConstraint, Index, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from monitor.model.counts import Counts
from monitor.model.life import LifeId, Setting, SettingSource, StartEvidence
from monitor.model.reading import Reading
from monitor.model.server import GroupName, ServerName
from monitor.store.columns import Nested, Number
from monitor.store.tables.base import Base, Record


class LifeRow(Record):
    """One process life of one engine."""

    __tablename__ = "lives"
    __table_args__ = (UniqueConstraint("server", "id"), Index(None, "server", "ended"))

    id: Mapped[LifeId] = mapped_column(primary_key=True)
    server: Mapped[ServerName]
    model: Mapped[str]
    engine: Mapped[str]
    first_seen: Mapped[datetime]
    evidence: Mapped[StartEvidence]
    counts_from_zero: Mapped[bool]
    engine_version: Mapped[str | None]
    setting: Mapped[Setting] = mapped_column(Nested(Setting))
    sources: Mapped[Mapping[str, SettingSource]] = mapped_column(Nested(Mapping[str, SettingSource]))
    process_start: Mapped[float | None]
    created: Mapped[float | None]
    ended: Mapped[datetime | None]


class HeadRow(Record):
    """A life's last cumulative counts."""

    __tablename__ = "heads"

    life: Mapped[LifeId] = mapped_column(ForeignKey("lives.id", ondelete="CASCADE"), primary_key=True)
    at: Mapped[datetime]
    monotonic: Mapped[float]
    boot_id: Mapped[str]
    counts: Mapped[Counts] = mapped_column(Nested(Counts))


class IntervalColumns:
    """The numbers of an interval. The seconds of a family are null where the pages do not have the family."""

    end: Mapped[datetime] = mapped_column("end_at")
    start: Mapped[datetime] = mapped_column("start_at")
    elapsed_seconds: Mapped[float]

    speculation_seconds: Mapped[float | None]
    num_drafts: Mapped[float | None]
    num_draft_tokens: Mapped[float | None]
    num_accepted_tokens: Mapped[float | None]

    traffic_seconds: Mapped[float | None]
    generation_tokens: Mapped[float | None]
    prompt_tokens: Mapped[float | None]
    cached_prompt_tokens: Mapped[float | None]
    engine_steps: Mapped[float | None]
    step_tokens: Mapped[float | None]
    rejections: Mapped[float | None]
    preemptions: Mapped[float | None]

    latency_seconds: Mapped[float | None]

    gauges_seconds: Mapped[float]
    running_mean: Mapped[float | None]
    running_max: Mapped[float | None]
    waiting_mean: Mapped[float | None]
    waiting_max: Mapped[float | None]
    kv_usage_mean: Mapped[float | None]
    kv_usage_max: Mapped[float | None]

    #: Flags by name, separated by spaces; null where there are none.
    flags: Mapped[str | None]
    is_gap: Mapped[bool]
    partial: Mapped[bool]


class IntervalRow(IntervalColumns, Base):
    """One interval as it was scraped.

    The key begins with the server, by which a distributed PostgreSQL spreads it, and holds the end, by which it can be
    partitioned. A life belongs to one server (the foreign key sees to it), so the key is unique by (life, end).
    """

    __tablename__ = "intervals"
    __table_args__ = (
        ForeignKeyConstraint(["server", "life"], ["lives.server", "lives.id"]),
        {"sqlite_with_rowid": False},
    )

    server: Mapped[ServerName] = mapped_column(primary_key=True, sort_order=-3)
    life: Mapped[LifeId] = mapped_column(primary_key=True, sort_order=-2)
    end: Mapped[datetime] = mapped_column("end_at", primary_key=True, sort_order=-1)


class IntervalDetailRow(Base):
    """Arrays, maps and histograms of one interval (see `monitor/store/packing.py`); no row where it has none.

    No foreign key: both rows are written and deleted together, and the check would cost on the path of every scrape.
    """

    __tablename__ = "interval_details"
    __table_args__ = ({"sqlite_with_rowid": False},)

    server: Mapped[ServerName] = mapped_column(primary_key=True)
    life: Mapped[LifeId] = mapped_column(primary_key=True)
    end: Mapped[datetime] = mapped_column("end_at", primary_key=True)
    body: Mapped[str]


class RollupRow(IntervalColumns, Base):
    """The intervals of one life that end in one bucket of `step` seconds, added up; `bucket` is its end.

    Those with flags, gaps and partial ones are rows of their own (`kind`), so that they do not spoil the others.
    """

    __tablename__ = "rollups"
    __table_args__ = (
        ForeignKeyConstraint(["server", "life"], ["lives.server", "lives.id"]),
        {"sqlite_with_rowid": False},
    )

    step: Mapped[int] = mapped_column(primary_key=True, sort_order=-5)
    server: Mapped[ServerName] = mapped_column(primary_key=True, sort_order=-4)
    life: Mapped[LifeId] = mapped_column(primary_key=True, sort_order=-3)
    bucket: Mapped[datetime] = mapped_column(primary_key=True, sort_order=-2)
    kind: Mapped[str] = mapped_column(primary_key=True, sort_order=-1)
    body: Mapped[str | None] = mapped_column(sort_order=1)


class RollupProgressRow(Base):
    """Up to which end the intervals of a server are in its rollups of `step` seconds."""

    __tablename__ = "rollup_progress"

    server: Mapped[ServerName] = mapped_column(primary_key=True)
    step: Mapped[int] = mapped_column(primary_key=True)
    until: Mapped[datetime] = mapped_column("until_at")


class UnshippedRow(Base):
    """Something that the fleet's database does not have yet; the numbers are the order in which it goes there."""

    __tablename__ = "unshipped"
    __table_args__ = ({"sqlite_autoincrement": True},)

    number: Mapped[int] = mapped_column(Number, primary_key=True)
    server: Mapped[ServerName]
    life: Mapped[LifeId]
    end: Mapped[datetime | None] = mapped_column("end_at")


class ChecksRow(Base):
    """How many checks of a server in five minutes were answered and missed."""

    __tablename__ = "checks"
    __table_args__ = ({"sqlite_with_rowid": False},)

    server: Mapped[ServerName] = mapped_column(primary_key=True)
    end: Mapped[datetime] = mapped_column("end_at", primary_key=True)
    answered: Mapped[int]
    missed: Mapped[int]


class HistogramEdgesRow(Base):
    """Edges of histograms, numbered: a few dozen rows for a whole fleet, never deleted."""

    __tablename__ = "histogram_edges"

    number: Mapped[int] = mapped_column(Number, primary_key=True)
    edges: Mapped[str] = mapped_column(unique=True)


class WatchedRow(Record):
    """A server that is watched or was."""

    __tablename__ = "servers"

    server: Mapped[ServerName] = mapped_column(primary_key=True)
    group: Mapped[GroupName] = mapped_column("group_name")
    host: Mapped[str]
    since: Mapped[datetime] = mapped_column("since_at")
    retired_at: Mapped[datetime | None]


class ReadingRow(Record):
    """The newest reading of a server."""

    __tablename__ = "readings"

    server: Mapped[ServerName] = mapped_column(primary_key=True)
    scraped_at: Mapped[datetime]
    last_ok: Mapped[datetime | None]
    reading: Mapped[Reading] = mapped_column(Nested(Reading))
