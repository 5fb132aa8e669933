"""The store as its users see it: a store opens units of work, a unit has repositories. It owns no database.

Repositories take and return values of `monitor/model`. Every moment is aware; what comes back is UTC. Every method
raises StoreError where the database refuses or is away; in a unit of `read()` every writing method raises it too.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Protocol, TypeVar

from monitor.store.contract.acting import (
    Baselines,
    Changes,
    Decisions,
    LastGoods,
    Leases,
    Rejections,
    Restarts,
    Rollouts,
)
from monitor.store.contract.asking import (
    Commands,
    Pauses,
    Timers,
)
from monitor.store.contract.history import (
    ChecksRows,
    Heads,
    Intervals,
    Lives,
    Readings,
    UnshippedRows,
    WatchedServers,
)
from monitor.store.contract.telling import (
    Alerts,
    Audit,
    EvidenceRows,
    Outbox,
    Reports,
    Silences,
)
from monitor.store.contract.values import (
    ActiveRolloutExists,
    LifeTotals,
    Retention,
    Sizes,
    TableSize,
    Unshipped,
)

__all__ = [
    "ActiveRolloutExists",
    "Alerts",
    "Audit",
    "Baselines",
    "Changes",
    "ChecksRows",
    "Commands",
    "Decisions",
    "EvidenceRows",
    "Heads",
    "Intervals",
    "LastGoods",
    "Leases",
    "LifeTotals",
    "Lives",
    "Outbox",
    "Pauses",
    "Readings",
    "Rejections",
    "Reports",
    "Restarts",
    "Retention",
    "Rollouts",
    "Silences",
    "Sizes",
    "Store",
    "TableSize",
    "Timers",
    "Unit",
    "Unshipped",
    "UnshippedRows",
    "WatchedServers",
]

Result = TypeVar("Result")


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
    def unshipped(self) -> UnshippedRows:
        """What the fleet's database lacks."""
    @property
    def checks(self) -> ChecksRows:
        """Checks, answered or not."""
    @property
    def servers(self) -> WatchedServers:
        """Servers watched."""
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
        """Add new intervals up into the rollups; the number of rows written. Every five minutes is often enough."""

    def is_overdue(self, now: datetime, keep: Retention) -> bool:
        """Whether intervals are here that the last nights should have deleted."""

    def prune(self, now: datetime, keep: Retention) -> dict[str, int]:
        """Roll up, then delete what is older than `keep` allows.

        The number of rows deleted by table, only tables with some.
        """

    def close(self) -> None:
        """Let go of every connection; the store may be used again."""
