"""One server's HTTP client: kept connections, total deadline, size limit, one redirect on the same origin.

The one table that maps errors of sockets, TLS and HTTP to ours lives here. Proxies and logins of the environment are
not looked at: they must not see what is meant for a server on this network.
"""

from __future__ import annotations

import base64
import json
import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from email.message import Message
from http.client import HTTPException, IncompleteRead
from urllib.parse import quote, unquote, urljoin, urlsplit

from monitor.errors import ScrapeError, ScrapeTimeout, TooLarge, Unreachable
from monitor.launch.redact import redact_text
from monitor.scrape.connection import BodyTooLarge, BrokeOff, Connection, Origin, Request
from monitor.scrape.watchdog import Exchange, Watchdog

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_PORTS = {"http": 80, "https": 443}
#: Characters of a path or query that are sent as they are (RFC 3986); what is quoted already stays so.
_SAFE = "/%?:@!$&'()*+,;=~-._[]"
#: Requests kept ready; a server is asked for less than ten different pages.
_MAX_KEPT = 32
#: The classic text format. OpenMetrics is not asked for: newer client libraries then rename `vllm:x` to `vllm_x`.
ACCEPT_PAGE = "text/plain;version=0.0.4;q=1,*/*;q=0.1"


@dataclass(frozen=True, slots=True)
class Credentials:
    """What a server wants to see; sent to its own origin only and never printed."""

    bearer_token: str | None = field(default=None, repr=False)
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    verify: bool = True


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole HTTP answer; the names of `headers` are looked up in any case."""

    status: int
    content_type: str
    body: bytes
    url: str
    headers: Message = field(default_factory=Message, compare=False, repr=False)


class ServerClient:
    """HTTP to one server. Safe to use from one thread at a time; a second caller waits."""

    def __init__(self, watchdog: Watchdog, credentials: Credentials | None = None, *, size_limit: int) -> None:
        self._watchdog = watchdog
        self._size_limit = size_limit
        self._known = credentials or Credentials()
        self._lock = threading.Lock()
        self._tls: ssl.SSLContext | None = None
        self._connections: dict[Origin, Connection] = {}
        self._gets: dict[tuple[str, str], tuple[Origin, Request]] = {}

    def get(self, url: str, *, deadline_seconds: float, accept: str = "*/*") -> Answer:
        """The whole answer to GET `url`, whatever its status.

        One redirect is followed, to the same scheme, host and port only. Raises Unreachable, ScrapeTimeout, TooLarge
        or ScrapeError; each names the URL (without a password or token in it) and what happened.
        """
        return self._exchange(url, deadline_seconds, lambda where: self._get(where, accept))

    def post_json(self, url: str, body: object, *, deadline_seconds: float) -> Answer:
        """The whole answer to POST `url` with a JSON body; errors as `get`."""
        packed = json.dumps(body, allow_nan=False).encode()
        return self._exchange(url, deadline_seconds, lambda where: self._request("POST", where, body=packed))

    def close(self) -> None:
        """Close the kept connections."""
        with self._lock:
            for connection in self._connections.values():
                connection.close()

    def _get(self, url: str, accept: str) -> tuple[Origin, Request]:
        """The same few pages are asked for again and again: their requests are made once."""
        known = self._gets.get((url, accept))
        if known is None:
            if len(self._gets) >= _MAX_KEPT:
                self._gets.clear()
            known = self._gets[url, accept] = self._request("GET", url, accept=accept)
        return known

    def _request(
        self, method: str, url: str, *, accept: str = "*/*", body: bytes | None = None
    ) -> tuple[Origin, Request]:
        origin, target, login = parse_url(url)
        headers: dict[str, str | bytes] = {"User-Agent": "acceptd", "Accept": accept}
        if body is not None:
            headers["Content-Type"] = "application/json"
        authorization = _authorization(self._known, login)
        if authorization is not None:
            headers["Authorization"] = authorization
        return origin, Request(method, target, headers, body)

    def _exchange(self, url: str, seconds: float, make: Callable[[str], tuple[Origin, Request]]) -> Answer:
        with self._lock, self._watchdog.limit(seconds) as exchange:
            try:
                answer = self._once(url, *make(url), seconds, exchange)
                if answer.status in _REDIRECTS and "Location" in answer.headers:
                    target = _redirect(answer)
                    answer = self._once(target, *make(target), seconds, exchange)
                    if answer.status in _REDIRECTS:
                        raise ScrapeError(f"{redact_text(url)}: redirects twice, which is not followed")
            except ScrapeError:
                raise
            except BodyTooLarge as error:
                raise TooLarge(f"{redact_text(url)}: more than {self._size_limit} bytes") from error
            except (OSError, HTTPException, BrokeOff, ValueError) as error:
                raise _ours(redact_text(url), seconds, exchange, error) from error
            if exchange.expired:
                raise ScrapeTimeout(_late(redact_text(url), seconds))
            return answer

    def _once(self, url: str, origin: Origin, request: Request, seconds: float, exchange: Exchange) -> Answer:
        connection = self._connections.get(origin)
        if connection is None:
            connection = self._connections[origin] = Connection(origin, self._context(origin))
        got = connection.exchange(request, seconds=seconds, limit=self._size_limit, carry=exchange.carry)
        return Answer(got.status, got.headers.get("Content-Type", ""), got.body, url, got.headers)

    def _context(self, origin: Origin) -> ssl.SSLContext | None:
        """TLS as the credentials have it, made when it is first needed: it reads files."""
        if origin.scheme == "https" and self._tls is None:
            known = self._known
            self._tls = ssl.create_default_context(cafile=known.ca_file)
            if not known.verify:
                self._tls.check_hostname = False
                self._tls.verify_mode = ssl.CERT_NONE
            if known.cert_file:
                self._tls.load_cert_chain(known.cert_file, known.key_file)
        return self._tls


def parse_url(url: str) -> tuple[Origin, str, str | None]:
    """Origin, path with query, and the login in it (`user:password`, None without one).

    Raises:
        ScrapeError: it is no http or https URL with a host.
    """
    try:
        parts = urlsplit(url)
        port = parts.port or _PORTS[parts.scheme]
        host = (parts.hostname or "").encode("idna").decode()
    except (ValueError, KeyError):
        raise ScrapeError(f"{redact_text(url)}: not a URL that can be asked") from None
    if not host or any(char.isspace() for char in host):
        raise ScrapeError(f"{redact_text(url)}: not a URL that can be asked")
    target = quote(parts.path or "/", safe=_SAFE) + (f"?{quote(parts.query, safe=_SAFE)}" if parts.query else "")
    login = None if parts.username is None else f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return Origin(parts.scheme, host, port), target, login


def _authorization(known: Credentials, login: str | None) -> bytes | None:
    """The header's value, in UTF-8 (RFC 7617)."""
    if known.bearer_token:
        return f"Bearer {known.bearer_token.strip()}".encode()
    if known.username:
        login = f"{known.username}:{known.password or ''}"
    return None if login is None else b"Basic " + base64.b64encode(login.encode())


