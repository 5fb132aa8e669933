"""Service level objectives: the aim, and how much of its error budget is spent."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Indicator(StrEnum):
    """What an SLO counts as good.

    Latencies, `availability` and `uptime` count events: requests, answers, checks (`inter_token`: engine steps, one per
    running request). The others count time slices: a slice is good when its number reaches the threshold, and without
    traffic it does not count at all.
    """

    TIME_TO_FIRST_TOKEN = "time_to_first_token"
    INTER_TOKEN = "inter_token"
    TIME_PER_OUTPUT_TOKEN = "time_per_output_token"
    E2E_REQUEST = "e2e_request"
    #: HTTP answers that were not 5xx, rejected requests counting as bad.
    AVAILABILITY = "availability"
    #: Checks (scrapes and probes) that the server answered.
    UPTIME = "uptime"
    ACCEPTANCE = "acceptance"
    EFFICIENCY = "efficiency"
    #: Generation tokens per second while the server has work.
    THROUGHPUT = "throughput"

    @property
    def is_latency(self) -> bool:
        """Whether it counts observations of a latency histogram."""
        return self in _LATENCIES

    @property
    def is_sliced(self) -> bool:
        """Whether it counts time slices instead of events."""
        return self in SLICED


_LATENCIES = frozenset(
    {Indicator.TIME_TO_FIRST_TOKEN, Indicator.INTER_TOKEN, Indicator.TIME_PER_OUTPUT_TOKEN, Indicator.E2E_REQUEST}
)
SLICED = frozenset({Indicator.ACCEPTANCE, Indicator.EFFICIENCY, Indicator.THROUGHPUT})


@dataclass(frozen=True, slots=True, kw_only=True)
class Slo:
    """An objective (share of good events, 0 < objective < 1) over a rolling period of days.

    `threshold` is the bound of a good event: seconds for latencies, a ratio for acceptance and efficiency, tokens per
    second for throughput, None for availability and uptime. `group` or `server` narrow it; None means every one.
    `model` counts one model on all servers of the fleet together.
    """

    name: str
    indicator: Indicator
    objective: float
    period_days: float
    threshold: float | None = None
    group: str | None = None
    server: str | None = None
    model: str | None = None
    report_only: bool = False
    #: Valid events a window must have before its burn rate is judged: few requests make one slow one look like a fire.
    minimum_events: float = 0.0
    #: Length of a time slice (seconds), for sliced indicators.
    slice_seconds: float = 300.0

    def __post_init__(self) -> None:
        if not 0.0 < self.objective < 1.0:
            raise ValueError(f"SLO {self.name}: objective {self.objective} is not between 0 and 1")
        if self.period_days <= 0 or self.slice_seconds <= 0 or self.minimum_events < 0:
            raise ValueError(f"SLO {self.name}: period, slice and minimum of events must not be negative")
        if (self.threshold is None) != (self.indicator in (Indicator.AVAILABILITY, Indicator.UPTIME)):
            raise ValueError(f"SLO {self.name}: {self.indicator} and threshold {self.threshold} do not go together")
        if self.threshold is not None and self.threshold <= 0:
            raise ValueError(f"SLO {self.name}: threshold {self.threshold} is not above 0")
        if self.indicator in (Indicator.ACCEPTANCE, Indicator.EFFICIENCY) and (self.threshold or 0.0) > 1.0:
            raise ValueError(f"SLO {self.name}: threshold {self.threshold} is no ratio")

    @property
    def error_budget(self) -> float:
        """Share of events that may be bad."""
        return 1.0 - self.objective


@dataclass(frozen=True, slots=True, kw_only=True)
class Attainment:
    """An SLO measured: good of valid events in the period so far; None where there were none.

    `known` is the share of the period that was watched by then (0 to 1).
    """

    slo: Slo
    good: float
    valid: float
    known: float = 1.0

    @property
    def sli(self) -> float | None:
        """Share of good events."""
        return self.good / self.valid if self.valid > 0 else None

    @property
    def error_budget_remaining(self) -> float | None:
        """Share of the whole period's error budget left (1 = untouched, negative = overspent).

        What was not watched yet counts as good, at the rate of events that was: a bad minute on the first day spends no
        more of a month than a later one.
        """
        sli = self.sli
        return None if sli is None else 1.0 - self.known * (1.0 - sli) / self.slo.error_budget
