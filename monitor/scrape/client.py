"""One server's HTTP client: pooled connections, total deadline, size limit, one redirect on the same origin.

The one table that maps errors of `requests` to ours lives here.
"""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urljoin, urlsplit

import requests
import urllib3

from monitor.errors import NotAsked, ScrapeError, ScrapeTimeout, TooLarge, Unreachable
from monitor.launch.redact import redact_url
from monitor.watchdog import Exchange, Watchdog, WatchedAdapter

_CHUNK = 65536
#: What the kernel says when this process, not the server, is at its end, and what to do.
_OWN_LIMITS = {
    errno.EMFILE: "this process has too many files open: raise LimitNOFILE",
    errno.ENFILE: "this host has too many files open: raise fs.file-max",
    errno.ENOMEM: "this host is out of memory",
    errno.ENOBUFS: "this host is out of memory for connections",
}
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
#: Requests kept ready; a server is asked for less than ten different pages.
_MAX_PREPARED = 32
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
    headers: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)


class ServerClient:
    """HTTP to one server. Safe to use from one thread at a time; a second caller waits."""

    def __init__(
        self, watchdog: Watchdog, credentials: Credentials | None = None, *, size_limit: int,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self._watchdog = watchdog
        self._size_limit = size_limit
        self._lock = threading.Lock()
        known = credentials or Credentials()
        #: Made for the first request: of a server's clients most ask nothing for days, and one takes 12 kB.
        self._adapter: WatchedAdapter | None = None
        self._verify = known.ca_file or known.verify
        if not self._verify:
            # The operator has said so in the configuration; a warning with every scrape says nothing new.
            urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
        self._cert = (known.cert_file, known.key_file) if known.cert_file and known.key_file else known.cert_file
        # Not asked for compression: a page is small beside a GPU's network, and packing it costs the server more.
        self._headers: dict[str, str | bytes] = {"User-Agent": "acceptd", "Accept-Encoding": "identity"}
        self._headers.update(headers or {})
        self._auth: Any = None
        if known.bearer_token:
            self._headers["Authorization"] = f"Bearer {known.bearer_token.strip()}".encode()
        elif known.username:
            # As UTF-8 (RFC 7617); requests would take Latin-1 and fail on everything beyond.
            self._auth = (known.username.encode(), (known.password or "").encode())
        self._prepared: dict[tuple[str, str], requests.PreparedRequest] = {}

    def get(self, url: str, *, deadline_seconds: float, accept: str = "*/*") -> Answer:
        """The whole answer to GET `url`, whatever its status.

        One redirect is followed, to the same scheme, host and port only. Raises Unreachable, ScrapeTimeout, TooLarge,
        NotAsked or ScrapeError; each names the URL (without a password or token in it) and what happened.
        """
        return self._exchange(url, deadline_seconds, lambda where: self._get(where, accept))

    def post_json(self, url: str, body: object, *, deadline_seconds: float) -> Answer:
        """The whole answer to POST `url` with a JSON body; errors as `get`."""
        return self._exchange(url, deadline_seconds, lambda where: self._prepare("POST", where, json=body))

    def post_form(self, url: str, form: Mapping[str, str], *, deadline_seconds: float) -> Answer:
        """The whole answer to POST `url` with a form: a query too long for a URL; errors as `get`."""
        return self._exchange(url, deadline_seconds, lambda where: self._prepare("POST", where, form=form))

    def close(self) -> None:
        """Close the connections that nothing goes over; the next request opens one anew."""
        adapter, self._adapter, self._prepared = self._adapter, None, {}
        if adapter is not None:
            adapter.close()

    def _get(self, url: str, accept: str) -> requests.PreparedRequest:
        """The same few pages are asked for again and again: making their requests once is half of what asking costs."""
        known = self._prepared.get((url, accept))
        if known is None:
            if len(self._prepared) >= _MAX_PREPARED:
                self._prepared.clear()
            known = self._prepared[url, accept] = self._prepare("GET", url, accept=accept)
        return known

    def _prepare(
        self, method: str, url: str, *, accept: str = "*/*", json: object = None, form: Mapping[str, str] | None = None
    ) -> requests.PreparedRequest:
        headers = {**self._headers, "Accept": accept}
        return requests.Request(method, url, headers=headers, auth=self._auth, json=json, data=form).prepare()

    def _exchange(self, url: str, seconds: float, request: Callable[[str], requests.PreparedRequest]) -> Answer:
        with self._lock, self._watchdog.limit(seconds) as exchange:
            try:
                answer = self._once(request(url), seconds, exchange)
                if answer.status in _REDIRECTS and "Location" in answer.headers:
                    answer = self._once(request(_redirect(answer)), seconds, exchange)
                    if answer.status in _REDIRECTS:
                        raise ScrapeError(f"{redact_url(url)}: redirects twice, which is not followed")
            except ScrapeError:
                if exchange.expired:
                    raise ScrapeTimeout(_late(url, seconds)) from None
                raise
            except (requests.RequestException, urllib3.exceptions.HTTPError, OSError, ValueError) as error:
                raise _ours(redact_url(url), seconds, exchange, error) from error
            if exchange.expired:
                raise ScrapeTimeout(_late(url, seconds))
            return answer

    def _once(self, request: requests.PreparedRequest, seconds: float, exchange: Exchange) -> Answer:
        url = request.url or ""
        try:
            response = self._send(request, seconds)
        except requests.ConnectionError as error:
            if request.method != "GET" or exchange.expired or not _was_dropped(error):
                raise
            # Most likely a connection kept from the last scrape that the server closed at this moment.
            response = self._send(request, seconds)
        try:
            body = self._read(response.raw, url)
        finally:
            response.raw.release_conn()
        headers = response.headers
        return Answer(response.status_code, headers.get("Content-Type", ""), body, url, headers)

    def _send(self, request: requests.PreparedRequest, seconds: float) -> requests.Response:
        adapter = self._adapter
        if adapter is None:
            # The adapter alone, without a session around it: no proxy or .netrc of the environment sees what is meant
            # for a server on this network, no cookie is kept, and a scrape costs half.
            adapter = self._adapter = WatchedAdapter(pool_connections=1, pool_maxsize=2)
        return adapter.send(request, stream=True, timeout=(seconds, seconds), verify=self._verify, cert=self._cert)

    def _read(self, raw: urllib3.HTTPResponse, url: str) -> bytes:
        """The body, unpacked. One read where it is as it comes; small ones where little may unpack to much."""
        limit = self._size_limit
        at_once = _CHUNK if "Content-Encoding" in raw.headers else limit + 1
        parts, size = [], 0
        # To the empty read, which is where a body that broke off is noticed.
        while size <= limit and (part := raw.read(at_once, decode_content=True)):
            parts.append(part)
            size += len(part)
        body = b"".join(parts)
        if size > limit:
            raw.close()
            raise TooLarge(f"{redact_url(url)}: more than {limit} bytes")
        return body


def _redirect(answer: Answer) -> str:
    """Where a redirect goes, if it stays on its origin: credentials are never sent elsewhere."""
    target, shown = urljoin(answer.url, answer.headers.get("Location", "")), redact_url(answer.url)
    if _origin(target) != _origin(answer.url):
        raise ScrapeError(f"{shown}: redirects to another origin ({_bare(target)}), which is not followed")
    return target


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)


