"""What the daemon's own endpoints show."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from monitor.actions.records import is_in_traffic
from monitor.clock import Clock
from monitor.errors import StoreError
from monitor.model.server import Group, Server, ServerName
from monitor.report.overview import overview
from monitor.slo.burn import SloStatus
from monitor.store import Store
from monitor.telemetry import Telemetry


class Heart:
    """When the loop last finished a turn; the watchdog and `/-/healthy` ask it."""

    def __init__(self, clock: Clock, limit_seconds: float) -> None:
        self._clock = clock
        self._limit = limit_seconds
        self._last = clock.monotonic()

    def beat(self) -> None:
        """A turn ended."""
        self._last = self._clock.monotonic()

    def stands_still(self) -> str | None:
        """Why the loop counts as stuck; None while it does not."""
        age = self._clock.monotonic() - self._last
        return f"the loop has not finished a turn for {age:.0f} s" if age > self._limit else None


class DaemonView:
    """Answers for the endpoints."""

    def __init__(
        self, store: Store, telemetry: Telemetry, groups: Sequence[Group], servers: Sequence[Server], clock: Clock,
        heart: Heart, *, tried_all: Callable[[], bool], report_file: Callable[[str | None], Path | None],
        live_report: Callable[[], str], slos: Callable[[], Sequence[SloStatus] | None] = lambda: None,
        refused: Callable[[ServerName], None] = lambda server: None,
    ) -> None:
        """`slos`: every SLO as of the newest evaluation; None while their history is being read.

        `refused` hears of each server that a balancer was told not to send anything to.
        """
        self._refused = refused
        self._slos = slos
        self._store = store
        self._telemetry = telemetry
        self._groups = tuple(groups)
        self._servers = {server.name: server for server in servers}
        self._clock = clock
        self._heart = heart
        self._tried_all = tried_all
        self._report_file = report_file
        self._live_report = live_report

    def metrics(self) -> bytes:
        """The daemon's own metrics."""
        return self._telemetry.page()

    def unhealthy(self) -> str | None:
        """Why the daemon does not work."""
        still = self._heart.stands_still()
        if still is not None:
            return still
        try:
            with self._store.read() as unit:
                unit.outbox.pending_count()
        except StoreError as error:
            return f"the store cannot be read: {error}"
        return None

    def unready(self) -> str | None:
        """What has not been done since start."""
        return None if self._tried_all() else "not every server has been read yet"

    def serving(self, server: str) -> bool | None:
        """Whether a balancer may send traffic: not while a change of ours holds it away."""
        if server not in self._servers:
            return None
        name = ServerName(server)
        with self._store.read() as unit:
            may = is_in_traffic(unit, name, self._clock.now())
        if not may:
            self._refused(name)
        return may

    def overview(self) -> dict[str, Any]:
        """How everything stands now."""
        with self._store.read() as unit:
            now = self._clock.now()
            return overview(unit, self._groups, list(self._servers.values()), now, slos=self._slos())

    def report_file(self, key: str | None) -> Path | None:
        """The HTML of a report."""
        return self._report_file(key)

    def live_report(self) -> str:
        """A report on the week so far."""
        return self._live_report()
