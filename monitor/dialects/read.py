"""From answers to readings: picks the dialect, lets it read, and says how far to believe it. It keeps no history."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from monitor.dialects import llamacpp, sglang, vllm_v0, vllm_v1
from monitor.dialects.answers import judge_body, judge_status
from monitor.dialects.detect import disagreement, is_blind, is_wanted
from monitor.dialects.doubts import doubts_of
from monitor.dialects.plan import Plan, Plans
from monitor.errors import ExpositionError
from monitor.exposition import Page, PageReader, Vocabulary
from monitor.model.reading import EngineReading, Reading, State, Verdict
from monitor.model.server import Engine, ServerName

NO_DIALECT = "none"
#: Engines on one page beyond which its labels, not its engines, must have multiplied.
MAX_ENGINES = 1000
#: A counter that is not 0 counts at least one thing; half of one is more than any rounding takes off.
_LEAST_COUNT = 0.5
#: Counters made so much before a process (seconds) are not its own: a proxy prints its start time beside them.
_BORN_BEFORE_SECONDS = 5.0


class Dialects:
    """What all readers of a process share: names, layouts and what they mean."""

    def __init__(self) -> None:
        self.vocabulary = Vocabulary(is_wanted)
        self.plans = Plans()

    def reader(self, server: ServerName) -> ServerReader:
        """A reader for one server's pages."""
        return ServerReader(server, self)


class ServerReader:
    """Reads one server's answers, one after the other; not for two threads at once."""

    def __init__(self, server: ServerName, shared: Dialects | None = None) -> None:
        self._server = server
        shared = shared or Dialects()
        self._plans = shared.plans
        self._pages = PageReader(shared.vocabulary)
        self._previous: Reading | None = None
        #: Kept, since plans that no reader holds are forgotten.
        self._plan: Plan | None = None
        #: The last answer where it was no page.
        self._other = b""
        #: Names with an engine's prefix on the last page that no table knows.
        self.unknown: frozenset[str] = frozenset()

    def follow(self, previous: Reading) -> None:
        """Take `previous` for the reading before the next page."""
        self._previous = previous

    def read(
        self,
        body: bytes,
        *,
        scraped_at: datetime,
        monotonic: float,
        status: int = 200,
        content_type: str | None = None,
        version: str | None = None,
        start_mark: str | None = None,
    ) -> Reading:
        """The reading of one answer; whatever the bytes, a verdict and its reason, never an exception.

        `version` is what `/version` said, None where it is not known; it is only used where the page does not tell.
        `start_mark` is what the answer's headers say of the process's start.
        """
        self._other = body
        if status != 200:
            return self._without_page(judge_status(status, body), scraped_at, monotonic)
        try:
            page = self._pages.read(body, content_type)
        except ExpositionError as error:
            return self._without_page(judge_body(error), scraped_at, monotonic)
        self._other = b""
        plan = self._plan = self._plans.plan(page.layout)
        self.unknown = plan.unknown
        if content_type is None and plan.looks_openmetrics and not page.openmetrics:
            cut = Verdict.SCRAPE_ERROR, "OpenMetrics body without `# EOF` at its end: cut off"
            return self._without_page(cut, scraped_at, monotonic)
        reading = read_page(
            page,
            plan,
            server=self._server,
            scraped_at=scraped_at,
            monotonic=monotonic,
            version=version,
            previous=self._previous,
        )
        self._previous = reading
        return reading if start_mark is None else replace(reading, start_mark=start_mark)

    def last(self) -> bytes:
        """The last answer, for evidence. A page is put together from the lines that are kept anyway."""
        return self._other or self._pages.text()

    def _without_page(self, judged: tuple[Verdict, str], scraped_at: datetime, monotonic: float) -> Reading:
        verdict, reason = judged
        return Reading(
            server=self._server,
            scraped_at=scraped_at,
            monotonic=monotonic,
            dialect=NO_DIALECT,
            verdict=verdict,
            reason=reason,
        )


