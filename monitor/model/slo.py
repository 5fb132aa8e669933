"""Service level objectives: the aim, and how much of its error budget is spent."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Indicator(StrEnum):
    """What an SLO counts as good."""

    TIME_TO_FIRST_TOKEN = "time_to_first_token"
    TIME_PER_OUTPUT_TOKEN = "time_per_output_token"
    E2E_REQUEST = "e2e_request"
    AVAILABILITY = "availability"
    ACCEPTANCE = "acceptance"


@dataclass(frozen=True, slots=True, kw_only=True)
class Slo:
    """An objective (share of good events, 0 < objective < 1) over a rolling period of days.

    `threshold` is the bound of a good event: seconds for latencies, a ratio for acceptance, None for availability.
    """

    name: str
    indicator: Indicator
    objective: float
    period_days: float
    threshold: float | None = None
    group: str | None = None
    report_only: bool = False

    def __post_init__(self) -> None:
        if not 0.0 < self.objective < 1.0:
            raise ValueError(f"SLO {self.name}: objective {self.objective} is not between 0 and 1")

    @property
    def error_budget(self) -> float:
        """Share of events that may be bad."""
        return 1.0 - self.objective


@dataclass(frozen=True, slots=True, kw_only=True)
class Attainment:
    """An SLO measured: good of valid events in the period so far; None where there were none."""

    slo: Slo
    good: float
    valid: float

    @property
    def sli(self) -> float | None:
        """Share of good events."""
        return self.good / self.valid if self.valid > 0 else None

    @property
    def error_budget_remaining(self) -> float | None:
        """Share of the error budget left (1 = untouched, negative = overspent)."""
        sli = self.sli
        return None if sli is None else 1.0 - (1.0 - sli) / self.slo.error_budget
