"""Commands that show how things stand and stood: status, servers, history, why, alerts."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Annotated, Any

import typer

from monitor import shipped
from monitor.cli.board import Board, alert_lines, fleet_lines, group_line, headline
from monitor.cli.context import Absent, Context
from monitor.cli.fleet import Trends, alerts_of_fleet, with_fleet
from monitor.cli.output import (
    ago,
    console,
    errors,
    interval,
    milliseconds,
    number,
    print_json,
    share,
    sparkline,
    table,
)
from monitor.clock import SystemClock
from monitor.config.running import Running, is_running
from monitor.errors import ConfigError, Problem
from monitor.model.duration import DURATION_FORM, parse_duration
from monitor.model.record import WORKED_OUT
from monitor.model.server import Group, GroupName, ServerName
from monitor.report.history import history_rows, load_pairs
from monitor.report.lookup import explain, find_decision
from monitor.report.overview import overview
from monitor.report.trends import hour_trends
from monitor.report.views import change_view, told_alert
from monitor.store.api import Unit

#: Up to so many servers `status` shows each; of more only those that are not well.
_FEW = 40
#: Longest time that an option may name: moments that far back are still dates.
_LONGEST_SECONDS = 100 * 365 * 86_400.0

#: Said where hosts share a database and one was asked for.
THIS_HOST_ALONE = "This host alone; with --fleet all that share its database."

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
Fleet = Annotated[bool, typer.Option("--fleet", help="Those of all hosts, from the database that they share.")]


def duration(text: str, option: str) -> float:
    """Seconds of a duration given to an option, more than 0. Raises ConfigError naming the option."""
    try:
        seconds = parse_duration(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= _LONGEST_SECONDS:
        raise ConfigError([Problem(option, repr(text), f"{DURATION_FORM.partition(';')[0]}), at most 100y")])
    return seconds


def known_server(running: Running, name: str) -> ServerName:
    """`name` as a server of the running configuration. Raises Absent naming the known ones."""
    names = [server.name for server in running.servers]
    if name not in names:
        raise Absent(f"no server {name!r}; known: {', '.join(names) or 'none'}")
    return ServerName(name)


def known_groups(running: Running, name: str) -> list[Group]:
    """The group of that name, or all where it is empty. Raises Absent naming the known ones."""
    found = [group for group in running.groups if name in ("", group.name)]
    if name and not found:
        known = ", ".join(group.name for group in running.groups)
        raise Absent(f"no group {name!r}; known: {known or 'none'}")
    return found


def look(context: Context, now: datetime, window: float) -> dict[str, Any]:
    """How everything stands at `now`, and which daemon says so. Raises Absent where none ever ran."""
    running = context.running()
    with context.reading() as store, store.read() as unit:
        view = overview(unit, running.groups, running.servers, now, window_seconds=window)
    up = is_running(context.folder())
    daemon = {"running": up, "pid": running.pid if up else None, "version": running.version, "host": running.host,
              "listen": running.listen, "data_dir": str(context.folder()), "simulated": running.simulated}
    return {"daemon": daemon, **view}


def status(
    ctx: typer.Context,
    as_json: Json = False,
    window: Annotated[str, typer.Option(help="Time that the figures cover, e.g. 5m.")] = "5m",
    group: Annotated[str, typer.Option(help="Only this group, with all of its servers.")] = "",
    fleet: Fleet = False,
) -> None:
    """How everything stands now: alerts, advice, changes under way, every server's figures."""
    context: Context = ctx.obj
    now = SystemClock().now()
    theirs: Trends = {}
    seconds = duration(window, "--window")
    view = look(context, now, seconds)
    if fleet:
        view, theirs = with_fleet(context, view, now, seconds, trends=not as_json)
    if as_json:
        print_json(view)
        return
    groups = [one for one in view["groups"] if group in ("", one["name"])]
    if group and not groups:
        known_groups(context.running(), group)
    with context.reading() as store, store.read() as unit:
        trends = {**theirs, **hour_trends(unit, context.running().groups, now)}
    if not fleet and context.running().shared:
        console.print(THIS_HOST_ALONE, style="dim")
    for line in (headline(view), *fleet_lines(view), *alert_lines(view, now)):
        console.print(line, soft_wrap=True)
    count = sum(len(one["servers"]) for one in groups)
    board = Board(groups, trends, now, console.width)
    for one in groups:
        console.print()
        console.print(group_line(one))
        advice = one["advice"]
        if advice is not None:
            words = f"  {advice['sentence']}  [{advice['state']}, id {advice['id']}]"
            console.print(words, markup=False, soft_wrap=True)
        shown = one["servers"] if count <= _FEW or group else [s for s in one["servers"] if s["level"] != "ok"]
        if shown:
            console.print(board.table(shown))
        if len(shown) < len(one["servers"]):
            rest = f"  {len(one['servers']) - len(shown)} servers are well: acceptd status --group {one['name']}"
            console.print(rest, style="dim", markup=False)


