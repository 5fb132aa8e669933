"""`python -m tests.soak.fast SPEED EPOCH -- ARGUMENTS`: the command `acceptd` with clocks that run SPEED times as fast.

Simulated time is EPOCH plus SPEED times what has passed since EPOCH (unix seconds), so that every process with the same
two numbers has the same time. What waits (conditions, events, sleeps) waits that much shorter, also within APScheduler.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Sequence
from datetime import UTC, datetime, tzinfo

import apscheduler.executors.base
import apscheduler.schedulers.base

from monitor.clock import SystemClock


class FastTime:
    """Simulated time."""

    def __init__(self, speed: float, epoch: float) -> None:
        self.speed = speed
        self._epoch = epoch
        self._began = time.monotonic()

    def unix(self) -> float:
        """Wall time (unix seconds)."""
        return self._epoch + (time.time() - self._epoch) * self.speed

    def monotonic(self) -> float:
        """Monotonic seconds."""
        return (time.monotonic() - self._began) * self.speed


def install(fast: FastTime) -> None:
    """Put simulated time where acceptd and its scheduler look for time."""

    class FastDatetime(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
            return datetime.fromtimestamp(fast.unix(), tz)

    def now(self: SystemClock) -> datetime:
        return datetime.fromtimestamp(fast.unix(), UTC)

    def monotonic(self: SystemClock) -> float:
        return fast.monotonic()

    def sleep(self: SystemClock, seconds: float) -> None:
        time.sleep(max(0.0, seconds) / fast.speed)

    wait = threading.Condition.wait

    def shorter(self: threading.Condition, timeout: float | None = None) -> bool:
        return wait(self, None if timeout is None else timeout / fast.speed)

    SystemClock.now, SystemClock.monotonic, SystemClock.sleep = now, monotonic, sleep  # type: ignore[method-assign]
    threading.Condition.wait = shorter  # type: ignore[method-assign]
    apscheduler.schedulers.base.datetime = FastDatetime
    apscheduler.executors.base.datetime = FastDatetime


def main(arguments: Sequence[str]) -> None:
    speed, epoch, _, *rest = arguments
    install(FastTime(float(speed), float(epoch)))
    from monitor.cli.main import main as run

    run(rest)


if __name__ == "__main__":
    main(sys.argv[1:])
