"""What the daemon's own endpoints show."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from monitor import shipped
from monitor.actions.records import is_in_traffic
from monitor.app.heart import Heart
from monitor.clock import Clock
from monitor.errors import StoreError
from monitor.model.server import Group, Server, ServerName
from monitor.report import lookup
from monitor.report.history import SPANS, history
from monitor.report.overview import WINDOW_SECONDS, Known, overview
from monitor.report.slo_view import course_view
from monitor.report.trends import LARGE, day_trends
from monitor.report.views import command_view
from monitor.slo.burn import SloStatus
from monitor.slo.course import Course
from monitor.store import Store
from monitor.store.api import Unit
from monitor.telemetry import Telemetry

log = logging.getLogger(__name__)

#: How long the trends of a day are shown before they are read again (seconds): they move by the hour.
_TRENDS_SECONDS = 300.0


class DaemonView:
    """Answers for the endpoints; see `monitor.web.source.Source`."""

    def __init__(
        self, store: Store, telemetry: Telemetry, groups: Sequence[Group], servers: Sequence[Server], clock: Clock,
        heart: Heart, *, tried_all: Callable[[], bool], report_file: Callable[[str | None, str], Path | None],
        live_report: Callable[[], str], slos: Callable[[], Sequence[SloStatus] | None] = lambda: None,
        known: Callable[[], Mapping[ServerName, Known] | None] = lambda: None,
        refused: Callable[[ServerName], None] = lambda server: None,
        courses: Callable[[datetime, str | None, int], Sequence[Course] | None] = lambda now, group, most: None,
    ) -> None:
        """`slos`: every SLO as of the newest evaluation, `courses`: how each fared until then; None while their history
        is being read. `known`: the signals
        of that evaluation; None before the first, when they are read from the store.

        `refused` hears of each server that a balancer was told not to send anything to.
        """
        self._refused = refused
        self._slos = slos
        self._courses = courses
        self._known = known
        self._store = store
        self._telemetry = telemetry
        self._groups = {group.name: group for group in groups}
        self._servers = {server.name: server for server in servers}
        self._clock = clock
        self._heart = heart
        self._tried_all = tried_all
        self._report_file = report_file
        self._live_report = live_report
        self._lock = threading.Lock()
        self._trends: tuple[float, Mapping[str, Sequence[float | None]]] | None = None
        self._reading: threading.Thread | None = None

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

    def fleet_trouble(self) -> str:
        """Nothing: this host shows itself alone."""
        return ""

    def overview(self) -> dict[str, Any]:
        """How everything stands now."""
        with self._store.read() as unit:
            return overview(
                unit, list(self._groups.values()), list(self._servers.values()), self._clock.now(),
                window_seconds=WINDOW_SECONDS, slos=self._slos(), known=self._known(),
            )

    def slo_courses(self, group: str | None, most: int) -> list[dict[str, Any]] | None:
        """How SLOs have fared, with the rollouts of their groups and their own alerts."""
        now = self._clock.now()
        found = self._courses(now, group, most)
        if found is None:
            return None
        since = min((one.times[0] for one in found if one.times), default=now)
        with self._store.read() as unit:
            rollouts = unit.rollouts.since(None, since)
            alerts = unit.alerts.since(since)
        return [course_view(one, rollouts, alerts) for one in found]

    def trends(self) -> Mapping[str, Sequence[float | None]]:
        """Acceptance of the last day, read again every few minutes; of a large fleet while the page does not wait."""
        with self._lock:
            is_old = self._trends is None or self._clock.monotonic() - self._trends[0] > _TRENDS_SECONDS
            if is_old and len(self._servers) <= LARGE:
                self._read_trends()
            elif is_old and (self._reading is None or not self._reading.is_alive()):
                self._reading = threading.Thread(target=self._read_trends, name="trends", daemon=True)
                self._reading.start()
            return self._trends[1] if self._trends is not None else {}

    def _read_trends(self) -> None:
        try:
            with self._store.read() as unit:
                found = day_trends(unit, list(self._groups.values()), self._clock.now())
        except StoreError as error:
            log.warning("acceptance of the last day cannot be read: %s", error)
            return
        self._trends = (self._clock.monotonic(), found)

    def history(self, *, server: str | None = None, group: str | None = None, span: str) -> dict[str, Any] | None:
        """What a server or a group did over a span."""
        if server is not None:
            names: Sequence[ServerName] = [ServerName(server)] if server in self._servers else []
        else:
            found = next((one for one in self._groups.values() if one.name == group), None)
            names = found.servers if found is not None else ()
        if not names:
            return None
        with self._store.read() as unit:
            return history(unit, names, SPANS[span], self._clock.now())

    def server(self, name: str) -> dict[str, Any] | None:
        """What is kept of a server."""
        server = self._servers.get(ServerName(name))
        if server is None:
            return None
        with self._store.read() as unit:
            return lookup.server_in_full(unit, server.name, server.group, self._clock.now())

    def alerts(self, days: float) -> dict[str, Any]:
        """Alerts now and of the last days."""
        with self._store.read() as unit:
            return lookup.alerts_since(unit, self._back(days), self._clock.now())

    def alert(self, fingerprint: str) -> dict[str, Any] | None:
        """One alert."""
        with self._store.read() as unit:
            return lookup.alert_in_full(unit, fingerprint, self._clock.now())

    def decisions(self, group: str | None, days: float) -> list[dict[str, Any]]:
        """Decisions of the last days."""
        with self._store.read() as unit:
            return lookup.decisions_since(unit, group, self._back(days))

    def decision(self, name: str, planned: str | None = None) -> dict[str, Any] | None:
        """A decision in full."""
        with self._store.read() as unit:
            found = lookup.find_decision(unit, name)
            return lookup.explain(unit, found, planned) if found is not None else None

    def rollouts(self, group: str | None, days: float) -> list[dict[str, Any]]:
        """Rollouts of the last days."""
        with self._store.read() as unit:
            return lookup.rollouts_since(unit, group, self._back(days))

    def rollout(self, name: str) -> dict[str, Any] | None:
        """A rollout in full."""
        return self._look(lambda unit: lookup.rollout_in_full(unit, name))

    def muted(self, days: float) -> dict[str, Any]:
        """Silences and pauses."""
        with self._store.read() as unit:
            return lookup.muted(unit, self._clock.now(), days)

    def evidence(self, name: str) -> dict[str, Any] | None:
        """What was seen at an incident."""
        return self._look(lambda unit: lookup.evidence_in_full(unit, name))

    def runbook(self, name: str) -> str | None:
        """A shipped runbook."""
        return shipped.runbook(name)

    def trail(self, limit: int) -> list[dict[str, Any]]:
        """Who did what."""
        with self._store.read() as unit:
            return lookup.recent_trail(unit, limit)

    def reports(self) -> list[dict[str, Any]]:
        """Reports kept."""
        with self._store.read() as unit:
            return lookup.reports_kept(unit)

    def report_file(self, key: str | None, ending: str = "html") -> Path | None:
        """A file of a report."""
        return self._report_file(key, ending)

    def live_report(self) -> str:
        """A report on the week so far."""
        return self._live_report()

    def request(self, name: str) -> dict[str, Any] | None:
        """A request with its outcome."""
        with self._store.read() as unit:
            command = unit.commands.get(name)
        return command_view(command) if command is not None else None

    def _look(self, find: Callable[[Unit], dict[str, Any] | None]) -> dict[str, Any] | None:
        with self._store.read() as unit:
            return find(unit)

    def _back(self, days: float) -> datetime:
        return self._clock.now() - timedelta(days=days)
