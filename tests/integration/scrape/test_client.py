"""The HTTP client against real servers on loopback that misbehave in every way a metrics endpoint was seen to."""

from __future__ import annotations

import gzip
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from monitor.clock import SystemClock
from monitor.config.load import metrics_url
from monitor.config.servers import ServerConfig
from monitor.errors import ScrapeError, ScrapeTimeout, TooLarge, Unreachable
from monitor.scrape.client import ACCEPT_PAGE, Answer, Credentials, ServerClient
from monitor.watchdog import Watchdog

Handler = Callable[[socket.socket, bytes], None]


@contextmanager
def raw_server(handler: Handler) -> Iterator[str]:
    """A TCP server that reads one request head a connection and lets `handler` answer as it likes."""
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(0.1)
    stop = threading.Event()

    def serve_one(connection: socket.socket) -> None:
        with connection:
            head = b""
            try:
                while b"\r\n\r\n" not in head:
                    part = connection.recv(4096)
                    if not part:
                        return
                    head += part
                handler(connection, head)
            except OSError:
                pass

    def run() -> None:
        while not stop.is_set():
            try:
                connection, _ = listener.accept()
            except TimeoutError:
                continue
            threading.Thread(target=serve_one, args=(connection,), daemon=True).start()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        stop.set()
        thread.join()
        listener.close()


def answer(body: bytes, *, status: str = "200 OK", headers: str = "Content-Type: text/plain") -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n{headers}\r\nConnection: close\r\n\r\n".encode() + body


@pytest.fixture
def watchdog() -> Iterator[Watchdog]:
    dog = Watchdog(SystemClock())
    dog.start()
    yield dog
    dog.stop()


def get(dog: Watchdog, url: str, *, seconds: float = 5.0, credentials: Credentials | None = None) -> Answer:
    client = ServerClient(dog, credentials, size_limit=100_000)
    try:
        return client.get(url, deadline_seconds=seconds)
    finally:
        client.close()


def test_a_whole_answer_with_its_status_and_type(watchdog: Watchdog) -> None:
    with raw_server(lambda c, _: c.sendall(answer(b"x 1\n"))) as url:
        assert get(watchdog, url + "/metrics") == Answer(200, "text/plain", b"x 1\n", url + "/metrics")


def test_gzip_is_unpacked(watchdog: Watchdog) -> None:
    body = gzip.compress(b"x 1\n")
    head = "Content-Type: text/plain\r\nContent-Encoding: gzip"
    with raw_server(lambda c, _: c.sendall(answer(body, headers=head))) as url:
        assert get(watchdog, url).body == b"x 1\n"


def test_a_bad_status_is_an_answer_with_its_body(watchdog: Watchdog) -> None:
    with raw_server(lambda c, _: c.sendall(answer(b"{}", status="401 Unauthorized"))) as url:
        assert get(watchdog, url).status == 401


def say_nothing(connection: socket.socket, _: bytes) -> None:
    """Wait until the other side gives up."""
    connection.recv(1)


def test_headers_that_never_come_end_at_the_deadline(watchdog: Watchdog) -> None:
    with raw_server(say_nothing) as url, pytest.raises(ScrapeTimeout, match=r"within 0\.4 s"):
        get(watchdog, url, seconds=0.4)


