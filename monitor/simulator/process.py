"""A simulated server as a process of its own: start, signals, exit status. It owns no simulation."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence

from monitor.clock import Clock, SystemClock
from monitor.errors import LaunchError
from monitor.simulator.faults import Fault, FaultKind, Faults
from monitor.simulator.hosting import HostedServer
from monitor.simulator.options import SimOptions, parse_options

#: Exit status of a server that could not start or whose engine died; argparse exits with 2, SIGTERM with 0.
FAILED = 1


def main(argv: Sequence[str], env: Mapping[str, str] | None = None, clock: Clock | None = None) -> int:
    """Run one server until SIGTERM, SIGINT or its death; the exit status."""
    logging.basicConfig(
        level=logging.INFO, stream=sys.stdout, format="%(levelname)s %(asctime)s %(message)s", datefmt="%m-%d %H:%M:%S"
    )
    try:
        options = parse_options(argv, os.environ if env is None else env)
    except LaunchError as error:
        logging.getLogger(__name__).error("[SIMULATED] %s", error)
        return FAILED
    return asyncio.run(_Process(options, clock or SystemClock()).run())


class _Process:
    def __init__(self, options: SimOptions, clock: Clock) -> None:
        self._options = options
        self._faults = Faults(options.faults)
        self._hosted = HostedServer(options, clock)
        self._stop = asyncio.Event()

    async def run(self) -> int:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._on_signal, number)
        if not self._begin():
            return FAILED
        try:
            if await self._stopped_within(self._start_seconds()):
                return 0
            if self._fails_to_start("oom"):
                return FAILED
            if not await self._listens():
                return FAILED
            ended, stopped = asyncio.ensure_future(self._hosted.ended.wait()), asyncio.ensure_future(self._stop.wait())
            done, pending = await asyncio.wait((ended, stopped), return_when=asyncio.FIRST_COMPLETED)
            for waiter in pending:
                waiter.cancel()
            if ended in done:
                return FAILED
            await self._hosted.drain()
            return 0
        finally:
            await self._hosted.close()
            await asyncio.sleep(self._options.stop_seconds)
            self._hosted.log.info("process ended")

    def _begin(self) -> bool:
        options, log = self._options, self._hosted.log
        log.info("vLLM API server version 0.32.0 (SIMULATED: no model, no GPU), pid %d", os.getpid())
        for flag in options.ignored:
            log.info("%s changes nothing here", flag)
        if options.speculation is not None:
            log.info("speculation: %s, k=%d", options.speculation.method, options.num_speculative_tokens)
        log.info("figures: %s (%s)", options.family.name, options.family.source)
        if self._fails_to_start("flag"):
            return False
        try:
            self._hosted.bind()
        except OSError as error:
            self._port_taken(error)
            return False
        child = self._order(FaultKind.ORPHAN_CHILD)
        if child is not None:
            self._hosted.endpoints.orphans.append(_spawn_orphan(child.numbers()[0]))
            log.info("child pid %d lives in its own session", self._hosted.endpoints.orphans[-1])
        return True

    async def _listens(self) -> bool:
        try:
            await self._hosted.listen()
        except OSError as error:  # Linux lets two servers bind a port while neither listens: the second loses here
            self._port_taken(error)
            return False
        return True

    def _port_taken(self, error: OSError) -> None:
        where = f"{self._options.host}:{self._options.port}"
        self._hosted.log.error("cannot bind %s: %s", where, error.strerror)

    def _order(self, kind: FaultKind) -> Fault | None:
        return self._faults.active(kind, 0.0)

    def _start_seconds(self) -> float:
        slow = self._order(FaultKind.SLOW_START)
        return self._options.start_seconds + (slow.numbers()[0] if slow else 0.0)

    def _fails_to_start(self, how: str) -> bool:
        """The ordered start failure, where it is of this kind and this k is long enough for it."""
        order = self._order(FaultKind.START_FAILURE_K)
        if order is None or self._options.num_speculative_tokens < order.numbers()[0]:
            return False
        if (order.value.partition(":")[2] or "oom") != how:
            return False
        if how == "flag":
            k = self._options.num_speculative_tokens
            self._hosted.log.error("ValueError: num_speculative_tokens=%d is not supported by this draft model", k)
        else:
            self._hosted.log.error("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.05 GiB")
        return True

    async def _stopped_within(self, seconds: float) -> bool:
        try:
            await asyncio.wait_for(self._stop.wait(), seconds)
        except TimeoutError:
            return False
        return True

    def _on_signal(self, number: int) -> None:
        name = signal.Signals(number).name
        if self._hosted.server.fault(FaultKind.IGNORE_SIGTERM):
            self._hosted.log.warning("%s ignored, as ordered", name)
            return
        self._hosted.log.info("%s received", name)
        self._stop.set()


def _spawn_orphan(seconds: float) -> int:
    """A child that outlives this process, named as vLLM names its engine; it ends by itself."""
    command = ["VLLM::EngineCore", "-m", "monitor.simulator.orphan", str(seconds)]
    child = subprocess.Popen(
        command,
        executable=sys.executable,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    return child.pid
