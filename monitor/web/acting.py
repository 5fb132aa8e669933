"""What the pages' forms do: approve, decline, go back, silence, pause, acknowledge. Each answers with a page.

A request is only written down here; the daemon that owns the server acts on it, with all its checks.
"""

from __future__ import annotations

from flask import Flask, Request, abort, redirect, request, url_for
from werkzeug.wrappers import Response as Redirect

from monitor.web.guard import Guard
from monitor.web.source import Desk


def author(guard: Guard, asked: Request) -> str:
    """Who acts. Aborts with 403 where they may not, or where another site may be behind it."""
    forged = guard.forged(asked)
    if forged:
        abort(403, forged)
    caller = guard.caller(asked)
    if caller.refusal:
        abort(403, caller.refusal)
    return caller.name


def add_routes(app: Flask, desk: Desk, guard: Guard) -> None:
    """Add them to `app`."""

    @app.post("/decisions/<name>/<any(approve, reject):word>")
    def answer(name: str, word: str) -> Redirect:
        return _asked(desk.ask(word, name, author(guard, request))["id"])

    @app.post("/decisions/<name>/plan")
    def plan(name: str) -> Redirect:
        asked = desk.ask("plan", name, author(guard, request))
        if not asked["taken"]:
            return _asked(asked["id"])
        return redirect(url_for("decision", name=name, planned=asked["id"]), 303)

    @app.post("/rollouts/<name>/rollback")
    def go_back(name: str) -> Redirect:
        return _asked(desk.ask("rollback", name, author(guard, request))["id"])

    @app.post("/reports")
    def make_report() -> Redirect:
        return _asked(desk.ask("report", "", author(guard, request))["id"])

    @app.post("/alerts/<name>/acknowledge")
    def acknowledge(name: str) -> Redirect:
        who = author(guard, request)
        desk.acknowledge(name, who)
        return redirect(url_for("alert", name=name), 303)

    @app.post("/alerts/<name>/silence")
    def silence_alert(name: str) -> Redirect:
        who = author(guard, request)
        desk.silence_alert(name, _given("for") or "4h", _given("reason"), who)
        return redirect(url_for("silences"), 303)

    @app.post("/silences")
    def silence() -> Redirect:
        who = author(guard, request)
        desk.silence(_given("matchers").splitlines(), _given("for"), _given("reason"), who)
        return redirect(url_for("silences"), 303)

    @app.post("/silences/<name>/end")
    def end_silence(name: str) -> Redirect:
        who = author(guard, request)
        desk.end_silence(name, who)
        return redirect(url_for("silences"), 303)

    @app.post("/pauses")
    def pause() -> Redirect:
        who = author(guard, request)
        desk.pause(_given("scope"), _given("for"), _given("reason"), who)
        return redirect(url_for("silences"), 303)

    @app.post("/pauses/end")
    def resume() -> Redirect:
        who = author(guard, request)
        desk.resume(_given("scope"), who)
        return redirect(url_for("silences"), 303)


def _given(field: str) -> str:
    return request.form.get(field, "").strip()


def _asked(name: str) -> Redirect:
    return redirect(url_for("asked", name=name), 303)
