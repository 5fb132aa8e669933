"""Commands about who hears of what: silence, unsilence, silences, ack. They work with the daemon down too."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated

import typer

from monitor.actions import asking
from monitor.cli.context import Absent, Context
from monitor.cli.looking import Json, duration
from monitor.cli.output import console, print_json, table, who
from monitor.clock import SystemClock
from monitor.model.alert import Alert, AlertState, SilenceId
from monitor.report.views import silence_view
from monitor.store.api import Unit


def silence(
    ctx: typer.Context,
    matchers: Annotated[list[str], typer.Argument(help="Matchers such as server=chat-1 or alertname=~Acceptance.*")],
    last: Annotated[str, typer.Option("--for", help="How long, e.g. 4h.")] = "4h",
    reason: Annotated[str, typer.Option(help="Why; shown to everyone.")] = "",
    as_json: Json = False,
) -> None:
    """Send nothing about alerts that match, for a time."""
    context: Context = ctx.obj
    now = SystemClock().now()
    wanted = [asking.matcher(text) for text in matchers]
    seconds = duration(last, "--for")
    with context.writing() as store, store.write() as unit:
        made = asking.silence(unit, wanted, who(), reason, now, seconds)
        hidden = sum(made.mutes(alert.labels, now) for alert in _firing(unit, now))
    if as_json:
        print_json({"id": made.id, "ends_at": made.ends_at.isoformat(), "firing": hidden})
        return
    console.print(f"Silence {made.id} until {made.ends_at:%Y-%m-%d %H:%M} UTC", markup=False)
    # A label or a name with a slip in it matches nothing, ever.
    console.print(f"It hides {hidden} that fire now." if hidden else "Nothing that fires now matches it.", markup=False)


def _firing(unit: Unit, now: datetime) -> list[Alert]:
    return [alert for alert in unit.alerts.since(now) if alert.state is AlertState.FIRING]


def unsilence(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(help="Id of the silence, as `acceptd silences` shows it.")],
    as_json: Json = False,
) -> None:
    """End a silence now: what it hid and still fires is told."""
    context: Context = ctx.obj
    with context.writing() as store, store.write() as unit:
        ended = asking.end_silence(unit, SilenceId(name), who(), SystemClock().now())
    if as_json:
        print_json({"id": name, "ended": ended})
    elif ended:
        console.print(f"Ended: silence {name}", markup=False)
    if not ended:
        raise Absent(f"no silence {name!r} is in force; see `acceptd silences`")


def silences(
    ctx: typer.Context,
    since: Annotated[str, typer.Option(help="Also those that ended in this time, e.g. 24h.")] = "24h",
    as_json: Json = False,
) -> None:
    """Silences in force, and those that ended lately: what they hide, until when, who set them and why."""
    now = SystemClock().now()
    start = now - timedelta(seconds=duration(since, "--since"))
    context: Context = ctx.obj
    with context.reading() as store, store.read() as unit:
        found = [silence for silence in unit.silences.all() if silence.ends_at >= start]
        firing = _firing(unit, now)
    hides = {one.id: sum(one.mutes(alert.labels, now) for alert in firing) for one in found}
    if as_json:
        print_json({"at": now.isoformat(), "silences": [
            {**silence_view(one, now), "firing": hides[one.id]} for one in found
        ]})  # fmt: skip
        return
    if not found:
        console.print("No silences.", style="green")
        return
    rows = [
        [one.id, " ".join(map(str, one.matchers)), f"{one.ends_at:%Y-%m-%d %H:%M} UTC",
         "over" if one.ends_at <= now else str(hides[one.id]), one.author, one.reason]
        for one in found
    ]  # fmt: skip
    console.print(table(("silence", "alerts with", "until", "hides", "by", "why"), rows, right=(3,)))
    for one in found:
        if one.refusal:
            console.print(f"Silence {one.id} hides nothing: {one.refusal}", markup=False)


def ack(
    ctx: typer.Context,
    subject: Annotated[str, typer.Argument(help="An alert's name, a server, a group, or a fingerprint.")],
    as_json: Json = False,
) -> None:
    """Acknowledge firing alerts: someone is on it, so the page is not repeated every half hour."""
    context: Context = ctx.obj
    now = SystemClock().now()
    with context.writing() as store, store.write() as unit:
        found = asking.acknowledge(unit, subject, who(), now)
    if as_json:
        print_json([alert.fingerprint for alert in found])
    elif found:
        console.print(f"Acknowledged: {', '.join(sorted({alert.name for alert in found}))}", markup=False)
    if not found:
        raise Absent(f"no alert is firing that matches {subject!r}; see `acceptd alerts`")
