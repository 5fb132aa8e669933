"""A number of tokens for each batch size (`num_speculative_tokens_per_batch_size`), where that helps and is taken.

The engine looks the number up by the requests scheduled in a step. Boundaries flip from step to step, so segments are
wide and few. A setting of 0 in a schedule is not off: it still costs 6.6 % at batch 2 and 21.6 % at 189 (vllm#49548).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from monitor.tuning.cost import Cost
from monitor.tuning.decision import highest_candidate
from monitor.tuning.forecast import fitted_cost, step_of
from monitor.tuning.observed import Step, TuneInput
from monitor.tuning.projection import Length, project
from monitor.tuning.standdown import stand_down

#: A neighbouring segment differs only if its setting is better there by more than this (ratio).
LEAST_DIFFERENCE = 0.03
#: Gain over the best single setting, weighted by the load, that a schedule must be predicted to bring (ratio).
LEAST_GAIN = 0.02
#: A segment spans at least this factor of batch sizes.
LEAST_WIDTH = 2.0
#: Relative error of the step-time ratio at the ends of the range beyond which no schedule is proposed.
MOST_ERROR = 0.08
#: Doublings between a batch and a boundary below which it crosses that within its usual ups and downs. Ours: a quarter
#: more or less.
NEAR_BOUNDARY = 1.0 / 3.0
#: Batch sizes tried per doubling.
POINTS_PER_DOUBLING = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """What a schedule depends on besides the tuner's input."""

    max_num_seqs: int
    takes_schedule: bool
    data_parallel_size: int = 1
    #: Verify cost of mixtures of experts can peak mid-range: their schedule need not fall with the batch.
    is_mixture_of_experts: bool = False


@dataclass(frozen=True, slots=True)
class ScheduleAdvice:
    """Triples (first batch, last batch, tokens) that cover 1 .. max_num_seqs, or none with the reason in words."""

    triples: tuple[tuple[int, int, int], ...]
    sentence: str
    #: Predicted gain over the best single setting at the load given (ratio); None without a schedule.
    gain: float | None = None


@dataclass(frozen=True, slots=True)
class _Outlook:
    """What each setting does at each batch, all else as in the step of the setting in force."""

    cost: Cost
    lengths: Mapping[int, Length]
    now: Step

    def log_goodput(self, tokens: int, batch: float) -> float:
        """Logarithm of the tokens per second of each request."""
        seconds, _ = self.cost.log_seconds(replace(self.now, num_speculative_tokens=tokens, batch=batch))
        return math.log(self.lengths[tokens].value) - seconds

    def ratio_error(self, tokens: int, batch: float) -> float:
        """Relative error of the step time over that of the setting in force at the same batch."""
        here, there = (replace(self.now, num_speculative_tokens=k, batch=batch) for k in
                       (self.now.num_speculative_tokens, tokens))
        slope = self.cost.log_seconds(there)[1] - self.cost.log_seconds(here)[1]
        return math.sqrt(max(0.0, float(slope @ self.cost.covariance @ slope)))


def propose_schedule(given: TuneInput, server: Server, load: Sequence[tuple[float, float]]) -> ScheduleAdvice:
    """A schedule for the server, or the reason why none is proposed; `load` tells the day's batches in fine bins."""
    why = _why_not(given, server)
    if why:
        return ScheduleAdvice((), why)
    now = given.num_speculative_tokens
    if now is None or given.current is None:
        return ScheduleAdvice((), "What the setting in force does is not known.")
    lengths = project(given.observed, given.drafting, highest_candidate(given))
    outlook = _Outlook(fitted_cost(given), lengths, step_of(now, given.current))
    settings = [k for k in lengths if max(1, given.limits.minimum) <= k <= highest_candidate(given)]
    batches = _grid(server.max_num_seqs)
    ends = [(tokens, batch) for tokens in (settings[0], settings[-1]) for batch in (batches[0], batches[-1])]
    if any(outlook.ratio_error(tokens, batch) > MOST_ERROR for tokens, batch in ends):
        return ScheduleAdvice((), "What a draft token costs at other batch sizes is not known well enough yet.")
    best = _choose(batches, settings, outlook, falls=not server.is_mixture_of_experts)
    triples = _apart(_segments(batches, best, server.max_num_seqs), load)
    if len(triples) < 2:
        return ScheduleAdvice((), f"{triples[0][2]} tokens are best, or as good as best, at every batch size.")
    gain = _gain(given, triples, settings, outlook)
    if gain < LEAST_GAIN:
        return ScheduleAdvice((), f"A schedule would bring {gain:.1%} over the best single setting at the load seen.")
    return ScheduleAdvice(triples, f"A schedule is predicted to bring {gain:.1%} over the best single setting.", gain)


