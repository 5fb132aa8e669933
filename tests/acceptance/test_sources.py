"""Servers are found in a file and at a URL: they come, go and stay while the list is away, and no count is lost."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise

import pytest
import requests

from monitor.model.record import Watched
from monitor.model.server import ServerName
from monitor.simulator.fleet import Fleet
from monitor.simulator.options import parse_options
from tests.acceptance.daemon import CLOCK, LONG_AGO, Daemon

SPECULATION = '{"method": "eagle3", "model": "head", "num_speculative_tokens": 3}'


class Listing:
    """An endpoint that lists servers, or fails."""

    def __init__(self) -> None:
        self.answer: object | None = []
        listing = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = json.dumps(listing.answer).encode()
                self.send_response(500 if listing.answer is None else 200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/list"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def listing() -> Iterator[Listing]:
    one = Listing()
    yield one
    one.close()


@pytest.fixture
def fleet() -> Iterator[Fleet]:
    quick = ["--port", "0", "--sim-start-seconds", "0", "--sim-load", "closed:clients=8,prompt=64,output=60"]
    with Fleet([parse_options([*quick, "--speculative-config", SPECULATION])] * 3, CLOCK, pulse_seconds=0.2) as made:
        yield made


def test_found_servers_come_go_and_come_back(
    make_daemon: Callable[..., Daemon], listing: Listing, fleet: Fleet
) -> None:
    daemon = make_daemon(mode="observe")
    first, second, third = (f"127.0.0.1:{port}" for port in fleet.ports)
    file = daemon.folder / "chat.json"
    daemon.settings["sources"] = [
        {"name": "files", "file_sd": {"files": [str(daemon.folder / "*.json")]}, "group": "chat"},
        {"name": "list", "http_sd": {"url": listing.url}, "refresh": "500ms", "group_label": "pool"},
    ]
    daemon.write()

    def list_in_file(*addresses: str) -> None:
        part = file.with_suffix(".part")
        part.write_text(json.dumps([{"targets": list(addresses), "labels": {"zone": "a"}}]))
        part.replace(file)

    def known() -> dict[str, Watched]:
        with daemon.store() as store, store.read() as unit:
            return {one.url.removeprefix("http://"): one for one in unit.servers.all(LONG_AGO)}

    def intervals(address: str) -> int:
        with daemon.store() as store, store.read() as unit:
            return len(unit.intervals.between([ServerName(address.replace(":", "-"))], LONG_AGO, CLOCK.now()))

    list_in_file(first, second)
    listing.answer = [{"targets": [third], "labels": {"pool": "code"}}]
    daemon.start()
    daemon.wait(lambda: all(intervals(one) >= 2 for one in (first, second, third)), "all three are read")
    assert {address: (one.group, dict(one.labels)) for address, one in known().items()} == {
        first: ("chat", {"zone": "a"}), second: ("chat", {"zone": "a"}), third: ("code", {}),
    }  # fmt: skip

    list_in_file(first)
    listing.answer = None
    daemon.wait(lambda: known()[second].retired_at, "the second retires")
    assert known()[third].retired_at is None
    assert intervals(second) >= 2

    list_in_file(first, second)
    before = intervals(second)
    daemon.wait(lambda: known()[second].retired_at is None, "the second is back")
    daemon.wait(lambda: intervals(second) > before, "and read")
    page = requests.get(f"http://{second}/metrics", timeout=10).text
    drafts = next(float(line.split()[-1]) for line in page.splitlines() if "num_drafts_total{" in line)

    def counted() -> float:
        with daemon.store() as store, store.read() as unit:
            (life,) = unit.lives.open_of(ServerName(second.replace(":", "-")))
            head, found = unit.heads.get(life.id), unit.intervals.between([life.server], LONG_AGO, CLOCK.now())
        assert head is not None and head.counts.speculation is not None
        total = head.counts.speculation.num_drafts or 0.0
        # One life across the absence: its intervals reach from the first head to the newest without a hole.
        assert all(one.end == two.start for one, two in pairwise(found))
        return total

    daemon.wait(lambda: counted() >= drafts, "counts went on while it was away")
