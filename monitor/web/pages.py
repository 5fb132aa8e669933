"""The Flask application: routes, the token, the headers. Server-rendered, no script, nothing from outside."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable
from typing import Any

from flask import Flask, Response, abort, jsonify, render_template, request

from monitor.web.source import Source

#: Nothing is loaded from anywhere, nothing may frame the page; styles stand in it (nonce).
_POLICY = "default-src 'none'; style-src 'nonce-{nonce}'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'"
#: A report is one file with its own styles and drawings.
_REPORT_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'; base-uri 'none'"


def make_app(source: Source, *, token: str | None, hosts: frozenset[str], simulated: bool) -> Flask:
    """The application. `hosts` are the names under which it may be asked (against DNS rebinding).

    With a token every request needs it, as bearer token or as the password of basic auth (any user), which browsers ask
    for; it is never taken from a URL.
    """
    app = Flask("monitor.web", template_folder="templates")
    app.config["MAX_CONTENT_LENGTH"] = 64 * 1024
    # Flask escapes only by file ending; names come from servers, so everything is escaped.
    app.jinja_env.autoescape = True

    @app.before_request
    def guard() -> Response | None:
        name = request.host.rsplit(":", 1)[0] if not request.host.endswith("]") else request.host
        if name not in hosts and token is None:
            abort(Response(f"unknown host name {name!r}\n", 421, content_type="text/plain"))
        if token is not None and not _has_token(token):
            headers = {"WWW-Authenticate": 'Basic realm="acceptd", charset="UTF-8"'}
            return Response("a token is needed\n", 401, headers, content_type="text/plain")
        return None

    @app.after_request
    def headers(response: Response) -> Response:
        response.headers.setdefault("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
        response.headers["X-Content-Type-Options"] = "nosniff"
        response.headers["Referrer-Policy"] = "no-referrer"
        response.headers["Cache-Control"] = "no-store"
        return response

    @app.get("/metrics")
    def metrics() -> Response:
        return Response(source.metrics(), content_type="text/plain; version=0.0.4; charset=utf-8")

    @app.get("/-/healthy")
    def healthy() -> Response:
        return _state(source.unhealthy, "healthy")

    @app.get("/-/ready")
    def ready() -> Response:
        return _state(source.unready, "ready")

    @app.get("/-/serving/<name>")
    def serving(name: str) -> Response:
        state = source.serving(name)
        if state is None:
            return _text("unknown server\n", 404)
        return _text("serving\n" if state else "draining\n", 200 if state else 503)

    @app.get("/api/v1/status")
    def status() -> Response:
        return jsonify(source.overview())

    @app.get("/report")
    def live_report() -> Response:
        return _report(source.live_report().encode())

    @app.get("/report/<key>")
    def report(key: str) -> Response:
        path = source.report_file(None if key == "latest" else key)
        return _text(f"no report {key!r}\n", 404) if path is None else _report(path.read_bytes())

    @app.get("/")
    def page() -> Response:
        nonce = secrets.token_urlsafe(16)
        text = render_template("status.html.j2", view=source.overview(), nonce=nonce, simulated=simulated, **_FILTERS)
        return Response(
            text, content_type="text/html; charset=utf-8",
            headers={"Content-Security-Policy": _POLICY.format(nonce=nonce), "Refresh": "15"},
        )

    return app


def _report(html: bytes) -> Response:
    headers = {"Content-Security-Policy": _REPORT_POLICY}
    return Response(html, content_type="text/html; charset=utf-8", headers=headers)


def _state(why: Callable[[], str | None], word: str) -> Response:
    reason = why()
    return _text(f"{word}\n" if reason is None else f"{reason}\n", 200 if reason is None else 503)


def _text(text: str, status: int) -> Response:
    return Response(text, status, content_type="text/plain; charset=utf-8")


def _has_token(token: str) -> bool:
    auth = request.authorization
    given = ""
    if auth is not None and auth.type == "bearer":
        given = auth.token or ""
    elif auth is not None and auth.type == "basic":
        given = auth.password or ""
    return hmac.compare_digest(given.encode(), token.encode())


def _share(value: float | None) -> str:
    return "–" if value is None else f"{value:.1%}"


def _number(value: float | None, digits: int = 2) -> str:
    return "–" if value is None else f"{value:,.{digits}f}"


def _milliseconds(value: float | None) -> str:
    return "–" if value is None else f"{value * 1000:,.1f} ms"


def _span(seconds: float | None) -> str:
    """Time until an error budget is spent: in days or hours, since nobody plans by the minute."""
    if seconds is None:
        return "–"
    if seconds <= 0:
        return "is spent"
    return f"{seconds / 86400:.1f} d" if seconds >= 2 * 86400 else f"{seconds / 3600:.1f} h"


_FILTERS: dict[str, Any] = {"share": _share, "number": _number, "milliseconds": _milliseconds, "span": _span}
