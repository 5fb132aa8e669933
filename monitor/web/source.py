"""What the pages show and what they may ask for, as the daemon gives it to them. Everything shown is plain data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from monitor.errors import MonitorError

#: Plain data: what JSON can say.
Plain = dict[str, Any]


class NoSuchThing(MonitorError):
    """What a request is about does not exist, or is over."""


class Source(Protocol):
    """Answers for the endpoints; each call is quick and safe from any thread. None where there is no such thing."""

    def metrics(self) -> bytes:
        """The exposition of the daemon's own metrics."""
        ...

    def unhealthy(self) -> str | None:
        """Why the daemon does not work (its loop stands still, its store is away); None while it does."""
        ...

    def unready(self) -> str | None:
        """What has not been done since start (store opened, every server tried once); None when all has."""
        ...

    def serving(self, server: str) -> bool | None:
        """Whether a balancer may send traffic to `server`; None for one that acceptd does not know."""
        ...

    def overview(self) -> Plain:
        """How everything stands now: groups with servers, alerts, pauses, SLOs.

        Where hosts share a database also `fleet`, with each server's host, and of all hosts.
        """
        ...

    def fleet_trouble(self) -> str:
        """Why other hosts' servers are missing, or shown as they were; empty where nothing is wrong."""
        ...

    def slo_courses(self, group: str | None, most: int) -> list[Plain] | None:
        """How so many objectives (of one group) have fared over their periods, least budget left first.

        None while their history is being read.
        """
        ...

    def trends(self) -> Mapping[str, Sequence[float | None]]:
        """Acceptance of the last day by hour, by server and by `group:NAME`; some minutes old for a large fleet."""
        ...

    def history(self, *, server: str | None = None, group: str | None = None, span: str) -> Plain | None:
        """What a server or a group did over a span (`1h` … `90d`)."""
        ...

    def server(self, name: str) -> Plain | None:
        """What is kept of a server beside its figures."""
        ...

    def alerts(self, days: float) -> Plain:
        """Alerts that fire, are pending, or resolved in the last days."""
        ...

    def alert(self, fingerprint: str) -> Plain | None:
        """One alert with its trail."""
        ...

    def decisions(self, group: str | None, days: float) -> list[Plain]:
        """Decisions of the last days, newest first."""
        ...

    def decision(self, name: str, planned: str | None = None) -> Plain | None:
        """A decision with its plan (that of the request `planned`, else the first), what came of it, and its trail.

        Also by its rollout or change.
        """
        ...

    def rollouts(self, group: str | None, days: float) -> list[Plain]:
        """Rollouts of the last days, newest first."""
        ...

    def rollout(self, name: str) -> Plain | None:
        """A rollout with its changes and its trail."""
        ...

    def muted(self, days: float) -> Plain:
        """Pauses and silences in force, and silences that ended in the last days."""
        ...

    def evidence(self, name: str) -> Plain | None:
        """What was seen at an incident."""
        ...

    def runbook(self, name: str) -> str | None:
        """The text of a runbook."""
        ...

    def trail(self, limit: int) -> list[Plain]:
        """Who did what, newest first."""
        ...

    def reports(self) -> list[Plain]:
        """Weekly reports kept, newest first."""
        ...

    def report_file(self, key: str | None, ending: str = "html") -> Path | None:
        """A file of a weekly report (`html`, `md`, `json`), of the newest one for None."""
        ...

    def live_report(self) -> str:
        """The HTML of a report on the week so far, made now."""
        ...

    def request(self, name: str) -> Plain | None:
        """A request that somebody made of the daemon, with its outcome."""
        ...


class Desk(Protocol):
    """What the pages may ask for. Names that do not exist raise NoSuchThing, values that cannot be ConfigError."""

    def ask(self, kind: str, subject: str, author: str) -> Plain:
        """Request something of the daemon (`approve`, `reject`, `plan`, `rollback`, `report`), wait a little for it."""
        ...

    def silence(self, matchers: Sequence[str], length: str, reason: str, author: str) -> Plain:
        """Silence alerts that match, for a time such as `4h`."""
        ...

    def silence_alert(self, fingerprint: str, length: str, reason: str, author: str) -> Plain:
        """Silence exactly one alert."""
        ...

    def end_silence(self, name: str, author: str) -> None:
        """End a silence now."""
        ...

    def pause(self, scope: str, length: str, reason: str, author: str) -> Plain:
        """Start no change in a scope (`*`, `group:NAME`, `server:NAME`); for good where `length` is empty."""
        ...

    def resume(self, scope: str, author: str) -> None:
        """Lift a pause."""
        ...

    def acknowledge(self, fingerprint: str, author: str) -> None:
        """Say that somebody is on it."""
        ...
