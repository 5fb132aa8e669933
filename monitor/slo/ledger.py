"""Good and valid events over time, in buckets that get coarser with age. It owns no SLO and no meaning of events.

Kept in memory and filled again from the store at a start: one minute for 6 hours, 5 minutes for 3 days, one hour for
the period; about 50 kB for each SLO of each group.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray

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
            self._clear(max(self._newest + 1, index - self._size + 1), index)
            self._newest = index
        # One by one: a slice of three takes numpy longer than three numbers.
        place = index % self._size
        self._sums[0, place] += good
        self._sums[1, place] += valid
        self._sums[2, place] += 1.0

    def _clear(self, first: int, last: int) -> None:
        """The buckets from `first` to `last`, at most a whole ring."""
        begin, end = first % self._size, last % self._size
        if begin <= end:
            self._sums[:, begin : end + 1] = 0.0
        else:
            self._sums[:, begin:] = 0.0
            self._sums[:, : end + 1] = 0.0

    def total(self, since: float, until: float) -> Total:
        if self._newest is None:
            return Total(0.0, 0.0, False)
        first = max(round(since / self.width), self._newest - self._size + 1)
        last = min(int(-(-until // self.width)) - 1, self._newest)
        if last < first:
            return Total(0.0, 0.0, False)
        good, valid, records = self._sums[:, np.arange(first, last + 1) % self._size].sum(axis=1)
        return Total(float(good), float(valid), records > 0)

    def between(self, first: int, last: int) -> NDArray[np.float64]:
        """Good, valid and records of the buckets [first, last), zero where nothing is kept."""
        found = np.zeros((3, last - first))
        if self._newest is not None:
            low, high = max(first, self._newest - self._size + 1), min(last, self._newest + 1)
            if low < high:
                found[:, low - first : high - first] = self._sums[:, np.arange(low, high) % self._size]
        return found

    @property
    def begins(self) -> float | None:
        """Beginning of the oldest bucket kept in which something was recorded; None where there is none."""
        if self._newest is None:
            return None
        kept = np.arange(self._newest - self._size + 1, self._newest + 1)
        recorded = kept[self._sums[2, kept % self._size] > 0]
        return float(recorded[0] * self.width) if len(recorded) else None


class Ledger:
    """Events of one SLO in one scope. Times are wall time; what is older than the period is forgotten."""

    def __init__(self, period_seconds: float) -> None:
        #: Everything ever added, for counters.
        self.good_total, self.valid_total = 0.0, 0.0
        self._first: float | None = None
        self._levels = (_Level(*_MINUTES), _Level(*_FIVE_MINUTES), _Level(_HOUR, max(period_seconds, _FIVE_MINUTES[1])))

    def add(self, at: datetime, good: float, valid: float, *, since: datetime | None = None) -> None:
        """Record events between `since` and `at`; 0 of 0 says that it was watched and quiet. Any order is fine."""
        self.good_total += good
        self.valid_total += valid
        moment = at.timestamp()
        began = moment if since is None else since.timestamp()
        if self._first is None or began < self._first:
            self._first = began
        for level in self._levels:
            level.add(moment, good, valid)

    def known(self, now: datetime, seconds: float) -> float:
        """Share of the last `seconds` that lies behind the first events ever recorded (0 to 1)."""
        return 0.0 if self._first is None else min(1.0, max(0.0, now.timestamp() - self._first) / seconds)

    def total(self, now: datetime, seconds: float) -> Total:
        """Events of the last `seconds` before `now`; the beginning is rounded to a bucket of the finest level kept."""
        until = now.timestamp()
        level = next((level for level in self._levels if level.span >= seconds), self._levels[-1])
        return level.total(until - seconds, until)

    def steps(self, now: datetime, seconds: float, most: int) -> tuple[float, list[tuple[datetime, Total]]]:
        """The last `seconds` before `now` in at most `most` even steps: their length (seconds), each with its end.

        They begin with the first events where those are later, and are as fine as what is kept of that time. The last
        is under way.
        """
        until = now.timestamp()
        begins = self._levels[-1].begins
        if begins is None:
            return 0.0, []
        length = until - max(begins, until - seconds)
        level = next((level for level in self._levels if level.span >= length), self._levels[-1])
        first = round(max(level.begins or begins, until - seconds) / level.width)
        last = int(-(-until // level.width))
        each = max(1, -(-(last - first) // most))
        ends = list(range(last, first, -each))[::-1]
        if not ends:
            return each * level.width, []
        begins_of = [max(end - each, first) - first for end in ends]
        sums = np.add.reduceat(level.between(first, last), begins_of, axis=1)
        return each * level.width, [
            (datetime.fromtimestamp(end * level.width, UTC), Total(float(good), float(valid), records > 0))
            for end, good, valid, records in zip(ends, *sums, strict=True)
        ]  # fmt: skip
