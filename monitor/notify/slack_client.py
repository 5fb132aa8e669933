"""Slack's Web API through slack_sdk, without redirects; its errors as ours. It knows no notices."""

from __future__ import annotations

import json
import logging
import urllib.request
from functools import partial
from http.client import HTTPConnection, HTTPException, HTTPMessage, HTTPResponse, HTTPSConnection
from ssl import SSLContext
from typing import IO, Any, cast

from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError, SlackClientError

from monitor.clock import Clock
from monitor.notify.faults import no_answer
from monitor.notify.slack_errors import slack_error
from monitor.watchdog import carry, within

#: What a request ends with that got no whole answer; urllib lets the client's own errors through (an answer that breaks
#: off, or is no HTTP).
NO_ANSWER = (SlackClientError, OSError, ValueError, HTTPException, RecursionError)
_TIMEOUT_SECONDS = 10
#: Longest answer that is read (bytes): the largest, 200 messages of a channel, stays far below.
_ANSWER_LIMIT = 8 * 1024**2

#: The SDK logs whole requests, with their texts, below warning.
sdk_log = logging.getLogger(f"{__name__}.sdk")
sdk_log.setLevel(logging.WARNING)


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A redirect stays the answer that it is: urllib would send the token after it, to whatever host it names."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> None:
        """Never."""


class _Connection(HTTPConnection):
    def connect(self) -> None:
        super().connect()
        carry(self.sock)


class _TlsConnection(HTTPSConnection):
    def connect(self) -> None:
        super().connect()
        carry(self.sock)


class _Http(urllib.request.HTTPHandler):
    """Connections that a deadline can cut."""

    def http_open(self, req: urllib.request.Request) -> HTTPResponse:
        """Over plain HTTP, which a stand-in or a relay near by speaks."""
        return self.do_open(_Connection, req)


class _Https(urllib.request.HTTPSHandler):
    """The same over TLS."""

    def __init__(self, context: SSLContext | None) -> None:
        super().__init__(context=context)
        self._connection = partial(_TlsConnection, context=context)

    def https_open(self, req: urllib.request.Request) -> HTTPResponse:
        """As Slack is asked."""
        return self.do_open(self._connection, req)


class DirectClient(WebClient):
    """slack_sdk's client on one host: neither a token nor a message goes where an answer points, and none takes long.

    The SDK has no setting for redirects (3.48), hence the method that sends is replaced; a test with a redirecting
    server fails where the SDK begins to send by another one.
    """

    def __init__(self, token: str | None, *, api_url: str) -> None:
        super().__init__(
            token=token, base_url=api_url.rstrip("/") + "/", timeout=_TIMEOUT_SECONDS, retry_handlers=[],
            logger=sdk_log,
        )  # fmt: skip

    def _perform_urllib_http_request_internal(self, url: str, req: urllib.request.Request) -> dict[str, Any]:
        if not url.lower().startswith(("http://", "https://")):
            raise ValueError("not an HTTP address")
        proxies = {"http": self.proxy, "https": self.proxy} if self.proxy else {}
        opener = urllib.request.build_opener(
            _NoRedirects, urllib.request.ProxyHandler(proxies), _Http, _Https(self.ssl)
        )
        with within(self.timeout) as exchange, opener.open(req, timeout=self.timeout) as answer:
            # JSON is UTF-8, whatever something on the way says of it.
            body = answer.read(_ANSWER_LIMIT).decode("utf-8", "replace")
            if exchange.expired:
                raise TimeoutError("no whole answer in time")
            if not _may_be_slacks(body):
                raise ValueError("JSON that is no answer of Slack")
            return {"status": answer.code, "headers": answer.headers, "body": body}


def _may_be_slacks(body: str) -> bool:
    """Whether it is an object, or no JSON at all, which the SDK has words for; it stumbles over a number or a list."""
    try:
        return isinstance(json.loads(body), dict)
    except ValueError:
        return True


def call(client: WebClient, clock: Clock, method: str, **arguments: Any) -> dict[str, Any]:
    """Slack's answer to a method of the client. Raises NotifyError; its text never carries the token."""
    try:
        answer = getattr(client, method)(**arguments)
    except SlackApiError as error:
        response = error.response
        data = response.data if isinstance(response.data, dict) else {}
        word = str(data.get("error", ""))
        raise slack_error(response.status_code, word, response.headers, clock.now()) from None
    except NO_ANSWER as error:
        raise no_answer("Slack", error) from None
    return cast(dict[str, Any], answer.data)
