"""Acceptance length at settings that were not seen, from those that were, each with its relative error.

Downwards it is evidence: two lower bounds, of which the larger is used. Upwards it is a guess with a decaying
conditional rate. It knows nothing of time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from monitor.tuning.observed import Drafting, Row

Vector = NDArray[np.float64]



@dataclass(frozen=True, slots=True)
class Habit:
    """How acceptance of one kind of drafter goes on beyond what was seen, and how far that may be from the truth.

    `decay`: factor of the conditional rate per further position. `up_error`: relative error (1 sd) of the length per
    position up. `bare_decay`: mean and spread of the decay where only lengths are known.
    """

    decay: float
    up_error: float
    bare_decay: tuple[float, float]


#: Decays: published curves of EAGLE-3 and MTP heads (tests/golden/tuning_tables/acceptance_length_curves.json) and
#: replayed traces; errors: the spread of the projections on those and on simulated drafters (`tests/bench/tuner.py`).
HABITS: Mapping[Drafting, Habit] = {
    Drafting.HEAD: Habit(0.93, 0.006, (0.95, 0.06)),
    Drafting.LAYER: Habit(0.88, 0.015, (0.88, 0.08)),
    Drafting.MODEL: Habit(0.97, 0.007, (0.98, 0.04)),
    Drafting.BLOCK: Habit(0.93, 0.007, (0.92, 0.06)),
    Drafting.LOOKUP: Habit(1.0, 0.008, (1.0, 0.10)),
}
#: Cap of the last conditional rate that lookup goes on with.
LOOKUP_CAP = 0.97
#: What lookup goes on with after its first position when nothing more was seen: its runs are long (conditional rates of
#: 0.6 to 0.9), but the first position falls by as much as a longer draft swallows of them.
LOOKUP_SECOND = 0.45
#: Share of what further positions seem to add that a longer lookup draft keeps: it swallows the runs that later drafts
#: lived on, so that their first position falls.
LOOKUP_UP_SHARE = 0.6
#: Share by which the length at a smaller setting exceeds both bounds: per position for those that draft with weights,
#: levelling off; for lookup only where the split leaves a remainder, the less the longer the drafts seen.
DOWN_BIAS, MAX_DOWN_BIAS = 0.005, 0.015
LOOKUP_DOWN_BIAS = 0.05
#: Relative error (1 sd) of a lookup length just below the setting seen.
LOOKUP_DOWN_ERROR = 0.015
#: Relative error (1 sd) of any projection at once, and per position down.
BASE_ERROR, DOWN_ERROR = 0.008, 0.0015
#: From one position alone the way on is hardly known: errors upwards grow by this over the setting seen.
UP_FROM_FEW = 1.5
#: Relative error of a length whose sample is not known.
SAMPLE_ERROR = 0.006
#: Design effect assumed for a length that comes with its drafts only.
DESIGN_EFFECT = 10.0


@dataclass(frozen=True, slots=True)
class Length:
    """Acceptance length at one setting (tokens per step, bonus included) with its relative standard deviation."""

    value: float
    error: float
    is_observed: bool = False


def prefix(survival: Sequence[float], tokens: int) -> float:
    """Length at a smaller setting if drafts began where they begin now: 1 + the first `tokens` survivals.

    A lower bound, 1 to 5 % low for heads and up to 22 % for n-gram: shorter drafts begin again inside easy stretches.
    """
    return 1.0 + sum(survival[:tokens])


def run_split(survival: Sequence[float], tokens: int) -> float:
    """Length at a smaller setting if accepted runs cut there go on in the next draft.

    length / (1 + R[k'+1] + R[2(k'+1)] + ...): a run of n tokens needs one more draft for every k' + 1 of them.
    """
    extra = sum(survival[i] for i in range(tokens, len(survival), tokens + 1))
    return (1.0 + sum(survival)) / (1.0 + extra)


def lower(survival: Sequence[float], tokens: int, drafting: Drafting = Drafting.HEAD) -> float:
    """Length at a setting below the one seen: the larger bound, raised by its measured bias."""
    seen = len(survival)
    bound = max(prefix(survival, tokens), run_split(survival, tokens))
    if drafting is Drafting.LOOKUP:
        bias = LOOKUP_DOWN_BIAS / seen if 2 * (tokens + 1) > seen + 1 else 0.0
    else:
        bias = min(MAX_DOWN_BIAS, DOWN_BIAS * (seen - tokens))
    return min(tokens + 1.0, bound * (1.0 + bias))


def extend(survival: Sequence[float], tokens: int, drafting: Drafting = Drafting.HEAD) -> tuple[float, ...]:
    """Survival continued to `tokens` positions.

    With weights: C[k+j] = g * d^j, g the smaller of the geometric mean of the conditional rates and the last one, d the
    habitual decay or the last one seen if that was faster (one layer used again and again collapses). Lookup: the last
    conditional rate, capped at 0.97, goes on.
    """
    rates = list(survival)
    count = len(rates)
    if not rates or rates[-1] <= 0.0:
        return tuple(rates) + (0.0,) * (tokens - count)
    last = rates[-1] / rates[-2] if count > 1 else rates[-1]
    if drafting is Drafting.LOOKUP:
        rate, decay = min(LOOKUP_CAP, last if count > 1 else max(last, LOOKUP_SECOND)), 1.0
    else:
        rate, decay = min(last, rates[-1] ** (1.0 / count)), HABITS[drafting].decay
        if count > 1:
            before = rates[-2] / (rates[-3] if count > 2 else 1.0)
            decay = max(0.5, min(decay, last / before))
    for _ in range(tokens - count):
        rate *= decay
        rates.append(rates[-1] * min(1.0, rate))
    return tuple(rates)


def higher(survival: Sequence[float], tokens: int, drafting: Drafting = Drafting.HEAD) -> float:
    """Length at a setting above the one seen."""
    now = 1.0 + sum(survival)
    more = 1.0 + sum(extend(survival, tokens, drafting)) - now
    return now + more * (LOOKUP_UP_SHARE if drafting is Drafting.LOOKUP and len(survival) > 1 else 1.0)


def sample_error(row: Row) -> float:
    """Relative standard deviation of a row's length: as given, else from its drafts and an assumed design effect."""
    if row.length_error is not None:
        return row.length_error
    if row.num_drafts is None or row.num_drafts <= 0 or row.length is None:
        return SAMPLE_ERROR
    mean = row.length - 1.0
    return min(0.5, math.sqrt(max(0.05, mean * (0.5 + mean)) * DESIGN_EFFECT / row.num_drafts) / row.length)


