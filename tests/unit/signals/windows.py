"""Builders of lives and intervals for tests of signals and tuning: every number given, nothing drawn."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from monitor.model.counts import Histogram, LatencyCounts, SpeculationCounts, TrafficCounts
from monitor.model.interval import GaugeSpan, Interval
from monitor.model.life import Life, LifeId, Setting, StartEvidence
from monitor.model.server import ServerName

NOON = datetime(2026, 3, 4, 12, 0, tzinfo=UTC)
EDGES = (0.005, 0.01, 0.025, 0.05, 0.1, float("inf"))


def life(
    server: str = "a", *, engine: str = "0", tokens: int | None = 3, method: str = "eagle3", number: int = 1,
    version: str = "0.11.0", process_start: float | None = None,
) -> Life:
    return Life(
        id=LifeId(f"{server}-{engine}-{number}"), server=ServerName(server), model="m", engine=engine, first_seen=NOON,
        evidence=StartEvidence.FIRST_SEEN, counts_from_zero=False, engine_version=version, process_start=process_start,
        setting=Setting(method=method, num_speculative_tokens=tokens),
    )


def histogram(seconds: float, count: float) -> Histogram:
    """`count` observations of exactly `seconds`."""
    return Histogram(EDGES, tuple(count if seconds <= edge else 0.0 for edge in EDGES), seconds * count, count)


def interval(
    of: Life, end_seconds: float = 0.0, *, seconds: float = 15.0, drafts: float | None = 1000.0,
    per_pos: Sequence[float] | None = (700.0, 500.0, 300.0), drafted_per_pos: Sequence[float] | None = None,
    draft_tokens: float | None = None, accepted: float | None = None, generation: float | None = 2500.0,
    prompt: float | None = 1000.0, steps: float | None = 500.0, outputs: float | None = 1000.0,
    step_seconds: float = 0.01, finished: float = 10.0, errors: float = 0.0, running: float | None = 2.0,
    waiting: float | None = 0.0, kv: float | None = 0.25, latency: LatencyCounts | None = None,
    traffic: TrafficCounts | None = None, has_speculation: bool = True, has_latency: bool = True, **rest: object,
) -> Interval:
    """One interval that ends `end_seconds` after noon."""
    end = NOON + timedelta(seconds=end_seconds)
    tokens = of.setting.num_speculative_tokens or 0
    speculation = SpeculationCounts(
        num_drafts=drafts,
        num_draft_tokens=draft_tokens if draft_tokens is not None else (drafts or 0.0) * tokens,
        num_accepted_tokens=accepted if accepted is not None else sum(per_pos or ()),
        accepted_per_pos=tuple(per_pos) if per_pos is not None else None,
        drafted_per_pos=tuple(drafted_per_pos) if drafted_per_pos is not None else None,
    )
    if latency is None and has_latency:
        latency = LatencyCounts(
            time_to_first_token=histogram(0.04, finished),
            inter_token=histogram(step_seconds, outputs) if outputs is not None else None,
            time_per_output_token=histogram(step_seconds / 2.5, finished),
        )
    return Interval(
        life=of.id, server=of.server, start=end - timedelta(seconds=seconds), end=end, elapsed_seconds=seconds,
        speculation=speculation if has_speculation else None, speculation_seconds=seconds if has_speculation else 0.0,
        traffic=traffic or TrafficCounts(
            generation_tokens=generation, prompt_tokens=prompt, engine_steps=steps,
            finished={"stop": finished}, preemptions=0.0,
            http_responses={"2xx": finished - errors, "5xx": errors},
        ),
        traffic_seconds=seconds, latency=latency, latency_seconds=seconds if latency else 0.0,
        gauges=GaugeSpan(
            running_mean=running, running_max=running, waiting_mean=waiting, waiting_max=waiting, kv_usage_mean=kv,
            kv_usage_max=kv,
        ),
        gauges_seconds=seconds, **rest,  # type: ignore[arg-type]
    )


def run_of(
    of: Life, count: int, *, ends_at: float = 0.0, seconds: float = 15.0, **rest: object
) -> list[tuple[Life, Interval]]:
    """`count` equal intervals in a row, the last one ending `ends_at` seconds after noon."""
    return [
        (of, interval(of, ends_at - seconds * (count - 1 - i), seconds=seconds, **rest))  # type: ignore[arg-type]
        for i in range(count)
    ]
