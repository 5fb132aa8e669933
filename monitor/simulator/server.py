"""One life of one simulated server without its sockets: engine, faults, HTTP counts and page, driven by a clock."""

from __future__ import annotations

from enum import StrEnum

from monitor.clock import Clock
from monitor.simulator.behaviour import Behaviour
from monitor.simulator.counts import Ended
from monitor.simulator.engine import Engine
from monitor.simulator.faults import FaultKind, Faults
from monitor.simulator.http_counts import Answered, HttpCounts
from monitor.simulator.options import SimOptions
from monitor.simulator.page import MetricsPage
from monitor.simulator.process_figures import ProcessFigures
from monitor.simulator.requests import Request

VERSION = "0.32.0"
#: Bytes of HTTP bodies that internal requests are counted with: about what a token and an envelope take.
_BYTES_PER_TOKEN, _REQUEST_ENVELOPE, _RESPONSE_ENVELOPE = 4, 90, 380
COMPLETIONS = "/v1/completions"


class Phase(StrEnum):
    """Where a server is in its life."""

    STARTING = "starting"
    READY = "ready"
    DRAINING = "draining"
    DEAD = "dead"


class SimServer:
    """Engine and counters of one life; `advance` follows the clock, `speed` simulated seconds for one of the wall."""

    def __init__(
        self,
        options: SimOptions,
        clock: Clock,
        figures: ProcessFigures | None = None,
        longest_gap_seconds: float = float("inf"),
    ) -> None:
        """`longest_gap_seconds`: wall time beyond this between two looks at the clock does not count for the engine."""
        self.options = options
        self.clock = clock
        self.phase = Phase.STARTING
        self.faults = Faults(options.faults)
        self.http = HttpCounts()
        self.in_flight = 0
        self.process_started = clock.now().timestamp()
        self._figures = figures or ProcessFigures()
        self._longest_gap_seconds = longest_gap_seconds
        self._advanced_at = 0.0
        self._is_doomed = False
        self.engine = self._make_engine()
        self._page: MetricsPage | None = None

    def _make_engine(self) -> Engine:
        options = self.options
        behaviour = Behaviour(options.family, options.speculation, options.correlation, options.coverage, self.faults)
        offset = self.process_started % options.load.period
        engine = Engine(behaviour, options.load, options.limits, options.seed, offset)
        engine.on_end, engine.on_ended = self._count_internal, self._count_ended
        return engine

    def get_ready(self) -> None:
        """The model is loaded: series are born and time begins to run in the engine."""
        self.phase = Phase.READY
        self._advanced_at = self.clock.monotonic()
        self._page = MetricsPage(
            self.engine,
            self.options.model_name,
            self.process_started,
            self.clock.now().timestamp(),
            self.options.log_stats,
        )

    def advance(self) -> None:
        """Bring the engine to the clock's time; nothing happens before the server is ready or after its death."""
        if self.phase in (Phase.STARTING, Phase.DEAD):
            return
        now = self.clock.monotonic()
        gap = min(now - self._advanced_at, self._longest_gap_seconds)
        self._advanced_at = now
        self.engine.advance(gap * self.options.speed)
        if self.engine.counts.prompt_tokens and self.fault(FaultKind.DIE_ON_FIRST_REQUEST_K):
            self._doom_from_k()

    def page(self) -> str:
        """The metrics page now.

        Raises:
            RuntimeError: the server is not ready, so there is no page yet.
        """
        if self._page is None:
            raise RuntimeError("the simulated server is not ready: it has no page yet")
        self.advance()
        return self._page.render(self.http, self._figures.read(self.clock.monotonic()))

    def fault(self, kind: FaultKind) -> bool:
        """A fault of this kind is in force."""
        return self.faults.active(kind, self.engine.now) is not None

    @property
    def is_doomed(self) -> bool:
        """The engine died; the process follows within a second or so."""
        return self._is_doomed

    def meet_request(self) -> None:
        """A request comes in from outside: an engine that was ordered to die does so now."""
        if self.fault(FaultKind.DIE):
            self._is_doomed = True
        if self.fault(FaultKind.DIE_ON_FIRST_REQUEST_K):
            self._doom_from_k()

    def _doom_from_k(self) -> None:
        order = self.faults.active(FaultKind.DIE_ON_FIRST_REQUEST_K, self.engine.now)
        if order is not None and self.options.num_speculative_tokens >= order.numbers()[0]:
            self._is_doomed = True

    def drain(self) -> None:
        """SIGTERM came: no more traffic of its own; with a shutdown timeout of 0 requests in flight are aborted."""
        self.phase = Phase.DRAINING
        self.engine.stop_traffic()
        if self.options.shutdown_timeout == 0:
            self.engine.abort_all()

    def die(self) -> None:
        """The process is gone."""
        self.engine.stop_traffic()
        self.engine.abort_all()
        self.phase = Phase.DEAD

    def _count_internal(self, request: Request) -> None:
        """Internal requests count as HTTP completions, as if a client had sent them."""
        if request.external or request.finish_reason == "abort":
            return
        job = request.job
        answered = Answered(
            COMPLETIONS,
            "POST",
            200,
            request.last_token - job.arrival,
            _REQUEST_ENVELOPE + job.prompt_tokens * _BYTES_PER_TOKEN,
            _RESPONSE_ENVELOPE + request.produced * _BYTES_PER_TOKEN,
        )
        self.http.add(answered, self.clock.now().timestamp())

    def _count_ended(self, ended: Ended) -> None:
        """As `_count_internal`, of many at once."""
        self.http.add_many(
            COMPLETIONS, "POST", 200, ended.last - ended.arrival,
            len(ended.prompt) * _REQUEST_ENVELOPE + int(ended.prompt.sum()) * _BYTES_PER_TOKEN,
            len(ended.prompt) * _RESPONSE_ENVELOPE + int(ended.produced.sum()) * _BYTES_PER_TOKEN,
            self.clock.now().timestamp(),
        )
