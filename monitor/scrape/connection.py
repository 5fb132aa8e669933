"""A connection to one origin that is kept from scrape to scrape: a request goes out, a whole answer comes in.

It owns sockets, TLS and unpacking, on `http.client`; what errors and answers mean is not its matter. Why it is not
`requests`: docs/adr/0009-scrapes-on-http-client.md.
"""

from __future__ import annotations

import http.client
import select
import socket
import ssl
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from email.message import Message

#: What a body may be packed as though nobody asked for it, and how zlib is told (zlib.h: 16 is gzip's header).
_UNPACK = {"gzip": 16 + zlib.MAX_WBITS, "x-gzip": 16 + zlib.MAX_WBITS, "deflate": zlib.MAX_WBITS}

Carry = Callable[[socket.socket], None]


class BodyTooLarge(Exception):
    """The body, or what it unpacks to, is longer than was allowed."""


class BrokeOff(Exception):
    """The connection ended, or the packed body did, before the answer was whole."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a server is: scheme, host and port."""

    scheme: str
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class Request:
    """One request; `target` is path and query. Headers are sent as they are."""

    method: str
    target: str
    headers: Mapping[str, str | bytes] = field(default_factory=dict)
    body: bytes | None = None


@dataclass(frozen=True, slots=True)
class Response:
    """A whole answer, unpacked."""

    status: int
    headers: Message
    body: bytes


class Connection:
    """One connection to `origin`, opened when first needed. For one thread at a time."""

    def __init__(self, origin: Origin, tls: ssl.SSLContext | None) -> None:
        self._tls = tls if origin.scheme == "https" else None
        self._host = origin.host
        self._http = http.client.HTTPConnection(origin.host, origin.port)

    def exchange(self, request: Request, *, seconds: float, limit: int, carry: Carry) -> Response:
        """Send and receive. `seconds` bounds each wait; `carry` is told the socket, so that someone can cut it.

        A GET is sent again, once, where a kept connection ends before a byte of its answer: the server closed it in the
        same moment. Raises OSError, http.client.HTTPException, BodyTooLarge (over `limit` bytes) or BrokeOff.
        """
        is_kept = self._open(seconds, carry)
        try:
            try:
                return self._exchange(request, limit)
            except (ConnectionResetError, BrokenPipeError):
                if not is_kept or request.method != "GET":
                    raise
                self.close()
                self._open(seconds, carry)
                return self._exchange(request, limit)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the connection; the next exchange opens another."""
        self._http.close()

    def _open(self, seconds: float, carry: Carry) -> bool:
        """Make sure that there is a connection; whether it was there before."""
        self._http.timeout = seconds
        kept = self._http.sock
        if kept is not None:
            if not _is_readable(kept):
                kept.settimeout(seconds)
                carry(kept)
                return True
            self.close()  # readable without a question asked: its end, or nonsense
        self._http.connect()
        plain = self._http.sock
        assert plain is not None
        if self._tls is None:
            carry(plain)
            return False
        try:
            # Not shaking hands yet: the socket that can be cut is the wrapped one.
            wrapped = self._tls.wrap_socket(plain, server_hostname=self._host, do_handshake_on_connect=False)
        except BaseException:
            plain.close()
            raise
        self._http.sock = wrapped
        carry(wrapped)
        try:
            wrapped.do_handshake()
        except BaseException:
            self.close()
            raise
        return False

    def _exchange(self, request: Request, limit: int) -> Response:
        self._http.request(request.method, request.target, body=request.body, headers=request.headers)
        response = self._http.getresponse()
        body = _read(response, limit)
        packed = response.headers.get("Content-Encoding", "identity").strip().lower()
        if packed not in ("identity", ""):
            body = _unpack(body, packed, limit)
        return Response(response.status, response.headers, body)


def _is_readable(sock: socket.socket) -> bool:
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    return bool(poll.poll(0))


def _read(response: http.client.HTTPResponse, limit: int) -> bytes:
    parts, size = [], 0
    while size <= limit and (part := response.read(limit + 1 - size)):
        parts.append(part)
        size += len(part)
    if size > limit:
        raise BodyTooLarge
    if response.length:  # http.client takes an early end for the end
        raise BrokeOff(f"{response.length} bytes are missing")
    return b"".join(parts)


def _unpack(body: bytes, packed: str, limit: int) -> bytes:
    """Unpack, but never to more than `limit` bytes, however little unpacks to however much."""
    if packed not in _UNPACK:
        raise BrokeOff(f"packed as {packed[:20]}, which was not asked for")
    unpacker = zlib.decompressobj(_UNPACK[packed])
    try:
        plain = unpacker.decompress(body, limit + 1)
    except zlib.error as error:
        raise BrokeOff(f"not what its encoding {packed} says ({error})") from error
    if len(plain) > limit:
        raise BodyTooLarge
    if not unpacker.eof:
        raise BrokeOff(f"its {packed} data end too early")
    return plain
