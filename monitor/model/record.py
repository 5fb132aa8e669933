"""Small records that outlive the daemon: pauses, requests, rejections, rule timers, baselines, restarts, audit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from monitor.model.life import Setting
from monitor.model.server import Engine, GroupName, Mode, ServerName

#: A move of load or acceptance length by this share lifts a rejection before its time.
MOVED = 0.15

#: Scope of a pause that covers everything.
EVERYTHING = "*"


def group_scope(name: str) -> str:
    """Scope text of a group, as stored in pauses and rule timers."""
    return f"group:{name}"


def server_scope(name: str) -> str:
    """Scope text of a server."""
    return f"server:{name}"


@dataclass(frozen=True, slots=True)
class Pause:
    """No change starts in `scope` (`*`, `group:NAME` or `server:NAME`) until it is lifted or `until` has passed."""

    scope: str
    author: str
    reason: str
    since: datetime
    until: datetime | None = None


class CommandKind(StrEnum):
    """What CLI, page and chat may ask of the daemon; the last two of another host's alone."""

    PLAN = "plan"
    APPLY = "apply"
    ROLLBACK = "rollback"
    APPROVE = "approve"
    REJECT = "reject"
    REPORT = "report"
    ACKNOWLEDGE = "acknowledge"
    SILENCE = "silence"


@dataclass(frozen=True, slots=True)
class Command:
    """A request of CLI, page or chat; the daemon acts on it and writes the outcome."""

    id: str
    kind: CommandKind
    subject: str
    author: str
    asked_at: datetime
    done_at: datetime | None = None
    outcome: str = ""


@dataclass(frozen=True, slots=True)
class Rejection:
    """A setting that was tried and lost: not tried again before `until` (1, then 7, then 30 days)."""

    group: GroupName
    num_speculative_tokens: int
    method: str | None
    at: datetime
    until: datetime
    times: int
    sentence: str
    #: Decode batch and acceptance length at that time: a 15 % move of either lifts it early.
    batch: float | None = None
    acceptance_length: float | None = None
    #: Speculative tokens at which that length was measured: at another number it is another by itself.
    measured_at: int | None = None

    def holds(
        self, now: datetime, *, batch: float | None, acceptance_length: float | None, tokens: int | None = None
    ) -> bool:
        """Whether its time is not over and neither load nor length has moved; what is unknown has not moved.

        `tokens` is the setting that the length is of now; at another one than then lengths say nothing.
        """
        is_comparable = self.measured_at is None or tokens is None or tokens == self.measured_at
        has_moved = is_comparable and _has_moved(self.acceptance_length, acceptance_length)
        return now < self.until and not _has_moved(self.batch, batch) and not has_moved


def _has_moved(before: float | None, now: float | None) -> bool:
    return before is not None and now is not None and before > 0 and abs(now / before - 1.0) > MOVED


@dataclass(frozen=True, slots=True)
class RuleTimer:
    """How long a rule's condition has held in one scope: what `for` and `keep_firing_for` are counted from."""

    rule: str
    scope: str
    held_since: datetime | None
    last_true: datetime | None
    last_outcome: str


#: Length of the buckets that checks are counted in (seconds): the shortest window of the burn-rate table.
CHECKS_SECONDS = 300


@dataclass(frozen=True, slots=True)
class Checks:
    """How many checks of a server that ended in the five minutes before `end` it answered, and how many it did not.

    A check is a scrape, or a probe while the server looked stuck. What was missed while a change of ours had the server
    down is not counted; neither is the time in which no daemon ran.
    """

    server: ServerName
    end: datetime
    answered: int
    missed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """A server that a daemon watches, or has watched: what it measured stays when the server goes."""

    server: ServerName
    group: GroupName
    #: The host of the daemon that watches it.
    host: str
    url: str
    mode: Mode
    engine: Engine
    labels: Mapping[str, str] = field(default_factory=dict)
    #: Since when it is watched there without a break.
    since: datetime
    #: When it left the configuration or its source; None while it is watched.
    retired_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Baseline:
    """What is normal for a server at one setting and engine version: medians over its healthy past."""

    server: ServerName
    key: str
    acceptance_length: float
    acceptance_rate: float
    first_position_rate: float | None
    num_drafts: float
    updated_at: datetime
    #: Number of drafts-weighted windows that went into it.
    windows: int


@dataclass(frozen=True, slots=True)
class Restart:
    """One start of a managed server by us, whatever its reason."""

    server: ServerName
    at: datetime
    why: str
    outcome: str


@dataclass(frozen=True, slots=True)
class LastGood:
    """The last setting with which a server was seen serving, keyed to a hash of the operator's base command."""

    server: ServerName
    setting: Setting
    command_hash: str
    at: datetime


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One line of the audit trail: who did what to which object, in one sentence."""

    at: datetime
    actor: str
    what: str
    subject: str
    sentence: str


@dataclass(frozen=True, slots=True)
class ReportRecord:
    """A weekly report as it was sent; `key` is the local week, unique, so that it is made once."""

    key: str
    made_at: datetime
    period_start: datetime
    period_end: datetime
    headline: str
    body: str
    files: tuple[str, ...] = ()


#: Kinds of evidence that acceptd works out: what acting on a decision would do, and a schedule by batch size. They say
#: nothing of an incident.
PLAN, SCHEDULE = "plan", "schedule"
WORKED_OUT = frozenset({PLAN, SCHEDULE})
#: And what a benchmark measured, which is part of a server's life and kept as long.
BENCHMARK = "benchmark"


@dataclass(frozen=True, slots=True)
class Evidence:
    """What was seen when an incident began (page, log tail, process state), kept for the person who looks later."""

    id: str
    server: ServerName
    at: datetime
    what: str
    parts: Mapping[str, str] = field(default_factory=dict)
