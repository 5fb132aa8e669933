"""How far a ratio of counts may be from the truth when drafts are correlated. It owns statistics, not signals.

Drafts of one request resemble each other, so that the binomial error of raw tokens is too small by a factor of 2 to 12
in published traces. The error is measured between blocks of time instead, and never taken for smaller than twice
(variance) what independent drafts would give.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

#: Design effect assumed until enough blocks were seen; traces show 2 (maths) to 40 (chat).
START_DESIGN_EFFECT = 10.0
#: Smallest design effect ever used.
FLOOR_DESIGN_EFFECT = 2.0
#: Blocks below which the design effect is not measured but assumed, and below which it is not believed to be smaller.
MIN_BLOCKS, ENOUGH_BLOCKS = 10, 20
#: Largest correlation of neighbouring batches that is corrected for: beyond it the window is too short to tell.
MOST_CORRELATION = 0.6
#: Batches that blocks are merged into: few enough that a request rarely spans two, enough to measure a variance.
BATCHES = 10
#: Two-sided 95 % of the normal distribution.
Z95 = 1.959964


@dataclass(frozen=True, slots=True)
class Estimate:
    """A ratio with its 95 % interval, the design effect used and the batches it was measured from (0: assumed)."""

    value: float
    low: float
    high: float
    design_effect: float
    batches: int


def student_t95(degrees: float) -> float:
    """Two-sided 95 % quantile of Student's t (Cornish-Fisher series, within 1 % from 3 degrees on)."""
    v, z = max(degrees, 3.0), Z95
    return z + (z**3 + z) / (4 * v) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * v**2) + (
        3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z
    ) / (384 * v**3)


def within_draft_variance(survival: Sequence[float]) -> float:
    """Variance of the tokens accepted per draft, from survival by position (exact, since P(n >= i) = survival[i-1]).

    E[n] = sum R_i and E[n^2] = sum (2i - 1) R_i.
    """
    mean = sum(survival)
    square = sum((2 * i - 1) * rate for i, rate in enumerate(survival, start=1))
    return max(0.0, square - mean * mean)


def _batches(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Neighbouring blocks added into at least `BATCHES` batches (as many as there are blocks below twice that)."""
    size = max(1, len(values) // BATCHES)
    whole = len(values) // size * size
    merged: NDArray[np.float64] = values[:whole].reshape(-1, size).sum(axis=1)
    if whole < len(values):
        merged[-1] += values[whole:].sum()
    return merged


def _variance(residual: NDArray[np.float64]) -> float:
    """Variance of the sum of batch residuals; neighbours may still correlate, since requests outlive a batch.

    (1 + r) / (1 - r) times the independent variance, as for a first-order autoregression; r raised by 1 / n, the bias
    of its estimate.
    """
    count = len(residual)
    square = float(residual @ residual)
    if square <= 0.0:
        return 0.0
    correlation = float(residual[:-1] @ residual[1:]) / square + 1.0 / count
    correlation = min(MOST_CORRELATION, max(0.0, correlation))
    return count / (count - 1) * square * (1.0 + correlation) / (1.0 - correlation)


def ratio_estimate(
    numerators: Sequence[float], denominators: Sequence[float], unit_variance: float,
    *, bounds: tuple[float, float] = (-math.inf, math.inf),
) -> Estimate | None:
    """Sum of numerators over sum of denominators with a 95 % interval; None where the denominators sum to 0.

    One entry per block of time, in order. `unit_variance` is the variance of one independent draft's numerator. The
    variance of the ratio comes from the residuals of batches (batch means with Student's t); with fewer than
    `MIN_BLOCKS` blocks the design effect is assumed. A ratio between `bounds` (0, 1) gets a Wilson interval.
    """
    total = sum(denominators)
    if total <= 0:
        return None
    value = sum(numerators) / total
    independent = unit_variance / total
    effect, count, quantile = START_DESIGN_EFFECT, 0, Z95
    blocks = sum(denominator > 0 for denominator in denominators)
    if blocks >= MIN_BLOCKS:
        top, bottom = np.asarray(numerators, dtype=np.float64), np.asarray(denominators, dtype=np.float64)
        used = bottom > 0
        residual = _batches(top[used] - value * bottom[used])
        count = len(residual)
        quantile = student_t95(count - 1)
        floor = FLOOR_DESIGN_EFFECT if blocks >= ENOUGH_BLOCKS else START_DESIGN_EFFECT
        effect = max(floor, _variance(residual) / total**2 / independent) if independent > 0 else floor
    if bounds == (0.0, 1.0):
        low, high = wilson(value, total / effect, quantile)
    else:
        half = quantile * math.sqrt(effect * independent)
        low, high = max(bounds[0], value - half), min(bounds[1], value + half)
    return Estimate(value, min(low, value), max(high, value), effect, count)


def wilson(rate: float, trials: float, quantile: float = Z95) -> tuple[float, float]:
    """Wilson's interval of a share after `trials` effective trials (> 0)."""
    z2 = quantile * quantile
    centre = (rate + z2 / (2 * trials)) / (1 + z2 / trials)
    half = quantile / (1 + z2 / trials) * math.sqrt(max(0.0, rate * (1 - rate)) / trials + z2 / (4 * trials * trials))
    return max(0.0, centre - half), min(1.0, centre + half)
