"""Ticks of axes: round numbers and round times, so that people can read values off a chart. It draws nothing."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

#: Distances of ticks that people count in (seconds).
_TIME_STEPS = (
    10, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 2 * 86400, 7 * 86400, 14 * 86400,
)  # fmt: skip
_DAY = 86400
#: Distance of ticks below which floats have no powers of ten left to round to.
_NARROWEST = 1e-300


def value_ticks(low: float, high: float, most: int = 4) -> tuple[float, ...]:
    """Round numbers from at most `low` to at least `high`, about `most` steps apart; needs low < high."""
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ValueError(f"an axis from {low} to {high}: expected finite numbers, the lower first")
    rough = (high - low) / most
    if rough < _NARROWEST:
        return (low, high)
    magnitude = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * magnitude for factor in (1.0, 2.0, 2.5, 5.0, 10.0) if factor * magnitude >= rough * (1 - 1e-9))
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return tuple(index * step for index in range(first, last + 1))


def time_ticks(start: datetime, end: datetime, most: int = 7) -> tuple[tuple[datetime, str], ...]:
    """Round moments in UTC inside [start, end] with their labels: times of day, or dates from a day's distance on."""
    length = (end - start).total_seconds()
    step = next((step for step in _TIME_STEPS if length / step <= most), math.ceil(length / most / _DAY) * _DAY)
    midnight = start.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    moment = midnight + timedelta(seconds=math.ceil((start - midnight).total_seconds() / step) * step)
    found = []
    while moment <= end:
        found.append((moment, _label(moment, step)))
        moment += timedelta(seconds=step)
    return tuple(found)


def _label(moment: datetime, step: int) -> str:
    if step >= _DAY or (moment.hour, moment.minute, moment.second) == (0, 0, 0):
        return f"{moment.day} {moment:%b}"
    return f"{moment:%H:%M:%S}" if step < 60 else f"{moment:%H:%M}"
