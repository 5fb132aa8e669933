"""A webhook of the user's own: each notice as signed JSON, by the Standard Webhooks specification.

https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md: whoever receives it checks
the signature with one of its libraries, and knows by `webhook-id` what it has had already.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
from typing import Any
from urllib.parse import urlsplit

from monitor.clock import Clock
from monitor.errors import NotifyError
from monitor.model.notice import Notice
from monitor.notify.exchange import NO_ANSWER, ask
from monitor.notify.faults import no_answer
from monitor.notify.receiver import FIRST, Attempt, Root
from monitor.notify.slack_errors import retry_after

_PREFIX = "whsec_"
#: Shortest key of a signature (bytes): the specification asks for 24 to 64; 16 is what HMAC-SHA256 needs at the least.
_SHORTEST_KEY = 16
#: Answers that pass by themselves beside 5xx: request timeout, too early, too many requests.
_PASSING = frozenset({408, 425, 429})


def address(url: str) -> str:
    """An address that can be posted to. Raises ValueError for any other; its text does not repeat it."""
    try:
        parts = urlsplit(url)
        is_fit = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        is_fit = False
    if not is_fit:
        raise ValueError("a URL that begins with http:// or https:// and names a host")
    return url


def signing_key(secret: str) -> bytes:
    """The key in a secret: base64 after `whsec_`, else the text itself. Raises ValueError where it is too short."""
    try:
        encoded = secret.removeprefix(_PREFIX)
        key = base64.b64decode(encoded, validate=True) if secret.startswith(_PREFIX) else secret.encode()
    except (binascii.Error, ValueError):
        raise ValueError("base64 after `whsec_`") from None
    if len(key) < _SHORTEST_KEY:
        raise ValueError(f"a secret of at least {_SHORTEST_KEY} bytes")
    return key


def signature(key: bytes, message_id: str, timestamp: int, body: bytes) -> str:
    """The header `webhook-signature` of a message."""
    digest = hmac.new(key, f"{message_id}.{timestamp}.".encode() + body, hashlib.sha256).digest()
    return f"v1,{base64.b64encode(digest).decode()}"


def document(notice: Notice) -> dict[str, Any]:
    """A notice as JSON: `type` and `timestamp` as the specification has them, all it says below `data`."""
    return {
        "type": f"acceptd.{notice.kind.value}",
        "timestamp": notice.created_at.isoformat(),
        "data": {
            "id": notice.id,
            "thread": notice.thread,
            "severity": notice.severity.value,
            "title": notice.title,
            "text": notice.text,
            "fields": [{"name": name, "value": value} for name, value in notice.fields],
            "labels": dict(notice.labels),
            "annotations": dict(notice.annotations),
            "is_update": notice.edits_root or notice.in_thread,
            "simulated": notice.simulated,
        },
    }


class SignedWebhook:
    """Posts to one address. The address and the key are secrets and stand in no error."""

    pause_seconds = 0.0

    def __init__(self, name: str, url: str, secret: str, *, clock: Clock) -> None:
        self.name = name
        self._url = url
        self._key = signing_key(secret)
        self._clock = clock

    def deliver(self, notice: Notice, root: Root | None, attempt: Attempt = FIRST) -> str | None:
        """Post the notice; see Receiver. A repeated attempt has the same `webhook-id`."""
        body = json.dumps(document(notice), ensure_ascii=False).encode()
        timestamp = int(self._clock.now().timestamp())
        headers = {
            "Content-Type": "application/json",
            "webhook-id": notice.id,
            "webhook-timestamp": str(timestamp),
            "webhook-signature": signature(self._key, notice.id, timestamp, body),
        }
        try:
            answer = ask("POST", self._url, data=body, headers=headers)
        except NO_ANSWER as error:
            raise no_answer(f"webhook {self.name}", error) from None
        if answer.status >= 300:
            raise self._refusal(answer.status, answer.headers.get("Retry-After"))
        return None

    def _refusal(self, status: int, wait: str | None) -> NotifyError:
        seconds = retry_after(wait, self._clock.now())
        if status >= 500 or status in _PASSING:
            reason = "rate_limited" if status == 429 else "server_error"
            text = f"webhook {self.name} answers {status}"
            return NotifyError(text, reason=reason, retryable=True, retry_after_seconds=seconds)
        hint = {410: " (it is gone for good)", 401: " (it refuses us)", 403: " (it refuses us)"}.get(status, "")
        if 300 <= status < 400:
            hint = " (a redirect, which is not followed)"
        return NotifyError(f"webhook {self.name} answers {status}{hint}", reason=f"http_{status}", retryable=False)
