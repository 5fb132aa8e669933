"""The traffic a simulated server makes for itself: its level over the day, arrivals, lengths. It owns no service."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from math import cos, exp, log, pi, sqrt
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from monitor.errors import ConfigError, Problem

_DAY_SECONDS = 86_400.0
#: Tokens of one prefix cache block; only whole blocks are reused (vLLM's default block size on GPUs).
BLOCK_TOKENS = 16


@dataclass(frozen=True, slots=True)
class Load:
    """One `--sim-load`.

    `closed`: `peak` clients, each asking again `think` seconds after its answer. `open`: `peak` requests a second, at
    random. Where `trough` differs the level follows a cosine over `period` seconds, highest at second `peak_at` of it.
    """

    kind: str = "none"
    peak: float = 0.0
    trough: float = 0.0
    period: float = _DAY_SECONDS
    peak_at: float = 0.6 * _DAY_SECONDS
    prompt: float = 150.0
    output: float = 150.0
    spread: float = 0.5
    think: float = 0.0
    hits: float = 0.0

    def level(self, seconds: float) -> float:
        """Clients or requests a second at this second of the period."""
        if self.trough == self.peak:
            return self.peak
        phase = 2 * pi * (seconds - self.peak_at) / self.period
        return self.trough + (self.peak - self.trough) * (1 + cos(phase)) / 2


@dataclass(frozen=True, slots=True)
class Job:
    """One request of a client: when (simulated seconds), its lengths and what the prefix cache holds of it (tokens)."""

    arrival: float
    prompt_tokens: int
    output_tokens: int
    max_tokens: int
    cached_tokens: int = 0
    epoch: int = 0


class Jobs(NamedTuple):
    """Lengths (tokens) of many requests: prompt, output, its limit, and what the prefix cache holds."""

    prompt: npt.NDArray[np.int64]
    output: npt.NDArray[np.int64]
    most: npt.NDArray[np.int64]
    cached: npt.NDArray[np.int64]

    @classmethod
    def of(cls, jobs: Sequence[Job]) -> Jobs:
        """Those of single ones."""
        rows = [(job.prompt_tokens, job.output_tokens, job.max_tokens, job.cached_tokens) for job in jobs]
        return cls(*np.array(rows, dtype=np.int64).reshape(-1, 4).T)

    def job(self, at: int, arrival: float, epoch: int) -> Job:
        """The one at this place."""
        prompt, output, most, cached = (int(column[at]) for column in self)
        return Job(arrival, prompt, output, most, cached, epoch)


_KINDS = {"closed": "clients", "open": "rate"}
_SETTINGS = ("trough", "period", "peak_at", "prompt", "output", "spread", "think", "hits")


def parse_load(text: str) -> Load:
    """Read `none`, `closed:clients=16,prompt=200,output=150` or `open:rate=4,trough=0.5,period=86400,…`.

    Raises:
        ConfigError: unknown kind or key, or a value that is no number or out of range.
    """
    kind, _, rest = text.partition(":")
    if kind == "none" and not rest:
        return Load()
    if kind not in _KINDS:
        raise _wrong(repr(text), "none, closed:clients=N,… or open:rate=R,…")
    values: dict[str, float] = {}
    for part in filter(None, rest.split(",")):
        key, _, number = part.partition("=")
        if key not in (_KINDS[kind], *_SETTINGS):
            raise _wrong(repr(part), f"one of {_KINDS[kind]}, {', '.join(_SETTINGS)}")
        try:
            values[key] = float(number)
        except ValueError as error:
            raise _wrong(repr(part), "key=number") from error
        if not 0 <= values[key] < float("inf"):
            raise _wrong(repr(part), "a number of at least 0")
    peak = values.pop(_KINDS[kind], None)
    if peak is None:
        raise _wrong(repr(text), f"{_KINDS[kind]}=NUMBER")
    load = Load(kind=kind, peak=peak, **{"trough": peak, **values})
    if load.prompt < 1 or load.output < 1 or load.period <= 0 or load.hits > 1 or load.trough > load.peak:
        raise _wrong(repr(text), "prompt and output of at least 1, period above 0, hits up to 1, trough up to the peak")
    return load


class Traffic:
    """Arrivals of one server in order of time, drawn from its load and a seed."""

    def __init__(
        self, load: Load, rng: np.random.Generator, max_model_len: int, day_offset_seconds: float = 0.0
    ) -> None:
        """`day_offset_seconds`: the second of the load's period at which simulated second 0 lies."""
        self.load = load
        self._rng = rng
        self._max_model_len = max_model_len
        self._offset = day_offset_seconds
        self._pending: list[float] = []
        self._clients = 0
        self._epoch = 0
        self._planned_until = 0.0
        self._next_open: float | None = None

    def change(self, load: Load, now: float) -> None:
        """Follow another load from now on; clients that still wait for an answer leave when they have it."""
        self.load = load
        self._pending, self._next_open, self._planned_until = [], None, now
        self._clients = 0
        self._epoch += 1

    def next_arrival(self, now: float) -> float | None:
        """When the next request comes, at or after the last one taken; `None` while nobody asks."""
        self._plan(now)
        if self.load.kind == "open":
            return self._next_open
        return self._pending[0] if self._pending else self._next_wake(now)

    def take(self, now: float) -> Job | None:
        """The earliest request that has arrived by `now`, or `None`."""
        self._plan(now)
        if self.load.kind == "open":
            if self._next_open is None or self._next_open > now:
                return None
            arrival, self._next_open = self._next_open, self._open_after(self._next_open)
            return self._job(arrival)
        if not self._pending or self._pending[0] > now:
            return None
        return self._job(heapq.heappop(self._pending))

    def answered(self, job: Job, now: float) -> None:
        """A request taken here ended: in a closed load its client asks again, unless the level fell."""
        if self.load.kind != "closed" or job.epoch != self._epoch:
            return
        if self._clients > self._wanted(now):
            self._clients -= 1
        else:
            heapq.heappush(self._pending, now + self.load.think)

    @property
    def epoch(self) -> int:
        """How many times the load was changed; clients of former ones do not ask again."""
        return self._epoch

    @property
    def is_open(self) -> bool:
        """Whether requests come whatever became of those before."""
        return self.load.kind == "open"

    def is_steady(self, now: float, until: float, in_flight: int) -> bool:
        """Whether so many requests stay in flight from now to then: clients that ask again at once, as many all along.
        """
        load = self.load
        if load.kind != "closed" or load.think > 0 or self._pending or self._clients != in_flight:
            return False
        is_level = load.trough == load.peak or until - now <= load.period / 1440
        return is_level and self._clients == self._wanted(now) == self._wanted(until)

    def draw(self, count: int) -> Jobs:
        """Lengths of the next so many requests of a closed load."""
        prompt = np.minimum(self._lengths(self.load.prompt, count), self._max_model_len - 2)
        most = np.maximum(1, np.minimum(self._max_model_len - prompt, round(4 * self.load.output)))
        output = np.minimum(self._lengths(self.load.output, count), most)
        cached = np.minimum((self.load.hits * prompt).astype(np.int64), prompt - 1) // BLOCK_TOKENS * BLOCK_TOKENS
        return Jobs(prompt, output, most, cached)

    def _lengths(self, mean: float, count: int) -> npt.NDArray[np.int64]:
        if self.load.spread == 0:
            return np.full(count, max(1, round(mean)), dtype=np.int64)
        variance = log(1 + self.load.spread**2)
        drawn = np.exp(log(mean) - variance / 2 + sqrt(variance) * self._rng.standard_normal(count))
        return np.maximum(1, np.rint(drawn)).astype(np.int64)

    def _plan(self, now: float) -> None:
        if self.load.kind == "open" and self._next_open is None:
            self._next_open = self._open_after(self._planned_until)
        if self.load.kind == "closed":
            start = max(self._planned_until, now)
            while self._clients < self._wanted(start):
                heapq.heappush(self._pending, start)
                self._clients += 1

    def _wanted(self, now: float) -> int:
        return round(self.load.level(now + self._offset))

    def _next_wake(self, now: float) -> float | None:
        """When an idle closed load should be looked at again, because its level moves."""
        return None if self.load.trough == self.load.peak else now + self.load.period / 1440

    def _open_after(self, now: float) -> float | None:
        """The next arrival of a Poisson process with the load's moving rate (thinning, Lewis and Shedler 1979)."""
        if self.load.peak <= 0:
            return None
        while True:
            now += float(self._rng.exponential(1.0 / self.load.peak))
            if self._rng.random() * self.load.peak <= self.load.level(now + self._offset):
                return now

    def _job(self, arrival: float) -> Job:
        """The next one alone: what `draw(1)` draws, in a quarter of the time that arrays of one take."""
        prompt = min(self._length(self.load.prompt), self._max_model_len - 2)
        room = self._max_model_len - prompt
        output = self._length(self.load.output)
        max_tokens = max(1, min(room, round(4 * self.load.output)))
        cached = min(int(self.load.hits * prompt), prompt - 1) // BLOCK_TOKENS * BLOCK_TOKENS
        return Job(arrival, prompt, min(output, max_tokens), max_tokens, cached, self._epoch)

    def _length(self, mean: float) -> int:
        """Log-normal with this mean; `spread` is its coefficient of variation."""
        if self.load.spread == 0:
            return max(1, round(mean))
        variance = log(1 + self.load.spread**2)
        return max(1, round(exp(log(mean) - variance / 2 + sqrt(variance) * float(self._rng.standard_normal()))))


def _wrong(found: str, expected: str) -> ConfigError:
    return ConfigError([Problem("--sim-load", found, expected)])
