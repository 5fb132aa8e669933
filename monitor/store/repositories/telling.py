"""Repositories of telling people: alerts, reports, evidence, the audit trail."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from sqlalchemy import Connection, func, or_, select
from sqlalchemy.orm import aliased

from monitor.model.alert import Alert, AlertState, Fingerprint
from monitor.model.record import AuditEntry, Evidence, ReportRecord
from monitor.model.server import ServerName
from monitor.store.records import Records
from monitor.store.tables.telling import AlertRow, AuditRow, EvidenceRow, ReportRow

_GOING_ON = (AlertState.PENDING, AlertState.FIRING)


class SqlAlerts:
    """Alerts, one row an incident."""

    def __init__(self, connection: Connection) -> None:
        self._rows = Records(connection, Alert, AlertRow)

    def all(self, resolved_since: datetime | None = None) -> list[Alert]:
        """The newest incident of each fingerprint that is not inactive."""
        later = aliased(AlertRow)
        newest = (
            select(func.max(later.active_since)).where(later.fingerprint == AlertRow.fingerprint).scalar_subquery()
        )
        where = [AlertRow.active_since == newest, AlertRow.state != AlertState.INACTIVE]
        if resolved_since is not None:
            where.append(or_(AlertRow.state != AlertState.RESOLVED, AlertRow.resolved_at >= resolved_since))
        return self._rows.many(*where, order=(AlertRow.active_since, AlertRow.fingerprint))

    def put(self, alerts: Iterable[Alert]) -> None:
        """Store alerts; those that never came to anything are forgotten."""
        kept = []
        for alert in alerts:
            if alert.state is AlertState.INACTIVE and alert.fired_at is None:
                self._rows.remove(
                    AlertRow.fingerprint == alert.fingerprint, AlertRow.active_since == alert.active_since
                )
            else:
                kept.append(alert)
        self._rows.put(kept)

    def get(self, fingerprint: Fingerprint) -> Alert | None:
        """The newest incident of that fingerprint."""
        found = self._rows.many(AlertRow.fingerprint == fingerprint, order=(AlertRow.active_since.desc(),), limit=1)
        return found[0] if found else None

    def since(self, since: datetime) -> list[Alert]:
        """Incidents that go on or ended at or after `since`."""
        where = or_(AlertRow.state.in_(_GOING_ON), AlertRow.resolved_at >= since)
        return self._rows.many(where, order=(AlertRow.active_since, AlertRow.fingerprint))


class SqlReports:
    """Weekly reports."""

    def __init__(self, connection: Connection) -> None:
        self._rows = Records(connection, ReportRecord, ReportRow)

    def put(self, report: ReportRecord) -> bool:
        """Store a report unless its key is known."""
        return self._rows.insert_if_new(report)

    def get(self, key: str) -> ReportRecord | None:
        """The report of that key."""
        return self._rows.one(ReportRow.key == key)

    def latest(self) -> ReportRecord | None:
        """The report made last."""
        found = self._rows.many(order=(ReportRow.made_at.desc(), ReportRow.key.desc()), limit=1)
        return found[0] if found else None

    def all(self) -> list[ReportRecord]:
        """Every report kept, oldest first."""
        return self._rows.many(order=(ReportRow.made_at, ReportRow.key))


class SqlEvidence:
    """What was seen when incidents began."""

    def __init__(self, connection: Connection) -> None:
        self._rows = Records(connection, Evidence, EvidenceRow)

    def add(self, evidence: Evidence) -> None:
        """Store new evidence."""
        self._rows.insert([evidence])

    def get(self, evidence: str) -> Evidence | None:
        """The evidence of that id."""
        return self._rows.one(EvidenceRow.id == evidence)

    def of(self, server: ServerName, since: datetime) -> list[Evidence]:
        """Evidence of `server` from `since` on, oldest first."""
        where = (EvidenceRow.server == server, EvidenceRow.at >= since)
        return self._rows.many(*where, order=(EvidenceRow.at, EvidenceRow.id))


class SqlAudit:
    """Who did what."""

    def __init__(self, connection: Connection) -> None:
        self._rows = Records(connection, AuditEntry, AuditRow)

    def add(self, entry: AuditEntry) -> None:
        """Store one more line."""
        self._rows.insert([entry])

    def of(self, subject: str) -> list[AuditEntry]:
        """Lines about `subject`, oldest first."""
        return self._rows.many(AuditRow.subject == subject, order=(AuditRow.at, AuditRow.number))

    def recent(self, limit: int) -> list[AuditEntry]:
        """The newest lines, newest first."""
        return self._rows.many(order=(AuditRow.at.desc(), AuditRow.number.desc()), limit=limit)
