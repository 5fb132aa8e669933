"""Intervals: the difference between two heads of one life. Adding them lives in `monitor/intervals/`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from monitor.model.counts import LatencyCounts, SpeculationCounts, TrafficCounts
from monitor.model.life import LifeId
from monitor.model.reading import Flag
from monitor.model.server import ServerName


@dataclass(frozen=True, slots=True)
class GaugeSpan:
    """Gauges over an interval: time-weighted means and maxima; a share for KV (0 to 1)."""

    running_mean: float | None = None
    running_max: float | None = None
    waiting_mean: float | None = None
    waiting_max: float | None = None
    kv_usage_mean: float | None = None
    kv_usage_max: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """What one engine did between two pages of one life; key (life, end).

    Each family is None as a whole where the pages do not have it, and has its own covered seconds (0 then). `is_gap`
    marks a span longer than three scrapes: its counts are kept, no rate is drawn from it.
    `partial` marks a first interval of a life that began unseen within it: some of its counts are before a reset.
    """

    life: LifeId
    server: ServerName
    start: datetime
    end: datetime
    #: Length by the monotonic clock where comparable, else by wall time (seconds, > 0).
    elapsed_seconds: float
    speculation: SpeculationCounts | None = None
    speculation_seconds: float = 0.0
    traffic: TrafficCounts | None = None
    traffic_seconds: float = 0.0
    latency: LatencyCounts | None = None
    latency_seconds: float = 0.0
    gauges: GaugeSpan = GaugeSpan()
    gauges_seconds: float = 0.0
    flags: frozenset[Flag] = frozenset()
    is_gap: bool = False
    partial: bool = False

    def __post_init__(self) -> None:
        if self.elapsed_seconds <= 0:
            raise ValueError(f"interval of {self.elapsed_seconds} s on life {self.life}: expected more than 0")
