"""The cumulative figures of one engine life, as its page shows them. It owns counting, not the names of series."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from monitor.simulator.requests import Request

# Bucket edges as vLLM 0.32.0 prints them on a live page.
STEP_EDGES = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80)
FIRST_TOKEN_EDGES = (
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560,
)
REQUEST_EDGES = (0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680)
ITERATION_EDGES = (1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)
PARAMS_N_EDGES = (1, 2, 5, 10, 20)
PREEMPTION_EDGES = (1, 2, 3, 4, 5, 10, 20)


def length_edges(max_model_len: int) -> tuple[float, ...]:
    """1, 2, 5, 10, … up to the model's longest sequence (tokens): vLLM's edges for prompt and output lengths."""
    edges: list[float] = []
    decade = 1
    while True:
        for factor in (1, 2, 5):
            if factor * decade > max_model_len:
                return tuple(edges)
            edges.append(factor * decade)
        decade *= 10


class Histogram:
    """Observations by upper edge, and their sum."""

    __slots__ = ("_counts", "edges", "sum")

    def __init__(self, edges: Sequence[float]) -> None:
        self.edges = tuple(float(edge) for edge in edges)
        self._counts = np.zeros(len(edges) + 1, dtype=np.int64)
        self.sum = 0.0

    def observe(self, value: float) -> None:
        """Count one value."""
        self._counts[bisect_left(self.edges, value)] += 1
        self.sum += value

    def observe_each(self, values: npt.NDArray[np.float64], times: npt.NDArray[np.int64]) -> None:
        """Count each value so many times."""
        places = np.searchsorted(self.edges, values)
        np.add.at(self._counts, places, times)
        self.sum += float(values @ times)

    def observe_many(self, values: npt.NDArray[np.float64] | npt.NDArray[np.int64]) -> None:
        """Count each value once."""
        places = np.searchsorted(self.edges, values)
        self._counts += np.bincount(places, minlength=len(self._counts))
        self.sum += float(values.sum())

    def cumulative(self) -> list[int]:
        """Observations at or below each edge, the last one being all of them."""
        return [int(count) for count in np.cumsum(self._counts)]

    @property
    def count(self) -> int:
        """All observations."""
        return int(self._counts.sum())


class Ended(NamedTuple):
    """Requests that made all their tokens, one entry for each: lengths (tokens), times (simulated seconds)."""

    prompt: npt.NDArray[np.int64]
    cached: npt.NDArray[np.int64]
    most: npt.NDArray[np.int64]
    produced: npt.NDArray[np.int64]
    arrival: npt.NDArray[np.float64]
    admitted: npt.NDArray[np.float64]
    first: npt.NDArray[np.float64]
    last: npt.NDArray[np.float64]
    preemptions: npt.NDArray[np.int64]


@dataclass(slots=True)
class Counts:
    """Counters and histograms of one engine life; units as in the series' names (tokens, seconds, requests)."""

    num_speculative_tokens: int
    max_model_len: int
    num_drafts: int = 0
    num_draft_tokens: int = 0
    num_accepted_tokens: int = 0
    accepted_per_pos: list[int] = field(default_factory=list)
    prompt_tokens: int = 0
    cached_prompt_tokens: int = 0
    generation_tokens: int = 0
    first_tokens: int = 0
    preemptions: int = 0
    finished: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys(("stop", "length", "abort", "error", "repetition"), 0)
    )
    step: Histogram = field(default_factory=lambda: Histogram(STEP_EDGES))
    time_per_output_token: Histogram = field(default_factory=lambda: Histogram(STEP_EDGES))
    first_token: Histogram = field(default_factory=lambda: Histogram(FIRST_TOKEN_EDGES))
    e2e: Histogram = field(default_factory=lambda: Histogram(REQUEST_EDGES))
    queue: Histogram = field(default_factory=lambda: Histogram(REQUEST_EDGES))
    inference: Histogram = field(default_factory=lambda: Histogram(REQUEST_EDGES))
    prefill: Histogram = field(default_factory=lambda: Histogram(REQUEST_EDGES))
    decode: Histogram = field(default_factory=lambda: Histogram(REQUEST_EDGES))
    iteration_tokens: Histogram = field(default_factory=lambda: Histogram(ITERATION_EDGES))
    params_n: Histogram = field(default_factory=lambda: Histogram(PARAMS_N_EDGES))
    preemptions_per_request: Histogram = field(default_factory=lambda: Histogram(PREEMPTION_EDGES))
    prompt_lengths: Histogram = field(init=False)
    generation_lengths: Histogram = field(init=False)
    max_generation_lengths: Histogram = field(init=False)
    params_max_tokens: Histogram = field(init=False)
    computed_prompt_lengths: Histogram = field(init=False)

    def __post_init__(self) -> None:
        edges = length_edges(self.max_model_len)
        self.accepted_per_pos = [0] * self.num_speculative_tokens
        self.prompt_lengths = Histogram(edges)
        self.generation_lengths = Histogram(edges)
        self.max_generation_lengths = Histogram(edges)
        self.params_max_tokens = Histogram(edges)
        self.computed_prompt_lengths = Histogram(edges)

    def add_drafts(self, outcomes: npt.NDArray[np.int16] | npt.NDArray[np.int64], drafted: int) -> None:
        """Count steps by outcome (0 = no draft, 1 + a = a accepted) at a draft length of `drafted` (tokens).

        Per position, accepted never rises and sums to the accepted tokens, because both come from the same outcomes.
        """
        steps = np.bincount(outcomes, minlength=drafted + 2)
        at_least = np.cumsum(steps[::-1])[::-1]
        drafts = int(at_least[1])
        per_position = [int(count) for count in at_least[2:]]
        self.num_drafts += drafts
        self.num_draft_tokens += drafts * drafted
        self.num_accepted_tokens += sum(per_position)
        for position, count in enumerate(per_position):
            self.accepted_per_pos[position] += count

    def add_ended(self, request: Request) -> None:
        """Observe a request that made all its tokens; nothing for one that never got its first."""
        admitted, first, last = request.admitted, request.first_token, request.last_token
        if admitted is None or first is None:
            return
        job, decode = request.job, last - first
        self.prompt_lengths.observe(job.prompt_tokens)
        self.computed_prompt_lengths.observe(job.prompt_tokens - job.cached_tokens)
        self.generation_lengths.observe(request.produced)
        self.max_generation_lengths.observe(request.produced)
        self.params_max_tokens.observe(job.max_tokens)
        self.params_n.observe(1)
        self.preemptions_per_request.observe(request.preemptions)
        self.e2e.observe(last - job.arrival)
        self.queue.observe(admitted - job.arrival)
        self.inference.observe(last - admitted)
        self.prefill.observe(first - admitted)
        self.decode.observe(decode)
        self.time_per_output_token.observe(decode / (request.produced - 1) if request.produced > 1 else 0.0)

    def add_all_ended(self, ended: Ended) -> None:
        """As `add_ended`, of many requests at once."""
        decode = ended.last - ended.first
        self.prompt_lengths.observe_many(ended.prompt)
        self.computed_prompt_lengths.observe_many(ended.prompt - ended.cached)
        self.generation_lengths.observe_many(ended.produced)
        self.max_generation_lengths.observe_many(ended.produced)
        self.params_max_tokens.observe_many(ended.most)
        self.params_n.observe_many(np.ones(len(decode)))
        self.preemptions_per_request.observe_many(ended.preemptions)
        self.e2e.observe_many(ended.last - ended.arrival)
        self.queue.observe_many(ended.admitted - ended.arrival)
        self.inference.observe_many(ended.last - ended.admitted)
        self.prefill.observe_many(ended.first - ended.admitted)
        self.decode.observe_many(decode)
        self.time_per_output_token.observe_many(decode / np.maximum(1, ended.produced - 1))
