"""Tables of deciding and acting: decisions, rollouts, changes, leases, and what is remembered of servers for them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from sqlalchemy import ForeignKey, Index, text
from sqlalchemy.orm import Mapped, mapped_column

from monitor.model.decision import Action, DecisionId, DecisionState, Precondition, Reason, ThresholdAnswer
from monitor.model.life import Setting
from monitor.model.rollout import ChangeId, ChangeState, Measured, Outcome, RolloutId, RolloutState
from monitor.model.server import GroupName, ServerName
from monitor.store.columns import Nested, Number
from monitor.store.tables.base import Base, Record


class DecisionRow(Record):
    """One conclusion about one group."""

    __tablename__ = "decisions"
    __table_args__ = (Index(None, "group_name", "made_at"), Index(None, "state"))

    id: Mapped[DecisionId] = mapped_column(primary_key=True)
    group: Mapped[GroupName] = mapped_column("group_name")
    servers: Mapped[tuple[ServerName, ...]] = mapped_column(Nested(tuple[ServerName, ...]))
    rule: Mapped[str]
    action: Mapped[Action]
    reason: Mapped[Reason]
    sentence: Mapped[str]
    current: Mapped[Setting] = mapped_column("current_setting", Nested(Setting))
    proposed: Mapped[Setting] = mapped_column("proposed_setting", Nested(Setting))
    precondition: Mapped[Precondition] = mapped_column(Nested(Precondition))
    made_at: Mapped[datetime]
    expires_at: Mapped[datetime]
    state: Mapped[DecisionState]
    gain: Mapped[float | None]
    gain_low: Mapped[float | None]
    gain_high: Mapped[float | None]
    evidence: Mapped[Mapping[str, float | None]] = mapped_column(Nested(Mapping[str, float | None]))
    window_seconds: Mapped[float]
    threshold: Mapped[ThresholdAnswer | None] = mapped_column(Nested(ThresholdAnswer))
    note: Mapped[str]


class RolloutRow(Record):
    """One group, one new setting; the partial index allows one active a group."""

    __tablename__ = "rollouts"
    __table_args__ = (
        Index(
            "uq_rollouts_active_group",
            "group_name",
            unique=True,
            sqlite_where=text("state = 'active'"),
            postgresql_where=text("state = 'active'"),
        ),
        Index(None, "group_name", "created_at"),
    )

    id: Mapped[RolloutId] = mapped_column(primary_key=True)
    group: Mapped[GroupName] = mapped_column("group_name")
    decision: Mapped[DecisionId]
    current: Mapped[Setting] = mapped_column("current_setting", Nested(Setting))
    proposed: Mapped[Setting] = mapped_column("proposed_setting", Nested(Setting))
    created_at: Mapped[datetime]
    requested_by: Mapped[str]
    state: Mapped[RolloutState]
    finished_at: Mapped[datetime | None]
    outcome: Mapped[Outcome | None]
    sentence: Mapped[str]
    measured: Mapped[Measured | None] = mapped_column(Nested(Measured))


class ChangeRow(Record):
    """One server's part of a rollout."""

    __tablename__ = "changes"
    __table_args__ = (Index(None, "rollout", "position"), Index(None, "server", "entered_at"), Index(None, "state"))

    id: Mapped[ChangeId] = mapped_column(primary_key=True)
    rollout: Mapped[RolloutId] = mapped_column(ForeignKey("rollouts.id", ondelete="CASCADE"))
    server: Mapped[ServerName]
    position: Mapped[int]
    state: Mapped[ChangeState]
    current: Mapped[Setting] = mapped_column("current_setting", Nested(Setting))
    proposed: Mapped[Setting] = mapped_column("proposed_setting", Nested(Setting))
    entered_at: Mapped[datetime]
    deadline: Mapped[datetime | None]
    is_canary: Mapped[bool]
    command_hash: Mapped[str]
    process: Mapped[str]
    models: Mapped[tuple[str, ...]] = mapped_column(Nested(tuple[str, ...]))
    traffic_held: Mapped[bool]
    attempts: Mapped[int]
    stop_asked_at: Mapped[datetime | None]
    killed_at: Mapped[datetime | None]
    retry_at: Mapped[datetime | None]
    drained_at: Mapped[datetime | None]
    stopped_at: Mapped[datetime | None]
    started_at: Mapped[datetime | None]
    ready_at: Mapped[datetime | None]
    outcome: Mapped[Outcome | None]
    sentence: Mapped[str]
    measured: Mapped[Measured | None] = mapped_column(Nested(Measured))
    history: Mapped[tuple[str, ...]] = mapped_column(Nested(tuple[str, ...]))


class LeaseRow(Base):
    """The right to do one thing; a released one stays, held by nobody (an empty holder), so that its fence goes on."""

    __tablename__ = "leases"

    name: Mapped[str] = mapped_column(primary_key=True)
    holder: Mapped[str]
    fence: Mapped[int] = mapped_column(Number)
    expires_at: Mapped[datetime]


class RejectionRow(Record):
    """A setting that was tried and lost."""

    __tablename__ = "rejections"
    __table_args__ = (Index(None, "group_name", "at"),)

    number: Mapped[int] = mapped_column(Number, primary_key=True)
    group: Mapped[GroupName] = mapped_column("group_name")
    num_speculative_tokens: Mapped[int]
    method: Mapped[str | None]
    at: Mapped[datetime]
    until: Mapped[datetime] = mapped_column("until_at")
    times: Mapped[int]
    sentence: Mapped[str]
    batch: Mapped[float | None]
    acceptance_length: Mapped[float | None]
    measured_at: Mapped[int | None]


class RestartRow(Record):
    """One start of a managed server by us."""

    __tablename__ = "restarts"
    __table_args__ = (Index(None, "server", "at"),)

    number: Mapped[int] = mapped_column(Number, primary_key=True)
    server: Mapped[ServerName]
    at: Mapped[datetime]
    why: Mapped[str]
    outcome: Mapped[str]


class LastGoodRow(Record):
    """The last setting with which a server was seen serving."""

    __tablename__ = "last_good"

    server: Mapped[ServerName] = mapped_column(primary_key=True)
    setting: Mapped[Setting] = mapped_column(Nested(Setting))
    command_hash: Mapped[str]
    at: Mapped[datetime]


class BaselineRow(Record):
    """What is normal for a server at one setting and engine version."""

    __tablename__ = "baselines"

    server: Mapped[ServerName] = mapped_column(primary_key=True)
    key: Mapped[str] = mapped_column(primary_key=True)
    acceptance_length: Mapped[float]
    acceptance_rate: Mapped[float]
    first_position_rate: Mapped[float | None]
    num_drafts: Mapped[float]
    updated_at: Mapped[datetime]
    windows: Mapped[int]
