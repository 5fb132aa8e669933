"""Fifty servers on one real HTTP server of which some hang: nobody waits for them."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from monitor.clock import SystemClock
from monitor.errors import ScrapeTimeout
from monitor.model.server import ServerName
from monitor.scrape.client import ServerClient
from monitor.scrape.loop import ScrapeLoop
from monitor.watchdog import Watchdog

PATIENCE = 60.0


@contextmanager
def fifty_servers(hanging: set[str], release: threading.Event) -> Iterator[str]:
    """One HTTP server; a path in `hanging` gets its answer when released."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path.lstrip("/") in hanging:
                release.wait(PATIENCE)
            body = b"vllm:x 1\n"
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

        def handle(self) -> None:
            try:
                super().handle()
            except OSError:
                pass  # the client gave up

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 128

    server = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        release.set()
        server.shutdown()
        thread.join()
        server.server_close()


class Counters:
    def __init__(self) -> None:
        self.late: Counter[str] = Counter()
        self.overlapping: Counter[str] = Counter()
        self.errors: list[str] = []

    def scrape_late(self, server: str, seconds: float) -> None:
        self.late[server] += 1

    def scrape_missed(self, server: str, count: int) -> None:
        pass

    def scrape_overlapping(self, server: str) -> None:
        self.overlapping[server] += 1

    def unexpected_error(self, where: str) -> None:
        self.errors.append(where)


class Fleet:
    """Fifty servers scraped every `interval` seconds by `workers`, with what each scrape came to."""

    def __init__(self, url: str, *, interval: float, workers: int, deadline: float) -> None:
        clock = SystemClock()
        self.names = [ServerName(f"s{number}") for number in range(50)]
        self.watchdog = Watchdog(clock)
        self.clients = {name: ServerClient(self.watchdog, size_limit=1000) for name in self.names}
        self.done: Counter[str] = Counter()
        self.timed_out: Counter[str] = Counter()
        self.changed = threading.Condition()
        self.counters = Counters()

        def scrape(name: ServerName) -> None:
            try:
                self.clients[name].get(f"{url}/{name}", deadline_seconds=deadline)
                counted = self.done
            except ScrapeTimeout:
                counted = self.timed_out
            with self.changed:
                counted[name] += 1
                self.changed.notify_all()

        self.loop = ScrapeLoop(scrape, interval=interval, workers=workers, clock=clock, counters=self.counters)

    def __enter__(self) -> Fleet:
        self.watchdog.start()
        self.loop.set_servers(self.names)
        self.loop.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.watchdog.stop()  # cuts what hangs
        self.loop.stop()
        for client in self.clients.values():
            client.close()

    def wait(self, what: str, met: Any) -> None:
        with self.changed:
            assert self.changed.wait_for(met, PATIENCE), (what, self.done, self.timed_out)


def test_one_server_that_hangs_delays_no_other() -> None:
    release = threading.Event()
    with fifty_servers({"s7"}, release) as url, Fleet(url, interval=0.5, workers=4, deadline=PATIENCE) as fleet:
        others = [name for name in fleet.names if name != "s7"]
        fleet.wait("five rounds of all the others", lambda: all(fleet.done[name] >= 5 for name in others))
        assert fleet.done["s7"] == fleet.timed_out["s7"] == 0, "it hangs all the while"
        assert fleet.counters.overlapping["s7"] >= 2
        release.set()
        fleet.wait("its page, once it answers", lambda: fleet.done["s7"] >= 2)
        assert fleet.counters.errors == []


@pytest.mark.parametrize("hanging", [8])
def test_more_servers_that_hang_than_workers_hold_nobody_up_once_they_are_known(hanging: int) -> None:
    names, release = {f"s{number}" for number in range(hanging)}, threading.Event()
    with fifty_servers(names, release) as url, Fleet(url, interval=0.5, workers=4, deadline=0.4) as fleet:
        others = [name for name in fleet.names if name not in names]
        fleet.wait("each has hung once", lambda: all(fleet.timed_out[name] >= 1 for name in names))
        before, hung = dict(fleet.done), sum(fleet.timed_out.values())
        began = time.monotonic()
        fleet.wait("six more rounds of the others", lambda: all(fleet.done[n] >= before.get(n, 0) + 6 for n in others))
        # One slow worker alone waits for those that hang, 0.4 s each; were they among the others they would take all
        # four workers for 0.8 s in every half second.
        seconds = time.monotonic() - began
        assert sum(fleet.timed_out.values()) - hung <= 2 + seconds / 0.4
        assert not any(fleet.done[name] for name in names)
        release.set()
        fleet.wait("they answer again", lambda: all(fleet.done[name] >= 2 for name in names))
