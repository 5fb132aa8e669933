from __future__ import annotations

import asyncio

import pytest

from monitor.simulator.wire import BadRequest, HttpRequest, read_request


def read(*requests: bytes, limit: int = 2**16) -> list[HttpRequest | None]:
    async def run() -> list[HttpRequest | None]:
        reader = asyncio.StreamReader(limit=limit)
        reader.feed_data(b"".join(requests))
        reader.feed_eof()
        found: list[HttpRequest | None] = []
        while True:
            found.append(await read_request(reader, "127.0.0.1"))
            if found[-1] is None:
                return found

    return asyncio.run(run())


def test_requests_of_one_connection_follow_each_other() -> None:
    get = b"GET /metrics?x=1 HTTP/1.1\r\nHost: a\r\nAccept: */*\r\n\r\n"
    post = b'POST /v1/completions HTTP/1.1\r\ncontent-LENGTH:  8\r\n\r\n{"a": 1}'
    first, second, end = read(get, post)
    assert first is not None and (first.method, first.path, first.headers["accept"]) == ("GET", "/metrics", "*/*")
    assert second is not None and second.json() == {"a": 1} and end is None


@pytest.mark.parametrize(
    ("request_bytes", "named"),
    [
        (b"hello\r\n\r\n", "not a request line"),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", "Content-Length"),
        (b"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", "-1"),
        (b"POST / HTTP/1.1\r\nContent-Length: 999999999\r\n\r\n", "999999999"),
        (b"GET / HTTP/1.1\r\n" + b"x: y\r\n" * 20_000, "headers"),
    ],
)
def test_what_is_no_request_is_refused(request_bytes: bytes, named: str) -> None:
    with pytest.raises(BadRequest) as caught:
        read(request_bytes)
    assert named in str(caught.value)


def test_a_caller_who_hangs_up_in_mid_request_is_gone() -> None:
    assert read(b"GET / HTTP/1.1\r\nHo") == [None]
    assert read(b"POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\nabc") == [None]


def test_a_body_that_is_not_json_is_a_bad_request() -> None:
    (request, _end) = read(b"POST / HTTP/1.1\r\nContent-Length: 1\r\n\r\n{")
    assert request is not None
    with pytest.raises(BadRequest, match="not JSON"):
        request.json()
