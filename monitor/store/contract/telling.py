"""What people are told, or look up later: alerts, notices, audit, reports, evidence."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Protocol

from monitor.model.alert import Alert, Fingerprint, Silence, SilenceId
from monitor.model.notice import Delivery, Notice, NoticeId
from monitor.model.record import AuditEntry, Evidence, ReportRecord
from monitor.model.server import ServerName


class Alerts(Protocol):
    """Alerts: one row an incident, so that past ones stay for reports."""

    def all(self, resolved_since: datetime | None = None) -> list[Alert]:
        """The newest incident of each fingerprint that is pending, firing or resolved (at or after `resolved_since`).

        By beginning.
        """

    def put(self, alerts: Iterable[Alert]) -> None:
        """Store alerts by fingerprint and beginning; an inactive one that never fired is forgotten."""

    def get(self, fingerprint: Fingerprint) -> Alert | None:
        """The newest incident of that fingerprint; None where there is none."""

    def since(self, since: datetime) -> list[Alert]:
        """Incidents that are pending or firing, or were resolved at or after `since`, by beginning."""


class Silences(Protocol):
    """Who asked not to hear of what."""

    def add(self, silence: Silence) -> None:
        """Store a new silence; one with a known id is refused."""

    def expire(self, silence: SilenceId, now: datetime) -> bool:
        """End a silence now; False where it is unknown or over."""

    def active(self, now: datetime) -> list[Silence]:
        """Silences in force at `now`, by beginning."""

    def all(self) -> list[Silence]:
        """Every silence kept, by beginning."""


class Outbox(Protocol):
    """Notices and their deliveries."""

    def queue(self, notice: Notice, receivers: Sequence[str], now: datetime) -> bool:
        """Store a notice with a pending delivery, due at once, for each receiver; False where its key is known."""

    def forward(self, notice: NoticeId, receiver: str, now: datetime) -> bool:
        """Queue a stored notice for one more receiver, due at once; False where it has, or had, it already."""

    def due(self, now: datetime, limit: int) -> list[tuple[Notice, Delivery]]:
        """Pending deliveries whose next attempt is due, those that wait longest first."""

    def waiting(self, receiver: str, limit: int) -> list[tuple[Notice, Delivery]]:
        """Pending deliveries to one receiver in the order they were queued, those not yet due included."""

    def update(self, delivery: Delivery) -> None:
        """Replace the delivery of that notice and receiver; an unknown one is refused."""

    def sent_in(self, thread: str, receiver: str) -> list[tuple[Notice, Delivery]]:
        """What of a thread was sent to `receiver` and has a name there, in that order."""

    def newest(self, receiver: str) -> Delivery | None:
        """The delivery to `receiver` that was sent last; None where nothing was sent."""

    def recent(self, limit: int) -> list[tuple[Notice, list[Delivery]]]:
        """The newest notices with their deliveries (by receiver), newest first."""

    def pending_receivers(self) -> list[str]:
        """Receivers that something waits for, by name."""

    def pending_count(self) -> int:
        """Number of deliveries that are neither sent nor given up."""


class Audit(Protocol):
    """Who did what."""

    def add(self, entry: AuditEntry) -> None:
        """Store one more line."""

    def of(self, subject: str) -> list[AuditEntry]:
        """Lines about `subject`, oldest first."""

    def recent(self, limit: int) -> list[AuditEntry]:
        """The newest lines, newest first."""


class Reports(Protocol):
    """Weekly reports as they were made."""

    def put(self, report: ReportRecord) -> bool:
        """Store a report; False, and nothing stored, where its key is known."""

    def get(self, key: str) -> ReportRecord | None:
        """The report of that key; None where there is none."""

    def latest(self) -> ReportRecord | None:
        """The report made last; None without any."""

    def all(self) -> list[ReportRecord]:
        """Every report kept, oldest first."""


class EvidenceRows(Protocol):
    """What was seen when incidents began."""

    def add(self, evidence: Evidence) -> None:
        """Store new evidence; a known id is refused."""

    def get(self, evidence: str) -> Evidence | None:
        """The evidence of that id; None where there is none."""

    def of(self, server: ServerName, since: datetime) -> list[Evidence]:
        """Evidence of `server` from `since` on, oldest first."""
