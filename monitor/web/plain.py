"""What programs ask for: metrics, health, readiness, whether a server may have traffic, and the files of pages."""

from __future__ import annotations

from collections.abc import Callable
from importlib.resources import files

from flask import Flask, Response

from monitor.web.source import Source

#: Files that pages refer to, with what they are made of.
_STATIC = {
    "style.css": ("text/css", ("monitor.show/theme.css", "monitor.web/static/page.css")),
    "page.js": ("text/javascript", ("monitor.web/static/page.js",)),
}


def add_routes(app: Flask, source: Source) -> None:
    """Add them to `app`."""

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
            return text("unknown server\n", 404)
        return text("serving\n" if state else "draining\n", 200 if state else 503)

    @app.get("/static/<name>")
    def static_file(name: str) -> Response:
        if name not in _STATIC:
            return text("no such file\n", 404)
        kind, parts = _STATIC[name]
        body = "".join(_read(part) for part in parts)
        return Response(body, content_type=f"{kind}; charset=utf-8", headers={"Cache-Control": "max-age=300"})

    @app.get("/favicon.ico")
    def favicon() -> Response:
        return Response(status=204)


def _read(part: str) -> str:
    package, _, path = part.partition("/")
    return files(package).joinpath(path).read_text("utf-8")


def _state(why: Callable[[], str | None], word: str) -> Response:
    reason = why()
    return text(f"{word}\n" if reason is None else f"{reason}\n", 200 if reason is None else 503)


def text(said: str, status: int) -> Response:
    """An answer in plain text."""
    return Response(said, status, content_type="text/plain; charset=utf-8")
