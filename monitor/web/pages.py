"""The Flask application: guard, headers, error pages; the routes are in the modules beside it.

Server-rendered: every page works without scripts. Nothing is loaded from anywhere else, nothing may frame a page, and
no style or script stands inside one, so that a name that slipped through could do nothing either.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flask import Flask, Response, g, render_template, request

from monitor.errors import ConfigError, StoreError
from monitor.web import acting, api, looking, plain
from monitor.web.guard import COOKIE, Guard
from monitor.web.source import Desk, NoSuchThing, Source
from monitor.web.words import FILTERS

#: Styles, the one script and pictures come from here alone; a form may only be sent here.
POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)


def make_app(
    source: Source, desk: Desk, *, token: str | None, hosts: frozenset[str], simulated: bool, target: float,
    actions: bool = True, permits: Callable[[int], bool] = lambda uid: True,
) -> Flask:
    """The application. `hosts` are the names under which it may be asked, `target` the acceptance rate to show.

    With a token every request needs it, as bearer token or as the password of basic auth (any user), which browsers ask
    for; it is never taken from a URL. Without one `permits` says which users of this host may act.
    """
    app = Flask("monitor.web", template_folder="templates", static_folder=None)
    app.config["MAX_CONTENT_LENGTH"] = 64 * 1024
    # Flask escapes only by file ending; names come from servers, so everything is escaped.
    app.jinja_env.autoescape = True
    app.jinja_env.trim_blocks = app.jinja_env.lstrip_blocks = True
    app.jinja_env.filters.update(FILTERS)
    guard = Guard(token=token, hosts=hosts, actions=actions, permits=permits)

    @app.before_request
    def may_look() -> Response | None:
        return guard.refuse(request)

    @app.context_processor
    def everywhere() -> dict[str, Any]:
        g.cookie = request.cookies.get(COOKIE) or guard.new_cookie()
        return {"simulated": simulated, "me": guard.caller(request), "proof": guard.proof(g.cookie), "target": target,
                "fleet_trouble": source.fleet_trouble()}

    @app.after_request
    def headers(response: Response) -> Response:
        response.headers.setdefault("Content-Security-Policy", POLICY)
        response.headers["X-Content-Type-Options"] = "nosniff"
        # Not `no-referrer`: browsers would call our own forms' origin null.
        response.headers["Referrer-Policy"] = "same-origin"
        response.headers["Cross-Origin-Opener-Policy"] = "same-origin"
        response.headers.setdefault("Cache-Control", "no-store")
        if "cookie" in g:
            response.set_cookie(COOKIE, g.cookie, httponly=True, samesite="Strict", secure=request.is_secure)
        return response

    plain.add_routes(app, source)
    looking.add_routes(app, source, target)
    acting.add_routes(app, desk, guard)
    api.add_routes(app, source, desk, guard)
    _add_errors(app)
    return app


def _add_errors(app: Flask) -> None:
    """Errors as a page, or as JSON below /api: what was wrong, never a traceback."""

    def answer(status: int, title: str, sentence: str) -> tuple[Any, int]:
        if request.path.startswith("/api/"):
            return {"error": sentence}, status
        return render_template("message.html.j2", title=title, sentence=sentence), status

    @app.errorhandler(404)
    def missing(error: Any) -> tuple[Any, int]:
        return answer(404, "Not found", str(getattr(error, "description", "") or f"nothing at {request.path}"))

    @app.errorhandler(400)
    @app.errorhandler(403)
    @app.errorhandler(405)
    @app.errorhandler(413)
    def refused(error: Any) -> tuple[Any, int]:
        return answer(error.code, "Not done", str(error.description))

    @app.errorhandler(ConfigError)
    def wrong(error: ConfigError) -> tuple[Any, int]:
        return answer(400, "Not done", "; ".join(str(problem) for problem in error.problems))

    @app.errorhandler(NoSuchThing)
    def gone(error: NoSuchThing) -> tuple[Any, int]:
        return answer(404, "Not found", str(error))

    @app.errorhandler(StoreError)
    def away(error: StoreError) -> tuple[Any, int]:
        return answer(503, "The store is away", f"{error}")
