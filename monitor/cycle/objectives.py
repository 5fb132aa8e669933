"""What an evaluation asks of the SLOs, whoever keeps them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from monitor.model.outcome import RuleOutcome
from monitor.model.record import Checks
from monitor.slo.burn import SloStatus


@dataclass(frozen=True, slots=True)
class SloLook:
    """Every SLO at one moment, and what it says as alerts. `is_whole` is False until history has been read back."""

    statuses: tuple[SloStatus, ...] = ()
    outcomes: tuple[RuleOutcome, ...] = ()
    is_whole: bool = True


class Objectives(Protocol):
    """What an evaluation asks of the SLOs."""

    def look(self, now: datetime) -> SloLook:
        """Every SLO at `now`."""
        ...

    def checks(self) -> tuple[Checks, ...]:
        """Checks that are to be stored."""
        ...

    def stored(self, checks: Iterable[Checks]) -> None:
        """These have been stored."""
        ...


class NoObjectives:
    """No SLOs."""

    def look(self, now: datetime) -> SloLook:
        """Nothing."""
        return SloLook()

    def checks(self) -> tuple[Checks, ...]:
        """None."""
        return ()

    def stored(self, checks: Iterable[Checks]) -> None:
        """Nothing."""
