"""Before and after on one server alone: blocks are compared with blocks of like load, or corrected for the load.

In open-loop traffic a faster server has fewer requests at a time, so that a large gain leaves no blocks alike.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from monitor.tuning.blocks import Block

#: Blocks are alike when batches differ by less than this (natural logarithm).
BATCH_APART = 0.15
#: Relative difference of prompt tokens per step that is still alike, and tokens that never matter.
PREFILL_APART, PREFILL_FLOOR = 0.20, 8.0
#: Difference of KV cache use that is still alike (share).
KV_APART = 0.10
#: Share of the blocks after the change that must find a partner.
LEAST_MATCHED = 0.40


#: How log goodput falls with the log of the batch before anything is measured: between not at all (small batches) and
#: in proportion (compute-bound); mean and standard deviation.
SLOPE, SLOPE_SPREAD = -0.3, 0.3
#: Change of the log batch beyond which a correction is no measurement any more.
MOST_APART = 0.7


@dataclass(frozen=True, slots=True)
class Corrected:
    """Log goodput of the blocks before and after at the mean batch before, and the error that the correction adds."""

    early: tuple[float, ...]
    late: tuple[float, ...]
    error: float


@dataclass(frozen=True, slots=True)
class Matched:
    """Logarithms of goodput after minus those of like blocks before, in time order, and the share that found some."""

    differences: tuple[float, ...]
    share: float
    #: Residual logarithms before, about the mean of their own partners: the noise of the reference.
    noise: tuple[float, ...]


def is_alike(one: Block, other: Block) -> bool:
    """Whether two blocks had like load; what neither says is alike, what only one says is not."""
    if (one.batch is None) != (other.batch is None):
        return False
    if one.batch and other.batch and abs(math.log(one.batch / other.batch)) >= BATCH_APART:
        return False
    if one.prefill_tokens_per_step is not None and other.prefill_tokens_per_step is not None:
        apart = abs(one.prefill_tokens_per_step - other.prefill_tokens_per_step)
        larger = max(one.prefill_tokens_per_step, other.prefill_tokens_per_step)
        if apart > max(PREFILL_FLOOR, PREFILL_APART * larger):
            return False
    return one.kv_usage is None or other.kv_usage is None or abs(one.kv_usage - other.kv_usage) <= KV_APART


def match(before: Sequence[Block], after: Sequence[Block]) -> Matched | None:
    """Every block after against the mean of the like blocks before; None where too few find any."""
    early = [b for b in before if b.goodput]
    late = [b for b in after if b.goodput]
    if len(early) < 2 or not late:
        return None
    differences: list[float] = []
    used: set[int] = set()
    for block in late:
        partners = [index for index, other in enumerate(early) if is_alike(block, other)]
        if partners:
            reference = sum(_log(early[index]) for index in partners) / len(partners)
            differences.append(_log(block) - reference)
            used.update(partners)
    share = len(differences) / len(late)
    if share < LEAST_MATCHED or len(used) < 2:
        return None
    chosen = [early[index] for index in sorted(used)]
    mean = sum(map(_log, chosen)) / len(chosen)
    return Matched(tuple(differences), share, tuple(_log(block) - mean for block in chosen))


def correct(before: Sequence[Block], after: Sequence[Block]) -> Corrected | None:
    """All blocks, corrected for their batch by one slope; None where batches are unknown or too far apart.

    The slope is a compromise of what the blocks themselves show around their own means and of `SLOPE`.
    """
    early, late = (
        [(math.log(b.batch), _log(b)) for b in blocks if b.goodput and b.batch] for blocks in (before, after)
    )
    if len(early) < 2 or len(late) < 2:
        return None
    usual, moved = (sum(x for x, _ in pairs) / len(pairs) for pairs in (early, late))
    if abs(moved - usual) > MOST_APART:
        return None
    slope, error = slope_of([early, late])
    flat = [tuple(y - slope * (x - usual) for x, y in pairs) for pairs in (early, late)]
    return Corrected(flat[0], flat[1], error * abs(moved - usual))


def _centred(pairs: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    middle = [sum(pair[i] for pair in pairs) / len(pairs) for i in (0, 1)]
    return [(x - middle[0], y - middle[1]) for x, y in pairs]


def slope_of(groups: Sequence[Sequence[tuple[float, float]]]) -> tuple[float, float]:
    """Slope of log goodput in log batch within groups of like blocks, shrunk to the prior, and its error.

    A group is one server in one of the two times. The variance counts double, since blocks are correlated.
    """
    points = [pair for group in groups if group for pair in _centred(group)]
    spread = sum(x * x for x, _ in points)
    prior = 1.0 / SLOPE_SPREAD**2
    if spread <= 0:
        return SLOPE, SLOPE_SPREAD
    own = sum(x * y for x, y in points) / spread
    residual = sum((y - own * x) ** 2 for x, y in points) / max(1, len(points) - 3)
    precision = spread / (2.0 * max(residual, 1e-9))
    return (own * precision + SLOPE * prior) / (precision + prior), math.sqrt(1.0 / (precision + prior))


def _log(block: Block) -> float:
    return math.log(block.goodput or 1.0)
