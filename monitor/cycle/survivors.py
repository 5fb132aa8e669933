"""Whether a group could do without one of its servers at the busiest time of its last day, from what is stored."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from monitor.model.server import Group, GroupName, ServerName
from monitor.signals.capacity import BUCKET_SECONDS, Carrying, Peak, carrying, peak_of
from monitor.store import Store

#: How long a peak holds: it is asked for every second while a change waits, and a bucket is five minutes long.
_FRESH = timedelta(seconds=BUCKET_SECONDS)
_DAY = timedelta(days=1)


class Survivors:
    """Predicts for groups of two servers and more; called by one thread."""

    def __init__(self, store: Store, places: Callable[[ServerName], int | None]) -> None:
        """`places`: requests that a server takes at once, as its command line says; None where it does not."""
        self._store = store
        self._places = places
        self._peaks: dict[GroupName, tuple[datetime, Peak | None]] = {}

    def carrying(self, group: Group, now: datetime) -> Carrying | None:
        """Whether the group without one of its servers would carry its last day's peak; None for a lone server."""
        remaining = len(group.servers) - 1
        if remaining < 1:
            return None
        known = [places for name in group.servers if (places := self._places(name)) is not None]
        return carrying(self._peak(group, now), remaining, min(known, default=None))

    def _peak(self, group: Group, now: datetime) -> Peak | None:
        found = self._peaks.get(group.name)
        if found is not None and timedelta(0) <= now - found[0] < _FRESH:
            return found[1]
        with self._store.read() as unit:
            stored = unit.intervals.between_coarse(group.servers, now - _DAY, now, BUCKET_SECONDS, details=False)
        peak = peak_of(stored)
        self._peaks[group.name] = (now, peak)
        return peak
