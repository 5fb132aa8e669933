"""The web server: binds what it was told, says so where it cannot, lets go of it."""

from __future__ import annotations

import os
import resource
import socket
import threading

import pytest
import requests
from flask import Flask

from monitor.errors import FatalError
from monitor.web.server import WebServer


def app() -> Flask:
    made = Flask("test")

    @made.get("/")
    def hello() -> str:
        return "hello"

    return made


def test_it_serves_until_it_is_stopped_and_may_be_started_again_on_the_same_port() -> None:
    server = WebServer(app(), "127.0.0.1:0")
    server.start()
    url = server.url
    assert requests.get(url, timeout=10).text == "hello"
    assert "waitress" not in requests.get(url, timeout=10).headers.get("Server", "")
    server.stop()
    with pytest.raises(requests.ConnectionError):
        requests.get(url, timeout=10)
    again = WebServer(app(), url.removeprefix("http://"))
    again.start()
    assert requests.get(url, timeout=10).text == "hello"
    again.stop()
    again.stop()


def test_nothing_is_left_of_a_server_that_was_stopped_while_somebody_is_connected() -> None:
    before = set(threading.enumerate())
    server = WebServer(app(), "127.0.0.1:0")
    server.start()
    with requests.Session() as session:
        assert session.get(server.url, timeout=10).text == "hello"
        server.stop()
    assert set(threading.enumerate()) <= before


def test_an_address_that_is_taken_is_named() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(FatalError, match=rf"web\.listen: {address} cannot be used \(Address already in use\)"):
            WebServer(app(), address).start()


@pytest.mark.parametrize("address", ["no.such.host.invalid:9747", "203.0.113.7:9747"])
def test_an_address_that_is_not_ours_is_named(address: str) -> None:
    server = WebServer(app(), address)
    with pytest.raises(FatalError, match=r"web\.listen: .+ cannot be used"):
        server.start()
    server.stop()


def test_an_address_of_ipv6_has_brackets() -> None:
    server = WebServer(app(), "[::1]:0")
    try:
        server.start()
    except FatalError:
        pytest.skip("no IPv6 loopback on this host")
    assert server.url.startswith("http://[::1]:")
    assert requests.get(server.url, timeout=10).text == "hello"
    server.stop()


def test_a_demo_takes_another_port_where_its_own_is_taken() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        server = WebServer(app(), f"127.0.0.1:{port}", or_any_port=True)
        server.start()
        try:
            assert not server.url.endswith(f":{port}")
            assert requests.get(server.url, timeout=10).text == "hello"
        finally:
            server.stop()


def test_it_serves_beyond_a_thousand_open_files() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(2000, hard)), hard))
    files = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
    try:
        server = WebServer(app(), "127.0.0.1:0")
        server.start()
        try:
            assert requests.get(server.url, timeout=10).text == "hello"
        finally:
            server.stop()
    finally:
        for file in files:
            os.close(file)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
