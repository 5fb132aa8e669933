"""Whether the daemon's loop still turns."""

from __future__ import annotations

from monitor.clock import Clock


class Heart:
    """When the loop last finished a turn; the watchdog and `/-/healthy` ask it."""

    def __init__(self, clock: Clock, limit_seconds: float) -> None:
        self._clock = clock
        self._limit = limit_seconds
        self._last = clock.monotonic()

    def beat(self) -> None:
        """A turn ended."""
        self._last = self._clock.monotonic()

    def stands_still(self) -> str | None:
        """Why the loop counts as stuck; None while it does not."""
        age = self._clock.monotonic() - self._last
        return f"the loop has not finished a turn for {age:.0f} s" if age > self._limit else None
