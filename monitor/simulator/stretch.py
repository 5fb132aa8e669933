"""A long run of equal engine steps at once, for clients that never wait for a place: each is a chain of requests.

While the batch stays as it is, nothing that one client does reaches another: the step is the same for all, and so is
the law of drafts. So all requests of all clients are drawn in a few arrays, with the same laws as step by step (the
tests compare means, variances and correlations), in a twentieth of the time. It owns neither load nor batch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from monitor.simulator.behaviour import Step
from monitor.simulator.counts import Counts, Ended
from monitor.simulator.load import Jobs
from monitor.simulator.requests import Request
from monitor.simulator.ticks import cut_at_limit

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

#: Requests are drawn in so many parts by their length: a short one needs no row as wide as the longest.
_PARTS = 6


class _Wave(NamedTuple):
    """Requests that follow each other, client by client: lengths (tokens), ease, and what is left of their prefill."""

    jobs: Jobs
    ease: Floats
    prefill: Ints
    produced: Ints

    @property
    def is_fresh(self) -> Flags:
        """Whether their first token is still to come."""
        return np.equal(self.produced, 0)


class Stretch:
    """Consecutive steps of equal kind; step numbers count from 0 within it."""

    def __init__(
        self, start: float, step: Step, durations: Floats, rng: np.random.Generator, counts: Counts,
        prefill_seconds_per_token: float,
    ) -> None:
        """`start`: simulated second at which the first step begins; `durations`: seconds of each step."""
        self.ends = start + np.cumsum(durations)
        self._start, self._step, self._durations, self._n = start, step, durations, len(durations)
        self._rng, self._counts = rng, counts
        self._prefill_seconds = prefill_seconds_per_token
        self._outputs = np.zeros(self._n, dtype=np.int64)
        self._tokens = np.zeros(self._n, dtype=np.int64)
        #: One for each client, when it is over: in the batch, or about to be.
        self.running: list[Request] = []
        self.waiting: list[Request] = []
        self.ended: list[Ended] = []

    def run(self, clients: list[Request], draw: Callable[[int], Jobs], epoch: int) -> None:
        """Run what the clients have in the batch, and what they ask next, drawn by `draw`, to the end."""
        totals: Ints = self._first(clients)
        while True:
            short = self._n + 1 - int(totals.min())
            if short <= 0:
                break
            jobs = draw(len(clients) * self._likely(short, clients))
            ease = self._step.law.latents(self._rng, len(jobs.prompt))
            wave = _Wave(jobs, ease, self._prefill_steps(jobs), np.zeros(len(ease), dtype=np.int64))
            totals = self._next(wave, totals, epoch)
        self.running.sort(key=lambda request: request.admitted or 0.0)
        self._record()

    def _likely(self, steps: int, clients: list[Request]) -> int:
        """How many more requests a client is likely to make in so many steps."""
        mean = sum(request.job.output_tokens for request in clients) / len(clients)
        return int(1.15 * steps / (1.0 + mean / self._step.law.tokens_per_step)) + 2

    def _prefill_steps(self, jobs: Jobs) -> Ints:
        seconds = (jobs.prompt - jobs.cached) * self._prefill_seconds
        steps: Ints = np.maximum(1, np.ceil(seconds / self._step.seconds)).astype(np.int64)
        return steps

    def _first(self, clients: list[Request]) -> Ints:
        """The requests that are there already; the step after the last of each."""
        for request in clients:
            if request.admitted is None:
                request.admitted = self._start
                request.ease = self._step.law.latent(self._rng)
                jobs = Jobs.of([request.job])
                request.prefill_steps_left = int(self._prefill_steps(jobs)[0])
        wave = _Wave(
            Jobs.of([request.job for request in clients]), np.array([request.ease for request in clients]),
            np.array([request.prefill_steps_left for request in clients], dtype=np.int64),
            np.array([request.produced for request in clients], dtype=np.int64),
        )
        begin = np.zeros(len(clients), dtype=np.int64)
        steps, made, firsts = self._drafts(wave, begin)
        arrival = np.array([request.job.arrival for request in clients])
        admitted = np.array([request.admitted for request in clients], dtype=np.float64)
        known = np.array([np.nan if request.first_token is None else request.first_token for request in clients])
        first = np.where(np.isnan(known), self._time_of(firsts), known)
        self._counts.first_token.observe_many((first - arrival)[np.isnan(known) & (firsts < self._n)])
        preemptions = np.array([request.preemptions for request in clients], dtype=np.int64)
        over = steps <= self._n
        self._end(wave, over, made, arrival, admitted, first, self._time_of(steps - 1), preemptions)
        for at in np.flatnonzero(~over).tolist():
            request = clients[at]
            request.produced = int(made[at])
            request.prefill_steps_left = max(0, request.prefill_steps_left - self._n)
            request.first_token = None if np.isnan(first[at]) else float(first[at])
            self.running.append(request)
        return steps

    def _next(self, wave: _Wave, totals: Ints, epoch: int) -> Ints:
        """Requests that follow, as many for each client; the step after the last of each."""
        count = len(totals)
        # What a chain holds is known only when its drafts are: the first pass draws them, the second places them.
        drawn = self._draw(wave)
        lengths = (wave.prefill + drawn.steps).reshape(count, -1)
        begin = (totals[:, None] + lengths.cumsum(axis=1) - lengths).ravel()
        steps, made, firsts = self._place(wave, drawn, begin)
        arrival = self._time_of(begin - 1)
        first = self._time_of(firsts)
        self._counts.first_token.observe_many((first - arrival)[firsts < self._n])
        over = steps <= self._n
        none = np.zeros(len(begin), dtype=np.int64)
        self._end(wave, over, made, arrival, arrival, first, self._time_of(steps - 1), none)
        for at in np.flatnonzero((begin <= self._n) & ~over).tolist():
            job = wave.jobs.job(at, float(arrival[at]), epoch)
            if begin[at] == self._n:
                self.waiting.append(Request(job, ease=0.0))
                continue
            self.running.append(Request(
                job, ease=float(wave.ease[at]), admitted=float(arrival[at]), produced=int(made[at]),
                first_token=None if np.isnan(first[at]) else float(first[at]),
                prefill_steps_left=max(0, int(begin[at] + wave.prefill[at]) - self._n),
            ))  # fmt: skip
        after: Ints = totals + lengths.sum(axis=1)
        return after

    def _drafts(self, wave: _Wave, begin: Ints) -> tuple[Ints, Ints, Ints]:
        return self._place(wave, self._draw(wave), begin)

    def _draw(self, wave: _Wave) -> _Drawn:
        """The drafts of every request to its end, wherever that will be."""
        produced = np.maximum(wave.produced, 1)
        left, room = wave.jobs.output - produced, wave.jobs.most - produced
        steps = np.zeros(len(left), dtype=np.int64)
        rows, columns, outcomes = [], [], []
        order = np.argsort(left, kind="stable")
        work = [(part, left[part], room[part], 0) for part in np.array_split(order[left[order] > 0], _PARTS)]
        while work:
            part, want, limit, before = work.pop()
            if not len(part):
                continue
            # A little more than most need; the few that need more are drawn on.
            longest = int(want.max())
            width = min(longest, int(1.1 * longest / self._step.law.tokens_per_step) + 8)
            outcome = self._step.law.outcomes(self._rng, wave.ease[part], width)
            emitted = np.maximum(outcome, 1)
            total = emitted.cumsum(axis=1)
            is_over = total[:, -1] >= want
            last = np.where(is_over, (total >= want[:, None]).argmax(axis=1), width - 1)
            cut_at_limit(outcome, emitted, total, limit, last, is_over)
            row, column = np.nonzero(np.arange(width) <= last[:, None])
            steps[part] += last + 1
            rows.append(part[row])
            columns.append(before + column)
            outcomes.append(outcome[row, column])
            on, made = part[~is_over], total[~is_over, -1]
            work.append((on, want[~is_over] - made, limit[~is_over] - made, before + width))
        nothing = [np.zeros(0, dtype=np.int64)]
        return _Drawn(steps, *(np.concatenate([*nothing, *found]) for found in (rows, columns, outcomes)))

    def _place(self, wave: _Wave, drawn: _Drawn, begin: Ints) -> tuple[Ints, Ints, Ints]:
        """Count what lies in the stretch; the step after each request, its tokens, the step of its first token."""
        done = begin + wave.prefill
        place = done[drawn.row] + drawn.column
        inside = place < self._n
        place, row, outcome = place[inside], drawn.row[inside], drawn.outcome[inside]
        emitted = np.maximum(outcome, 1)
        self._outputs += np.bincount(place, minlength=self._n)
        self._tokens += np.bincount(place, weights=emitted, minlength=self._n).astype(np.int64)
        made = np.bincount(row, weights=emitted, minlength=len(begin)).astype(np.int64)
        if self._step.drafted:
            self._counts.add_drafts(outcome, self._step.drafted)
        is_first = wave.is_fresh & (done <= self._n)
        prompts = wave.jobs.prompt[is_first]
        np.add.at(self._tokens, done[is_first] - 1, prompts + 1)
        self._counts.prompt_tokens += int(prompts.sum())
        self._counts.cached_prompt_tokens += int(wave.jobs.cached[is_first].sum())
        self._counts.first_tokens += len(prompts)
        self._counts.generation_tokens += len(prompts) + int(emitted.sum())
        firsts = np.where(is_first, done - 1, self._n)
        return done + drawn.steps, wave.produced + made + is_first, firsts

    def _time_of(self, steps: Ints) -> Floats:
        """When steps end; NaN for those beyond the stretch."""
        return np.where(steps < self._n, self.ends[np.clip(steps, 0, self._n - 1)], np.nan)

    def _end(
        self, wave: _Wave, over: Flags, made: Ints, arrival: Floats, admitted: Floats, first: Floats,
        last: Floats, preemptions: Ints,
    ) -> None:
        """Count the requests that are over."""
        if not over.any():
            return
        jobs = wave.jobs
        ended = Ended(
            jobs.prompt[over], jobs.cached[over], jobs.most[over], made[over], arrival[over], admitted[over],
            first[over], last[over], preemptions[over],
        )
        at_limit = int(np.sum(ended.most == ended.produced))
        self._counts.finished["length"] += at_limit
        self._counts.finished["stop"] += len(ended.produced) - at_limit
        self._counts.add_all_ended(ended)
        self.ended.append(ended)

    def _record(self) -> None:
        busy = self._tokens > 0
        self._counts.step.observe_each(self._durations, self._outputs)
        self._counts.iteration_tokens.observe_many(self._tokens[busy].astype(np.float64))


class _Drawn(NamedTuple):
    """Steps of each request after its prefill; request, step from there and outcome of each of its drafts."""

    steps: Ints
    row: Ints
    column: Ints
    outcome: Ints
