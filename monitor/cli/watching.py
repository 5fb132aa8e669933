"""The command `watch`: the fleet on a terminal, kept current. It reads the store, daemon up or down."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Annotated, Any

import typer
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from monitor.cli.board import Board, Trends, alert_lines, fleet_lines, group_line, headline
from monitor.cli.context import Absent, Context
from monitor.cli.fleet import fleet_in_sight
from monitor.cli.keys import Keys
from monitor.cli.looking import Fleet, duration, known_groups, look
from monitor.cli.output import console
from monitor.clock import Clock, SystemClock
from monitor.report.trends import hour_trends

#: Shortest time between two looks (seconds): figures move with the scrapes.
_SHORTEST = 0.5
#: Time that figures cover (seconds).
_WINDOW_SECONDS = 300.0
#: The trends of an hour are read again after so long (seconds).
_TRENDS_SECONDS = 15.0
#: Lines of alerts and pauses at most: the servers are what one keeps the terminal open for.
_MOST_ALERTS = 6
_ALONE = "this host alone; --fleet: all · "
_HELP = "q ends · ↑↓ PgUp PgDn scroll · g next group"


@dataclass(slots=True)
class Place:
    """Where the person looks: the first line shown, and one group alone."""

    first: int = 0
    group: str | None = None
    #: What else stands at the foot.
    note: str = ""


def watch(
    ctx: typer.Context,
    every: Annotated[str, typer.Option(help="Time between two looks, e.g. 2s.")] = "2s",
    group: Annotated[str, typer.Option(help="Only this group.")] = "",
    fleet: Fleet = False,
) -> None:
    """Keep the fleet on the terminal: acceptance, length, step time, load, and what acceptd would do."""
    context: Context = ctx.obj
    pause = max(_SHORTEST, duration(every, "--every"))
    if not fleet:
        known_groups(context.running(), group)
    if not (sys.stdout.isatty() and sys.stdin.isatty()):
        raise Absent("watch needs a terminal; `acceptd status` prints the same once")
    note = _ALONE if context.running().shared and not fleet else ""
    watch_fleet(context, console, SystemClock(), Keys(), pause, Place(group=group or None, note=note), fleet=fleet)


def watch_fleet(
    context: Context, out: Console, clock: Clock, keys: Keys, pause: float, place: Place, *, fleet: bool = False
) -> None:
    """Look, show, wait for a key or the next look, until q is pressed or the terminal goes away."""
    trends: Trends = {}
    read_at = float("-inf")
    with (
        fleet_in_sight(context, clock, _WINDOW_SECONDS, wanted=fleet) as joined,
        keys, Live(console=out, screen=True, auto_refresh=False) as live,
    ):  # fmt: skip
        while True:
            now = clock.now()
            view, theirs = joined(look(context, now, _WINDOW_SECONDS))
            if clock.monotonic() - read_at > _TRENDS_SECONDS:
                with context.reading() as store, store.read() as unit:
                    trends = hour_trends(unit, context.running().groups, now)
                read_at = clock.monotonic()
            live.update(screen(view, {**theirs, **trends}, place, out.width, out.height, clock), refresh=True)
            key = keys.pressed(pause)
            if key in ("q", "Q", "\x03", "\x04"):
                return
            _move(place, key, view, out.height)


def screen(view: dict[str, Any], trends: Trends, place: Place, width: int, height: int, clock: Clock) -> Group:
    """One screenful: the fleet in a line, what fires, then as many servers as fit."""
    now = clock.now()
    head: list[Text] = [headline(view), *fleet_lines(view)]
    alerts = alert_lines(view, now)
    head += alerts[:_MOST_ALERTS]
    if len(alerts) > _MOST_ALERTS:
        head.append(Text(f"… {len(alerts) - _MOST_ALERTS} more: acceptd alerts", "dim"))
    groups = [one for one in view["groups"] if place.group in (None, one["name"])]
    room = max(1, height - len(head) - 2)
    parts, hidden = _fitting(groups, Board(groups, trends, now, width), place, width, room)
    if not groups and place.group is not None:
        parts.append(_cut(Text(f"No group {place.group!r} is known; g shows all."), width))
    more = f"{hidden} lines above or below · " if hidden else ""
    foot = Text(f"{now:%H:%M:%S} UTC · {more}{place.note}{_HELP}", "dim")
    return Group(*(_cut(line, width) for line in head), Text(), *parts, _cut(foot, width))


def _cut(line: Text, width: int) -> Text:
    line.truncate(width, overflow="ellipsis")
    return line


def _fitting(
    groups: list[dict[str, Any]], board: Board, place: Place, width: int, room: int
) -> tuple[list[Any], int]:
    """What fits into `room` lines from the first one to be shown; and how many lines do not."""
    lines: list[tuple[Any, Any]] = [(group, one) for group in groups for one in (None, *group["servers"])]
    place.first = max(0, min(place.first, len(lines) - 1))
    parts: list[Any] = [board.table([])]
    used, index = 1, place.first
    while index < len(lines) and used < room:
        group = lines[index][0]
        if lines[index][1] is None:
            parts.append(_cut(group_line(group), width))
            used, index = used + 1, index + 1
            continue
        parts.append(board.table([lines[index][1]], head=False))
        used, index = used + 1, index + 1
    return parts, place.first + len(lines) - index


def _move(place: Place, key: str | None, view: dict[str, Any], height: int) -> None:
    steps = {"up": -1, "k": -1, "down": 1, "j": 1, "page up": -height // 2, "page down": height // 2, "home": -10**6,
             "end": 10**6, " ": height // 2}  # fmt: skip
    if key in steps:
        place.first = max(0, place.first + steps[key])
    elif key == "g":
        names = [None, *(group["name"] for group in view["groups"])]
        place.group = names[(names.index(place.group) + 1) % len(names)] if place.group in names else None
        place.first = 0

