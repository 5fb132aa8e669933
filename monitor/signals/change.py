"""Change detection: has acceptance fallen, against what is normal here or against this process's own beginning?

One-sided tabular CUSUM on blocks of 30 s (reference value half a standard deviation). It watches length and first
position, never the rate, which moves with the setting.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from monitor.model.record import Baseline
from monitor.model.signal import NoData
from monitor.signals.acceptance import why_no_acceptance
from monitor.signals.accepted import drafts_of
from monitor.signals.sheet import Sheet
from monitor.signals.window import Pair, Window

#: Length of a block (seconds).
BLOCK_SECONDS = 30.0
#: CUSUM level worth a notice: a false one in 2,542 independent blocks (351 at lag-1 correlation 0.3).
NOTICE_LEVEL = 6.0
#: CUSUM level worth an action: a false one in 11,875 independent blocks (1,042 at lag-1 correlation 0.3).
ACTION_LEVEL = 8.0
#: Reference value (allowance) of the CUSUM, in standard deviations: tuned to a shift of one.
ALLOWANCE = 0.5
#: Blocks that a standard deviation needs.
MIN_BLOCKS = 8
#: Smallest standard deviation, as a share of the reference: quieter blocks would alarm at nothing.
FLOOR_SHARE = 0.01
#: Scale of the median absolute deviation to a standard deviation of a normal distribution.
MAD_TO_SD = 1.4826


@dataclass(frozen=True, slots=True)
class Block:
    """Acceptance in one block: drafts, mean accepted tokens plus one, and first-position rate (None if unknown)."""

    end: datetime
    num_drafts: float
    length: float
    first: float | None


def cusum(values: Sequence[float], reference: float, deviation: float, allowance: float = ALLOWANCE) -> float:
    """Final one-sided CUSUM of falls below `reference`, in standard deviations (at least 0).

    S = max(0, S + (reference - value) / deviation - allowance), from 0.
    """
    level = 0.0
    for value in values:
        level = max(0.0, level + (reference - value) / deviation - allowance)
    return level


def spread(values: Sequence[float], floor: float) -> float:
    """Robust standard deviation (scaled median absolute deviation), at least `floor`."""
    middle = statistics.median(values)
    return max(floor, MAD_TO_SD * statistics.median([abs(value - middle) for value in values]))


def blocks_of(pairs: Sequence[Pair], seconds: float = BLOCK_SECONDS) -> list[Block]:
    """Pairs (by end) merged into blocks of at least `seconds`, blocks without drafts left out."""
    blocks: list[Block] = []
    start: datetime | None = None
    drafts = accepted = first = 0.0
    has_positions = True
    for life, interval in pairs:
        start = start or interval.start
        counts = drafts_of(interval, life.setting)
        if counts is not None:
            drafts += counts[0]
            accepted += counts[1]
            positions = interval.speculation.accepted_per_pos if interval.speculation else None
            has_positions = has_positions and bool(positions)
            first += positions[0] if positions else 0.0
        if (interval.end - start).total_seconds() >= seconds:
            if drafts > 0:
                rate = min(1.0, first / drafts) if has_positions else None
                blocks.append(Block(interval.end, drafts, 1.0 + accepted / drafts, rate))
            start, drafts, accepted, first, has_positions = None, 0.0, 0.0, 0.0, True
    return blocks


def drop(values: Sequence[float], reference: float | None) -> float | None:
    """CUSUM of a fall of block means; None with fewer than `MIN_BLOCKS` blocks.

    Without a reference the median of the first half of the blocks is normal, so that a fall in the second half shows.
    The spread is measured on the part that is normal by that measure.
    """
    if len(values) < MIN_BLOCKS:
        return None
    early = values[: max(MIN_BLOCKS // 2, len(values) // 2)]
    normal = reference if reference is not None else statistics.median(early)
    return cusum(values, normal, spread(early, FLOOR_SHARE * abs(normal)))


def write_change(
    sheet: Sheet, window: Window, baseline: Baseline | None, first_hours_length: float | None
) -> None:
    """Write the change signals down; the acceptance family must be on the sheet."""
    blocks = blocks_of(window.history_at_setting())
    absent = NoData.NO_DRAFTS if blocks else why_no_acceptance(window)
    lengths = [block.length for block in blocks]
    firsts = [block.first for block in blocks if block.first is not None]
    sheet.put("acceptance_length_drop", drop(lengths, baseline.acceptance_length if baseline else None), len(lengths),
              absent=absent)
    sheet.put("first_position_drop", drop(firsts, baseline.first_position_rate if baseline else None), len(firsts),
              absent=absent if not lengths or firsts else NoData.NOT_EXPORTED)
    now = sheet.scalars.get("acceptance_length")
    ratio = now.value / first_hours_length if now and now.value is not None and first_hours_length else None
    sheet.put("acceptance_length_since_start", ratio, now.sample_size if now else 0.0,
              absent=absent if now is None or now.value is None else NoData.NO_BASELINE)