def _bare(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname}{parts.path}"


def _was_dropped(error: BaseException) -> bool:
    """Whether the connection ended before a byte of the answer."""
    inner: BaseException | None = error
    while inner is not None and not isinstance(inner, ConnectionResetError | BrokenPipeError):
        inner = next((a for a in inner.args if isinstance(a, BaseException)), None)
    return inner is not None  # http.client.RemoteDisconnected is a ConnectionResetError


def _late(url: str, seconds: float) -> str:
    return f"{redact_url(url)}: no whole answer within {seconds:g} s"


def _ours(url: str, seconds: float, exchange: Exchange, error: Exception) -> ScrapeError:
    """The one table from errors of requests and urllib3 to ours; `url` is shown as it is."""
    codes = [one.errno for one in _chain(error) if isinstance(one, OSError)]
    own = next((_OWN_LIMITS[code] for code in codes if code in _OWN_LIMITS), None)
    if own is not None:
        return NotAsked(f"{url}: not asked, {own}")
    if exchange.expired or isinstance(error, requests.Timeout | urllib3.exceptions.TimeoutError):
        return ScrapeTimeout(_late(url, seconds))
    if isinstance(error, requests.exceptions.InvalidHeader):
        return ScrapeError(f"{url}: the credentials have a line break or another character that no header takes")
    if isinstance(error, requests.exceptions.InvalidURL | requests.exceptions.InvalidSchema):
        return ScrapeError(f"{url}: not a URL that can be asked")
    if isinstance(error, requests.exceptions.SSLError | urllib3.exceptions.SSLError):
        return Unreachable(f"{url}: TLS failed ({_cause(error)})")
    if isinstance(error, urllib3.exceptions.ProtocolError | urllib3.exceptions.DecodeError):
        return Unreachable(f"{url}: the answer broke off ({_cause(error)})")
    if isinstance(error, requests.ConnectionError):
        return Unreachable(f"{url}: {_cause(error)}")
    return ScrapeError(f"{url}: {_cause(error)}")


def _cause(error: BaseException) -> str:
    """The innermost reason in words, without the object addresses that urllib3 puts in its texts."""
    inner = error
    for inner in _chain(error):
        if isinstance(inner, ConnectionRefusedError):
            return "connection refused"
        if isinstance(inner, ConnectionResetError | BrokenPipeError):
            return "connection reset"
    text = getattr(inner, "strerror", None) or str(inner)
    # A broken status line is repeated as the server sent it.
    shown = "".join(one if one.isprintable() else "?" for one in str(text)[:200])
    return shown or type(error).__name__


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The error and what it came from, the innermost last."""
    inner: BaseException | None = error
    seen: set[int] = set()
    while inner is not None and id(inner) not in seen:
        seen.add(id(inner))
        yield inner
        reason = getattr(inner, "reason", None)
        following = reason if isinstance(reason, BaseException) else inner.__cause__ or inner.__context__
        args = [a for a in inner.args if isinstance(a, BaseException)]
        inner = following or (args[0] if args else None)
