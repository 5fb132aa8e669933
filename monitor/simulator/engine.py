"""The simulated engine: a seeded model of continuous batching that turns seconds into counts. It reads no clock.

`advance(seconds)` runs in long stretches while the batch cannot change, and else in ticks of at most
`max_tick_seconds`: within a tick the step time is that of the batch at its begin. Every step of every request is drawn,
so V1's identities hold exactly:

- accepted per position never rises and sums to the accepted tokens; accepted <= draft tokens <= k x drafts;
- generation tokens = engine outputs (= count of inter_token_latency) + accepted + first tokens, and with a draft in
  every step drafts = outputs. (A real server also counts accepted tokens that its length limit cuts off: up to k a
  request.)

Simplifications: a prompt is prefilled in its own steps without slowing the others' step; a preempted request recomputes
its prompt and tokens the same way; KV room is looked at when admitting and at the end of a tick.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from math import ceil

import numpy as np
import numpy.typing as npt

from monitor.simulator.behaviour import Behaviour, Step
from monitor.simulator.counts import Counts, Ended
from monitor.simulator.load import Job, Load, Traffic
from monitor.simulator.requests import Request
from monitor.simulator.stretch import Stretch
from monitor.simulator.ticks import Tick

#: Steps from which they are run at once while the batch stays, and the longest time that is (simulated seconds): a
#: minute of 32 requests is 150,000 drafts.
_LEAST_STEPS, _LONGEST_STRETCH_SECONDS = 16, 60.0


@dataclass(frozen=True, slots=True)
class Limits:
    """Sizes of the engine: requests in a batch, longest sequence and KV cache (tokens), prefill and noise of a step."""

    max_num_seqs: int = 256
    max_model_len: int = 1024
    kv_tokens: int = 131_072
    #: Seconds per computed prompt token: 21 us, the per-token verify cost of the fit behind the shipped tables.
    prefill_seconds_per_token: float = 2.1e-5
    #: Coefficient of variation of one step's duration; a live CPU server showed far more, a GPU about this.
    step_noise: float = 0.02
    #: Longest tick (simulated seconds): step time follows the batch with this delay.
    max_tick_seconds: float = 1.0


class Engine:
    """One engine of one life."""

    def __init__(
        self, behaviour: Behaviour, load: Load, limits: Limits, seed: int, day_offset_seconds: float = 0.0
    ) -> None:
        self.behaviour = behaviour
        self.limits = limits
        self.counts = Counts(behaviour.num_speculative_tokens, limits.max_model_len)
        self.now = 0.0
        self._until = 0.0
        self._rng = np.random.default_rng(seed)
        traffic_rng = np.random.default_rng((seed, 1))
        self.traffic = Traffic(load, traffic_rng, limits.max_model_len, day_offset_seconds)
        self._running: list[Request] = []
        self._waiting: deque[Request] = deque()
        #: Told of every request that ends, after its own `on_end`.
        self.on_end: Callable[[Request], None] | None = None
        #: Told of requests that ended many at once; who has `on_end` alone is told of each, step by step.
        self.on_ended: Callable[[Ended], None] | None = None

    # What the gauges show.

    @property
    def running(self) -> int:
        """Requests in the batch."""
        return len(self._running)

    @property
    def waiting(self) -> int:
        """Requests that have arrived and not been admitted."""
        return len(self._waiting)

    @property
    def kv_usage(self) -> float:
        """Share of the KV cache in use (0 to 1)."""
        return min(1.0, self._kv_used() / self.limits.kv_tokens)

    @property
    def is_asleep(self) -> bool:
        """Weights are offloaded."""
        return self.behaviour.is_asleep(self.now)

    # What callers do.

    def submit(self, prompt_tokens: int, max_tokens: int, on_end: Callable[[Request], None] | None = None) -> Request:
        """Put a request from outside into the queue; it makes exactly `max_tokens` tokens."""
        job = Job(self.now, prompt_tokens, max_tokens, max_tokens)
        request = Request(job, ease=0.0, external=True, on_end=on_end)
        self._waiting.append(request)
        return request

    def abort(self, request: Request) -> None:
        """Take a request out before its end; nothing happens once it has ended."""
        if request.finish_reason is None:
            self._running = [other for other in self._running if other is not request]
            self._waiting = deque(other for other in self._waiting if other is not request)
            self._end(request, "abort")

    def abort_all(self) -> None:
        """Take every request out, as a server does that stops or goes to sleep."""
        for request in [*self._running, *self._waiting]:
            self.abort(request)

    def stop_traffic(self) -> None:
        """No more requests of its own making."""
        self.traffic.change(Load(), self.now)

    def advance(self, seconds: float) -> None:
        """Let so many simulated seconds pass; what is left after the last whole step is kept for the next call."""
        self._until += max(0.0, seconds)
        while self._advance_once():
            pass

    def _advance_once(self) -> bool:
        if self.behaviour.is_asleep(self.now):
            self.abort_all()
            return self._idle_until(self._next_fault())
        if self.behaviour.is_halted(self.now):
            self._take_arrivals(self.now)
            while self._waiting and len(self._running) < self.limits.max_num_seqs:
                self._start(self._waiting[0], self.now, self.behaviour.step(1, self.now))
                self._running.append(self._waiting.popleft())
            return self._idle_until(self._next_fault())
        if not self._running and not self._waiting:
            arrival = self.traffic.next_arrival(self.now)
            if arrival is None or arrival > self._until:
                return self._idle_until(None)
            if arrival > self.now:
                self.now = arrival
                return True
        self._take_arrivals(self.now)
        if not self._running and not self._waiting:
            return self.now < self._until
        return self._stretch() or self._tick()

    def _idle_until(self, time: float | None) -> bool:
        # The last step may have gone a little past the asked time; the engine never goes back.
        self.now = max(self.now, self._until if time is None else min(time, self._until))
        return self.now < self._until

    def _next_fault(self) -> float | None:
        return self.behaviour.faults.next_change(self.now)

    def _take_arrivals(self, now: float) -> None:
        while (job := self.traffic.take(now)) is not None:
            self._waiting.append(Request(job, ease=0.0))

    # Many steps at once.

    def _stretch(self) -> bool:
        """Run to where the batch may change, all steps at once; False where it may change before."""
        clients = [*self._running, *self._waiting]
        step, fault = self.behaviour.step(len(clients), self.now), self._next_fault()
        until = min(self._until, self.now + _LONGEST_STRETCH_SECONDS, self._until if fault is None else fault)
        steps = int((until - self.now) / step.seconds)
        if steps < _LEAST_STEPS or not self._is_steady(clients, until):
            return False
        stretch = Stretch(
            self.now, step, self._durations(step.seconds, steps), self._rng, self.counts,
            self.limits.prefill_seconds_per_token,
        )
        stretch.run(clients, self.traffic.draw, self.traffic.epoch)
        self._running, self._waiting = stretch.running, deque(stretch.waiting)
        self.now = float(stretch.ends[-1])
        if self.on_ended is not None:
            for ended in stretch.ended:
                self.on_ended(ended)
        return self.now < self._until

    def _is_steady(self, clients: list[Request], until: float) -> bool:
        """Whether nothing reaches from one client to another: neither places nor KV cache nor faults of the moment."""
        limits, traffic = self.limits, self.traffic
        has_room = len(clients) <= min(limits.max_num_seqs, limits.kv_tokens // limits.max_model_len)
        return (
            has_room
            and (self.on_end is None or self.on_ended is not None)
            and not self.behaviour.is_drifting(self.now)
            and traffic.is_steady(self.now, until, len(clients))
            and all(not client.external and client.job.epoch == traffic.epoch for client in clients)
        )

    # One tick.

    def _tick(self) -> bool:
        step = self.behaviour.step(self._batch(), self.now)
        fault = self._next_fault()
        left = min(self._until, fault if fault is not None else self._until) - self.now
        steps = min(int(left / step.seconds), max(1, int(self.limits.max_tick_seconds / step.seconds)))
        if steps < 1 and self.now + step.seconds <= self._until:
            steps = 1  # a fault begins before the next step would end: one step across it
        if steps < 1:
            return False
        tick = Tick(self.now, step, self._durations(step.seconds, steps), self._rng, self.counts)
        free_from = [0] * (self.limits.max_num_seqs - len(self._running))
        current, self._running = self._running, []
        for request, last in zip(current, tick.run(current, [0] * len(current)), strict=True):
            self._settle(request, last, tick, free_from)
        self._admit(tick, free_from)
        self.now = float(tick.ends[-1])
        tick.record()
        self._preempt()
        return self.now < self._until

    def _batch(self) -> int:
        """Requests that the next steps will hold: those running, and as many of those waiting as fit."""
        batch, room = len(self._running), self.limits.kv_tokens - self._kv_used()
        for request in self._waiting:
            room -= request.tokens
            if batch >= self.limits.max_num_seqs or (room < 0 and batch > 0):
                break
            batch += 1
        return batch

    def _durations(self, seconds: float, steps: int) -> npt.NDArray[np.float64]:
        noise = self.limits.step_noise
        if noise == 0:
            return np.full(steps, seconds)
        return seconds * np.exp(noise * self._rng.standard_normal(steps) - noise * noise / 2)

    def _settle(self, request: Request, last: int | None, tick: Tick, free_from: list[int]) -> None:
        """A request's part in this tick is known: it goes on, or ends at step `last` and frees its slot."""
        if last is None:
            self._running.append(request)
            return
        heapq.heappush(free_from, last + 1)
        request.last_token = float(tick.ends[last])
        self._end(request, "length" if request.room == 0 else "stop")

    def _admit(self, tick: Tick, free_from: list[int]) -> None:
        """Give free slots to those who wait, first come first served; a slot freed in this tick is used again in it."""
        while admitted := self._admitted(tick, free_from):
            requests, begins = zip(*admitted, strict=True)
            for request, last in zip(requests, tick.run(list(requests), list(begins)), strict=True):
                self._settle(request, last, tick, free_from)
        self._take_arrivals(float(tick.ends[-1]))

    def _admitted(self, tick: Tick, free_from: list[int]) -> list[tuple[Request, int]]:
        """The next requests with the steps they begin at: several, where none waits for another's end.

        In a closed load an end makes an arrival, which comes before later ones: one at a time.
        """
        found: list[tuple[Request, int]] = []
        kv_used = self._kv_used()
        while True:
            if not self._waiting:
                self._take_arrivals_one(float(tick.ends[-1]))
            if not self._waiting or not free_from or (found and (free_from[0] > 0 or not self.traffic.is_open)):
                return found
            request = self._waiting[0]
            begin = max(free_from[0], int(np.searchsorted(tick.begins, request.job.arrival)))
            kv_used += request.tokens
            if begin >= tick.n or (kv_used > self.limits.kv_tokens and (self._running or found)):
                return found
            heapq.heappop(free_from)
            self._waiting.popleft()
            self._start(request, float(tick.begins[begin]), tick.step)
            found.append((request, begin))

    def _take_arrivals_one(self, now: float) -> None:
        job = self.traffic.take(now)
        if job is not None:
            self._waiting.append(Request(job, ease=0.0))

    def _start(self, request: Request, now: float, step: Step) -> None:
        job = request.job
        if request.admitted is None:
            request.admitted = now
            request.ease = step.law.latent(self._rng)
        computed = request.tokens - job.cached_tokens
        seconds = computed * self.limits.prefill_seconds_per_token
        request.prefill_steps_left = max(1, ceil(seconds / step.seconds))

    def _preempt(self) -> None:
        """While the KV cache overflows, send the latest request back to the head of the queue."""
        while self._kv_used() > self.limits.kv_tokens and len(self._running) > 1:
            request = self._running.pop()
            request.preemptions += 1
            self.counts.preemptions += 1
            self._waiting.appendleft(request)

    def _kv_used(self) -> int:
        return sum(request.tokens for request in self._running)

    def _end(self, request: Request, reason: str) -> None:
        request.finish_reason = reason
        self.counts.finished[reason] += 1
        if reason != "abort":
            self.counts.add_ended(request)
        if not request.external:
            self.traffic.answered(request.job, max(request.last_token, self.now))
        for listener in (request.on_end, self.on_end):
            if listener is not None:
                listener(request)
