"""The dead man's switch: an outside address that is asked while all is well, so that silence there means trouble here.

Nothing on this host can tell that this host is gone. The address is a secret: whoever knows it can feign health.
"""

from __future__ import annotations

import logging
import threading

from monitor.clock import Clock
from monitor.notify.exchange import NO_ANSWER, ask

log = logging.getLogger(__name__)

#: Least time between two questions (seconds); such services expect one a minute.
EVERY_SECONDS = 60.0


class DeadMansSwitch:
    """Asks the address in a thread, so that a slow one delays nothing."""

    def __init__(self, url: str, clock: Clock) -> None:
        self._url = url
        self._clock = clock
        self._last: float | None = None
        self._asking: threading.Thread | None = None
        self._complained = False

    def alive(self) -> None:
        """The loop finished a turn: ask, unless that was done within the last minute or is still going on."""
        now = self._clock.monotonic()
        if self._last is not None and now - self._last < EVERY_SECONDS:
            return
        if self._asking is not None and self._asking.is_alive():
            return
        self._last = now
        self._asking = threading.Thread(target=self._ask, name="dead-mans-switch", daemon=True)
        self._asking.start()

    def wait(self, timeout: float) -> None:
        """Wait for a question under way."""
        if self._asking is not None:
            self._asking.join(timeout)

    def _ask(self) -> None:
        try:
            status = ask("GET", self._url).status
            problem = "" if status < 400 else f"it answers {status}"
        except NO_ANSWER as error:
            # Its text carries the address.
            problem = type(error).__name__
        if problem and not self._complained:
            log.warning("dead man's switch cannot be reached: %s", problem)
        elif self._complained and not problem:
            log.info("dead man's switch can be reached again")
        self._complained = bool(problem)
