"""Who may look and who may act: host names, the token, the user behind a loopback connection, forgery of requests.

A page of another site can make a browser send requests to 127.0.0.1. Against that stand four things, each of which
would do: the name in `Host` must be ours, `Origin` and `Sec-Fetch-Site` must not be another site's, a form carries a
value that only our own page could have put there, and JSON is taken only with its own content type.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import urlsplit

from flask import Request, Response

from monitor.web.peer import peer_uid, user_name

#: Name of the cookie that forms are bound to.
COOKIE = "acceptd-form"
#: Name of the field that carries the proof.
FIELD = "form"


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks, as far as that is known, and why they may not act; empty where they may."""

    name: str
    refusal: str = ""


class Guard:
    """Answers for one application.

    `hosts` are the names under which it may be asked (against DNS rebinding). With a token every request needs it.
    Without one (loopback alone) whoever may write the store may act: `permits` says so of a user id.
    """

    def __init__(
        self, *, token: str | None, hosts: frozenset[str], actions: bool, permits: Callable[[int], bool],
    ) -> None:
        self._token = token
        self._hosts = hosts
        self._actions = actions
        self._permits = permits
        self._secret = secrets.token_bytes(32)

    def refuse(self, request: Request) -> Response | None:
        """The answer to a request that may not even look; None where it may."""
        name = request.host.rsplit(":", 1)[0] if not request.host.endswith("]") else request.host
        if name not in self._hosts and self._token is None:
            return Response(f"unknown host name {name!r}\n", 421, content_type="text/plain")
        if self._token is not None and not _has_token(request, self._token):
            headers = {"WWW-Authenticate": 'Basic realm="acceptd", charset="UTF-8"'}
            return Response("a token is needed\n", 401, headers, content_type="text/plain")
        return None

    def caller(self, request: Request) -> Caller:
        """Who asks, and whether they may act."""
        user = _basic_user(request)
        uid = peer_uid(request.environ)
        name = user or (user_name(uid) if uid is not None else "") or "web"
        if not self._actions:
            return Caller(name, "actions are switched off (web.actions: false)")
        if self._token is not None:
            return Caller(name)
        if uid is None:
            return Caller(name, "acceptd cannot tell which user you are; set web.token, or use the command line")
        if not self._permits(uid):
            return Caller(name, f"user {name} may not write acceptd's store; use the command line as one who may")
        return Caller(name)

    def new_cookie(self) -> str:
        """A value for the cookie."""
        return secrets.token_urlsafe(24)

    def proof(self, cookie: str) -> str:
        """What a form must carry beside the cookie."""
        return hmac.new(self._secret, cookie.encode(), hashlib.sha256).hexdigest()

    def forged(self, request: Request) -> str:
        """Why a request that would act may come from another site; empty where it cannot."""
        origin = request.headers.get("Origin")
        if origin is not None and urlsplit(origin).netloc != request.host:
            return "the request comes from another site"
        if request.headers.get("Sec-Fetch-Site", "same-origin") not in ("same-origin", "none"):
            return "the request comes from another site"
        auth = request.authorization
        if request.is_json or request.method != "POST" or (auth is not None and auth.type == "bearer"):
            # No form can send these, and scripts of other sites must ask first: they are not answered.
            return ""
        cookie = request.cookies.get(COOKIE, "")
        given = request.form.get(FIELD, "")
        if not cookie or not hmac.compare_digest(given.encode(), self.proof(cookie).encode()):
            return "the form is older than this acceptd, or not ours: go back, load the page again, and repeat"
        return ""


def _has_token(request: Request, token: str) -> bool:
    auth = request.authorization
    given = ""
    if auth is not None and auth.type == "bearer":
        given = auth.token or ""
    elif auth is not None and auth.type == "basic":
        given = auth.password or ""
    return hmac.compare_digest(given.encode(), token.encode())


def _basic_user(request: Request) -> str:
    auth = request.authorization
    return (auth.username or "")[:64] if auth is not None and auth.type == "basic" else ""
