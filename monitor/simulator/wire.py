"""HTTP/1.1 as far as a simulated server speaks it: requests in, answers out. It owns bytes, not endpoints."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from http import HTTPStatus

_MAX_HEAD_BYTES = 64 * 1024
_MAX_BODY_BYTES = 8 * 1024 * 1024


class BadRequest(Exception):
    """The bytes are no request that this server takes; it answers 400 and hangs up."""


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """One request; header names are lower case, `path` is without its query, `peer` the caller's address."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    peer: str

    def json(self) -> object:
        """The body as JSON.

        Raises:
            BadRequest: it is none.
        """
        try:
            return json.loads(self.body)
        except ValueError as error:
            raise BadRequest(f"the body is not JSON: {error}") from error


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """One answer: a body, or pieces that come one after the other.

    `length` overrides the declared length, to lie about it; pieces without it are sent chunked. `hangs`: no byte is
    ever sent. `closes`: the connection ends with this answer.
    """

    status: int = 200
    body: bytes = b""
    content_type: str = "application/json"
    pieces: AsyncGenerator[bytes, None] | None = None
    length: int | None = None
    hangs: bool = False
    closes: bool = False


def json_answer(value: object, status: int = 200) -> HttpAnswer:
    """An answer with this value as JSON."""
    return HttpAnswer(status, json.dumps(value).encode())


async def read_request(reader: asyncio.StreamReader, peer: str) -> HttpRequest | None:
    """The next request of a connection, `None` where the caller hung up.

    Raises:
        BadRequest: malformed, too long, or a body without a declared length.
    """
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    except asyncio.LimitOverrunError as error:
        raise BadRequest(f"more than {_MAX_HEAD_BYTES} bytes of headers") from error
    first, *lines = head.decode("latin-1").split("\r\n")[:-2]
    method, _, rest = first.partition(" ")
    target, _, version = rest.partition(" ")
    if not version.startswith("HTTP/1."):
        raise BadRequest(f"not a request line: {first[:80]!r}")
    headers = {}
    for line in lines:
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()
    if "transfer-encoding" in headers:
        raise BadRequest("a body without Content-Length is not taken")
    length = headers.get("content-length", "0")
    if not length.isdecimal() or int(length) > _MAX_BODY_BYTES:
        raise BadRequest(f"Content-Length {length[:20]!r}: expected at most {_MAX_BODY_BYTES}")
    try:
        body = await reader.readexactly(int(length))
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    return HttpRequest(method, target.partition("?")[0], headers, body, peer)


async def write_answer(writer: asyncio.StreamWriter, answer: HttpAnswer) -> int:
    """Send an answer; the bytes of its body that were sent.

    Raises:
        ConnectionError: the caller hung up.
    """
    is_chunked = answer.pieces is not None and answer.length is None
    declared = len(answer.body) if answer.length is None else answer.length
    framing = "transfer-encoding: chunked" if is_chunked else f"content-length: {declared}"
    connection = "connection: close\r\n" if answer.closes else ""
    writer.write(
        f"HTTP/1.1 {answer.status} {_phrase(answer.status)}\r\nserver: uvicorn\r\n"
        f"content-type: {answer.content_type}\r\n{connection}{framing}\r\n\r\n".encode("latin-1")
    )
    if answer.pieces is None:
        writer.write(answer.body)
        await writer.drain()
        return len(answer.body)
    sent = 0
    async with aclosing(answer.pieces) as pieces:  # whoever makes them learns at once that the caller hung up
        async for piece in pieces:
            writer.write(b"%x\r\n%b\r\n" % (len(piece), piece) if is_chunked else piece)
            sent += len(piece)
            await writer.drain()
    if is_chunked:
        writer.write(b"0\r\n\r\n")
        await writer.drain()
    return sent


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Status"
