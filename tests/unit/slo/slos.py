"""Small makers for SLO tests."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from monitor.model.counts import Histogram, LatencyCounts, SpeculationCounts, TrafficCounts
from monitor.model.interval import GaugeSpan, Interval
from monitor.model.life import LifeId
from monitor.model.server import ServerName
from monitor.model.slo import Indicator, Slo

START = datetime(2026, 3, 2, 0, 0, tzinfo=UTC)
INF = float("inf")


def seconds(n: float) -> datetime:
    return START + timedelta(seconds=n)


def slo(indicator: Indicator = Indicator.TIME_TO_FIRST_TOKEN, threshold: float | None = 2.0, **fields: Any) -> Slo:
    values: dict[str, Any] = {"name": "it", "objective": 0.99, "period_days": 30.0} | fields
    return Slo(indicator=indicator, threshold=threshold, **values)


def histogram(*cumulative: float, edges: tuple[float, ...] = (0.5, 1.0, 4.0, INF)) -> Histogram:
    return Histogram(edges, cumulative, total=0.0, count=cumulative[-1])


def interval(
    end: float, *, server: str = "a", life: str = "life-1", elapsed: float = 15.0, ttft: Histogram | None = None,
    drafts: float | None = None, draft_tokens: float = 0.0, accepted: float = 0.0,
    per_pos: tuple[float, ...] | None = None, inter_token: Histogram | None = None,
    responses: Mapping[str, float] | None = None, finished: Mapping[str, float] | None = None,
    rejections: float | None = None, tokens: float | None = None, running: float | None = None, is_gap: bool = False,
) -> Interval:
    speculation = None if drafts is None else SpeculationCounts(drafts, draft_tokens, accepted, per_pos)
    traffic = TrafficCounts(
        generation_tokens=tokens, finished=finished or {}, http_responses=responses or {}, rejections=rejections
    )
    return Interval(
        life=LifeId(life), server=ServerName(server), start=seconds(end - elapsed), end=seconds(end),
        elapsed_seconds=elapsed, speculation=speculation, speculation_seconds=elapsed, traffic=traffic,
        traffic_seconds=elapsed, latency=LatencyCounts(time_to_first_token=ttft, inter_token=inter_token),
        latency_seconds=elapsed, gauges=GaugeSpan(running_mean=running), gauges_seconds=elapsed, is_gap=is_gap,
    )