@pytest.mark.parametrize("prefix", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n"], ids=["headers", "body"])
def test_a_dripping_server_ends_at_the_deadline(watchdog: Watchdog, prefix: bytes) -> None:
    stop = threading.Event()

    def drip(connection: socket.socket, _: bytes) -> None:
        connection.sendall(prefix)
        for byte in b"HTTP/1.1 200 OK\r\nX: " + b"y" * 1000:
            if stop.wait(0.05):
                return
            connection.sendall(bytes([byte]))

    with raw_server(drip) as url, pytest.raises(ScrapeTimeout):
        get(watchdog, url, seconds=0.5)
    stop.set()


def test_a_huge_body_is_refused_before_it_is_read_whole(watchdog: Watchdog) -> None:
    big = answer(b"x" * 300_000)
    with raw_server(lambda c, _: c.sendall(big)) as url, pytest.raises(TooLarge, match="100000 bytes"):
        get(watchdog, url)


def test_a_truncated_body_is_unreachable_not_a_short_page(watchdog: Watchdog) -> None:
    short = b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nvllm:x 1\n"
    with raw_server(lambda c, _: c.sendall(short)) as url, pytest.raises(Unreachable, match=r"broke off|reset|closed"):
        get(watchdog, url)


def test_connection_refused_is_said_in_words(watchdog: Watchdog) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(Unreachable, match=f"http://127.0.0.1:{port}: connection refused"):
        get(watchdog, f"http://127.0.0.1:{port}")


def test_something_that_is_not_http_is_unreachable(watchdog: Watchdog) -> None:
    with raw_server(lambda c, _: c.sendall(b"SSH-2.0-x\r\n\r\n")) as url, pytest.raises(ScrapeError):
        get(watchdog, url)


def test_one_redirect_on_the_same_origin_is_followed_with_credentials(watchdog: Watchdog) -> None:
    seen: list[bytes] = []

    def serve(connection: socket.socket, head: bytes) -> None:
        seen.append(head)
        if b"GET /metrics/ " in head:
            connection.sendall(answer(b"x 1\n"))
        else:
            connection.sendall(answer(b"", status="307 Temporary Redirect", headers="Location: /metrics/"))

    with raw_server(serve) as url:
        assert get(watchdog, url + "/metrics", credentials=Credentials(bearer_token="tok")).body == b"x 1\n"
    assert [b"Bearer tok" in head for head in seen] == [True, True]


def test_a_redirect_to_another_origin_is_refused_and_the_token_stays_here(watchdog: Watchdog) -> None:
    stranger: list[bytes] = []

    def strange(connection: socket.socket, head: bytes) -> None:
        stranger.append(head)
        connection.sendall(answer(b""))

    with raw_server(strange) as elsewhere:
        moved = answer(b"", status="302 Found", headers=f"Location: {elsewhere}/x?token=1")
        with (
            raw_server(lambda c, _: c.sendall(moved)) as url,
            pytest.raises(ScrapeError, match="another origin") as error,
        ):
            get(watchdog, url, credentials=Credentials(bearer_token="tok"))
    assert stranger == []
    assert "token=1" not in str(error.value)


def test_a_redirect_loop_ends_after_one(watchdog: Watchdog) -> None:
    moved = answer(b"", status="307 Temporary Redirect", headers="Location: /again")
    with raw_server(lambda c, _: c.sendall(moved)) as url, pytest.raises(ScrapeError, match="twice"):
        get(watchdog, url)


def test_credentials_are_not_in_their_repr() -> None:
    assert "tok" not in repr(Credentials(bearer_token="tok", password="tok"))


def test_proxies_of_the_environment_are_not_used(watchdog: Watchdog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    with raw_server(lambda c, _: c.sendall(answer(b"x 1\n"))) as url:
        assert get(watchdog, url).status == 200


def test_a_full_metrics_url_is_asked_for_as_it_is_written(watchdog: Watchdog) -> None:
    seen: list[bytes] = []

    def serve(connection: socket.socket, head: bytes) -> None:
        seen.append(head)
        connection.sendall(answer(b"x 1\n"))

    with raw_server(serve) as url:
        config = ServerConfig.model_validate(
            {"name": "s", "url": "http://127.0.0.1:1", "metrics_url": f"{url}/stats/prom?model=org%2Fm&autoload=false"}
        )
        get(watchdog, metrics_url(config))
    assert seen[0].startswith(b"GET /stats/prom?model=org%2Fm&autoload=false HTTP/1.1\r\n")


def test_plain_text_is_asked_for(watchdog: Watchdog) -> None:
    seen: list[bytes] = []

    def serve(connection: socket.socket, head: bytes) -> None:
        seen.append(head)
        connection.sendall(answer(b"x 1\n"))

    with raw_server(serve) as url:
        client = ServerClient(watchdog, size_limit=1000)
        client.get(url, deadline_seconds=5, accept=ACCEPT_PAGE)
        client.close()
    assert b"Accept: text/plain;version=0.0.4;q=1,*/*;q=0.1\r\n" in seen[0]
    assert b"openmetrics" not in seen[0]


def test_a_reset_connection_is_unreachable(watchdog: Watchdog) -> None:
    def reset(connection: socket.socket, _: bytes) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nvllm:x 1")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    with raw_server(reset) as url, pytest.raises(Unreachable, match=r"reset|broke off"):
        get(watchdog, url)


def test_a_connection_that_was_closed_while_idle_is_opened_anew(watchdog: Watchdog) -> None:
    """A pooled connection that the server closed between two scrapes must not cost a scrape."""
    body = answer(b"x 1\n").replace(b"Connection: close\r\n", b"")
    with raw_server(lambda c, _: c.sendall(body)) as url:  # it says keep-alive, and closes
        client = ServerClient(watchdog, size_limit=1000)
        for _ in range(50):
            assert client.get(url, deadline_seconds=5).body == b"x 1\n"
        client.close()


def test_a_server_that_always_drops_the_connection_is_asked_twice_and_then_unreachable(watchdog: Watchdog) -> None:
    seen: list[bytes] = []
    with raw_server(lambda _, head: seen.append(head)) as url, pytest.raises(Unreachable, match=r"reset|closed"):
        get(watchdog, url)
    assert len(seen) == 2


def test_what_changes_something_is_never_sent_twice(watchdog: Watchdog) -> None:
    seen: list[bytes] = []
    with raw_server(lambda _, head: seen.append(head)) as url:
        client = ServerClient(watchdog, size_limit=1000)
        with pytest.raises(Unreachable):
            client.post_json(url, {"prompt": "Hi"}, deadline_seconds=5)
        client.close()
    assert len(seen) == 1


def test_a_small_body_that_unpacks_to_a_huge_one_is_refused(watchdog: Watchdog) -> None:
    bomb = gzip.compress(b"0" * 50_000_000)
    head = "Content-Type: text/plain\r\nContent-Encoding: gzip"
    with raw_server(lambda c, _: c.sendall(answer(bomb, headers=head))) as url, pytest.raises(TooLarge):
        get(watchdog, url)


def test_a_body_that_is_not_what_its_encoding_says_is_no_page(watchdog: Watchdog) -> None:
    head = "Content-Type: text/plain\r\nContent-Encoding: gzip"
    with raw_server(lambda c, _: c.sendall(answer(b"vllm:x 1\n", headers=head))) as url, pytest.raises(Unreachable):
        get(watchdog, url)


@pytest.mark.parametrize("url", ["http://u:s3cret@127.0.0.1:1/m", "http://127.0.0.1:1/m?token=s3cret", "http://127.0.0.1:1/m?x=1&auth=s3cret",
                                 "http://127.0.0.1:1/m?s3cret"])  # fmt: skip
def test_a_secret_in_the_url_is_not_in_the_message(watchdog: Watchdog, url: str) -> None:
    with pytest.raises(Unreachable, match="connection refused") as error:
        get(watchdog, url)
    assert "s3cret" not in str(error.value)


@pytest.mark.parametrize("url", ["ftp://x/", "http://[::1/m", "http://a b/", "http:///x", "http://127.0.0.1:99999/"])
def test_what_is_no_url_is_an_error_in_words(watchdog: Watchdog, url: str) -> None:
    with pytest.raises(ScrapeError, match="not a URL that can be asked"):
        get(watchdog, url)
