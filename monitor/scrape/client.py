"""One server's HTTP client: pooled session, total deadline, size limit, one redirect on the same origin.

The one table that maps errors of `requests` to ours lives here.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urljoin, urlsplit

import requests
import urllib3

from monitor.errors import ScrapeError, ScrapeTimeout, TooLarge, Unreachable
from monitor.launch.redact import redact_text
from monitor.scrape.watchdog import Exchange, Watchdog, WatchedAdapter

_CHUNK = 65536
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

    def __init__(self, watchdog: Watchdog, credentials: Credentials | None = None, *, size_limit: int) -> None:
        self._watchdog = watchdog
        self._size_limit = size_limit
        self._lock = threading.Lock()
        known = credentials or Credentials()
        self._session = requests.Session()
        # A proxy or .netrc of the environment must not see what is meant for a server on this network.
        self._session.trust_env = False
        adapter = WatchedAdapter(pool_connections=1, pool_maxsize=2)
        self._session.mount("http://", adapter)
        self._session.mount("https://", adapter)
        self._session.headers["User-Agent"] = "acceptd"
        self._session.verify = known.ca_file or known.verify
        if not self._session.verify:
            # The operator has said so in the configuration; a warning with every scrape says nothing new.
            urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
        if known.cert_file:
            self._session.cert = (known.cert_file, known.key_file) if known.key_file else known.cert_file
        self._auth: Any = None
        if known.bearer_token:
            self._session.headers["Authorization"] = f"Bearer {known.bearer_token.strip()}".encode()
        elif known.username:
            # As UTF-8 (RFC 7617); requests would take Latin-1 and fail on everything beyond.
            self._auth = (known.username.encode(), (known.password or "").encode())

    def get(self, url: str, *, deadline_seconds: float, accept: str = "*/*") -> Answer:
        """The whole answer to GET `url`, whatever its status.

        One redirect is followed, to the same scheme, host and port only. Raises Unreachable, ScrapeTimeout, TooLarge
        or ScrapeError; each names the URL (without a password or token in it) and what happened.
        """
        return self._exchange("GET", url, deadline_seconds, headers={"Accept": accept})

    def post_json(self, url: str, body: object, *, deadline_seconds: float) -> Answer:
        """The whole answer to POST `url` with a JSON body; errors as `get`."""
        return self._exchange("POST", url, deadline_seconds, json=body)

    def close(self) -> None:
        """Close the pooled connections."""
        self._session.close()

    def _exchange(self, method: str, url: str, seconds: float, **kwargs: Any) -> Answer:
        with self._lock, self._watchdog.limit(seconds) as exchange:
            try:
                answer = self._once(method, url, seconds, kwargs)
                if answer.status in (301, 302, 303, 307, 308):
                    answer = self._follow(method, url, answer, seconds, kwargs)
            except ScrapeError:
                if exchange.expired:
                    raise ScrapeTimeout(_late(url, seconds)) from None
                raise
            except (requests.RequestException, urllib3.exceptions.HTTPError, OSError, ValueError) as error:
                raise _ours(redact_text(url), seconds, exchange, error) from error
            if exchange.expired:
                raise ScrapeTimeout(_late(url, seconds))
            return answer

    def _once(self, method: str, url: str, seconds: float, kwargs: dict[str, Any]) -> Answer:
        with self._session.request(
            method, url, timeout=(seconds, seconds), allow_redirects=False, stream=True, auth=self._auth, **kwargs
        ) as response:
            parts, size = [], 0
            for chunk in response.iter_content(_CHUNK):
                parts.append(chunk)
                size += len(chunk)
                if size > self._size_limit:
                    raise TooLarge(f"{redact_text(url)}: more than {self._size_limit} bytes")
            location = response.headers.get("Location", "")
            content_type = response.headers.get("Content-Type", "")
            body = location.encode() if response.is_redirect else b"".join(parts)
            return Answer(response.status_code, content_type, body, url, response.headers)

    def _follow(self, method: str, url: str, answer: Answer, seconds: float, kwargs: dict[str, Any]) -> Answer:
        target, shown = urljoin(url, answer.body.decode("latin-1")), redact_text(url)
        if _origin(target) != _origin(url):
            raise ScrapeError(f"{shown}: redirects to another origin ({_bare(target)}), which is not followed")
        second = self._once(method, target, seconds, kwargs)
        if second.status in (301, 302, 303, 307, 308):
            raise ScrapeError(f"{shown}: redirects twice (to {_bare(target)} and on), which is not followed")
        return second


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)


def _bare(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname}{parts.path}"


def _late(url: str, seconds: float) -> str:
    return f"{redact_text(url)}: no whole answer within {seconds:g} s"


def _ours(url: str, seconds: float, exchange: Exchange, error: Exception) -> ScrapeError:
    """The one table from errors of requests and urllib3 to ours; `url` is shown as it is."""
    if exchange.expired or isinstance(error, requests.Timeout):
        return ScrapeTimeout(_late(url, seconds))
    if isinstance(error, requests.exceptions.InvalidHeader):
        return ScrapeError(f"{url}: the credentials have a line break or another character that no header takes")
    if isinstance(error, requests.exceptions.InvalidURL | requests.exceptions.InvalidSchema):
        return ScrapeError(f"{url}: not a URL that can be asked")
    if isinstance(error, requests.exceptions.SSLError):
        return Unreachable(f"{url}: TLS failed ({_cause(error)})")
    if isinstance(error, requests.exceptions.ChunkedEncodingError | requests.exceptions.ContentDecodingError):
        return Unreachable(f"{url}: the answer broke off ({_cause(error)})")
    if isinstance(error, requests.ConnectionError):
        return Unreachable(f"{url}: {_cause(error)}")
    return ScrapeError(f"{url}: {_cause(error)}")


def _cause(error: BaseException) -> str:
    """The innermost reason in words, without the object addresses that urllib3 puts in its texts."""
    inner: BaseException | None = error
    while inner is not None:
        if isinstance(inner, ConnectionRefusedError):
            return "connection refused"
        if isinstance(inner, ConnectionResetError | BrokenPipeError):
            return "connection reset"
        reason = getattr(inner, "reason", None)
        following = reason if isinstance(reason, BaseException) else inner.__cause__ or inner.__context__
        args = [a for a in inner.args if isinstance(a, BaseException)]
        following = following or (args[0] if args else None)
        if following is None or following is inner:
            break
        inner = following
    text = getattr(inner, "strerror", None) or str(inner)
    return str(text)[:200] or type(error).__name__
