"""Values and errors of the store beside those of the model."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from monitor.errors import StoreError
from monitor.model.life import LifeId
from monitor.model.rollout import Rollout
from monitor.model.server import ServerName


class ActiveRolloutExists(StoreError):
    """A group has an active rollout already; `existing` is that one."""

    def __init__(self, existing: Rollout) -> None:
        self.existing = existing
        super().__init__(
            f"group {existing.group} already has the active rollout {existing.id}"
            f" ({existing.current.describe()} -> {existing.proposed.describe()})"
        )


@dataclass(frozen=True, slots=True)
class Unshipped:
    """Something of a life that the fleet's database lacks: an interval by its end, or (None) its head alone.

    Numbers rise in the order in which things happened; 0 for one that is not stored yet.
    """

    number: int
    server: ServerName
    life: LifeId
    end: datetime | None


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
class Age:
    """The oldest and newest moment in a table, by the column that its retention goes by; None where it is empty."""

    table: str
    oldest: datetime | None
    newest: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Lag:
    """How far rollups of one step are behind: the server that is furthest, and up to which end it is rolled up."""

    step_seconds: int
    server: str
    until: datetime
    newest: datetime


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
    #: Rollups over a day (days): for ever, as long as anybody will ask; 365 rows a year and life.
    days_days: float = 36_500.0
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
