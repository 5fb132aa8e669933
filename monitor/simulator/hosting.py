"""A simulated server with its socket and its pulse, inside an asyncio loop: one for a process, hundreds for a fleet.

As in vLLM the port is bound before the model loads but nobody listens on it: connections are refused until the server
is ready. After SIGTERM it goes on listening while requests in flight have time left, and answers new ones as aborted.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import MutableMapping
from typing import Any

from monitor.clock import Clock
from monitor.simulator.endpoints import Endpoints
from monitor.simulator.options import SimOptions
from monitor.simulator.process_figures import ProcessFigures
from monitor.simulator.server import Phase, SimServer
from monitor.simulator.wire import BadRequest, HttpAnswer, read_request, write_answer

_LOG = logging.getLogger(__name__)
_BACKLOG = 128
#: Wall seconds between two pulses of the engine: while somebody waits for tokens, and otherwise.
_BUSY_PULSE_SECONDS = 0.02
#: Wall seconds from an engine's death to the process's: a live server took up to 4.
_DEATH_SECONDS = 1.0
_STATS_EVERY_SECONDS = 10.0
#: Wall seconds between two pulses beyond which the process was stopped: a frozen server does not work them off.
_LONGEST_GAP_SECONDS = 5.0


class SimLog(logging.LoggerAdapter[logging.Logger]):
    """Marks every line as simulated and says whose it is."""

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        """The marked message."""
        extra = self.extra or {}
        return f"[SIMULATED {extra.get('name', '')}] {msg}", kwargs


class HostedServer:
    """One server on one port; `ended` is set when it must go down by itself."""

    def __init__(
        self,
        options: SimOptions,
        clock: Clock,
        *,
        pulse_seconds: float = 0.25,
        figures: ProcessFigures | None = None,
    ) -> None:
        """`pulse_seconds`: wall seconds between two advances of an engine that nobody waits for."""
        self.options = options
        self.server = SimServer(options, clock, figures, _LONGEST_GAP_SECONDS)
        self.log = SimLog(_LOG, {"name": f"{options.model_name}:{options.port}"})
        self.endpoints = Endpoints(self.server, self._wake_up)
        self.ended = asyncio.Event()
        self._pulse_seconds = pulse_seconds
        self._wake = asyncio.Event()
        self._socket: socket.socket | None = None
        self._listener: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def bind(self) -> int:
        """Take the port without listening on it; the port, useful where 0 was asked for.

        Raises:
            OSError: it is taken.
        """
        family = socket.AF_INET6 if ":" in self.options.host else socket.AF_INET
        sock = socket.socket(family, socket.SOCK_STREAM)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind((self.options.host, self.options.port))
        except OSError:
            sock.close()
            raise
        self._socket = sock
        port = int(sock.getsockname()[1])
        self.log = SimLog(_LOG, {"name": f"{self.options.model_name}:{port}"})
        return port

    async def listen(self) -> None:
        """The model is loaded: answer requests and let time run."""
        if self._socket is None:
            self.bind()
        self.server.get_ready()
        self._listener = await asyncio.start_server(self._connect, sock=self._socket, backlog=_BACKLOG)
        self._start(self._pulse())
        self._start(self._report())
        self.log.info("Application startup complete.")

    async def drain(self) -> None:
        """SIGTERM: abort what is in flight, or give it the shutdown timeout first."""
        self.log.info("shutting down, %d requests in flight", self.server.engine.running)
        self.server.drain()
        waited = 0.0
        while self.server.in_flight and waited < self.options.shutdown_timeout:
            await asyncio.sleep(0.05)
            waited += 0.05

    async def close(self) -> None:
        """Hang up on everybody and free the port; does nothing the second time."""
        self.server.die()
        if self._listener is not None:
            self._listener.close()
        elif self._socket is not None:
            self._socket.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._listener = self._socket = None

    def _start(self, work: Any) -> None:
        task: asyncio.Task[None] = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _wake_up(self) -> None:
        self._wake.set()

    async def _pulse(self) -> None:
        while not self.ended.is_set():
            self.server.advance()
            if self.server.is_doomed:
                self.log.error("EngineCore died unexpectedly; the server goes down.")
                await asyncio.sleep(_DEATH_SECONDS)
                self.ended.set()
                return
            if self.server.in_flight:
                await asyncio.sleep(_BUSY_PULSE_SECONDS)
                continue
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), self._pulse_seconds)
            self._wake.clear()

    async def _report(self) -> None:
        engine, before = self.server.engine, (0, 0, 0)
        while True:
            await asyncio.sleep(_STATS_EVERY_SECONDS)
            counts = engine.counts
            now = (counts.prompt_tokens, counts.generation_tokens, counts.num_drafts)
            prompt, generated, drafts = (a - b for a, b in zip(now, before, strict=True))
            before = now
            self.log.info(
                "Engine 000: prompt %.1f tokens/s, generation %.1f tokens/s, running %d, waiting %d, KV cache %.1f %%, "
                "drafts %d, acceptance length since start %s",
                prompt / _STATS_EVERY_SECONDS,
                generated / _STATS_EVERY_SECONDS,
                engine.running,
                engine.waiting,
                100 * engine.kv_usage,
                drafts,
                f"{1 + counts.num_accepted_tokens / counts.num_drafts:.2f}" if counts.num_drafts else "none",
            )

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is not None:
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        peer = str((writer.get_extra_info("peername") or ("",))[0])
        try:
            # Swallowing the cancellation is right here: it only comes when the server closes, and asyncio would log it.
            with contextlib.suppress(ConnectionError, TimeoutError, asyncio.CancelledError):
                while await self._answer_one(reader, writer, peer):
                    pass
        finally:
            writer.close()

    async def _answer_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, peer: str) -> bool:
        """Whether the connection goes on."""
        try:
            request = await read_request(reader, peer)
        except BadRequest as error:
            await write_answer(writer, HttpAnswer(400, str(error).encode(), "text/plain", closes=True))
            return False
        if request is None:
            return False
        answer = await self.endpoints.answer(request, reader.at_eof)
        if self.server.phase is Phase.DEAD:
            return False
        if answer.hangs:
            while not reader.at_eof():
                await asyncio.sleep(0.2)
            return False
        await write_answer(writer, answer)
        if request.path.startswith("/v1/") or answer.status >= 500:
            self.log.info('%s - "%s %s HTTP/1.1" %d', peer, request.method, request.path, answer.status)
        return not answer.closes and request.headers.get("connection", "").lower() != "close"
