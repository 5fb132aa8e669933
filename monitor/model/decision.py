"""Decisions: what acceptd concluded, from what, until when it holds, and on what condition it may be acted on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import NewType

from monitor.model.life import LifeId, Setting
from monitor.model.server import GroupName, ServerName

DecisionId = NewType("DecisionId", str)


class Action(StrEnum):
    """What a decision asks for."""

    RAISE = "raise"
    LOWER = "lower"
    OFF = "off"
    PROBE = "probe"
    KEEP = "keep"
    RESTART = "restart"


class Reason(StrEnum):
    """Why a decision is what it is; log field, metric label and key of the sentence shown."""

    ABOVE_RAISE_THRESHOLD = "above_raise_threshold"
    BELOW_LOWER_THRESHOLD = "below_lower_threshold"
    BETWEEN_THRESHOLDS = "between_thresholds"
    PREDICTED_GAIN = "predicted_gain"
    NO_CANDIDATE_CLEARS_BAR = "no_candidate_clears_bar"
    IDENTIFY_DRAFT_COST = "identify_draft_cost"
    SPECULATION_DOES_NOT_PAY = "speculation_does_not_pay"
    PREDICTED_LOSS = "predicted_loss"
    TRIPS_OPPOSITE_TRIGGER = "trips_opposite_trigger"
    TOO_LITTLE_DATA = "too_little_data"
    NO_DATA = "no_data"
    CONDITION_NOT_HELD = "condition_not_held"
    AT_LIMIT = "at_limit"
    REJECTED_BEFORE = "rejected_before"
    GAIN_BELOW_RESTART_COST = "gain_below_restart_cost"
    ENGINE_ADAPTS_ITSELF = "engine_adapts_itself"
    SCHEDULE_SET = "schedule_set"
    DIFFUSION_MODEL = "diffusion_model"
    BROKEN_DRAFT = "broken_draft"
    WRONG_PAIR = "wrong_pair"
    DECAY_WITH_UPTIME = "decay_with_uptime"
    SATURATED = "saturated"
    SPECULATION_OFF = "speculation_off"
    SETTING_UNKNOWN = "setting_unknown"
    UNRELIABLE_COUNTERS = "unreliable_counters"
    ENGINE_STUCK = "engine_stuck"
    SERVER_DOWN = "server_down"
    REQUESTED_BY_OPERATOR = "requested_by_operator"


class DecisionState(StrEnum):
    """What became of a decision."""

    STANDING = "standing"
    RECOMMENDED = "recommended"
    AWAITING_APPROVAL = "awaiting_approval"
    APPROVED = "approved"
    REJECTED = "rejected"
    ACTED_ON = "acted_on"
    REFUSED = "refused"
    EXPIRED = "expired"
    SUPERSEDED = "superseded"


@dataclass(frozen=True, slots=True)
class Precondition:
    """What must still be true of each server when the decision is acted on: the life seen and its setting."""

    lives: Mapping[ServerName, tuple[LifeId, ...]]
    setting: Setting


@dataclass(frozen=True, slots=True)
class ThresholdAnswer:
    """What the literal 70/50 rule says of the same numbers, shown beside every decision."""

    action: Action
    num_speculative_tokens: int | None
    sentence: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """One conclusion about one group. Gains are ratios of goodput (0.05 = 5 % more), None where not predicted."""

    id: DecisionId
    group: GroupName
    servers: tuple[ServerName, ...]
    rule: str
    action: Action
    reason: Reason
    sentence: str
    current: Setting
    proposed: Setting
    precondition: Precondition
    made_at: datetime
    expires_at: datetime
    state: DecisionState = DecisionState.STANDING
    gain: float | None = None
    gain_low: float | None = None
    gain_high: float | None = None
    #: Numbers the decision rests on, by signal name (and `num_drafts` …), for `why` and replay.
    evidence: Mapping[str, float | None] = field(default_factory=dict)
    window_seconds: float = 0.0
    threshold: ThresholdAnswer | None = None
    #: Why it was refused, or who approved it.
    note: str = ""

    @property
    def changes_setting(self) -> bool:
        """Whether acting on it means restarting servers."""
        return self.action in (Action.RAISE, Action.LOWER, Action.OFF, Action.PROBE, Action.RESTART)
