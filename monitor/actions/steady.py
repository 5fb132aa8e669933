"""Time for deadlines: wall time that does not jump while we live. It owns no deadline."""

from __future__ import annotations

from datetime import datetime, timedelta

from monitor.clock import Clock


class SteadyTime:
    """Wall time at some moment plus monotonic time since: a clock that is set ends no drain and no start early.

    Deadlines are stored in UTC, so that they mean something after our death; the price is that a clock which was set
    *while we were dead* may end one early, which undoes the change.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._wall: datetime | None = None
        self._monotonic = 0.0

    def now(self, wall: datetime, *, busy: bool) -> datetime:
        """The time to count deadlines by; it follows the wall clock while no change is under way."""
        monotonic = self._clock.monotonic()
        if self._wall is None or not busy:
            self._wall, self._monotonic = wall, monotonic
        return self._wall + timedelta(seconds=monotonic - self._monotonic)
