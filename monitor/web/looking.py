"""The pages: fleet, group, server, alerts, objectives, decisions, rollouts, silences, reports. They change nothing."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from flask import Flask, Response, abort, render_template, request

from monitor.web import given
from monitor.web.draw import NUMBER_HEADS, band, budget_drawings, drawings, numbers
from monitor.web.source import Plain, Source

#: Up to so many servers the first page shows each of them; beyond that groups alone.
_SMALL_FLEET = 40
#: How far back lists of decisions, rollouts and alerts go (days), unless asked for more.
_DAYS = 30.0
#: Objectives drawn on one page, least budget left first.
_MOST_CHARTS = 24
#: A page that was asked to stay current without scripts is loaded again after so long (seconds).
_LIVE_SECONDS = 30
#: A report is one file with its own style sheet, whose hash is the only style allowed.
_REPORT_POLICY = "default-src 'none'; style-src {styles}; img-src data:; frame-ancestors 'none'; base-uri 'none'"
_STYLE = re.compile(rb"<style>(.*?)</style>", re.DOTALL)


def add_routes(app: Flask, source: Source, target: float) -> None:
    """Add them to `app`; `target` is the acceptance rate to show."""

    @app.get("/")
    def fleet() -> Response:
        view = source.overview()
        count = sum(len(group["servers"]) for group in view["groups"])
        waiting = [g for g in view["groups"] if g["advice"] and g["advice"]["state"] == "awaiting_approval"]
        return page("fleet", view=view, trends=source.trends(), small=count <= _SMALL_FLEET, count=count,
                    waiting=waiting, up=sum(group["up"] for group in view["groups"]))

    @app.get("/groups/<name>")
    def group(name: str) -> Response:
        view = source.overview()
        found = _named(view["groups"], name, "group")
        span = given.span()
        history = source.history(group=name, span=span)
        return page(
            "group", view=view, group=found, span=span, spans=given.SPANS, trends=source.trends(),
            **_charts(history, target),
            slos=[slo for slo in view["slos"] or () if name in slo["groups"]],
            alerts=_of_group(view["alerts"], found), rollouts=source.rollouts(name, 90.0),
            decisions=source.decisions(name, _DAYS)[:8],
        )  # fmt: skip

    @app.get("/servers/<name>")
    def server(name: str) -> Response:
        view = source.overview()
        servers = [(group, server) for group in view["groups"] for server in group["servers"]]
        found = next((pair for pair in servers if pair[1]["name"] == name), None)
        kept = source.server(name)
        if found is None or kept is None:
            abort(404, f"no server {name!r}")
        span = given.span()
        return page(
            "server", view=view, group=found[0], server=found[1], kept=kept, span=span, spans=given.SPANS,
            alerts=[alert for alert in view["alerts"] if alert["labels"].get("server") == name],
            **_charts(source.history(server=name, span=span), target),
        )  # fmt: skip

    @app.get("/alerts")
    def alerts() -> Response:
        days = given.days(7.0)
        return page("alerts", found=source.alerts(days), days=days)

    @app.get("/alerts/<name>")
    def alert(name: str) -> Response:
        found = source.alert(name) or abort(404, f"no alert {name!r}")
        runbook = found["alert"]["runbook"]
        return page("alert", found=found, alert=found["alert"], runbook=source.runbook(runbook) if runbook else None)

    @app.get("/objectives")
    def objectives() -> Response:
        chosen = given.group()
        slos = source.overview()["slos"]
        groups = sorted({group for slo in slos or () for group in slo["groups"]})
        shown = [slo for slo in slos or () if chosen is None or chosen in slo["groups"]]
        courses = source.slo_courses(chosen, _MOST_CHARTS) or ()
        charts = [(slo, budget_drawings(course)) for slo, course in _with_courses(shown, courses)]
        return page("objectives", slos=slos if slos is None else shown, charts=charts, groups=groups, chosen=chosen,
                    more=len(courses) == _MOST_CHARTS < len(shown))

    @app.get("/decisions")
    def decisions() -> Response:
        days = given.days(_DAYS)
        found, everything = source.decisions(given.group(), days), request.args.get("all") == "1"
        if not everything:
            found = [one for one in found if one["changes_setting"] or one["state"] == "standing"]
        return page("decisions", decisions=found, days=days, all=everything)

    @app.get("/decisions/<name>")
    def decision(name: str) -> Response:
        found = source.decision(name, request.args.get("planned") or None) or abort(404, f"no decision {name!r}")
        return page("decision", found=found)

    @app.get("/rollouts")
    def rollouts() -> Response:
        days = given.days(90.0)
        return page("rollouts", rollouts=source.rollouts(given.group(), days), days=days)

    @app.get("/rollouts/<name>")
    def rollout(name: str) -> Response:
        found = source.rollout(name) or abort(404, f"no rollout {name!r}")
        others = source.rollouts(found["rollout"]["group"], 90.0)
        return page("rollout", found=found, goes_back=_goes_back(found["rollout"], others))

    @app.get("/silences")
    def silences() -> Response:
        view = source.overview()
        # What other hosts watch is theirs to pause.
        near = view.get("fleet", {}).get("host")
        scopes = ["*", *(f"group:{group['name']}" for group in view["groups"] if group.get("is_here", True))]
        scopes += [f"server:{server['name']}" for group in view["groups"] for server in group["servers"]
                   if server.get("host") == near]
        return page("silences", found=source.muted(7.0), scopes=scopes, wanted=request.args.get("matchers", ""))

    @app.get("/evidence/<name>")
    def evidence(name: str) -> Response:
        return page("evidence", found=source.evidence(name) or abort(404, f"no evidence {name!r}"))

    @app.get("/runbooks/<name>")
    def runbook(name: str) -> Response:
        return page("runbook", name=name, text=source.runbook(name) or abort(404, f"no runbook {name!r}"))

    @app.get("/activity")
    def activity() -> Response:
        return page("activity", trail=source.trail(200))

    @app.get("/requests/<name>")
    def asked(name: str) -> Response:
        return page("request", found=source.request(name) or abort(404, f"no request {name!r}"))

    @app.get("/reports")
    def reports() -> Response:
        return page("reports", reports=source.reports())

    @app.get("/report")
    def live_report() -> Response:
        return _report(source.live_report().encode())

    @app.get("/report/<key>")
    def report(key: str) -> Response:
        path = source.report_file(None if key == "latest" else key)
        if path is None:
            abort(404, f"no report {key!r}")
        return _report(path.read_bytes())

    @app.get("/report/<key>/<ending>")
    def report_file(key: str, ending: str) -> Response:
        kinds = {"md": "text/markdown", "json": "application/json"}
        path = source.report_file(key, ending) if ending in kinds else None
        if path is None:
            abort(404, f"no report {key!r} in that form")
        return Response(path.read_bytes(), content_type=f"{kinds[ending]}; charset=utf-8")


def page(template: str, **values: Any) -> Response:
    """A page from its template; loaded again by the browser where that was asked for (`?live=1`)."""
    is_live = request.args.get("live") == "1"
    text = render_template(f"{template}.html.j2", is_live=is_live, **values)
    headers = {"Refresh": str(_LIVE_SECONDS)} if is_live else {}
    return Response(text, content_type="text/html; charset=utf-8", headers=headers)


def _charts(history: Plain | None, target: float) -> dict[str, Any]:
    if history is None:
        return {"history": None, "drawings": [], "band": "", "numbers": [], "heads": NUMBER_HEADS}
    return {"history": history, "drawings": drawings(history, target), "band": band(history),
            "numbers": numbers(history), "heads": NUMBER_HEADS}  # fmt: skip


def _goes_back(rollout: Mapping[str, Any], others: Sequence[Mapping[str, Any]]) -> bool:
    """Whether going back would undo this rollout: it is under way, or the last that was kept in its group."""
    under_way = [one["id"] for one in others if one["state"] == "active"]
    kept = [one for one in others if one["state"] == "promoted" and one["from"] != one["to"]]
    if under_way or not kept:
        return rollout["id"] in under_way
    return bool(rollout["id"] == kept[0]["id"] and kept[0]["outcome"] != "restored")


def _with_courses(
    slos: Sequence[Mapping[str, Any]], courses: Sequence[Plain]
) -> Iterator[tuple[Mapping[str, Any], Plain]]:
    """Objectives with how they fared; those of which nothing was counted are left out."""
    of = {_identity(course): course for course in courses if course["rows"]}
    for slo in slos:
        if _identity(slo) in of:
            yield slo, of[_identity(slo)]


def _identity(slo: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(slo[key] for key in ("name", "group", "server", "model"))


def _named(found: Sequence[Mapping[str, Any]], name: str, kind: str) -> Mapping[str, Any]:
    one = next((one for one in found if one["name"] == name), None)
    return one if one is not None else abort(404, f"no {kind} {name!r}")


def _of_group(alerts: Sequence[Mapping[str, Any]], group: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    names = {server["name"] for server in group["servers"]}
    return [a for a in alerts if a["labels"].get("group") == group["name"] or a["labels"].get("server") in names]


def _report(html: bytes) -> Response:
    hashes = [base64.b64encode(hashlib.sha256(style).digest()).decode() for style in _STYLE.findall(html)]
    styles = " ".join(f"'sha256-{one}'" for one in hashes) or "'none'"
    headers = {"Content-Security-Policy": _REPORT_POLICY.format(styles=styles)}
    return Response(html, content_type="text/html; charset=utf-8", headers=headers)
