"""What the endpoints show, as the daemon gives it to them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol


class Source(Protocol):
    """Answers for the endpoints; each call is quick and safe from any thread."""

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

    def overview(self) -> dict[str, Any]:
        """How everything stands now."""
        ...

    def report_file(self, key: str | None) -> Path | None:
        """The HTML of a weekly report, the newest for None; None where there is none."""
        ...

    def live_report(self) -> str:
        """The HTML of a report on the week so far, made now."""
        ...
