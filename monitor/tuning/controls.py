"""One changed server against servers left alone: differences of log goodput in the same blocks, before and after.

What happens to all of them (time of day, traffic) cancels; what is peculiar to each (a slower GPU) is in both times.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from monitor.tuning.blocks import Block
from monitor.tuning.matching import slope_of


@dataclass(frozen=True, slots=True)
class Differences:
    """The server's log goodput less the controls' mean, per block, each corrected for its own batch.

    `error` is what the correction adds to the error of the gain; `controls` the number of servers compared with.
    """

    early: tuple[float, ...]
    late: tuple[float, ...]
    error: float
    controls: int


@dataclass(frozen=True, slots=True)
class _Point:
    log_batch: float
    log_goodput: float


def against_controls(
    before: Sequence[Block], after: Sequence[Block], controls: Sequence[Sequence[Block]]
) -> Differences | None:
    """Differences to the controls that served in both times; None where no control did, or too few blocks are shared.

    A control that comes or goes would shift the mean by its own level, so only those seen in both times count, and only
    blocks in which all of them served.
    """
    has_batch = all(b.batch for blocks in (before, after, *controls) for b in blocks if b.goodput)
    own_early, own_late = (_points(blocks, has_batch) for blocks in (before, after))
    every = [_points(server, has_batch) for server in controls]
    steady = [server for server in every if own_early.keys() & server.keys() and own_late.keys() & server.keys()]
    early, late = (sorted(_shared(own, steady)) for own in (own_early, own_late))
    if not steady or len(early) < 2 or len(late) < 2:
        return None
    groups = [[own[slot] for slot in slots] for own, slots in ((own_early, early), (own_late, late))]
    groups += [[server[slot] for slot in slots] for server in steady for slots in (early, late)]
    slope, error = slope_of([[(p.log_batch, p.log_goodput) for p in group] for group in groups])
    first, first_load = _difference(own_early, steady, early, slope)
    then, then_load = _difference(own_late, steady, late, slope)
    return Differences(first, then, error * abs(then_load - first_load), len(steady))


def _points(blocks: Sequence[Block], has_batch: bool) -> dict[int, _Point]:
    """Log batch (0 where no batch is to be corrected for) and log goodput by slot."""
    return {
        b.slot: _Point(math.log(b.batch) if has_batch and b.batch else 0.0, math.log(b.goodput))
        for b in blocks
        if b.goodput
    }


def _shared(own: dict[int, _Point], steady: Sequence[dict[int, _Point]]) -> set[int]:
    slots = set(own)
    for server in steady:
        slots &= server.keys()
    return slots


def _difference(
    own: dict[int, _Point], steady: Sequence[dict[int, _Point]], slots: Sequence[int], slope: float
) -> tuple[tuple[float, ...], float]:
    """Corrected differences per slot, and the mean difference of log batches."""
    differences, load = [], 0.0
    for slot in slots:
        goodput = own[slot].log_goodput - sum(server[slot].log_goodput for server in steady) / len(steady)
        batch = own[slot].log_batch - sum(server[slot].log_batch for server in steady) / len(steady)
        differences.append(goodput - slope * batch)
        load += batch / len(slots)
    return tuple(differences), load
