"""Counts of HTTP requests as the instrumentation of vLLM's front end keeps them. It owns no names of series."""

from __future__ import annotations

from dataclasses import dataclass, field

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
        handler, method = answered.handler, answered.method
        key = (handler, method, f"{answered.status // 100}xx")
        if key not in self.requests:
            self.born["/".join(key)] = now
        self.born.setdefault(handler, now)
        self.requests[key] = self.requests.get(key, 0) + 1
        bodies = (self.request_sizes, answered.request_bytes), (self.response_sizes, answered.response_bytes)
        for sizes, size in bodies:
            entry = sizes.setdefault(handler, Sizes())
            entry.count += 1
            entry.sum += size
        self.all_seconds.observe(answered.seconds)
        self.seconds.setdefault((handler, method), Histogram(LOW_RESOLUTION_EDGES)).observe(answered.seconds)
