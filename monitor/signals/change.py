"""Change detection: has acceptance fallen, against what is normal here or against this process's own beginning?

One-sided tabular CUSUM on blocks of 30 s (reference value half a standard deviation). It watches length and first
position, never the rate, which moves with the setting.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from monitor.model.life import Life, Setting
from monitor.model.signal import NoData
from monitor.signals.acceptance import why_no_acceptance
from monitor.signals.material import Material
from monitor.signals.sheet import Sheet, Writer
from monitor.signals.track import Digest, Track
from monitor.signals.window import Window

#: Length of a block (seconds).
BLOCK_SECONDS = 30.0
#: How far before its window a fall is looked for, and normal measured (seconds): more than the 4 h that a standard
#: deviation wants, and little enough that yesterday's traffic is no reference.
LOOK_BACK_SECONDS = 6 * 3600.0
#: How many times as long as the newest an interval may be and still be compared with it.
MOST_UNLIKE = 3.0
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


def blocks_of(entries: Iterable[tuple[datetime, Digest]], seconds: float = BLOCK_SECONDS) -> list[Block]:
    """Intervals (by end) as their ends and digests, merged into blocks of at least `seconds`; none without drafts."""
    blocks: list[Block] = []
    start: datetime | None = None
    length = timedelta(seconds=seconds)
    drafts = accepted = first = 0.0
    has_positions = True
    for end, digest in entries:
        drafted = digest.drafted
        if start is None:
            start = digest.start
        if drafted is not None:
            drafts += drafted.drafts
            accepted += drafted.accepted
            if drafted.first is None:
                has_positions = False
            else:
                first += drafted.first
        if end - start >= length:
            if drafts > 0:
                rate = min(1.0, first / drafts) if has_positions else None
                blocks.append(Block(end, drafts, 1.0 + accepted / drafts, rate))
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


def blocks_at_setting(window: Window) -> list[Block]:
    """Blocks of the window and of `LOOK_BACK_SECONDS` before it at the setting in force; none where it is unknown."""
    setting = window.setting
    if setting is None:
        return []
    since = window.at - timedelta(seconds=window.seconds + LOOK_BACK_SECONDS)
    entries: list[tuple[datetime, Digest]] = []
    for track in window.tracks:
        entries += at_setting(track, since, window.at, setting)
    if len(window.tracks) > 1:
        entries.sort(key=lambda entry: entry[0])
    return blocks_of(entries)


def at_setting(track: Track, since: datetime, until: datetime, setting: Setting) -> list[tuple[datetime, Digest]]:
    """Ends and digests of a span at the setting, without the longer ones that stand for older times.

    A block of five minutes varies less than one of half a minute, so that one measure must not be held to the other.
    """
    span = track.span(since, until)
    digests = track.digests[span]
    longest = MOST_UNLIKE * digests[-1].seconds if digests else 0.0
    found: list[tuple[datetime, Digest]] = []
    known: Life | None = None
    is_same = False
    for life, end, digest in zip(track.lives[span], track.ends[span], digests, strict=True):
        if life is not known:
            known = life
            is_same = life.setting == setting
        if is_same and digest.seconds <= longest:
            found.append((end, digest))
    return found


def write_drops(sheet: Sheet, material: Material) -> None:
    """Falls of length and first position."""
    blocks, baseline = blocks_at_setting(material.window), material.baseline
    absent = NoData.NO_DRAFTS if blocks else why_no_acceptance(material.window)
    lengths = [block.length for block in blocks]
    firsts = [block.first for block in blocks if block.first is not None]
    sheet.put("acceptance_length_drop", drop(lengths, baseline.acceptance_length if baseline else None), len(lengths),
              absent=absent)
    sheet.put("first_position_drop", drop(firsts, baseline.first_position_rate if baseline else None), len(firsts),
              absent=absent if not lengths or firsts else NoData.NOT_EXPORTED)


def write_since_start(sheet: Sheet, material: Material) -> None:
    """Length now over that of the first hours of the process."""
    now, first_hours = sheet.scalars["acceptance_length"], material.first_hours_length
    ratio = now.value / first_hours if now.value is not None and first_hours else None
    absent = NoData.NO_BASELINE if now.reason is None else why_no_acceptance(material.window)
    sheet.put("acceptance_length_since_start", ratio, now.sample_size, absent=absent)


WRITERS: Mapping[Writer, tuple[str, ...]] = {
    write_drops: ("acceptance_length_drop", "first_position_drop"),
    write_since_start: ("acceptance_length_since_start",),
}
