"""Servers that count by the clock and tell the truth afterwards, all behind one HTTP server; some of them misbehave.

Each is a base URL of its own (`http://127.0.0.1:PORT/NAME`). A life's counts follow from its age alone, so a page costs
nothing and two readers disturb each other in nothing.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.fakes.pages import V1, v1_page

#: Of 1,000 drafts so many are accepted at least this far.
ACCEPTED_PER_MILLE = (800, 600, 400)


@dataclass(frozen=True, slots=True)
class Counts:
    """What a life counted."""

    drafts: int
    accepted: tuple[int, ...]
    generated: int


class CountedServer:
    """One server. `drafts_per_second` while it is not frozen; `answer` is how it misbehaves, None for not at all."""

    def __init__(
        self, name: str, drafts_per_second: float = 997.0, *, now: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = name
        self._now, self._monotonic = now, monotonic
        self.url = ""
        self.rate = drafts_per_second
        self.more = ""
        self.answer: Callable[[CountedServer, BaseHTTPRequestHandler], None] | None = None
        #: Whether it answers nothing at all, its health neither.
        self.is_down = False
        #: Moments (monotonic) at which a page was asked for.
        self.asked: list[float] = []
        self.ended: list[Counts] = []
        self._lock = threading.Lock()
        self._frozen: float | None = None
        self._born, self._start = monotonic(), now() - 60.0

    def restart(self) -> None:
        """Another process life: counters begin at 0, with a start time of their own."""
        with self._lock:
            self.ended.append(self._counts())
            # No engine starts twice within a second; what says so is the same start, rounded.
            self._born, self._start = self._monotonic(), max(self._now(), self._start + 2.0)

    def note_asked(self) -> None:
        """A page was asked for."""
        self.asked.append(self._monotonic())

    def asked_at(self, index: int) -> float:
        """When a page was asked for (monotonic); 0 where none was."""
        return self.asked[index] if self.asked else 0.0

    def freeze(self) -> Counts:
        """Count no further, and say what this life counted."""
        with self._lock:
            self._frozen = self._monotonic()
            return self._counts()

    def _counts(self) -> Counts:
        until = self._monotonic() if self._frozen is None else self._frozen
        drafts = int(max(0.0, until - self._born) * self.rate)
        accepted = tuple(drafts * share // 1000 for share in ACCEPTED_PER_MILLE)
        return Counts(drafts, accepted, drafts + sum(accepted))

    def page(self) -> bytes:
        """Its page now."""
        with self._lock:
            counts, start = self._counts(), self._start
        engine = V1(
            drafts=counts.drafts, at=counts.accepted, generation=counts.generated, prompt=2 * counts.drafts,
            running=2.0 if self._frozen is None else 0.0, finished=counts.drafts // 50, model=self.name,
            created=start, more=self.more,
        )
        return v1_page(engine, process_start=start)


@contextmanager
def serving(*servers: CountedServer) -> Iterator[None]:
    """Serve them all; sets their URLs."""
    known = {server.name: server for server in servers}

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            _, name, *rest = self.path.split("/")
            server = known[name]
            if server.is_down:
                self.close_connection = True
                return
            if rest != ["metrics"]:
                answer(self, b"", 200 if rest == ["health"] else 404)
                return
            server.note_asked()
            if server.answer is not None:
                server.answer(server, self)
            else:
                answer(self, server.page())

        def log_message(self, *_: object) -> None:
            pass

    http = _Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=http.serve_forever, args=(0.05,))
    thread.start()
    for server in servers:
        server.url = f"http://127.0.0.1:{http.server_address[1]}/{server.name}"
    try:
        yield
    finally:
        http.shutdown()
        http.server_close()
        thread.join()


def answer(handler: BaseHTTPRequestHandler, body: bytes, status: int = 200) -> None:
    """A whole answer."""
    handler.send_response(status)
    handler.send_header("Content-Type", "text/plain; version=0.0.4")
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    #: Daemons are killed in the middle of answers, and many connect at once.
    block_on_close = False
    request_queue_size = 256

    def handle_error(self, *_: object) -> None:
        pass
