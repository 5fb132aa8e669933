"""Tables of what people asked for and what rules remember: pauses, silences, commands, timers."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Index
from sqlalchemy.orm import Mapped, mapped_column

from monitor.model.alert import Matcher, SilenceId
from monitor.model.record import CommandKind
from monitor.store.columns import Nested
from monitor.store.tables.base import Record


class PauseRow(Record):
    """Where no change may start."""

    __tablename__ = "pauses"

    scope: Mapped[str] = mapped_column(primary_key=True)
    author: Mapped[str]
    reason: Mapped[str]
    since: Mapped[datetime] = mapped_column("since_at")
    until: Mapped[datetime | None] = mapped_column("until_at")


class SilenceRow(Record):
    """Alerts that are not to be sent for a while."""

    __tablename__ = "silences"
    __table_args__ = (Index(None, "ends_at"),)

    id: Mapped[SilenceId] = mapped_column(primary_key=True)
    matchers: Mapped[tuple[Matcher, ...]] = mapped_column(Nested(tuple[Matcher, ...]))
    author: Mapped[str]
    reason: Mapped[str]
    starts_at: Mapped[datetime]
    ends_at: Mapped[datetime]


class CommandRow(Record):
    """A request of CLI, page or chat."""

    __tablename__ = "commands"
    __table_args__ = (Index(None, "done_at"),)

    id: Mapped[str] = mapped_column(primary_key=True)
    kind: Mapped[CommandKind]
    subject: Mapped[str]
    author: Mapped[str]
    asked_at: Mapped[datetime]
    done_at: Mapped[datetime | None]
    outcome: Mapped[str]


class TimerRow(Record):
    """How long a rule's condition has held in one scope."""

    __tablename__ = "rule_timers"

    rule: Mapped[str] = mapped_column(primary_key=True)
    scope: Mapped[str] = mapped_column(primary_key=True)
    held_since: Mapped[datetime | None]
    last_true: Mapped[datetime | None]
    last_outcome: Mapped[str]
