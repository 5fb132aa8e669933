"""One HTTP exchange with a receiver: bounded in time and size, with the proxy of the environment, never its `.netrc`.

A host that tells people often reaches the world through its company's proxy alone. A `.netrc` is somebody's own, and
`requests` would put its login in place of the Authorization that is configured here.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from dataclasses import dataclass

import requests
import urllib3
from requests.utils import get_environ_proxies

from monitor.watchdog import WatchedAdapter, within

#: Longest exchange, from connecting to the end of the answer (seconds).
TIMEOUT_SECONDS = 10.0
#: Most of an answer that is read (bytes): what receivers say is a line, or a page of something on the way.
ANSWER_LIMIT = 64 * 1024
#: What an exchange ends with that got no answer.
NO_ANSWER = (requests.RequestException, urllib3.exceptions.HTTPError, OSError, ValueError)


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer. `text` is its body up to `ANSWER_LIMIT`, empty where that did not come; header names in any case."""

    status: int
    headers: Mapping[str, str]
    text: str


def ask(
    method: str, url: str, *, headers: Mapping[str, str] | None = None, data: bytes | None = None, json: object = None,
    auth: tuple[str, str] | None = None, ca_file: str | None = None, timeout_seconds: float = TIMEOUT_SECONDS,
) -> Reply:
    """Ask once, over a connection of its own; a redirect is an answer like any other. Raises what NO_ANSWER lists."""
    # Not asked for compression: a little of it may unpack to much.
    given = {"User-Agent": "acceptd", "Accept-Encoding": "identity", **(headers or {})}
    # As UTF-8 (RFC 7617); requests would take Latin-1 and fail on everything beyond.
    login = (auth[0].encode(), auth[1].encode()) if auth else None
    # Without a session, which alone looks into a `.netrc`.
    request = requests.Request(method, url, headers=given, data=data, json=json, auth=login).prepare()
    with contextlib.closing(WatchedAdapter()) as adapter, within(timeout_seconds) as exchange:
        try:
            answer = adapter.send(
                request, stream=True, timeout=timeout_seconds, verify=ca_file or _ca_of_environment() or True,
                proxies=get_environ_proxies(url),
            )
        except NO_ANSWER as error:
            if exchange.expired:
                raise requests.ReadTimeout("no answer in time") from error
            raise
        with answer:
            if exchange.expired:
                raise requests.ReadTimeout("no whole head of an answer in time")
            text = _text(answer.raw)
            # Half a word must not be taken for one.
            return Reply(answer.status_code, answer.headers, "" if exchange.expired else text)


def _ca_of_environment() -> str | None:
    """What requests takes from the environment where nothing is configured."""
    return os.environ.get("REQUESTS_CA_BUNDLE") or os.environ.get("CURL_CA_BUNDLE")


def _text(raw: urllib3.HTTPResponse) -> str:
    """The status says whether a message was taken, also where the body breaks off or never ends."""
    body = b""
    with contextlib.suppress(urllib3.exceptions.HTTPError, OSError, ValueError):
        body = raw.read(ANSWER_LIMIT, decode_content=False)
    return body.decode(errors="replace")