def _redirect(answer: Answer) -> str:
    """Where a redirect goes, if it stays on its origin: credentials are never sent elsewhere."""
    target, shown = urljoin(answer.url, answer.headers.get("Location", "")), redact_text(answer.url)
    if parse_url(target)[0] != parse_url(answer.url)[0]:
        parts = urlsplit(target)
        where = f"{parts.scheme}://{parts.hostname}{parts.path}"
        raise ScrapeError(f"{shown}: redirects to another origin ({where}), which is not followed")
    return target


def _late(url: str, seconds: float) -> str:
    return f"{url}: no whole answer within {seconds:g} s"


def _ours(url: str, seconds: float, exchange: Exchange, error: Exception) -> ScrapeError:
    """The one table from errors of sockets, TLS and HTTP to ours; `url` is shown as it is."""
    if exchange.expired or isinstance(error, TimeoutError):
        return ScrapeTimeout(_late(url, seconds))
    if isinstance(error, ssl.SSLError):
        return Unreachable(f"{url}: TLS failed ({error.strerror or error})")
    if isinstance(error, ConnectionRefusedError):
        return Unreachable(f"{url}: connection refused")
    if isinstance(error, ConnectionResetError | BrokenPipeError):
        return Unreachable(f"{url}: connection reset")
    if isinstance(error, BrokeOff | IncompleteRead):
        return Unreachable(f"{url}: the answer broke off ({error})")
    if isinstance(error, HTTPException):
        return Unreachable(f"{url}: the answer is not HTTP ({str(error)[:100] or type(error).__name__})")
    if isinstance(error, OSError):
        return Unreachable(f"{url}: {error.strerror or error}")
    # http.client shows the value of a header that it refuses, so nothing of the error may be said.
    return ScrapeError(f"{url}: the credentials have a line break or another character that no header takes")
