"""The only module that reads time. It owns clocks, not schedules."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Protocol

#: `CLOCK_MONOTONIC` stands still while a machine is suspended (clock_gettime(2)), so that what other machines did in a
#: night would seem the work of fifteen seconds. Other systems than Linux have no such clock.
_STEADY = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def awake_microseconds() -> int:
    """What systemd goes by (`MONOTONIC_USEC`): the time in which this machine slept is not in it."""
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000


class Clock(Protocol):
    """Where a part gets its time from: wall time for stamps, monotonic time for durations."""

    def now(self) -> datetime:
        """Wall time, aware, UTC: for stamps that are stored or shown, never for durations."""
        ...

    def monotonic(self) -> float:
        """Seconds from an arbitrary start that never go back: for durations and deadlines in this process."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait for so many seconds; negative counts as 0."""
        ...


class SystemClock:
    """The machine's clocks."""

    def now(self) -> datetime:
        """Wall time in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Seconds since boot, those in which the machine slept too: servers elsewhere counted on meanwhile."""
        return time.clock_gettime(_STEADY)

    def sleep(self, seconds: float) -> None:
        """Sleep at least `seconds`."""
        time.sleep(max(0.0, seconds))
