"""What rules said: the outcome of one rule in one scope, and the change that a tuning rule asks for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum


class Truth(StrEnum):
    """Outcome of a condition. No data is neither true nor false."""

    TRUE = "true"
    FALSE = "false"
    NO_DATA = "no_data"


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleOutcome:
    """One rule evaluated once in one scope.

    `labels` are those of the alert it would be (`alertname` included); `annotations` are rendered where it is true.
    `reason` says in words why there is no data.
    """

    rule: str
    scope: str
    truth: Truth
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    evidence: Mapping[str, float | None] = field(default_factory=dict)
    reason: str = ""
    #: How long it must hold before it fires, and how long it fires on after it stopped holding (seconds).
    for_seconds: float = 0.0
    keep_firing_for_seconds: float = 0.0


class ChangeKind(StrEnum):
    """What a tuning rule wants done with `num_speculative_tokens`."""

    STEP = "step"
    SET = "set"
    OFF = "off"
    #: Whatever the goodput tuner answers.
    TUNER = "tuner"


@dataclass(frozen=True, slots=True)
class TuneChange:
    """The `do:` of a tuning rule. `tokens` is the step (`+1`, `-1`) or the value to set; None for off and tuner."""

    kind: ChangeKind
    tokens: int | None = None

    def __post_init__(self) -> None:
        if (self.tokens is not None) != (self.kind in (ChangeKind.STEP, ChangeKind.SET)):
            raise ValueError(f"change {self.kind}: {self.tokens} tokens make no sense")
        if self.tokens == 0 or (self.kind is ChangeKind.SET and (self.tokens or 0) < 1):
            raise ValueError(f"change {self.kind}: {self.tokens} tokens; 0 is spelled off")

    def describe(self) -> str:
        """The change as it stands in a rule file."""
        if self.tokens is None:
            return str(self.kind)
        return f"{self.tokens:+d}" if self.kind is ChangeKind.STEP else str(self.tokens)


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneFiring:
    """A tuning rule that has held for its `for` in one scope: what it asks, on which numbers, since when.

    `guard` names who must agree first (`goodput`: the tuner predicts help and no trip of the opposite trigger; `sure`,
    for the tuner's own changes: even the lower bound of the predicted gain is worth it).
    """

    rule: str
    scope: str
    change: TuneChange
    held_since: datetime
    held_seconds: float
    window_seconds: float
    evidence: Mapping[str, float | None] = field(default_factory=dict)
    guard: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
