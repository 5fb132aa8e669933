"""Alerts and silences: what is wrong, since when, and who asked not to hear of it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from functools import lru_cache
from typing import NewType

from monitor.model.regex import regex

#: An alert that fires again this soon after it resolved is flapping (seconds); resolved ones are remembered as long.
FLAP_SECONDS = 1800.0

Fingerprint = NewType("Fingerprint", str)
SilenceId = NewType("SilenceId", str)


class AlertState(StrEnum):
    """The life of an alert, as in Prometheus."""

    INACTIVE = "inactive"
    PENDING = "pending"
    FIRING = "firing"
    RESOLVED = "resolved"


class Severity(StrEnum):
    """How loud: a page wakes someone, a ticket waits for the day, info is only shown."""

    PAGE = "page"
    TICKET = "ticket"
    INFO = "info"


def fingerprint(labels: Mapping[str, str]) -> Fingerprint:
    """Identity of an alert: a hash of its sorted labels (`alertname` included), stable across restarts."""
    return _hashed(tuple(labels.items()))


@lru_cache(maxsize=65_536)
def _hashed(labels: tuple[tuple[str, str], ...]) -> Fingerprint:
    """Every evaluation asks for the same ones."""
    text = "\xff".join(f"{name}\xfe{value}" for name, value in sorted(labels))
    return Fingerprint(hashlib.sha256(text.encode()).hexdigest()[:16])


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """One alert rule on one scope. `labels` hold `alertname`, `severity` and the scope (`server`, `group`)."""

    fingerprint: Fingerprint
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    state: AlertState
    #: When its condition first held (pending), when it fired, when it resolved, when it last held.
    active_since: datetime
    fired_at: datetime | None = None
    resolved_at: datetime | None = None
    last_true: datetime | None = None
    evidence: Mapping[str, float | None] = field(default_factory=dict)
    acknowledged_by: str | None = None
    #: When a notice of it was last queued, for the repeat interval.
    notified_at: datetime | None = None
    #: Since when its condition has been false while it fires on (`keep_firing_for`).
    clear_since: datetime | None = None
    #: The incident it was told as: the thread of its notices. Empty until the first one.
    incident: str = ""
    #: Time since `active_since` in which there was no data (seconds): it does not count towards `for`.
    unseen_seconds: float = 0.0
    #: How many times it fired again soon after it had resolved; each makes it hold on longer before it resolves.
    refired: int = 0
    #: Probable causes with the numbers that speak for each, the likeliest first, as found when it fired.
    causes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The rule's name."""
        return self.labels.get("alertname", "")

    @property
    def severity(self) -> Severity:
        """Its severity label; an unknown one counts as a ticket."""
        value = self.labels.get("severity", "")
        return Severity(value) if value in Severity._value2member_map_ else Severity.TICKET


@dataclass(frozen=True, slots=True)
class Matcher:
    """One label matcher, as in Alertmanager: `=`, `!=`, `=~` or `!~` (anchored regular expressions of RE2).

    One with an expression that RE2 refuses can be made, since an older acceptd may have stored it in a silence. It
    matches nothing, whatever its operator. Whoever reads matchers of people looks at `refusal`.
    """

    label: str
    operator: str
    value: str

    def __post_init__(self) -> None:
        if self.operator not in ("=", "!=", "=~", "!~"):
            raise ValueError(f"matcher operator {self.operator!r}: expected one of = != =~ !~")

    def __str__(self) -> str:
        """The matcher as people write it: `server=chat-1`."""
        return f"{self.label}{self.operator}{self.value}"

    @property
    def refusal(self) -> str:
        """What RE2 does not take of its expression; empty where it takes all, or there is none."""
        return regex(self.value).refusal if self.operator.endswith("~") else ""

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether `labels` satisfy the matcher; a missing label counts as empty."""
        found = labels.get(self.label, "")
        if self.operator.endswith("~"):
            expression = regex(self.value)
            if expression.refusal:
                return False
            hit = expression.fits(found)
        else:
            hit = found == self.value
        return hit if self.operator.startswith("=") else not hit


@dataclass(frozen=True, slots=True, kw_only=True)
class Silence:
    """Alerts that match all matchers are not sent between `starts_at` and `ends_at`."""

    id: SilenceId
    matchers: tuple[Matcher, ...]
    author: str
    reason: str
    starts_at: datetime
    ends_at: datetime

    @property
    def refusal(self) -> str:
        """Why it mutes nothing: the first matcher whose expression is refused. Empty where all are sound."""
        return next((f"{one}: RE2 refuses its expression ({one.refusal})" for one in self.matchers if one.refusal), "")

    def mutes(self, labels: Mapping[str, str], now: datetime) -> bool:
        """Whether an alert with `labels` is muted at `now`."""
        return self.starts_at <= now < self.ends_at and all(m.matches(labels) for m in self.matchers)
