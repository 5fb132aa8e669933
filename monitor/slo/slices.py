"""Time slices of sliced SLOs: sums of one server over some minutes, then one event, good or bad. It owns no ledger."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime

from monitor.model.interval import Interval
from monitor.model.slo import Slo
from monitor.slo.events import MIN_SLICE_DRAFTS, Share, share_of


@dataclass(frozen=True, slots=True)
class SliceEvent:
    """A slice that is over. `is_valid` is False where it had too little traffic to be judged.

    `slices` is how many it stands for: more than one where history is only known over longer spans than a slice.
    """

    end: datetime
    is_good: bool
    is_valid: bool
    slices: float = 1.0


@dataclass(slots=True)
class _Open:
    index: int
    shares: list[Share] = field(default_factory=list)
    spans: list[tuple[float, float]] = field(default_factory=list)
    #: The longest interval without a gap (seconds).
    longest: float = 0.0


class SliceTally:
    """The slice under way of one server and one SLO."""

    def __init__(self, slo: Slo) -> None:
        self._slo = slo
        self._open: _Open | None = None

    def add(self, interval: Interval) -> SliceEvent | None:
        """Count an interval in the slice of its end; the slice before it when that is over by it.

        Intervals of slices that are over already are ignored.
        """
        index = int(-(-interval.end.timestamp() // self._slo.slice_seconds)) - 1
        if self._open is not None and index < self._open.index:
            return None
        closed = None
        if self._open is None or index > self._open.index:
            closed, self._open = self._close(), _Open(index)
        share = share_of(self._slo, interval)
        if share is not None:
            self._open.shares.append(share)
            self._open.spans.append((interval.end.timestamp() - interval.elapsed_seconds, interval.end.timestamp()))
            if not interval.is_gap:
                self._open.longest = max(self._open.longest, interval.elapsed_seconds)
        return closed

    def close(self, now: datetime) -> SliceEvent | None:
        """The slice under way, if it is over at `now`."""
        if self._open is None or now.timestamp() <= (self._open.index + 1) * self._slo.slice_seconds:
            return None
        closed = self._close()
        # Kept empty, so that an interval that comes late is still known to be late.
        self._open = _Open(self._open.index + 1)
        return closed

    def _close(self) -> SliceEvent | None:
        done = self._open
        if done is None:
            return None
        end = datetime.fromtimestamp((done.index + 1) * self._slo.slice_seconds, UTC)
        number = self._number(done)
        is_good = number is not None and self._slo.threshold is not None and number >= self._slo.threshold
        slices = max(1.0, float(round(done.longest / self._slo.slice_seconds)))
        return SliceEvent(end, is_good, number is not None, slices)

    def _number(self, done: _Open) -> float | None:
        """The slice's number: a pooled ratio, or tokens per second; None with too little traffic."""
        total = sum(share.numerator for share in done.shares)
        parts = [share.denominator for share in done.shares if share.denominator is not None]
        if parts:
            enough = sum(share.weight for share in done.shares) >= MIN_SLICE_DRAFTS
            return total / sum(parts) if enough and sum(parts) > 0 else None
        seconds = _covered(done.spans)
        # Half a slice with work: less is the edge of a busy time, not a floor that was missed.
        return total / seconds if seconds >= self._slo.slice_seconds / 2 else None


def _covered(spans: list[tuple[float, float]]) -> float:
    """Seconds that the spans cover together, overlaps counted once."""
    seconds, reached = 0.0, float("-inf")
    for start, end in sorted(spans):
        seconds += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return seconds
