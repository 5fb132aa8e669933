"""A clock that stands still until told otherwise; `sleep` moves it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta


class FakeClock:
    """Wall time and monotonic time that move together, except when the wall is set (`jump`)."""

    def __init__(self, start: datetime = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)) -> None:
        self._now = start
        self._monotonic = 1000.0

    def now(self) -> datetime:
        return self._now

    def monotonic(self) -> float:
        return self._monotonic

    def sleep(self, seconds: float) -> None:
        self.advance(max(0.0, seconds))

    def advance(self, seconds: float) -> datetime:
        """Let `seconds` pass; the wall time then."""
        self._now += timedelta(seconds=seconds)
        self._monotonic += seconds
        return self._now

    def jump(self, seconds: float) -> datetime:
        """Set the wall clock by `seconds` without any time passing."""
        self._now += timedelta(seconds=seconds)
        return self._now