def servers(ctx: typer.Context, as_json: Json = False, fleet: Fleet = False) -> None:
    """Every server in detail: what it is, how its setting is known, whether its counters can be trusted."""
    now = SystemClock().now()
    view = look(ctx.obj, now, 300.0)
    if fleet:
        view, _ = with_fleet(ctx.obj, view, now, 300.0)
        # A list of servers has no room to say that some are missing.
        for missing in fleet_lines(view)[1:]:
            errors.print(missing, soft_wrap=True)
    found = [server for group in view["groups"] for server in group["servers"]]
    if as_json:
        print_json(found)
        return
    for s in found:
        simulated = " [SIMULATED]" if s["simulated"] else ""
        console.print(f"{s['name']} (group {s['group']}){simulated}", style="bold", markup=False)
        sources = ", ".join(f"{key} from {source}" for key, source in s["sources"].items())
        lines = [
            f"state       {s['verdict'] or 'not read yet'}: {s['reason']}",
            f"setting     {s['setting'] or 'unknown'}" + (f" ({sources})" if sources else ""),
            f"model       {s['model'] or 'unknown'}, engine {s['engine']} {s['engine_version'] or ''}",
            f"managed     {_managed(s, view['daemon']['host'])}",
            f"acceptance  {share(s['figures']['acceptance_rate'])}, length {number(s['figures']['acceptance_length'])},"
            f" per position {' '.join(share(rate) for rate in s['acceptance_rate_per_position']) or '–'}",
        ]
        lines += [f"disagrees   {note}" for note in s["setting_notes"]]
        if s["adapts"]:
            lines.append(f"adapts      the engine moves the number of tokens itself: {s['adapts']}")
        if s["flags"]:
            lines.append(f"doubts      {', '.join(s['flags'])}")
        for line in lines:
            console.print(f"  {line}", markup=False)


def _managed(server: dict[str, Any], here: str) -> str:
    if server.get("host", here) != here:
        return f"on {server['host']}"
    return "yes" if server["managed"] else "no: watched only"


