"""The steps of one tick: drafts of every request drawn at once, counted and cut at each request's end."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from monitor.simulator.behaviour import Step
from monitor.simulator.counts import Counts
from monitor.simulator.drafts import Outcomes
from monitor.simulator.requests import Request

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


class Tick:
    """Clock and sums of some consecutive engine steps of equal kind; step numbers count from 0 within it."""

    def __init__(self, start: float, step: Step, durations: Floats, rng: np.random.Generator, counts: Counts) -> None:
        """`start`: simulated second at which the first step begins; `durations`: seconds of each step."""
        self.step = step
        self.ends = start + np.cumsum(durations)
        # As they are, not `ends - durations`: a request that comes as a step ends begins with the next one.
        self.begins = np.concatenate(([start], self.ends[:-1]))
        self.n = len(durations)
        self._durations = durations
        self._rng = rng
        self._counts = counts
        self._outputs = np.zeros(self.n, dtype=np.int64)
        self._tokens = np.zeros(self.n, dtype=np.int64)

    def run(self, requests: list[Request], begins: list[int]) -> list[int | None]:
        """Run requests, each from its step on; the step at which each one ended, `None` where it goes on."""
        if not requests:
            return []
        start = np.array(list(map(self._prefill, requests, begins)), dtype=np.int64)
        ease = np.array([request.ease for request in requests])
        left = np.array([request.left for request in requests], dtype=np.int64)
        room = np.array([request.room for request in requests], dtype=np.int64)
        steps = np.arange(self.n)
        outcome = self.step.law.outcomes(self._rng, ease, self.n)
        emitted = np.maximum(outcome, 1) * (steps >= start[:, None])
        total = emitted.cumsum(axis=1)
        is_over = total >= left[:, None]
        ends = is_over[:, -1]
        last = np.where(ends, is_over.argmax(axis=1), self.n - 1)
        # A request that wanted one token ended with its prefill and makes no step of its own.
        last = np.where(left <= 0, start - 1, last)
        cut_at_limit(outcome, emitted, total, room, last, ends & (left > 0))
        is_live = (steps >= start[:, None]) & (steps <= last[:, None])
        emitted *= is_live
        self._outputs += is_live.sum(axis=0)
        self._tokens += emitted.sum(axis=0)
        if self.step.drafted:
            self._counts.add_drafts(outcome[is_live], self.step.drafted)
        made = emitted.sum(axis=1).tolist()
        for request, tokens in zip(requests, made, strict=True):
            request.produced += tokens
        self._counts.generation_tokens += sum(made)
        return [place if over else None for place, over in zip(last.tolist(), ends.tolist(), strict=True)]

    def record(self) -> None:
        """Put the tick's sums into the counts; once, at its end."""
        busy = self._tokens > 0
        self._counts.step.observe_each(self._durations, self._outputs)
        self._counts.iteration_tokens.observe_each(self._tokens[busy].astype(np.float64), busy[busy].astype(np.int64))

    def _prefill(self, request: Request, begin: int) -> int:
        """Do what this tick holds of a prefill; the step at which drafts begin (`n`: not in this tick)."""
        needed = request.prefill_steps_left
        done = begin + needed
        request.prefill_steps_left = max(0, done - self.n)
        if done > self.n or needed == 0:
            return min(done, self.n)
        if request.first_token is None:
            request.first_token = float(self.ends[done - 1])
            request.produced = 1
            self._tokens[done - 1] += 1 + request.job.prompt_tokens
            self._counts.prompt_tokens += request.job.prompt_tokens
            self._counts.cached_prompt_tokens += request.job.cached_tokens
            self._counts.first_tokens += 1
            self._counts.generation_tokens += 1
            self._counts.first_token.observe(request.first_token - request.job.arrival)
        return done


def cut_at_limit(
    outcome: Outcomes, emitted: Outcomes, total: Ints, room: Ints, last: Ints, ends: npt.NDArray[np.bool_]
) -> None:
    """Take from the last draft of each request that ends what its token limit does not allow."""
    rows = np.flatnonzero(ends)
    excess = np.maximum(total[rows, last[rows]] - room[rows], 0)
    outcome[rows, last[rows]] -= excess
    emitted[rows, last[rows]] -= excess