#: Grid of shapes for lengths without positions: first conditional rate and its decay per position.
_RATES = np.linspace(0.01, 0.99, 50)
_DECAYS = np.linspace(0.40, 1.06, 34)
_DEPTH = 32


def _grid() -> Vector:
    power = np.arange(_DEPTH)
    conditional = np.minimum(1.0, _RATES[None, :, None] * _DECAYS[:, None, None] ** power[None, None, :])
    lengths = 1.0 + np.cumsum(np.cumprod(conditional, axis=2), axis=2)
    return np.asarray(np.log(lengths).reshape(-1, _DEPTH), dtype=np.float64)


def _unlikely(drafting: Drafting) -> Vector:
    """Minus the logarithm of the prior of every shape: Student's t with 2 degrees, since some drafters collapse."""
    mean, spread = HABITS[drafting].bare_decay
    return np.repeat(1.5 * np.log1p(((_DECAYS - mean) / spread) ** 2 / 2), len(_RATES))


_LOG_LENGTHS = _grid()
_UNLIKELY = {drafting: _unlikely(drafting) for drafting in Drafting}
#: Width of the likelihood on the grid: its rates are 2 % apart.
_GRID_ERROR = 0.01


def from_lengths(lengths: Mapping[int, float], highest: int, drafting: Drafting) -> dict[int, tuple[float, float]]:
    """Length at 1 .. `highest` and its relative error, from lengths alone: C_i = c * d^(i-1), both unknown.

    Each shape of a grid weighs by how well it explains the lengths seen and by how common its decay is; the answer is
    moved so that the nearest length seen is met exactly.
    """
    misfit = _UNLIKELY[drafting].copy()
    for tokens, length in lengths.items():
        misfit += ((_LOG_LENGTHS[:, min(tokens, _DEPTH) - 1] - math.log(length)) / _GRID_ERROR) ** 2 / 2
    weights = np.exp(misfit.min() - misfit)
    weights /= weights.sum()
    found = {}
    for tokens in range(1, highest + 1):
        nearest = min(lengths, key=lambda seen: (abs(seen - tokens), seen))
        ratio = _LOG_LENGTHS[:, min(tokens, _DEPTH) - 1] - _LOG_LENGTHS[:, min(nearest, _DEPTH) - 1]
        mean = float(weights @ ratio)
        error = math.sqrt(max(0.0, float(weights @ (ratio - mean) ** 2)))
        found[tokens] = (lengths[nearest] * math.exp(mean), error)
    return found


