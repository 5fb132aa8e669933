"""Counts of one engine, cumulative since its start or as the difference of two pages. It owns no time.

The same shapes serve readings, heads and intervals, so that a difference of two counts is a count. `None` means
"the page does not say", never 0. Counts are floats because expositions print floats; whole numbers stay exact to 2**53.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from operator import ge


@dataclass(frozen=True, slots=True)
class Histogram:
    """A Prometheus histogram: `cumulative[i]` observations were at most `edges[i]` (seconds or tokens).

    `edges` rise strictly and end with +inf; `total` is the sum of all observed values, `count` their number.
    """

    edges: tuple[float, ...]
    cumulative: tuple[float, ...]
    total: float
    count: float

    def __post_init__(self) -> None:
        if len(self.edges) != len(self.cumulative):
            raise ValueError(f"histogram with {len(self.edges)} edges but {len(self.cumulative)} buckets")
        if not _rise(self.edges):
            raise ValueError(f"histogram edges must rise strictly: {self.edges}")

    @property
    def mean(self) -> float | None:
        """Mean of the observed values, in their unit; None without observations."""
        return self.total / self.count if self.count > 0 else None

    def quantile(self, q: float) -> float | None:
        """The `q`-quantile (0 to 1) interpolated in its bucket, as PromQL's histogram_quantile; None without data.

        In the +inf bucket the highest finite edge is given, as Prometheus does.
        """
        if not self.edges or self.count <= 0 or self.cumulative[-1] <= 0:
            return None
        rank = q * self.cumulative[-1]
        below, lower = 0.0, 0.0
        for edge, reached in zip(self.edges, self.cumulative, strict=True):
            if reached >= rank:
                if math.isinf(edge):
                    return lower if len(self.edges) > 1 else None
                inside = reached - below
                start = min(lower, edge) if edge > 0 else edge
                return edge if inside <= 0 else start + (edge - start) * (rank - below) / inside
            below, lower = reached, edge
        return lower

    def at_most(self, threshold: float) -> float:
        """Observations of at most `threshold`, interpolated inside its bucket as PromQL's `histogram_fraction` does.

        What lies beyond the last finite edge is above any threshold: how far above, nobody knows.
        """
        below, lower = 0.0, 0.0
        for edge, reached in zip(self.edges, self.cumulative, strict=True):
            if threshold < edge:
                if math.isinf(edge) or threshold <= lower:
                    return below
                return below + (reached - below) * (threshold - lower) / (edge - lower)
            below, lower = reached, edge
        return below


@lru_cache(maxsize=4096)
def _rise(edges: tuple[float, ...]) -> bool:
    """Whether edges rise strictly: a few tuples of them, asked about for every histogram."""
    return not any(map(ge, edges, edges[1:]))


@dataclass(frozen=True, slots=True)
class SpeculationCounts:
    """What speculation did: drafts proposed, draft tokens verified, draft tokens accepted.

    `accepted_per_pos[i]` drafts had their token i accepted (survival to i, not conditional); `drafted_per_pos` is the
    number of drafts that reached position i where the engine exports it. As vLLM `v1/spec_decode/metrics.py`.
    """

    num_drafts: float | None
    num_draft_tokens: float | None
    num_accepted_tokens: float | None
    accepted_per_pos: tuple[float, ...] | None = None
    drafted_per_pos: tuple[float, ...] | None = None


@dataclass(frozen=True, slots=True)
class V0Sums:
    """What vLLM's V0 engine prints of speculation: two lifetime averages, and counters that add up running totals.

    `efficiency` x (k + 1) is the mean tokens per draft since start, the only quantity to trust by itself; the counters
    are totals only at the first report (`spec_decode/metrics.py`, vLLM 0.5.3 to 0.9.2, does `.inc(cumulative)`).
    """

    efficiency: float | None = None
    acceptance_rate: float | None = None
    accepted: float | None = None
    draft_tokens: float | None = None
    emitted: float | None = None


@dataclass(frozen=True, slots=True)
class TrafficCounts:
    """Tokens, steps and requests of one engine."""

    generation_tokens: float | None = None
    prompt_tokens: float | None = None
    cached_prompt_tokens: float | None = None
    #: Engine steps, from the count of the tokens-per-iteration histogram.
    engine_steps: float | None = None
    #: Tokens scheduled in those steps (the histogram's sum): prefill and decode together.
    step_tokens: float | None = None
    finished: Mapping[str, float] = field(default_factory=dict)
    http_responses: Mapping[str, float] = field(default_factory=dict)
    rejections: float | None = None
    preemptions: float | None = None
    prompt_length: Histogram | None = None
    output_length: Histogram | None = None

    @property
    def finished_requests(self) -> float | None:
        """Requests that ended, for whatever reason; None where the page has no such counter."""
        return sum(self.finished.values()) if self.finished else None


@dataclass(frozen=True, slots=True)
class LatencyCounts:
    """Latency histograms in seconds. `inter_token` has one observation per engine step and request, not per token."""

    time_to_first_token: Histogram | None = None
    inter_token: Histogram | None = None
    time_per_output_token: Histogram | None = None
    e2e_request: Histogram | None = None
    queue: Histogram | None = None


@dataclass(frozen=True, slots=True)
class Counts:
    """Every cumulative family of one engine; a family that the page does not have is None as a whole."""

    speculation: SpeculationCounts | None = None
    traffic: TrafficCounts | None = None
    latency: LatencyCounts | None = None


@dataclass(frozen=True, slots=True)
class Gauges:
    """What an engine is doing now. `kv_usage` is a share from 0 to 1; ranks of one engine are already collapsed."""

    running: float | None = None
    waiting: float | None = None
    kv_usage: float | None = None
    sleeping: bool | None = None
    #: Tokens per draft, bonus included, as the engine's own gauge says (SGLang): of its last busy moment, so it is
    #: shown and never added; None out of range.
    acceptance_length: float | None = None
