"""What a method may bring before anything was measured: published acceptance, the tuner's prior costs, one load.

The same formula as the tuner's (tokens per step over the time of a step), with priors in place of observations, so
its error is large and is said.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from monitor.advise.catalog import MethodEntry
from monitor.tuning.cost import UNKNOWN_BATCH, Cost, fit
from monitor.tuning.observed import Drafting, Step, drafting_of

#: Each conditional rate beyond the published ones, over the one before: neural drafts lose 7 % a position (14 golden
#: curves), lookup keeps what it has.
_DECAY = 0.93
#: How far acceptance on other traffic lies from what is published (absolute, per position).
_ACCEPTANCE_ERROR = 0.10
#: Bounds of a conditional rate.
_LEAST, _MOST = 0.05, 0.97
#: Standard deviations of the cost within which the gain is said to lie (90 %).
_SPREAD = 1.645
#: A gain below this is none: restarts and memory cost too.
WORTH = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """Tokens to begin with, and tokens per second over those without speculation, minus 1 (0.4 is 40 % more).

    `length` is tokens per decode step, steps without a draft included.
    """

    tokens: int
    gain: float
    gain_low: float
    gain_high: float
    length: float

    @property
    def pays(self) -> bool:
        """Whether more is to be expected than it costs."""
        return self.gain > WORTH


def forecast(
    method: str, entry: MethodEntry, *, kind: str, concurrency: float | None, draft_ratio: float | None = None,
    least: int = 1, most: int | None = None, step: int = 1,
) -> Forecast:
    """The best setting to begin with for `method`, at so many requests at a time.

    `draft_ratio`: weight bytes of a draft model over the target's. Settings are `least`, `least + step` … up to `most`.
    """
    drafting = drafting_of(method)
    cost = fit((), drafting, draft_ratio=draft_ratio)
    lookup = entry.kinds.get(kind)
    rates = lookup.acceptance if lookup is not None else entry.acceptance
    coverage = lookup.coverage if lookup is not None else 1.0
    batch = concurrency if concurrency is not None else UNKNOWN_BATCH
    top = max(least, min(entry.most, most) if most is not None else entry.most)
    found = [
        _at(tokens, cost, rates, coverage, batch, drafting) for tokens in range(least, top + 1, step)
    ]
    return max(found, key=lambda one: one.gain)


def _at(
    tokens: int, cost: Cost, rates: Sequence[float], coverage: float, batch: float, drafting: Drafting
) -> Forecast:
    off, off_slope = cost.log_seconds(Step(num_speculative_tokens=0, batch=batch))
    on, on_slope = cost.log_seconds(Step(num_speculative_tokens=tokens, batch=batch, coverage=coverage))
    slope = on_slope - off_slope
    error = _SPREAD * math.sqrt(float(slope @ cost.covariance @ slope))
    errors = (0.0, -_ACCEPTANCE_ERROR, _ACCEPTANCE_ERROR)
    length, low, high = (_length(tokens, rates, coverage, drafting, by) for by in errors)
    faster = off - on
    return Forecast(
        tokens=tokens, gain=length * math.exp(faster) - 1.0, gain_low=low * math.exp(faster - error) - 1.0,
        gain_high=high * math.exp(faster + error) - 1.0, length=length,
    )


def _length(tokens: int, rates: Sequence[float], coverage: float, drafting: Drafting, by: float) -> float:
    """Tokens per decode step, bonus token included; every conditional rate is moved by `by`."""
    total, survived, rate = 0.0, 1.0, rates[0]
    for place in range(tokens):
        if place < len(rates):
            rate = rates[place]
        elif drafting is not Drafting.LOOKUP:
            rate *= _DECAY
        survived *= min(_MOST, max(_LEAST, rate + by))
        total += survived
    return 1.0 + coverage * total
