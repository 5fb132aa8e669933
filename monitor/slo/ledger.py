"""Good and valid events over time, in buckets that get coarser with age. It owns no SLO and no meaning of events.

Kept in memory and filled again from the store at a start: one minute for 6 hours, 5 minutes for 3 days, one hour for
the period; about 50 kB for each SLO of each group.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import numpy as np

#: Bucket width and span of the fine levels (seconds): each span is a long window of the burn-rate table.
_MINUTES = (60.0, 6 * 3600.0)
_FIVE_MINUTES = (300.0, 3 * 86400.0)
_HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class Total:
    """Events of a window. `is_watched` is False where nothing at all was recorded: then 0 of 0 means "not known"."""

    good: float
    valid: float
    is_watched: bool


class _Level:
    """A ring of buckets; bucket i holds what ended in (i x width, (i + 1) x width]."""

    def __init__(self, width: float, span: float) -> None:
        self.width = width
        self.span = span
        self._size = int(span // width) + 2
        self._sums = np.zeros((3, self._size))
        self._newest: int | None = None

    def add(self, at: float, good: float, valid: float) -> None:
        index = int(-(-at // self.width)) - 1
        if self._newest is None:
            self._newest = index
        if index <= self._newest - self._size:
            return
        if index > self._newest:
            steps = min(index - self._newest, self._size)
            self._sums[:, np.arange(index - steps + 1, index + 1) % self._size] = 0.0
            self._newest = index
        self._sums[:, index % self._size] += (good, valid, 1.0)

    def total(self, since: float, until: float) -> Total:
        if self._newest is None:
            return Total(0.0, 0.0, False)
        first = max(round(since / self.width), self._newest - self._size + 1)
        last = min(int(-(-until // self.width)) - 1, self._newest)
        if last < first:
            return Total(0.0, 0.0, False)
        good, valid, records = self._sums[:, np.arange(first, last + 1) % self._size].sum(axis=1)
        return Total(float(good), float(valid), records > 0)


class Ledger:
    """Events of one SLO in one scope. Times are wall time; what is older than the period is forgotten."""

    def __init__(self, period_seconds: float) -> None:
        #: Everything ever added, for counters.
        self.good_total, self.valid_total = 0.0, 0.0
        self._levels = (_Level(*_MINUTES), _Level(*_FIVE_MINUTES), _Level(_HOUR, max(period_seconds, _FIVE_MINUTES[1])))

    def add(self, at: datetime, good: float, valid: float) -> None:
        """Record events that ended at `at`; 0 of 0 says that it was watched and quiet. Any order is fine."""
        self.good_total += good
        self.valid_total += valid
        for level in self._levels:
            level.add(at.timestamp(), good, valid)

    def total(self, now: datetime, seconds: float) -> Total:
        """Events of the last `seconds` before `now`; the beginning is rounded to a bucket of the finest level kept."""
        until = now.timestamp()
        level = next((level for level in self._levels if level.span >= seconds), self._levels[-1])
        return level.total(until - seconds, until)
