"""What people and rules ask for: pauses, requests, timers."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Protocol

from monitor.model.record import Command, Pause, RuleTimer


class Pauses(Protocol):
    """Where no change may start; one pause a scope."""

    def set(self, pause: Pause) -> None:
        """Store a pause in place of the scope's last."""

    def clear(self, scope: str) -> bool:
        """Lift the pause of `scope`; False where there was none."""

    def active(self, now: datetime) -> list[Pause]:
        """Pauses that are not over at `now`, by scope."""


class Commands(Protocol):
    """Requests of CLI, page and chat to the daemon."""

    def add(self, command: Command) -> None:
        """Store a new request; one with a known id is refused."""

    def pending(self) -> list[Command]:
        """Requests without an outcome, oldest first."""

    def finish(self, command: str, at: datetime, outcome: str) -> None:
        """Write the outcome of a request; an unknown id is refused."""

    def get(self, command: str) -> Command | None:
        """The request of that id; None where there is none."""


class Timers(Protocol):
    """How long rules have held."""

    def all(self) -> list[RuleTimer]:
        """Every timer, by rule and scope."""

    def put(self, timers: Iterable[RuleTimer]) -> None:
        """Store timers in place of the last ones of their rule and scope."""
