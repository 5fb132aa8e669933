"""A driver that looks at the GPUs, too: a server is gone only when its processes hold no memory there any more.

It owns the memory of who held what; starting and stopping is the inner driver's. An engine that outlives its server in
another session, another control group or a container's, and one that is dead while the card has not let go yet, are
seen nowhere else. A card that never lets go must not keep a server down: after a while it is started all the same.
"""

from __future__ import annotations

import contextlib
import logging
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from monitor.clock import Clock
from monitor.drivers.around import DriverAround
from monitor.drivers.nvml import Holder
from monitor.drivers.procfs import Process, ProcFs
from monitor.drivers.protocol import Driver, DriverStatus, ServerState
from monitor.errors import ActionError
from monitor.model.life import Setting

logger = logging.getLogger(__name__)

#: How often a running server's processes on the GPUs are noted (seconds).
_NOTE_SECONDS = 10.0
#: How long a start waits for memory that nobody alive holds (seconds). Not measured: no GPU was at hand.
_PATIENCE_SECONDS = 60.0


class GpuGuard(DriverAround):
    """Wraps a driver. `holders` asks who has memory on the GPUs."""

    def __init__(self, driver: Driver, holders: Callable[[], Sequence[Holder]], proc: ProcFs, clock: Clock) -> None:
        super().__init__(driver)
        self._holders = holders
        self._proc = proc
        self._clock = clock
        self._noted_at: float | None = None
        #: The server's processes that held GPU memory when it ran, by pid.
        self._held: dict[int, Process] = {}
        self._gone_at: float | None = None

    def status(self) -> DriverStatus:
        """The inner driver's, with what is left on the GPUs of a server that is gone. Raises ActionError."""
        status, moment = self._driver.status(), self._clock.monotonic()
        if status.state is ServerState.RUNNING:
            self._gone_at = None
            if status.pid is not None and (self._noted_at is None or moment - self._noted_at >= _NOTE_SECONDS):
                self._note(status.pid, moment)
            return status
        if not status.is_gone or not self._held:
            return status
        left = self._left()
        if not left:
            self._held = {}
            return status
        self._gone_at = moment if self._gone_at is None else self._gone_at
        if moment - self._gone_at >= _PATIENCE_SECONDS and not any(alive for _, alive in left):
            logger.warning("GPU memory of dead processes is not given back, starting all the same: %s", _words(left))
            self._held = {}
            return status
        return replace(status, state=ServerState.LEFTOVERS, leftovers=_words(left))

    def start(self, setting: Setting, token: str) -> None:
        """Start the server; refused while something of the old one is on a GPU. See `Driver.start`."""
        status = self.status()
        if status.state is ServerState.LEFTOVERS:
            raise ActionError(f"not started, it {status.describe()}", reason="in_the_way", retryable=True)
        self._driver.start(setting, token)
        self._held, self._noted_at, self._gone_at = {}, None, None

    def stop(self, *, force: bool = False) -> None:
        """Stop the server; with `force` kill what is left of it on the GPUs, where this user may."""
        self._driver.stop(force=force)
        if force and self._driver.status().state is not ServerState.RUNNING:
            for process, alive in self._left():
                if alive:
                    with contextlib.suppress(PermissionError):
                        self._proc.send(process, signal.SIGKILL)

    def _note(self, main: int, moment: float) -> None:
        """Remember which of the server's processes hold GPU memory."""
        self._noted_at = moment
        holding = {holder.pid for holder in self._holders()}
        if not holding:
            return
        everyone = {process.pid: process for process in self._proc.processes()}
        self._held = {pid: everyone[pid] for pid in holding & everyone.keys() if _descends(pid, main, everyone)}

    def _left(self) -> list[tuple[Process, bool]]:
        """Processes noted that still hold GPU memory, and whether each is alive."""
        holding = {holder.pid for holder in self._holders()} if self._held else set()
        left = []
        for pid in sorted(holding & self._held.keys()):
            known, now = self._held[pid], self._proc.process(pid)
            if now is None or now.start_ticks == known.start_ticks:
                left.append((known, now is not None and now.is_alive))
        return left


def _descends(pid: int, main: int, everyone: Mapping[int, Process]) -> bool:
    seen = set()
    while pid in everyone and pid not in seen:
        if pid == main or everyone[pid].session == main:
            return True
        seen.add(pid)
        pid = everyone[pid].parent
    return False


def _words(left: Sequence[tuple[Process, bool]]) -> tuple[str, ...]:
    return tuple(f"GPU memory of {one.name} (pid {one.pid}{'' if alive else ', dead'})" for one, alive in left)