def read_page(
    page: Page,
    plan: Plan,
    *,
    server: ServerName,
    scraped_at: datetime,
    monotonic: float,
    version: str | None = None,
    previous: Reading | None = None,
) -> Reading:
    """The reading of one page; `previous` is the reading before it, which only V0 pages need."""
    page = _without_impossible_counters(page, plan)
    dialect, engines, (verdict, reason) = _read_engines(page, plan, version, _by_engine(previous))
    doubts = doubts_of(page, plan, dialect, engines)
    notes = doubts.notes
    if engines and is_blind(dialect, version):
        notes.append(f"vLLM {version} prints nothing of speculation, on or off")
    if engines and (differs := disagreement(dialect, version)) is not None:
        notes.append(differs)
    start = page.values[plan.process_start] if plan.process_start is not None else None
    if start is not None and (born := _oldest(engines)) is not None and born < start - _BORN_BEFORE_SECONDS:
        notes.append("process_start_time_seconds is younger than the counters: it is another program's")
        start = None
    return Reading(
        server=server,
        scraped_at=scraped_at,
        monotonic=monotonic,
        dialect=dialect,
        verdict=verdict,
        reason="; ".join([reason, *notes]),
        state=State.SLEEPING if engines and all(engine.gauges.sleeping for engine in engines) else None,
        flags=frozenset(doubts.flags),
        engines=engines,
        process_start=start if start is not None and start > 0 else None,
    )


def _oldest(engines: tuple[EngineReading, ...]) -> float | None:
    """When the first engine's counters were made (unix seconds); None where the page does not say."""
    return min((engine.created for engine in engines if engine.created is not None), default=None)


def _without_impossible_counters(page: Page, plan: Plan) -> Page:
    """The page with counters that no engine prints lost: below 0, or a part of one token or request."""
    values = page.values
    broken = [line for line in plan.counter_lines if (value := values[line]) is not None and 0 != value < _LEAST_COUNT]
    if not broken:
        return page
    kept = list(values)
    for line in broken:
        kept[line] = None
    return replace(page, values=kept)


def _by_engine(previous: Reading | None) -> Mapping[tuple[str, str], EngineReading]:
    return {} if previous is None else {(engine.model, engine.engine): engine for engine in previous.engines}


def _read_engines(
    page: Page, plan: Plan, version: str | None, previous: Mapping[tuple[str, str], EngineReading]
) -> tuple[str, tuple[EngineReading, ...], tuple[Verdict, str]]:
    values, http = page.values, plan.http
    # HTTP answers are the server's: they go to its first engine, so that adding engines counts them once.
    rows = [(cells, http if index == 0 else {}) for index, cells in enumerate(plan.engines)]
    if not rows or _is_routers(plan):
        return NO_DIALECT, (), _judge_without_engine(plan)
    if len(rows) > MAX_ENGINES:
        crowded = f"{len(rows)} engines on one page: expected at most {MAX_ENGINES}"
        return NO_DIALECT, (), (Verdict.SCRAPE_ERROR, crowded)
    if plan.engine is Engine.SGLANG:
        engines = tuple(sglang.read_engine(cells, values, web) for cells, web in rows)
        return sglang.DIALECT, engines, sglang.judge(engines, plan.engines, values)
    if plan.engine is Engine.LLAMACPP:
        engines = tuple(llamacpp.read_engine(cells, values, web) for cells, web in rows)
        return llamacpp.DIALECT, engines, llamacpp.judge(engines)
    if plan.generation(version) == "V0":
        engines = tuple(
            vllm_v0.read_engine(cells, values, web, previous.get((cells.model, cells.engine))) for cells, web in rows
        )
        return vllm_v0.DIALECT, engines, vllm_v0.judge(engines)
    engines = tuple(vllm_v1.read_engine(cells, values, web) for cells, web in rows)
    return vllm_v1.DIALECT, engines, vllm_v1.judge(engines, plan.declares_speculation)


def _is_routers(plan: Plan) -> bool:
    """Whether the page is a router's own: its names for requests look like an engine's, but it counts no tokens."""
    return plan.is_router and not any("generation_tokens" in cells.numbers for cells in plan.engines)


def _judge_without_engine(plan: Plan) -> tuple[Verdict, str]:
    if plan.is_router:
        return Verdict.NO_ENGINE_METRICS, "a router's page: it has no metrics of the engines behind it"
    if plan.declares_engine:
        return Verdict.NO_SAMPLES_YET, "engine metrics are declared but none has a sample yet"
    return Verdict.NO_ENGINE_METRICS, "metrics text without any engine's series"
