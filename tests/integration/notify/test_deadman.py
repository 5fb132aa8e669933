"""The dead man's switch asks at most once a minute, and its address is never logged."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from monitor.notify.deadman import EVERY_SECONDS, DeadMansSwitch
from tests.fakes.fake_clock import FakeClock


@pytest.fixture
def asked() -> Iterator[tuple[str, list[str]]]:
    paths: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            paths.append(self.path)
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/ping/hunter2", paths
    server.shutdown()
    server.server_close()
    thread.join()


def test_it_asks_once_a_minute_however_fast_the_loop_turns(asked: tuple[str, list[str]]) -> None:
    url, paths = asked
    clock = FakeClock()
    switch = DeadMansSwitch(url, clock)
    for _ in range(5):
        switch.alive()
        switch.wait(10)
    assert paths == ["/ping/hunter2"]
    clock.sleep(EVERY_SECONDS)
    switch.alive()
    switch.wait(10)
    assert len(paths) == 2


def test_a_switch_that_cannot_be_reached_is_said_once_without_its_address(caplog: pytest.LogCaptureFixture) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    clock = FakeClock()
    switch = DeadMansSwitch(f"http://127.0.0.1:{port}/ping/hunter2", clock)
    for _ in range(3):
        switch.alive()
        switch.wait(10)
        clock.sleep(EVERY_SECONDS)
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(warnings) == 1
    assert "hunter2" not in caplog.text
