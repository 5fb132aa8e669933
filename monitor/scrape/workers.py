"""A fixed number of threads that work through a queue of servers. It decides nothing about when they are due.

All threads are born at the start: where the machine gives no more of them, that is known then and there and not in the
middle of a scrape.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue

from monitor.errors import FatalError
from monitor.model.server import ServerName

Job = tuple[ServerName, float]


class Workers:
    """`size` threads that call `work(server, due)`, which must not raise, for what was submitted, in turn."""

    def __init__(self, size: int, name: str, work: Callable[[ServerName, float], None]) -> None:
        self._size = size
        self._name = name
        self._work = work
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        """Start all threads. Raises FatalError where the machine gives no more of them; those started are ended."""
        for number in range(self._size):
            thread = threading.Thread(target=self._loop, name=f"{self._name}-{number}", daemon=True)
            try:
                thread.start()
            except RuntimeError as error:
                self.stop()
                raise FatalError(
                    f"only {number} of {self._size} threads for scrapes could be started ({error}): raise the limit of"
                    " tasks or memory of the daemon, or lower scrape.workers"
                ) from error
            self._threads.append(thread)

    def submit(self, server: ServerName, due: float) -> None:
        """Have `server`, due at that monotonic time, worked on as soon as a thread is free."""
        self._jobs.put((server, due))

    def stop(self) -> None:
        """Forget what no thread has begun and wait for what is under way."""
        try:
            while True:
                self._jobs.get_nowait()
        except Empty:
            pass
        for _ in self._threads:
            self._jobs.put(None)
        for thread in self._threads:
            thread.join()
        self._threads = []

    def _loop(self) -> None:
        while (job := self._jobs.get()) is not None:
            self._work(*job)
