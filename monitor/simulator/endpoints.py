"""What a simulated server answers on each path, faults included. It owns no sockets."""

from __future__ import annotations

import asyncio
import html
import ipaddress
from collections.abc import AsyncGenerator, Callable

from monitor.errors import ConfigError
from monitor.simulator.completions import Completions, error_answer
from monitor.simulator.faults import FaultKind, make_fault
from monitor.simulator.http_counts import Answered
from monitor.simulator.load import parse_load
from monitor.simulator.page import CONTENT_TYPE
from monitor.simulator.server import VERSION, SimServer
from monitor.simulator.wire import BadRequest, HttpAnswer, HttpRequest, json_answer

_COMPLETIONS = ("/v1/completions", "/v1/chat/completions")
_DRIP_PIECES = 200
#: Paths of the front end that its own instrumentation leaves out, as on a live page.
_NOT_COUNTED = ("/metrics", "/health", "/ping", "/version", "/load", "/server_info")


class Endpoints:
    """Answers the requests of one server."""

    def __init__(self, server: SimServer, wake: Callable[[], None]) -> None:
        self._server = server
        self._completions = Completions(server, wake)
        self.orphans: list[int] = []

    async def answer(self, request: HttpRequest, hung_up: Callable[[], bool]) -> HttpAnswer:
        """The answer to one request; it may take as long as the simulated work takes."""
        started = self._server.clock.monotonic()
        try:
            answer = await self._route(request, hung_up)
        except BadRequest as error:
            answer = error_answer(400, str(error))
        except ConfigError as error:
            answer = json_answer({"error": str(error)}, 400)
        if request.path.startswith("/v1/") and request.path not in _NOT_COUNTED:
            clock = self._server.clock
            seconds = (clock.monotonic() - started) * self._server.options.speed
            now = clock.now().timestamp()
            sizes = len(request.body), len(answer.body)
            self._server.http.add(Answered(request.path, request.method, answer.status, seconds, *sizes), now)
        return answer

    async def _route(self, request: HttpRequest, hung_up: Callable[[], bool]) -> HttpAnswer:
        server, path = self._server, request.path
        if path.startswith("/-/sim/"):
            return self._control(request)
        if server.fault(FaultKind.HTTP_500):
            return HttpAnswer(500, b"Internal Server Error", "text/plain; charset=utf-8")
        if path in ("/metrics", "/metrics/"):
            return self._metrics()
        if path in ("/health", "/ping"):
            return HttpAnswer(503 if server.is_doomed else 200)
        if path == "/version":
            return json_answer({"version": VERSION})
        if path == "/load":
            return json_answer({"server_load": server.in_flight})
        if path == "/":
            return HttpAnswer(body=self._about().encode(), content_type="text/html; charset=utf-8")
        if path.startswith("/v1/") and not self._may_enter(request):
            return json_answer({"error": "Unauthorized"}, 401)
        if path == "/v1/models":
            return json_answer({"object": "list", "data": self._models()})
        if path in _COMPLETIONS:
            if request.method != "POST":
                return json_answer({"detail": "Method Not Allowed"}, 405)
            return await self._complete(request, hung_up)
        return json_answer({"detail": "Not Found"}, 404)

    async def _complete(self, request: HttpRequest, hung_up: Callable[[], bool]) -> HttpAnswer:
        self._server.meet_request()
        if self._server.is_doomed:
            return error_answer(500, "SIMULATED: the engine died; the server goes down.", "InternalServerError")
        if self._server.fault(FaultKind.HEALTH_OK_COMPLETIONS_500):
            return error_answer(500, "SIMULATED: completions fail as ordered.", "InternalServerError")
        return await self._completions.answer(request, hung_up)

    def _metrics(self) -> HttpAnswer:
        server = self._server
        if server.fault(FaultKind.HANG_METRICS):
            return HttpAnswer(hangs=True)
        body = server.page().encode()
        drip = server.faults.active(FaultKind.DRIP_METRICS, server.engine.now)
        if drip is not None:
            pieces = _drip(body, drip.numbers()[0])
            return HttpAnswer(content_type=CONTENT_TYPE, pieces=pieces, length=len(body))
        cut = server.faults.active(FaultKind.TRUNCATE_METRICS, server.engine.now)
        if cut is not None:
            # In the middle of a line, so that nothing but care tells a silent one from a whole page.
            kept = body[: body.rindex(b"{") + 3]
            is_silent = cut.value == "silent"
            length = len(kept) if is_silent else len(body)
            return HttpAnswer(body=kept, content_type=CONTENT_TYPE, length=length, closes=not is_silent)
        return HttpAnswer(body=body, content_type=CONTENT_TYPE)

    def _may_enter(self, request: HttpRequest) -> bool:
        key = self._server.options.api_key
        return key is None or request.headers.get("authorization") == f"Bearer {key}"

    def _models(self) -> list[dict[str, object]]:
        options = self._server.options
        created = int(self._server.process_started)
        return [
            {
                "id": name,
                "object": "model",
                "created": created,
                "owned_by": "vllm",
                "root": options.model,
                "parent": None,
                "max_model_len": options.limits.max_model_len,
                "simulated": True,
            }
            for name in options.served_names or (options.model,)
        ]

    # Control, only from this machine.

    def _control(self, request: HttpRequest) -> HttpAnswer:
        if not _is_loopback(request.peer):
            return json_answer({"error": "faults are ordered from the loopback only"}, 403)
        match request.method, request.path.removeprefix("/-/sim/"):
            case "GET", "state":
                return json_answer(self._state())
            case "POST", "fault":
                return self._order(request)
            case "POST", "load":
                raw = request.json()
                text = raw.get("load") if isinstance(raw, dict) else None
                self._server.engine.traffic.change(parse_load(str(text)), self._server.engine.now)
                return json_answer({"simulated": True, "load": text})
        return json_answer({"error": "expected GET state, POST fault or POST load under /-/sim/"}, 404)

    def _order(self, request: HttpRequest) -> HttpAnswer:
        raw = request.json()
        if not isinstance(raw, dict):
            raise BadRequest("expected an object with kind, and perhaps value, after_seconds, clear")
        server = self._server
        server.advance()
        value, after = raw.get("value", ""), raw.get("after_seconds", 0)
        if not isinstance(after, int | float) or after < 0:
            raise BadRequest(f"after_seconds: found {after!r}, expected seconds of at least 0")
        kind = str(raw.get("kind"))
        if raw.get("clear") is True and kind in FaultKind.__members__.values():
            server.faults.clear(FaultKind(kind))
        else:
            server.faults.order(make_fault(kind, str(value), float(after)), server.engine.now)
        return json_answer({"simulated": True, "faults": [str(fault) for fault in server.faults]})

    def _state(self) -> dict[str, object]:
        server = self._server
        server.advance()
        engine, options = server.engine, server.options
        return {
            "simulated": True,
            "phase": server.phase.value,
            "model": options.model_name,
            "table": options.family.name,
            "source": options.family.source,
            "num_speculative_tokens": options.num_speculative_tokens,
            "method": options.speculation.method if options.speculation else None,
            "uptime_seconds": engine.now,
            "running": engine.running,
            "waiting": engine.waiting,
            "num_drafts": engine.counts.num_drafts,
            "num_draft_tokens": engine.counts.num_draft_tokens,
            "num_accepted_tokens": engine.counts.num_accepted_tokens,
            "accepted_per_position": engine.counts.accepted_per_pos,
            "generation_tokens": engine.counts.generation_tokens,
            "prompt_tokens": engine.counts.prompt_tokens,
            "finished": engine.counts.finished,
            "faults": [str(fault) for fault in server.faults],
            "orphans": self.orphans,
        }

    def _about(self) -> str:
        rows = "".join(
            f"<tr><th>{html.escape(name)}</th><td>{html.escape(str(value))}</td></tr>"
            for name, value in self._state().items()
        )
        return (
            "<!doctype html><title>SIMULATED vLLM server</title><h1>SIMULATED vLLM server</h1>"
            "<p>No model and no GPU: the figures follow a published table. Metrics: <a href=/metrics>/metrics</a></p>"
            f"<table>{rows}</table>"
        )


async def _drip(body: bytes, pause_seconds: float) -> AsyncGenerator[bytes, None]:
    size = max(1, len(body) // _DRIP_PIECES)
    for begin in range(0, len(body), size):
        yield body[begin : begin + size]
        await asyncio.sleep(pause_seconds)


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False
