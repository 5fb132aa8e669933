"""What a report says, as values. It owns neither how they are found nor how they are drawn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from monitor.model.rollout import Ending
from monitor.model.server import Mode


@dataclass(frozen=True, slots=True)
class TrendPoint:
    """One bucket of a server's history; None where it had no data."""

    at: datetime
    acceptance_rate: float | None
    acceptance_length: float | None
    generation_tokens_per_second: float | None
    step_seconds: float | None
    num_speculative_tokens: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerReport:
    """One server over the period. `figures` are signals at the newest setting, `before` those of a period earlier."""

    name: str
    model: str
    setting: str
    engine_version: str | None
    figures: Mapping[str, float | None]
    before: Mapping[str, float | None]
    survival: tuple[float | None, ...]
    generation_tokens: float
    trend: tuple[TrendPoint, ...]
    notes: tuple[str, ...] = ()
    #: Share of the period for which there is data (0 to 1).
    covered: float = 0.0
    #: Throughput against the period before at equal load, ratio minus 1; None without loads that both had.
    equal_load_change: float | None = None
    #: Hours of the period with half a running request or more in their mean; None where the page does not say.
    busy_hours: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeReport:
    """One change made in the period, and what it measurably did (gain: ratio of goodput, 0.05 = 5 % more)."""

    at: datetime
    server: str
    old: str
    new: str
    outcome: str
    sentence: str
    ending: Ending
    gain: float | None = None
    gain_low: float | None = None
    gain_high: float | None = None
    measured_minutes: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AdviceReport:
    """What is recommended for a group now and why."""

    decision: str
    words: str
    sentence: str
    #: Whether it asks for a change that nobody has made, declined or begun.
    is_open: bool
    gain: float | None = None
    gain_low: float | None = None
    gain_high: float | None = None
    threshold_sentence: str = ""
    command: str = ""
    confidence: str = ""


@dataclass(frozen=True, slots=True)
class SloReport:
    """One objective over its period so far."""

    name: str
    group: str
    objective: float
    sli: float | None
    error_budget_remaining: float | None
    valid: float
    report_only: bool


@dataclass(frozen=True, slots=True)
class AlertReport:
    """One alert that fired in the period."""

    name: str
    severity: str
    scope: str
    fired_at: datetime
    resolved_at: datetime | None
    summary: str
    #: Whether people were told of it: one that was silenced, or that another one explains, calls nobody.
    told: bool = True


@dataclass(frozen=True, slots=True)
class Noise:
    """How often people were called: messages of pages and of tickets, over so many shifts; pages in the worst shift.

    What is told in one message counts once, however many alerts it names, and its repeats not at all.
    """

    pages: int
    tickets: int
    shifts: float
    busiest: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupReport:
    """One group over the period."""

    name: str
    mode: Mode
    servers: tuple[ServerReport, ...]
    changes: tuple[ChangeReport, ...]
    advice: AdviceReport | None
    slos: tuple[SloReport, ...] = ()
    alerts: tuple[AlertReport, ...] = ()
    #: All servers together over time; empty where there is one, whose own trend says the same.
    trend: tuple[TrendPoint, ...] = ()
    #: Why it could not be tuned; empty where it could, or needs nothing.
    hindrance: str = ""
    #: How often people were called about it.
    pages: int = 0

    @property
    def generation_tokens_per_second(self) -> float | None:
        """Tokens per second of all servers together; None where none has a figure."""
        known = [v for s in self.servers if (v := s.figures.get("generation_tokens_per_second")) is not None]
        return sum(known) if known else None


@dataclass(frozen=True, slots=True)
class Todo:
    """One thing to do, worth so many tokens per second by the prediction (None where nothing is predicted)."""

    text: str
    command: str
    worth: float | None = None
    #: The same as hours of one server a week that its work would no longer take.
    server_hours: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WeeklyReport:
    """The whole report. `target_acceptance` is the guides' target: shown, never paged."""

    key: str
    start: datetime
    end: datetime
    made_at: datetime
    host: str
    groups: tuple[GroupReport, ...]
    todo: tuple[Todo, ...]
    headline: str
    target_acceptance: float
    noise: Noise = Noise(0, 0, 1.0, 0)
    #: Those that are about no group: of hosts, of acceptd itself.
    alerts: tuple[AlertReport, ...] = ()
    simulated: bool = False
    notes: tuple[str, ...] = field(default=())
