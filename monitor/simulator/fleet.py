"""Many simulated servers in one process, each on its own port, for tests and benchmarks.

`python -m monitor.simulator.fleet --count 200 --port-base 20000 -- --sim-load closed:clients=8 …` serves until SIGTERM;
server number n gets seed + n. In a program, `Fleet` runs them in a thread of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import signal
import sys
import threading
from collections.abc import Coroutine, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from monitor.clock import Clock, SystemClock
from monitor.simulator.faults import Fault
from monitor.simulator.hosting import HostedServer
from monitor.simulator.options import SimOptions, parse_options
from monitor.simulator.process_figures import ProcessFigures

_LOG = logging.getLogger(__name__)
#: Wall seconds between two advances of a server that nobody waits for: one second halves nothing of what is seen at 15.
_PULSE_SECONDS = 1.0

_T = TypeVar("_T")


class Fleet:
    """Servers that live in one thread; ports may be 0 and are then chosen. Use it as a context manager."""

    def __init__(self, servers: Sequence[SimOptions], clock: Clock, *, pulse_seconds: float = _PULSE_SECONDS) -> None:
        """Construction starts nothing. Start and stop times of the options are followed, process faults are not."""
        self._wanted = tuple(servers)
        self._clock = clock
        self._pulse_seconds = pulse_seconds
        self._figures = ProcessFigures()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="sim-fleet", daemon=True)
        self._hosted: dict[int, HostedServer] = {}
        self._watchers: set[asyncio.Task[None]] = set()

    def start(self) -> tuple[int, ...]:
        """Start all servers and wait until each listens; their ports, in order.

        Raises:
            OSError: a port is taken; none is left listening.
        """
        self._thread.start()
        try:
            return self._call(self._start_all())
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Close every server and end the thread; does nothing the second time."""
        if self._thread.is_alive():
            self._call(self._stop_all())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
        if not self._loop.is_closed():
            self._loop.close()

    def __enter__(self) -> Fleet:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def ports(self) -> tuple[int, ...]:
        """Ports of the servers that listen, in order of their start."""
        return tuple(self._hosted)

    def options(self, port: int) -> SimOptions:
        """What the server on this port was started with."""
        return self._hosted[port].options

    def restart(self, port: int, options: SimOptions) -> None:
        """Replace the server on this port by a new life with these options; its requests in flight are cut off."""
        self._call(self._restart(port, options))

    def order(self, port: int, fault: Fault) -> None:
        """Order a fault from the server on this port."""

        async def order() -> None:
            server = self._hosted[port].server
            server.advance()
            server.faults.order(fault, server.engine.now)

        self._call(order())

    def _call(self, work: Coroutine[Any, Any, _T]) -> _T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _start_all(self) -> tuple[int, ...]:
        hosted = [self._bind(options) for options in self._wanted]
        await asyncio.gather(*(self._load(one) for one in hosted))
        return self.ports

    def _bind(self, options: SimOptions) -> HostedServer:
        hosted = HostedServer(options, self._clock, pulse_seconds=self._pulse_seconds, figures=self._figures)
        self._hosted[hosted.bind()] = hosted
        return hosted

    async def _load(self, hosted: HostedServer) -> None:
        await asyncio.sleep(hosted.options.start_seconds)
        await hosted.listen()
        watcher = asyncio.ensure_future(self._bury(hosted))
        self._watchers.add(watcher)
        watcher.add_done_callback(self._watchers.discard)

    async def _bury(self, hosted: HostedServer) -> None:
        """What the end of the process is to a server of its own: the port is free again."""
        await hosted.ended.wait()
        await hosted.close()

    async def _restart(self, port: int, options: SimOptions) -> None:
        old = self._hosted[port]
        await old.close()
        await asyncio.sleep(old.options.stop_seconds)
        await self._load(self._bind(replace(options, port=port)))

    async def _stop_all(self) -> None:
        for watcher in self._watchers:
            watcher.cancel()
        await asyncio.gather(*self._watchers, return_exceptions=True)
        await asyncio.gather(*(hosted.close() for hosted in self._hosted.values()))


def main(argv: Sequence[str]) -> int:
    """Serve a fleet of equal servers until a signal comes; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m monitor.simulator.fleet", description="SIMULATED vLLM servers.")
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--port-base", type=int, required=True)
    parser.add_argument("server", nargs="*", help="flags of each server, after --")
    given = parser.parse_args(argv)
    logging.basicConfig(level=logging.WARNING, stream=sys.stdout, format="%(levelname)s %(asctime)s %(message)s")
    one = parse_options(given.server, os.environ)
    servers = [replace(one, port=given.port_base + i, seed=one.seed + i) for i in range(given.count)]
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    with Fleet(servers, SystemClock()) as fleet:
        print(f"SIMULATED: {len(fleet.ports)} servers on ports {fleet.ports[0]} to {fleet.ports[-1]}", flush=True)
        stop.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