def _why_not(given: TuneInput, server: Server) -> str:
    if not server.takes_schedule:
        return "This engine version takes no num_speculative_tokens_per_batch_size with this method."
    if server.data_parallel_size > 1:
        return "The engine ignores a schedule with data parallelism."
    refusal = stand_down(given)
    if refusal is not None:
        return f"Nothing is proposed for this server now ({refusal[1].value})."
    if not given.num_speculative_tokens:
        return "Speculation is off."
    if not given.batches:
        return "The load of the day is not known."
    return ""


def _grid(highest: int) -> list[int]:
    count = max(1, round(math.log2(highest) * POINTS_PER_DOUBLING)) if highest > 1 else 0
    return sorted({round(2 ** (i / POINTS_PER_DOUBLING)) for i in range(count)} | {1, highest})


def _choose(
    batches: Sequence[int], settings: Sequence[int], outlook: _Outlook, *, falls: bool
) -> list[int]:
    """Setting for each batch, from the smallest on: the former one goes on unless another is better by enough."""
    chosen: list[int] = []
    for batch in batches:
        allowed = [k for k in settings if not (falls and chosen and k > chosen[-1])]
        worths = {k: outlook.log_goodput(k, batch) for k in allowed}
        best = max(worths, key=lambda k: worths[k])
        if chosen and worths.get(chosen[-1], -math.inf) >= worths[best] - math.log1p(LEAST_DIFFERENCE):
            best = chosen[-1]
        chosen.append(best)
    return chosen


def _segments(batches: Sequence[int], best: Sequence[int], highest: int) -> tuple[tuple[int, int, int], ...]:
    """Neighbours of equal setting merged; segments narrower than `LEAST_WIDTH` go to the one before them."""
    starts: list[tuple[int, int]] = []
    for index, (batch, tokens) in enumerate(zip(batches, best, strict=True)):
        if starts and starts[-1][1] == tokens:
            continue
        ends = next((b for b, k in zip(batches[index:], best[index:], strict=True) if k != tokens), highest + 1)
        if starts and ends / batch < LEAST_WIDTH:
            continue
        starts.append((batch, tokens))
    merged = [starts[0]] + [b for a, b in pairwise(starts) if a[1] != b[1]]
    lasts = [start - 1 for start, _ in merged[1:]] + [highest]
    return tuple((start, last, tokens) for (start, tokens), last in zip(merged, lasts, strict=True))


def _apart(
    triples: Sequence[tuple[int, int, int]], load: Sequence[tuple[float, float]]
) -> tuple[tuple[int, int, int], ...]:
    """The segments with each boundary where batches are seldom, at most half a doubling from where it was.

    A batch that dwells at a boundary flips the number from step to step, and throughput collapses (vllm#49548).
    """
    starts, end = [first for first, _, _ in triples], triples[-1][1] + 1
    for at in range(1, len(starts)):
        below, above = starts[at - 1], [*starts, end][at + 1]
        moved = [round(starts[at] * factor) for factor in (2.0**-0.5, 2.0**0.5)]
        wide = [start for start in moved if start >= LEAST_WIDTH * below and above >= LEAST_WIDTH * start]
        # The first of equals stays: where it was.
        starts[at] = min([starts[at], *wide], key=lambda start: _dwelling(load, start))
    lasts = [start - 1 for start in starts[1:]] + [end - 1]
    return tuple((first, last, k) for first, last, (_, _, k) in zip(starts, lasts, triples, strict=True))


def _dwelling(load: Sequence[tuple[float, float]], start: float) -> float:
    """Share of the load near a boundary."""
    return sum(share for batch, share in load if abs(math.log2(batch / start)) < NEAR_BOUNDARY)


def _gain(
    given: TuneInput, triples: Sequence[tuple[int, int, int]], settings: Sequence[int], outlook: _Outlook
) -> float:
    """Gain of the schedule over the best single setting, weighted by the load (ratio)."""
    total = sum(share for _, share in given.batches)

    def mean(tokens_at: Mapping[float, int]) -> float:
        return sum(s / total * outlook.log_goodput(tokens_at[b], b) for b, s in given.batches)

    scheduled = {b: next((k for _, last, k in triples if b <= last), triples[-1][2]) for b, _ in given.batches}
    single = max(mean(dict.fromkeys(scheduled, tokens)) for tokens in settings)
    return math.expm1(mean(scheduled) - single)
