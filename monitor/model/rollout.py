"""Rollouts, changes and leases: the records of acting. The machine that moves them lives in `monitor/actions/`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import NewType

from monitor.model.decision import DecisionId
from monitor.model.life import Setting
from monitor.model.server import GroupName, ServerName

RolloutId = NewType("RolloutId", str)
ChangeId = NewType("ChangeId", str)


class RolloutState(StrEnum):
    """Where a rollout stands; one `active` rollout a group at most."""

    ACTIVE = "active"
    PROMOTED = "promoted"
    ROLLED_BACK = "rolled_back"
    ABANDONED = "abandoned"


class Ending(StrEnum):
    """What became of a change or a rollout: it stands, it was taken back, or neither yet."""

    KEPT = "kept"
    UNDONE = "undone"
    OPEN = "open"


class ChangeState(StrEnum):
    """The steps of one change of one server."""

    PLANNED = "planned"
    DRAINING = "draining"
    RESTARTING = "restarting"
    WARMING = "warming"
    OBSERVING = "observing"
    #: Going back to the last known good setting: restart, readiness, then `rolled_back`.
    UNDOING = "undoing"
    PROMOTED = "promoted"
    ROLLED_BACK = "rolled_back"
    ABANDONED = "abandoned"

    @property
    def is_final(self) -> bool:
        """Whether nothing more happens to the change."""
        return self in (ChangeState.PROMOTED, ChangeState.ROLLED_BACK, ChangeState.ABANDONED)


_UNDONE = frozenset({ChangeState.UNDOING, ChangeState.ROLLED_BACK, ChangeState.ABANDONED})


def ending(state: str) -> Ending:
    """What became of a change or rollout in that state, the one answer for charts, tables and sums.

    An abandoned change counts as undone: its server runs as before. One on its way back cannot be kept any more.
    """
    if state == ChangeState.PROMOTED:
        return Ending.KEPT
    return Ending.UNDONE if state in _UNDONE else Ending.OPEN


class Outcome(StrEnum):
    """Why a change or rollout ended as it did."""

    MEASURED_BETTER = "measured_better"
    MEASURED_WORSE = "measured_worse"
    NOT_PROVED = "not_proved"
    GUARD_TRIPPED = "guard_tripped"
    DRAIN_TIMED_OUT = "drain_timed_out"
    STOP_FAILED = "stop_failed"
    START_FAILED = "start_failed"
    START_TIMED_OUT = "start_timed_out"
    NOT_GENERATING = "not_generating"
    WRONG_SETTING = "wrong_setting"
    PRECONDITION_FAILED = "precondition_failed"
    PREFLIGHT_FAILED = "preflight_failed"
    PAUSED = "paused"
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    UNDO_FAILED = "undo_failed"
    RESTARTED = "restarted"
    TOO_LITTLE_DATA = "too_little_data"
    #: The new process was ready once and then went away by itself.
    SERVER_DIED = "server_died"
    #: Brought back to the former setting on request, or because another server of the group could not follow.
    RESTORED = "restored"
    #: Ready, but the balancer could not be told to send traffic to it again.
    PUT_BACK_FAILED = "put_back_failed"
    #: Only said, not done: the server's driver is the dry run.
    DRY_RUN = "dry_run"


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The measured effect of a change: ratio of goodput after to before, minus 1, with its 95 % interval.

    `method` names how it was measured, `minutes` what it rests on; `before`/`after` are the compared numbers by name.
    """

    gain: float | None
    gain_low: float | None
    gain_high: float | None
    method: str
    minutes: float
    sentence: str
    before: Mapping[str, float | None] = field(default_factory=dict)
    after: Mapping[str, float | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollout:
    """One group, one new setting."""

    id: RolloutId
    group: GroupName
    decision: DecisionId
    current: Setting
    proposed: Setting
    created_at: datetime
    requested_by: str
    state: RolloutState = RolloutState.ACTIVE
    finished_at: datetime | None = None
    outcome: Outcome | None = None
    sentence: str = ""
    measured: Measured | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One server's part of a rollout. `deadline` bounds the current step in UTC, so that it survives our death."""

    id: ChangeId
    rollout: RolloutId
    server: ServerName
    position: int
    state: ChangeState
    current: Setting
    proposed: Setting
    entered_at: datetime
    deadline: datetime | None = None
    is_canary: bool = False
    #: Hash of the operator's base command when the change was planned; another one at undo voids `current`.
    command_hash: str = ""
    #: The process that served before, as its driver names it; another one there means someone restarted it meanwhile.
    process: str = ""
    #: Model names served before the change; all must be there again after it.
    models: tuple[str, ...] = ()
    #: Whether traffic is, or may be, held away from the server: set before it is taken out, cleared once it is back.
    traffic_held: bool = False
    #: Starts tried in this change, undo included.
    attempts: int = 0
    stop_asked_at: datetime | None = None
    killed_at: datetime | None = None
    #: Not before then is the next start tried (backoff after a failed one).
    retry_at: datetime | None = None
    drained_at: datetime | None = None
    stopped_at: datetime | None = None
    started_at: datetime | None = None
    ready_at: datetime | None = None
    outcome: Outcome | None = None
    sentence: str = ""
    measured: Measured | None = None
    history: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to do one thing in the fleet. `fence` rises with every new holder; a smaller one is void."""

    name: str
    holder: str
    fence: int
    expires_at: datetime
