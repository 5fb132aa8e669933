"""The store as its users see it: a store opens units of work, a unit has repositories. It owns no database.

Repositories take and return values of `monitor/model`. Every moment is aware; what comes back is UTC. Every method
raises StoreError where the database refuses or is away; in a unit of `read()` every writing method raises it too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, TypeVar

from monitor.errors import StoreError
from monitor.model.alert import Alert, Fingerprint, Silence, SilenceId
from monitor.model.decision import Decision, DecisionId, DecisionState
from monitor.model.interval import Interval
from monitor.model.life import Head, LastReading, Life, LifeId
from monitor.model.notice import Delivery, Notice, NoticeId
from monitor.model.record import (
    AuditEntry,
    Baseline,
    Checks,
    Command,
    Evidence,
    LastGood,
    Pause,
    Rejection,
    ReportRecord,
    Restart,
    RuleTimer,
)
from monitor.model.rollout import Change, ChangeId, Lease, Rollout, RolloutId
from monitor.model.server import GroupName, ServerName

Result = TypeVar("Result")


class ActiveRolloutExists(StoreError):
    """A group has an active rollout already; `existing` is that one."""

    def __init__(self, existing: Rollout) -> None:
        self.existing = existing
        super().__init__(
            f"group {existing.group} already has the active rollout {existing.id}"
            f" ({existing.current.describe()} -> {existing.proposed.describe()})"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LifeTotals:
    """The intervals of one life, summed; a count is None where no interval has it, moments are None without any."""

    intervals: int
    first_start: datetime | None
    last_end: datetime | None
    num_drafts: float | None
    num_draft_tokens: float | None
    num_accepted_tokens: float | None
    generation_tokens: float | None
    prompt_tokens: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSize:
    """Rows of one table and the bytes it takes, indexes included; None where the database cannot tell."""

    name: str
    rows: int
    bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How big a store is: everything in bytes, and each table, largest first."""

    total_bytes: int
    tables: tuple[TableSize, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """How long rows are kept. What is small and explains the present (rollouts, changes, baselines) is never pruned.

    Only what is over is pruned: a pending delivery, a firing alert, an open life or an unfinished command stays.
    """

    #: Intervals as they were scraped (hours). 35 days: the longest SLO period (30 days) and some days to look back.
    raw_hours: float = 840.0
    #: Rollups over five minutes, and checks (days): a quarter of a year, to compare a month with the one before.
    five_minutes_days: float = 100.0
    #: Rollups over an hour (days): a year and some weeks, to compare with the year before.
    hours_days: float = 400.0
    #: Decisions that became something, alerts that are over, audit lines, restarts, ended lives (days).
    history_days: float = 400.0
    #: Decisions of the kind KEEP, made every cycle: only the newest days of them explain anything.
    keep_decisions_days: float = 7.0
    #: Notices that were delivered or given up, and finished commands (days).
    notices_days: float = 90.0
    #: Pages, log tails and process states collected at incidents: the largest rows there are (days).
    evidence_days: float = 35.0

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if getattr(self, name) <= 0:
                raise ValueError(f"retention {name} is {getattr(self, name)}: expected more than 0")


class Lives(Protocol):
    """Process lives of engines."""

    def add(self, life: Life) -> None:
        """Store a new life; one with a known id is refused."""

    def update(self, life: Life) -> None:
        """Replace the life of that id; an unknown id is refused."""

    def get(self, life: LifeId) -> Life | None:
        """The life of that id; None where there is none."""

    def open_of(self, server: ServerName) -> list[Life]:
        """Lives of `server` that have not ended, by first sight."""

    def of(self, server: ServerName | None, since: datetime, until: datetime) -> list[Life]:
        """Lives that overlap [since, until), of one server or (None) of all, by first sight."""


class Heads(Protocol):
    """Last cumulative counts of lives."""

    def get(self, life: LifeId) -> Head | None:
        """The head of that life; None where it has none yet."""

    def put(self, head: Head) -> None:
        """Store a life's newest head in place of its last; the life must be stored."""

    def of_server(self, server: ServerName) -> dict[LifeId, Head]:
        """Heads of the server's lives that have not ended."""


class Intervals(Protocol):
    """Differences between heads; the key is (life, end)."""

    def add(self, intervals: Iterable[Interval], *, skip_known: bool = False) -> int:
        """Store intervals and give the number stored; their lives must be stored.

        A known (life, end) is refused, since its counts would be lost with the head that moves on; with `skip_known` it
        is passed over, for copying from another store.
        """

    def between(
        self,
        servers: Sequence[ServerName] | None,
        since: datetime,
        until: datetime,
        *,
        details: bool = True,
        limit: int | None = None,
    ) -> list[Interval]:
        """Intervals whose end lies in (since, until], by end, the first `limit`; of all servers where that is None.

        Without `details` arrays, maps and histograms are left out (None or empty), which is several times faster.
        """

    def between_coarse(
        self,
        servers: Sequence[ServerName] | None,
        since: datetime,
        until: datetime,
        step_seconds: int,
        *,
        details: bool = True,
    ) -> list[Interval]:
        """As `between`, but added up by life over buckets of 300 or 3600 s: for reports and charts of long spans.

        Buckets end at whole multiples in UTC; an interval lies in the bucket of its end. Intervals with flags and
        partial ones are not mixed with the others, so a bucket may give several. What is newer than the rollups is
        added up from the intervals while reading: call `Store.roll_up` now and then. Rollups outlive the intervals.
        """

    def last_end(self, server: ServerName) -> datetime | None:
        """End of the newest interval of `server`; None without any."""

    def totals(self, life: LifeId) -> LifeTotals:
        """Sums over the stored intervals of one life."""


class ChecksRows(Protocol):
    """Checks of servers, answered or not, counted in buckets of `CHECKS_SECONDS`."""

    def add(self, checks: Iterable[Checks]) -> None:
        """Add counts to what their buckets hold."""

    def between(self, servers: Sequence[ServerName] | None, since: datetime, until: datetime) -> list[Checks]:
        """Buckets whose end lies in (since, until], by end and server; of all servers where that is None."""


class Readings(Protocol):
    """The newest reading of each server."""

    def put(self, reading: LastReading) -> None:
        """Store it in place of the server's last."""

    def get(self, server: ServerName) -> LastReading | None:
        """The newest reading of `server`; None where it was never read."""

    def all(self) -> list[LastReading]:
        """The newest reading of each server, by name."""


class Decisions(Protocol):
    """What was concluded."""

    def add(self, decision: Decision) -> None:
        """Store a new decision; one with a known id is refused."""

    def update(self, decision: Decision) -> None:
        """Replace the decision of that id; an unknown id is refused."""

    def get(self, decision: DecisionId) -> Decision | None:
        """The decision of that id; None where there is none."""

    def latest(self, group: GroupName, limit: int = 1) -> list[Decision]:
        """The newest decisions of `group`, newest first."""

    def since(self, group: GroupName | None, since: datetime) -> list[Decision]:
        """Decisions made at or after `since`, of one group or (None) of all, oldest first."""

    def in_state(self, *states: DecisionState) -> list[Decision]:
        """Decisions in one of `states`, oldest first."""


class Rollouts(Protocol):
    """New settings on their way through a group; one active a group."""

    def add(self, rollout: Rollout) -> None:
        """Store a new rollout. Raises ActiveRolloutExists where the group has an active one."""

    def update(self, rollout: Rollout) -> None:
        """Replace the rollout of that id; an unknown id is refused."""

    def get(self, rollout: RolloutId) -> Rollout | None:
        """The rollout of that id; None where there is none."""

    def active(self, group: GroupName | None = None) -> list[Rollout]:
        """Active rollouts, of one group or (None) of all, oldest first."""

    def since(self, group: GroupName | None, since: datetime) -> list[Rollout]:
        """Rollouts created at or after `since`, of one group or (None) of all, oldest first."""


class Changes(Protocol):
    """The parts of rollouts, one a server."""

    def add(self, changes: Iterable[Change]) -> None:
        """Store new changes; their rollout must be stored, known ids are refused."""

    def update(self, change: Change) -> None:
        """Replace the change of that id; an unknown id is refused."""

    def get(self, change: ChangeId) -> Change | None:
        """The change of that id; None where there is none."""

    def of_rollout(self, rollout: RolloutId) -> list[Change]:
        """Changes of one rollout, by position."""

    def active(self) -> list[Change]:
        """Changes that are not final (planned ones included), by rollout and position."""

    def of_server(self, server: ServerName, since: datetime) -> list[Change]:
        """Changes of `server` that entered their present state at or after `since`, oldest first."""


class Leases(Protocol):
    """Rights to do one thing in the fleet.

    On PostgreSQL time is the database's (`now` is not used), so that hosts with wrong clocks agree; on SQLite, which
    serves one host, it is `now`.
    """

    def acquire(self, name: str, holder: str, ttl_seconds: float, now: datetime) -> Lease | None:
        """Take the lease where it is free, released or expired, with a higher fence; None where another holds it.

        Its own holder gets it again, prolonged, with the same fence while it has not expired.
        """

    def renew(self, lease: Lease, ttl_seconds: float, now: datetime) -> Lease | None:
        """Prolong a lease; None where it has expired or its fence is not the current one: it is lost then."""

    def release(self, lease: Lease) -> None:
        """Give a lease back; nothing happens where it is lost already."""

    def get(self, name: str) -> Lease | None:
        """The lease as stored, expired or not; None where nobody holds it."""


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

    def root_of(self, thread: str, receiver: str) -> Delivery | None:
        """The first sent delivery of a thread to `receiver`; None where nothing was sent."""

    def recent(self, limit: int) -> list[tuple[Notice, list[Delivery]]]:
        """The newest notices with their deliveries (by receiver), newest first."""

    def pending_count(self) -> int:
        """Number of deliveries that are neither sent nor given up."""


class Pauses(Protocol):
    """Where no change may start; one pause a scope."""

    def set(self, pause: Pause) -> None:
        """Store a pause in place of the scope's last."""

    def clear(self, scope: str) -> bool:
        """Lift the pause of `scope`; False where there was none."""

    def active(self, now: datetime) -> list[Pause]:
        """Pauses that are not over at `now`, by scope."""


class Commands(Protocol):
    """Requests of CLI, page and chat to the daemon."""

    def add(self, command: Command) -> None:
        """Store a new request; one with a known id is refused."""

    def pending(self) -> list[Command]:
        """Requests without an outcome, oldest first."""

    def finish(self, command: str, at: datetime, outcome: str) -> None:
        """Write the outcome of a request; an unknown id is refused."""

    def get(self, command: str) -> Command | None:
        """The request of that id; None where there is none."""


class Rejections(Protocol):
    """Settings that were tried and lost."""

    def add(self, rejection: Rejection) -> None:
        """Store one more rejection."""

    def of(self, group: GroupName) -> list[Rejection]:
        """Rejections of `group`, oldest first."""


class Timers(Protocol):
    """How long rules have held."""

    def all(self) -> list[RuleTimer]:
        """Every timer, by rule and scope."""

    def put(self, timers: Iterable[RuleTimer]) -> None:
        """Store timers in place of the last ones of their rule and scope."""


class Baselines(Protocol):
    """What is normal for a server at a setting."""

    def get(self, server: ServerName, key: str) -> Baseline | None:
        """The baseline; None where there is none yet."""

    def put(self, baseline: Baseline) -> None:
        """Store it in place of the last one of its server and key."""


class Restarts(Protocol):
    """Starts of managed servers by us."""

    def add(self, restart: Restart) -> None:
        """Store one more start."""

    def since(self, server: ServerName, since: datetime) -> list[Restart]:
        """Starts of `server` at or after `since`, oldest first."""


class LastGoods(Protocol):
    """Last settings with which servers were seen serving."""

    def get(self, server: ServerName) -> LastGood | None:
        """The last good setting of `server`; None where none is known."""

    def put(self, last_good: LastGood) -> None:
        """Store it in place of the server's last."""


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


class Unit(Protocol):
    """One transaction, seen through its repositories."""

    @property
    def lives(self) -> Lives:
        """Process lives."""
    @property
    def heads(self) -> Heads:
        """Last cumulative counts."""
    @property
    def intervals(self) -> Intervals:
        """Differences between heads."""
    @property
    def checks(self) -> ChecksRows:
        """Checks, answered or not."""
    @property
    def readings(self) -> Readings:
        """Newest readings."""
    @property
    def decisions(self) -> Decisions:
        """Conclusions."""
    @property
    def rollouts(self) -> Rollouts:
        """New settings under way."""
    @property
    def changes(self) -> Changes:
        """Servers' parts of rollouts."""
    @property
    def leases(self) -> Leases:
        """Rights held."""
    @property
    def alerts(self) -> Alerts:
        """Incidents."""
    @property
    def silences(self) -> Silences:
        """Muted alerts."""
    @property
    def outbox(self) -> Outbox:
        """Notices and deliveries."""
    @property
    def pauses(self) -> Pauses:
        """Where nothing starts."""
    @property
    def commands(self) -> Commands:
        """Requests to the daemon."""
    @property
    def rejections(self) -> Rejections:
        """Settings that lost."""
    @property
    def timers(self) -> Timers:
        """Rule timers."""
    @property
    def baselines(self) -> Baselines:
        """What is normal."""
    @property
    def restarts(self) -> Restarts:
        """Starts by us."""
    @property
    def last_good(self) -> LastGoods:
        """Settings to go back to."""
    @property
    def audit(self) -> Audit:
        """Who did what."""
    @property
    def reports(self) -> Reports:
        """Weekly reports."""
    @property
    def evidence(self) -> EvidenceRows:
        """What was seen at incidents."""


class Store(Protocol):
    """A database of acceptd. Safe to use from several threads; a unit belongs to the thread that opened it."""

    @property
    def name(self) -> str:
        """The store in words for people: file or address, never a password."""

    def write(self, *, durable: bool = True) -> AbstractContextManager[Unit]:
        """One transaction that commits at the end of the block and is undone when the block raises.

        With `durable` it has reached the disk when the block ends. `durable=False` is for what is scraped: after a loss
        of power (not after a crash of the daemon) the newest such transactions may be gone, each as a whole. Since head
        and interval share a transaction, the next page is then subtracted from the older head: one longer interval,
        no count lost or doubled. A later durable transaction carries all earlier ones to the disk. Units do not nest.
        """

    def read(self) -> AbstractContextManager[Unit]:
        """A view of one moment; writing in it raises StoreError."""

    def transact(self, work: Callable[[Unit], Result], *, durable: bool = True) -> Result:
        """Run `work` in one `write()`, and from the start again where the database gave way to another transaction.

        `work` may run up to three times, so it must act through its unit alone.
        """

    def upgrade(self) -> list[str]:
        """Bring the schema to the newest revision known; the revisions applied, oldest first."""

    def revision(self) -> str | None:
        """Revision of the schema; None where it is empty."""

    def check(self) -> None:
        """Raise StoreError, saying what to do, unless the database is there and its schema fits."""

    def sizes(self) -> Sizes:
        """How big the store is."""

    def roll_up(self, now: datetime) -> int:
        """Add new intervals up into the rollups; the number of rows written. Once an hour is often enough."""

    def prune(self, now: datetime, keep: Retention) -> dict[str, int]:
        """Roll up, then delete what is older than `keep` allows.

        The number of rows deleted by table, only tables with some.
        """

    def close(self) -> None:
        """Let go of every connection; the store may be used again."""