def project(observed: Mapping[int, Row], drafting: Drafting, highest: int) -> dict[int, Length]:
    """Length at every setting from 0 (off, exactly 1) to `highest`; without any row with drafts only off is known.

    Where several rows speak of a setting they are weighted by their precision.
    """
    seen = {tokens: row for tokens, row in observed.items() if tokens > 0}
    bare = {
        tokens: row.length for tokens, row in seen.items()
        if not row.survival and row.length is not None and row.length >= 1.0
    }
    shape = from_lengths(bare, highest, drafting) if bare else {}
    result = {0: Length(1.0, 0.0, is_observed=True)}
    for tokens in range(1, highest + 1):
        views = [_from_row(row, at, tokens, drafting) for at, row in seen.items() if row.survival]
        if bare:
            views.append(_from_bare(seen, bare, shape, tokens, drafting))
        precision = sum(1.0 / error**2 for _, error in views)
        if precision > 0:
            mean = sum(math.log(value) / error**2 for value, error in views) / precision
            result[tokens] = Length(math.exp(mean), math.sqrt(1.0 / precision), tokens in seen)
    return result


def _from_row(row: Row, seen: int, tokens: int, drafting: Drafting) -> tuple[float, float]:
    """Length at `tokens` by one row with positions, and its relative error."""
    survival = row.survival or ()
    if tokens == seen:
        length = 1.0 + sum(survival)
    elif tokens < seen:
        length = lower(survival, tokens, drafting)
    else:
        length = higher(survival, tokens, drafting)
    return _on_all_steps(length, row), math.hypot(sample_error(row), _model_error(seen, tokens, drafting))


def _from_bare(
    seen: Mapping[int, Row], bare: Mapping[int, float], shape: Mapping[int, tuple[float, float]], tokens: int,
    drafting: Drafting,
) -> tuple[float, float]:
    """Length at `tokens` by the rows that have only lengths, and its relative error."""
    nearest = min(bare, key=lambda at: (abs(at - tokens), at))
    length, error = shape[tokens]
    noise = sample_error(seen[nearest])
    return _on_all_steps(length, seen[nearest]), math.hypot(noise, error, _model_error(nearest, tokens, drafting))


def _on_all_steps(length: float, row: Row) -> float:
    """Length over all steps: those without a draft emit one token."""
    return max(1.0, 1.0 + (length - 1.0) * row.coverage)


def _model_error(seen: int, tokens: int, drafting: Drafting) -> float:
    """Relative error of projecting from `seen` to `tokens` as such, without that of the sample."""
    if tokens == seen:
        return 0.001
    if tokens < seen:
        error = BASE_ERROR + DOWN_ERROR * min(4, seen - tokens)
        is_near = drafting is Drafting.LOOKUP and 2 * (tokens + 1) > seen + 1
        return max(LOOKUP_DOWN_ERROR, error) if is_near else error
    return (BASE_ERROR + HABITS[drafting].up_error * (tokens - seen)) * (1.0 + (UP_FROM_FEW - 1.0) / seen)
