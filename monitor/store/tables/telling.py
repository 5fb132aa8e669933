"""Tables of telling people: alerts, notices and their deliveries, reports, evidence, the audit trail."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from sqlalchemy import ForeignKey, Index
from sqlalchemy.orm import Mapped, mapped_column

from monitor.model.alert import AlertState, Fingerprint, Severity
from monitor.model.notice import DeliveryState, NoticeId, NoticeKind
from monitor.model.server import ServerName
from monitor.store.columns import Nested, Number
from monitor.store.tables.base import Record


class AlertRow(Record):
    """One incident of an alert: the same alert, begun again later, is another row."""

    __tablename__ = "alerts"
    __table_args__ = (Index(None, "state"),)

    fingerprint: Mapped[Fingerprint] = mapped_column(primary_key=True)
    active_since: Mapped[datetime] = mapped_column(primary_key=True)
    labels: Mapped[Mapping[str, str]] = mapped_column(Nested(Mapping[str, str]))
    annotations: Mapped[Mapping[str, str]] = mapped_column(Nested(Mapping[str, str]))
    state: Mapped[AlertState]
    fired_at: Mapped[datetime | None]
    resolved_at: Mapped[datetime | None]
    last_true: Mapped[datetime | None]
    evidence: Mapped[Mapping[str, float | None]] = mapped_column(Nested(Mapping[str, float | None]))
    acknowledged_by: Mapped[str | None]
    notified_at: Mapped[datetime | None]
    clear_since: Mapped[datetime | None]
    incident: Mapped[str]
    refired: Mapped[int]


class NoticeRow(Record):
    """One thing to tell; `number` is the order of queueing."""

    __tablename__ = "notices"
    __table_args__ = (Index(None, "thread"),)

    number: Mapped[int] = mapped_column(Number, primary_key=True)
    id: Mapped[NoticeId] = mapped_column(unique=True)
    kind: Mapped[NoticeKind]
    dedupe_key: Mapped[str] = mapped_column(unique=True)
    thread: Mapped[str]
    severity: Mapped[Severity]
    title: Mapped[str]
    text: Mapped[str] = mapped_column("body")
    fields: Mapped[tuple[tuple[str, str], ...]] = mapped_column(Nested(tuple[tuple[str, str], ...]))
    created_at: Mapped[datetime]
    labels: Mapped[Mapping[str, str]] = mapped_column(Nested(Mapping[str, str]))
    annotations: Mapped[Mapping[str, str]] = mapped_column(Nested(Mapping[str, str]))
    edits_root: Mapped[bool]
    in_thread: Mapped[bool]
    attachments: Mapped[tuple[str, ...]] = mapped_column(Nested(tuple[str, ...]))
    simulated: Mapped[bool]


class DeliveryRow(Record):
    """One notice on its way to one receiver."""

    __tablename__ = "deliveries"
    __table_args__ = (Index(None, "state", "next_attempt_at"),)

    notice: Mapped[NoticeId] = mapped_column(ForeignKey("notices.id", ondelete="CASCADE"), primary_key=True)
    receiver: Mapped[str] = mapped_column(primary_key=True)
    state: Mapped[DeliveryState]
    attempts: Mapped[int]
    next_attempt_at: Mapped[datetime]
    external_id: Mapped[str | None]
    reason: Mapped[str]
    sent_at: Mapped[datetime | None]


class ReportRow(Record):
    """A weekly report as it was sent."""

    __tablename__ = "reports"

    key: Mapped[str] = mapped_column(primary_key=True)
    made_at: Mapped[datetime]
    period_start: Mapped[datetime]
    period_end: Mapped[datetime]
    headline: Mapped[str]
    body: Mapped[str]
    files: Mapped[tuple[str, ...]] = mapped_column(Nested(tuple[str, ...]))


class EvidenceRow(Record):
    """What was seen when an incident began."""

    __tablename__ = "evidence"
    __table_args__ = (Index(None, "server", "at"),)

    id: Mapped[str] = mapped_column(primary_key=True)
    server: Mapped[ServerName]
    at: Mapped[datetime]
    what: Mapped[str]
    parts: Mapped[Mapping[str, str]] = mapped_column(Nested(Mapping[str, str]))


class AuditRow(Record):
    """One line of the audit trail."""

    __tablename__ = "audit"
    __table_args__ = (Index(None, "subject"), Index(None, "at"))

    number: Mapped[int] = mapped_column(Number, primary_key=True)
    at: Mapped[datetime]
    actor: Mapped[str]
    what: Mapped[str]
    subject: Mapped[str]
    sentence: Mapped[str]
