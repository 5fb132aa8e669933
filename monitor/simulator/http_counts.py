"""Counts of HTTP requests as the instrumentation of vLLM's front end keeps them. It owns no names of series."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from monitor.simulator.counts import Histogram

HIGH_RESOLUTION_EDGES = (
    0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5, 5, 7.5, 10, 30, 60,
)
LOW_RESOLUTION_EDGES = (0.1, 0.5, 1)


@dataclass(frozen=True, slots=True)
class Answered:
    """One request and its answer, as far as they are counted."""

    handler: str
    method: str
    status: int
    seconds: float
    request_bytes: int
    response_bytes: int


@dataclass(slots=True)
class Sizes:
    """Count and sum (bytes) of one handler's bodies."""

    count: int = 0
    sum: int = 0


@dataclass(slots=True)
class HttpCounts:
    """Requests by handler; each series is born (unix seconds) with its first request, as in prometheus_client."""

    requests: dict[tuple[str, str, str], int] = field(default_factory=dict)
    request_sizes: dict[str, Sizes] = field(default_factory=dict)
    response_sizes: dict[str, Sizes] = field(default_factory=dict)
    all_seconds: Histogram = field(default_factory=lambda: Histogram(HIGH_RESOLUTION_EDGES))
    seconds: dict[tuple[str, str], Histogram] = field(default_factory=dict)
    born: dict[str, float] = field(default_factory=dict)

    def add(self, answered: Answered, now: float) -> None:
        """Count one answered request; `now` is unix time, for the births of new series."""
        self.add_many(
            answered.handler, answered.method, answered.status, np.array([answered.seconds]), answered.request_bytes,
            answered.response_bytes, now,
        )

    def add_many(
        self, handler: str, method: str, status: int, seconds: npt.NDArray[np.float64], request_bytes: int,
        response_bytes: int, now: float,
    ) -> None:
        """Count requests of one kind that took so many `seconds` each; the bytes are those of all of them."""
        key, count = (handler, method, f"{status // 100}xx"), len(seconds)
        if key not in self.requests:
            self.born["/".join(key)] = now
        self.born.setdefault(handler, now)
        self.requests[key] = self.requests.get(key, 0) + count
        for sizes, size in (self.request_sizes, request_bytes), (self.response_sizes, response_bytes):
            entry = sizes.setdefault(handler, Sizes())
            entry.count += count
            entry.sum += size
        self.all_seconds.observe_many(seconds)
        self.seconds.setdefault((handler, method), Histogram(LOW_RESOLUTION_EDGES)).observe_many(seconds)
