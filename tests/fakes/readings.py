"""Readings of an engine that counts as vLLM does, without pages: for tests of what follows readings."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from monitor.model.counts import Counts, Gauges, Histogram, LatencyCounts, SpeculationCounts, TrafficCounts
from monitor.model.reading import EngineReading, Flag, Reading, State, Verdict
from monitor.model.server import ServerName

EPOCH = datetime(2026, 9, 1, tzinfo=UTC)
SERVER = ServerName("gpu-1")
EDGES = (0.01, 0.1, float("inf"))


@dataclass(frozen=True)
class Counted:
    """What an engine has counted since its start: of ten drafts 8 have their first token accepted, 6 the second …"""

    steps: int = 0
    requests: int = 0
    k: int = 3
    started: float | None = 0.0

    @property
    def accepted_per_pos(self) -> tuple[float, ...]:
        tens, rest = divmod(self.steps, 10)
        shares = [8 - 2 * position for position in range(self.k)]
        return tuple(float(tens * share + min(rest, share)) for share in shares)

    @property
    def generation_tokens(self) -> float:
        return self.steps + sum(self.accepted_per_pos) + self.requests

    def counts(self) -> Counts:
        accepted = self.accepted_per_pos
        latency = Histogram(EDGES, (self.steps // 2, self.steps, self.steps), self.steps * 0.02, self.steps)
        return Counts(
            SpeculationCounts(self.steps, self.steps * self.k, sum(accepted), accepted),
            TrafficCounts(
                generation_tokens=self.generation_tokens,
                prompt_tokens=float(self.requests * 10),
                engine_steps=float(self.steps),
                finished={"stop": float(self.requests)},
            ),
            LatencyCounts(inter_token=latency),
        )

    def after(self, steps: int, requests: int = 0) -> Counted:
        return replace(self, steps=self.steps + steps, requests=self.requests + requests)


def moment(seconds: float) -> datetime:
    return EPOCH + timedelta(seconds=seconds)


def engine_reading(
    counted: Counted, *, model: str = "m", engine: str = "0", running: float = 1, waiting: float = 0
) -> EngineReading:
    return EngineReading(
        model=model,
        engine=engine,
        counts=counted.counts(),
        gauges=Gauges(running=running, waiting=waiting, kv_usage=0.1),
        num_speculative_tokens=counted.k,
        created=None if counted.started is None else EPOCH.timestamp() + counted.started,
    )


def reading(
    at: float,
    *engines: EngineReading,
    monotonic: float | None = None,
    process_start: float | None = None,
    verdict: Verdict = Verdict.OK,
    dialect: str = "vllm_v1",
    flags: frozenset[Flag] = frozenset(),
    state: State | None = None,
) -> Reading:
    """A reading `at` so many seconds; start times count from the same moment."""
    return Reading(
        server=SERVER,
        scraped_at=moment(at),
        monotonic=at if monotonic is None else monotonic,
        dialect=dialect,
        verdict=verdict,
        reason="made up",
        state=state,
        flags=flags,
        engines=engines,
        process_start=None if process_start is None else EPOCH.timestamp() + process_start,
    )