def history(
    ctx: typer.Context,
    server: Annotated[str, typer.Argument(help="Name of the server.")],
    since: Annotated[str, typer.Option(help="How far back, e.g. 6h.")] = "1h",
    step: Annotated[str, typer.Option(help="Length of one line, e.g. 5m; chosen for 24 lines if not given.")] = "",
    as_json: Json = False,
) -> None:
    """A server's acceptance, length, step time and throughput over time, with the changes made."""
    now = SystemClock().now()
    span = duration(since, "--since")
    seconds = duration(step, "--step") if step else max(15.0, span / 24)
    if span / seconds > 5000:
        raise ConfigError([Problem("--step", repr(step), "a step of at least a 5000th of --since")])
    context: Context = ctx.obj
    name = known_server(context.running(), server)
    start = now - timedelta(seconds=span)
    with context.reading() as store, store.read() as unit:
        pairs = load_pairs(unit, [name], start, now).get(name, [])
        changes = [change_view(change) for change in unit.changes.of_server(name, start)]
    rows = history_rows(pairs, start, now, seconds)
    if as_json:
        print_json({"server": name, "since": start.isoformat(), "step_seconds": seconds, "rows": rows,
                    "changes": changes})
        return
    console.print(f"{name}, acceptance {sparkline([row['acceptance_rate'] for row in rows])}", markup=False)
    cells = [
        [
            row["at"][:19].replace("T", " "), number(row["num_speculative_tokens"], 0), share(row["acceptance_rate"]),
            number(row["acceptance_length"]), share(row["efficiency"]), milliseconds(row["step_seconds"]),
            number(row["generation_tokens_per_second"], 1), number(row["running"], 1), number(row["num_drafts"], 0),
        ]
        for row in rows
    ]
    columns = ("until (UTC)", "k", "acceptance", "length", "efficiency", "step", "tokens/s", "running", "drafts")
    console.print(table(columns, cells, right=range(1, 9)))
    for change in changes:
        gain = interval(change["gain"], change["gain_low"], change["gain_high"])
        console.print(f"{change['since'][:19]} {change['from']} -> {change['to']}: {change['state']} {gain}",
                      markup=False)


def why(
    ctx: typer.Context,
    subject: Annotated[str, typer.Argument(help="A group, a server, or the id of a decision, rollout or change.")],
    as_json: Json = False,
) -> None:
    """Why acceptd decided what it did, taken or not: evidence, rule, prediction, and what came of it."""
    context: Context = ctx.obj
    with context.reading() as store, store.read() as unit:
        found = _explain(context, unit, subject)
    if as_json:
        print_json(found)
        return
    decision = found["decision"]
    if decision is not None:
        _print_decision(decision)
    if found["schedule"]:
        console.print(f"  Schedule by batch size: {found['schedule']}", markup=False)
    for rollout in found["rollouts"]:
        gain = interval(rollout["gain"], rollout["gain_low"], rollout["gain_high"])
        console.print(f"Rollout {rollout['id']} by {rollout['requested_by']}: {rollout['from']} -> {rollout['to']},"
                      f" {rollout['state']}, measured {gain}", style="bold", markup=False)
        if rollout["sentence"]:
            console.print(f"  {rollout['sentence']}", markup=False)
    for entry in found["trail"]:
        console.print(f"  {entry['at'][:19]} {entry['actor']}: {entry['sentence']}", markup=False)


def _print_decision(decision: dict[str, Any]) -> None:
    console.print(f"{decision['group']}: {decision['action']} ({decision['reason']})", style="bold", markup=False)
    gain = interval(decision["gain"], decision["gain_low"], decision["gain_high"])
    lines = [
        decision["sentence"],
        f"from        {decision['from']}",
        f"to          {decision['to']}",
        f"predicted   {gain} goodput",
        f"rule        {decision['rule']}, window {decision['window_seconds']:g} s",
        f"state       {decision['state']}{': ' + decision['note'] if decision['note'] else ''}",
        f"made        {decision['made_at'][:19]}, id {decision['id']}",
    ]
    if decision["threshold_rule"]:
        lines.append(f"70/50 rule  {decision['threshold_rule']['sentence'] or decision['threshold_rule']['action']}")
    for line in lines:
        console.print(f"  {line}", markup=False)
    if decision["evidence"]:
        rows = [[name, "no data" if value is None else f"{value:.6g}"] for name, value in decision["evidence"].items()]
        console.print(table(("evidence", "value"), rows, right=(1,)))


