"""The JSON API below /api/v1: the same plain data as the pages, and the same requests. docs/api.md describes it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flask import Flask, abort, request

from monitor.errors import ConfigError, Problem
from monitor.web import given
from monitor.web.acting import author
from monitor.web.guard import Guard
from monitor.web.source import Desk, Plain, Source

#: Objectives whose history is given at once.
_MOST_COURSES = 200

#: Answers with a status.
Answer = tuple[Any, int]


def add_routes(app: Flask, source: Source, desk: Desk, guard: Guard) -> None:
    """Add them to `app`."""
    _add_looking(app, source)
    _add_acting(app, desk, guard)


def _add_looking(app: Flask, source: Source) -> None:
    @app.get("/api/v1/status")
    def api_status() -> Plain:
        return source.overview()

    @app.get("/api/v1/groups/<name>")
    def api_group(name: str) -> Plain:
        groups = source.overview()["groups"]
        found: Plain | None = next((group for group in groups if group["name"] == name), None)
        return found if found is not None else abort(404, f"no group {name!r}")

    @app.get("/api/v1/groups/<name>/history")
    def api_group_history(name: str) -> Plain:
        return source.history(group=name, span=given.span()) or abort(404, f"no group {name!r}")

    @app.get("/api/v1/servers/<name>")
    def api_server(name: str) -> Plain:
        servers = [server for group in source.overview()["groups"] for server in group["servers"]]
        found: Plain | None = next((server for server in servers if server["name"] == name), None)
        kept = source.server(name)
        return {**found, **kept} if found is not None and kept is not None else abort(404, f"no server {name!r}")

    @app.get("/api/v1/servers/<name>/history")
    def api_server_history(name: str) -> Plain:
        return source.history(server=name, span=given.span()) or abort(404, f"no server {name!r}")

    @app.get("/api/v1/alerts")
    def api_alerts() -> Plain:
        return source.alerts(given.days(7.0))

    @app.get("/api/v1/alerts/<name>")
    def api_alert(name: str) -> Plain:
        return source.alert(name) or abort(404, f"no alert {name!r}")

    @app.get("/api/v1/slos")
    def api_slos() -> Plain:
        return {"slos": source.overview()["slos"]}

    @app.get("/api/v1/slos/history")
    def api_slo_courses() -> Plain:
        return {"slos": source.slo_courses(given.group(), _MOST_COURSES)}

    @app.get("/api/v1/decisions")
    def api_decisions() -> Plain:
        return {"decisions": source.decisions(given.group(), given.days(30.0))}

    @app.get("/api/v1/decisions/<name>")
    def api_decision(name: str) -> Plain:
        return source.decision(name, request.args.get("planned")) or abort(404, f"no decision {name!r}")

    @app.get("/api/v1/rollouts")
    def api_rollouts() -> Plain:
        return {"rollouts": source.rollouts(given.group(), given.days(90.0))}

    @app.get("/api/v1/rollouts/<name>")
    def api_rollout(name: str) -> Plain:
        return source.rollout(name) or abort(404, f"no rollout {name!r}")

    @app.get("/api/v1/silences")
    def api_silences() -> Plain:
        return source.muted(given.days(7.0))

    @app.get("/api/v1/evidence/<name>")
    def api_evidence(name: str) -> Plain:
        return source.evidence(name) or abort(404, f"no evidence {name!r}")

    @app.get("/api/v1/activity")
    def api_activity() -> Plain:
        return {"trail": source.trail(200)}

    @app.get("/api/v1/reports")
    def api_reports() -> Plain:
        return {"reports": source.reports()}

    @app.get("/api/v1/requests/<name>")
    def api_request(name: str) -> Plain:
        return source.request(name) or abort(404, f"no request {name!r}")


def _add_acting(app: Flask, desk: Desk, guard: Guard) -> None:
    @app.post("/api/v1/decisions/<name>/<any(approve, reject, plan):word>")
    def api_answer(name: str, word: str) -> Answer:
        return desk.ask(word, name, author(guard, request)), 202

    @app.post("/api/v1/rollouts/<name>/rollback")
    def api_rollback(name: str) -> Answer:
        return desk.ask("rollback", name, author(guard, request)), 202

    @app.post("/api/v1/reports")
    def api_make_report() -> Answer:
        return desk.ask("report", "", author(guard, request)), 202

    @app.post("/api/v1/alerts/<name>/acknowledge")
    def api_acknowledge(name: str) -> Plain:
        desk.acknowledge(name, author(guard, request))
        return {"acknowledged": name}

    @app.post("/api/v1/alerts/<name>/silence")
    def api_silence_alert(name: str) -> Answer:
        who, body = author(guard, request), _body("for", "reason")
        return desk.silence_alert(name, _text(body, "for"), _text(body, "reason"), who), 201

    @app.post("/api/v1/silences")
    def api_silence() -> Answer:
        who, body = author(guard, request), _body("matchers", "for", "reason")
        matchers = body.get("matchers")
        if not isinstance(matchers, list) or not all(isinstance(one, str) for one in matchers):
            raise ConfigError([Problem("matchers", repr(matchers), 'a list such as ["server=chat-1"]')])
        return desk.silence(matchers, _text(body, "for"), _text(body, "reason"), who), 201

    @app.delete("/api/v1/silences/<name>")
    def api_end_silence(name: str) -> Plain:
        desk.end_silence(name, author(guard, request))
        return {"ended": name}

    @app.post("/api/v1/pauses")
    def api_pause() -> Answer:
        who, body = author(guard, request), _body("scope", "for", "reason")
        return desk.pause(_text(body, "scope"), _text(body, "for"), _text(body, "reason"), who), 201

    @app.delete("/api/v1/pauses/<scope>")
    def api_resume(scope: str) -> Plain:
        desk.resume(scope, author(guard, request))
        return {"resumed": scope}


def _body(*known: str) -> Mapping[str, Any]:
    """The JSON object that was sent. Raises ConfigError for keys that mean nothing here."""
    body = request.get_json(silent=True)
    if not isinstance(body, dict):
        raise ConfigError([Problem("body", "no JSON object", f"an object with {', '.join(known)}")])
    for key in body:
        if key not in known:
            raise ConfigError([Problem(key, "an unknown key", f"one of {', '.join(known)}")])
    return body


def _text(body: Mapping[str, Any], key: str) -> str:
    value = body.get(key, "")
    if not isinstance(value, str):
        raise ConfigError([Problem(key, repr(value), "a text")])
    return value
