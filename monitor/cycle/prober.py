"""Asks a server that looks stuck for one token, and keeps what was seen when it gave none.

Gauges alone cannot tell a wedged engine from stale numbers (running > 0, counters flat, `/health` 200): only a
generation can. One question at a time a server, never to one that sleeps or that nothing points at.
"""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from monitor.clock import Clock
from monitor.model.record import Evidence
from monitor.model.server import ServerName
from monitor.scrape.probe import Probed

log = logging.getLogger(__name__)

#: A server is asked once its counters have stood still with work to do for this long (seconds).
SUSPECT_SECONDS = 30.0
#: The answer holds for this long (seconds); a server that still looks stuck is asked again then.
FRESH_SECONDS = 60.0
#: The same for `/health` while the page cannot be had (seconds).
HEALTH_FRESH_SECONDS = 15.0


class Generator(Protocol):
    """What can be asked of a server."""

    def health(self) -> Probed:
        """Whether `/health` says 200."""
        ...

    def generate(self, *, timeout_seconds: float | None = ..., model: str | None = ...) -> Probed:
        """Whether it generates one token in time."""
        ...


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """What a question brought: `failed` None where it says nothing of the engine (we may not ask)."""

    failed: bool | None
    sentence: str
    at: datetime
    evidence: str | None = None


class Prober:
    """Remembers the newest answer of each server that was asked."""

    def __init__(
        self,
        probes: Mapping[ServerName, Generator],
        *,
        clock: Clock,
        keep: Callable[[Evidence], None],
        gather: Callable[[ServerName], Mapping[str, str]],
        suspect_seconds: float = SUSPECT_SECONDS,
        timeout_seconds: float = 20.0,
    ) -> None:
        """`gather` collects page, log tail and process state; `keep` stores them. A server without probe is not asked.
        """
        self._probes = probes
        self._clock = clock
        self._keep = keep
        self._gather = gather
        self._suspect = suspect_seconds
        self._timeout = timeout_seconds
        self._lock = threading.Lock()
        self._asking: dict[ServerName, threading.Thread] = {}
        #: Whether the newest thread was refused: said once.
        self._is_refused = False
        self._results: dict[ServerName, ProbeResult] = {}
        self._health: dict[ServerName, tuple[bool | None, datetime]] = {}

    def result(self, server: ServerName) -> ProbeResult | None:
        """The newest answer that is still fresh; None where none is wanted or known."""
        with self._lock:
            return self._results.get(server)

    def look(self, server: ServerName, stuck_seconds: float | None, is_sleeping: bool) -> None:
        """Ask `server` where it looks stuck and the last answer is old; forget the answer where it looks well."""
        if server not in self._probes:
            return
        now = self._clock.now()
        with self._lock:
            if stuck_seconds is None or stuck_seconds < self._suspect or is_sleeping:
                self._results.pop(server, None)
                return
            last = self._results.get(server)
            if last is not None and 0 <= (now - last.at).total_seconds() < FRESH_SECONDS:
                return
            running = self._asking.get(server)
            if running is not None and running.is_alive():
                return
            thread = threading.Thread(target=self._ask, args=(server,), name=f"probe-{server}", daemon=True)
            self._asking[server] = thread
        self._start(thread)

    def health(self, server: ServerName) -> bool | None:
        """Whether `/health` said 200 after the page could not be had; None where nobody asked, or we may not."""
        with self._lock:
            known = self._health.get(server)
        return known[0] if known is not None else None

    def look_health(self, server: ServerName, page_failed: bool) -> None:
        """Ask `/health` while the page cannot be had; forget the answer where it can."""
        if server not in self._probes:
            return
        now = self._clock.now()
        with self._lock:
            if not page_failed:
                self._health.pop(server, None)
                return
            last = self._health.get(server)
            running = self._asking.get(server)
            is_fresh = last is not None and 0 <= (now - last[1]).total_seconds() < HEALTH_FRESH_SECONDS
            if is_fresh or (running is not None and running.is_alive()):
                return
            thread = threading.Thread(target=self._ask_health, args=(server,), name=f"health-{server}", daemon=True)
            self._asking[server] = thread
        self._start(thread)

    def wait(self, server: ServerName, timeout: float) -> None:
        """Wait for a question under way (for tests and for stopping)."""
        thread = self._asking.get(server)
        if thread is not None:
            thread.join(timeout)

    def _start(self, thread: threading.Thread) -> None:
        """Ask in the background; where the machine gives no thread, alerts are evaluated without the answer."""
        try:
            thread.start()
        except RuntimeError as error:
            if not self._is_refused:
                log.warning("server not asked, the machine gives no thread thread=%s: %s", thread.name, error)
            self._is_refused = True
        else:
            self._is_refused = False

    def _ask_health(self, server: ServerName) -> None:
        answer = self._probes[server].health()
        with self._lock:
            self._health[server] = (None if answer.unauthorized else answer.ok, self._clock.now())

    def _ask(self, server: ServerName) -> None:
        probe = self._probes[server]
        answer = probe.generate(timeout_seconds=self._timeout)
        now = self._clock.now()
        if answer.ok or answer.unauthorized:
            failed = None if answer.unauthorized else False
            with self._lock:
                self._results[server] = ProbeResult(failed, answer.sentence, now)
            return
        health = probe.health()
        kept: str | None = None
        try:
            parts = {"probe": answer.sentence, "health": health.sentence, **self._gather(server)}
            evidence = Evidence(uuid.uuid4().hex[:12], server, now, "generation probe failed", parts)
            self._keep(evidence)
            kept = evidence.id
        except Exception:
            # Without its evidence the finding still counts.
            log.exception("evidence could not be kept server=%s", server)
        with self._lock:
            self._results[server] = ProbeResult(True, f"{answer.sentence}; {health.sentence}", now, kept)
        log.warning("generation probe failed server=%s evidence=%s: %s", server, kept, answer.sentence)