def _explain(context: Context, unit: Unit, subject: str) -> dict[str, Any]:
    decision = find_decision(unit, subject)
    if decision is None:
        running = context.running()
        group = next((s.group for s in running.servers if s.name == subject), GroupName(subject))
        latest = unit.decisions.latest(group)
        if not latest:
            known = ", ".join([g.name for g in running.groups])
            raise Absent(f"no decision about {subject!r} yet; groups: {known or 'none'}")
        decision = latest[0]
    return explain(unit, decision)


def alerts(
    ctx: typer.Context,
    since: Annotated[str, typer.Option(help="Also those resolved in this time, e.g. 24h.")] = "24h",
    as_json: Json = False,
    fleet: Fleet = False,
) -> None:
    """Alerts that are pending or firing, and those that ended lately."""
    now = SystemClock().now()
    start = now - timedelta(seconds=duration(since, "--since"))
    context: Context = ctx.obj
    with context.reading() as store, store.read() as unit:
        silences = unit.silences.active(now)
        found, trouble = [told_alert(alert, silences, now) for alert in unit.alerts.since(start)], ""
    if fleet:
        found, trouble = alerts_of_fleet(context, found, start, now)
        if trouble:
            errors.print(trouble[:1].upper() + trouble[1:] + ".", style="bold red", markup=False, soft_wrap=True)
    if as_json:
        print_json(found)
        return
    if not fleet and context.running().shared:
        console.print(THIS_HOST_ALONE, style="dim")
    if not found:
        console.print(f"No alerts{' of this host' if trouble else ''}.", style="" if trouble else "green")
        return
    heads = ["state", "severity", "alert", "since", "what"]
    rows = [[a["state"], a["severity"], a["name"], ago(a["since"], now), _what(a)] for a in found]
    if fleet:
        heads.insert(3, "host")
        for row, one in zip(rows, found, strict=True):
            row.insert(3, one["host"] or "–")
    console.print(table(heads, rows))
    for one in (a for a in found if a["state"] == "firing" and a["causes"]):
        console.print(f"{one['summary']}: probable causes", style="bold", markup=False)
        for place, cause in enumerate(one["causes"], 1):
            console.print(f"  {place}. {cause}", markup=False)


def _what(alert: dict[str, Any]) -> str:
    by = f", {alert['acknowledged_by']} is on it" if alert["acknowledged_by"] else ""
    return f"{alert['summary']}{by}{' [silenced]' if alert['silenced'] else ''}"


def runbook(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(help="Name as in an alert's message, e.g. server-down; or the alert's.")],
) -> None:
    """What an alert means, its probable causes, and what to do: the page that its message names."""
    page = re.sub(r"(?<=[a-z])(?=[A-Z])", "-", name).lower()
    text = shipped.runbook(page)
    if text is None:
        raise Absent(f"no runbook {name!r}; the alerts' messages name theirs, such as server-down")
    console.print(text, markup=False, highlight=False, soft_wrap=True)


def evidence(
    ctx: typer.Context,
    subject: Annotated[str, typer.Argument(help="Id of kept evidence, or a server for its newest.")],
    as_json: Json = False,
) -> None:
    """What was seen when an engine hung: page, log, process states."""
    context: Context = ctx.obj
    now = SystemClock().now()
    with context.reading() as store, store.read() as unit:
        kept = unit.evidence.get(subject)
        if kept is None:
            of_server = unit.evidence.of(ServerName(subject), now - timedelta(days=400))
            found = [one for one in of_server if one.what not in WORKED_OUT]
            if not found:
                raise Absent(f"no evidence {subject!r}")
            kept = found[-1]
    if as_json:
        print_json({"id": kept.id, "server": kept.server, "at": kept.at.isoformat(), "what": kept.what,
                    "parts": dict(kept.parts)})
        return
    console.print(f"{kept.server} {kept.at:%Y-%m-%d %H:%M:%S} UTC: {kept.what}", style="bold", markup=False)
    for title, text in kept.parts.items():
        console.print(title, style="bold", markup=False)
        console.print(text, markup=False, soft_wrap=True)
