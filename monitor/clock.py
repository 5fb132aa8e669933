"""The only module that reads time. It owns clocks, not schedules."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Protocol


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
        """Seconds of the monotonic clock."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Sleep at least `seconds`."""
        time.sleep(max(0.0, seconds))
