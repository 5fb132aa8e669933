"""The command `slo`: every objective as the store has it, daemon up or down."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import Progress

from monitor.cli.context import Context
from monitor.cli.looking import Json, known_groups
from monitor.cli.output import console, errors, number, print_json, share, table
from monitor.clock import SystemClock
from monitor.config.rules import load_objectives
from monitor.cycle.slo_history import feed_book
from monitor.model.duration import format_duration
from monitor.model.server import Group, ServerName
from monitor.report.slo_view import slo_view
from monitor.slo.book import SloBook
from monitor.slo.burn import SloStatus
from monitor.store import Store


def slo(
    ctx: typer.Context,
    group: Annotated[str, typer.Option(help="Only this group.")] = "",
    as_json: Json = False,
) -> None:
    """Every objective: reached, error budget left, how fast it burns and when it is spent."""
    context: Context = ctx.obj
    running = context.running()
    groups = known_groups(running, group)
    book = SloBook(
        load_objectives(Path(file) for file in running.slo_files), {one.name: one.servers for one in groups}
    )
    now = SystemClock().now()
    with context.reading() as store:
        _feed(book, store, groups, now)
    statuses = book.statuses(now)
    views = [slo_view(status) for status in statuses]
    if as_json:
        print_json({"at": now.isoformat(), "slos": views})
        return
    if not views:
        console.print("No objectives are configured (slo: in the configuration).", markup=False)
        return
    _print(statuses)


def _feed(book: SloBook, store: Store, groups: Sequence[Group], now: datetime) -> None:
    """Read back what the objectives count, with a bar where a person waits for many servers."""
    total = sum(len(group.servers) for group in groups)
    with Progress(console=errors, transient=True, disable=not errors.is_terminal or total < 4) as bar:
        task = bar.add_task("reading history", total=total)

        def goes_on(server: ServerName) -> bool:
            bar.advance(task)
            return True

        feed_book(book, store, groups, now, goes_on=goes_on)


def _print(statuses: Sequence[SloStatus]) -> None:
    rows = []
    for status in statuses:
        one = status.slo
        scope = next((status.scope[key] for key in ("server", "group", "model") if status.scope.get(key)), "–")
        aim = f"{one.objective:.4g} of {one.period_days:g} d" + (", report only" if one.report_only else "")
        left = status.attainment.error_budget_remaining
        rows.append([one.name, scope, aim, share(status.attainment.sli), share(left), number(status.burn_rate),
                     _windows(status), _spent(status.exhausted_in_seconds)])  # fmt: skip
    columns = ("objective", "of", "aim", "reached", "budget left", "burn 1h", "burning", "spent in")
    console.print(table(columns, rows, right=(3, 4, 5)))
    counted = [one for one in statuses if one.attainment.sli is not None]
    new = dict.fromkeys(one.slo.name for one in counted if one.attainment.known < 0.99)
    if new:
        console.print(f"{', '.join(new)}: watched for less than the period so far, which counts as good before.",
                      style="dim", markup=False)
    if len(counted) < len(statuses):
        console.print("–: nothing was counted yet (no traffic, or the server does not count it).", style="dim",
                      markup=False)


def _windows(status: SloStatus) -> str:
    """Which windows burn, with the factor they must exceed: what pages and what opens a ticket."""
    burning = [burn for burn in status.burns if burn.is_burning]
    words = [
        f"{burn.window.severity.value}: {number(burn.long)}x over {format_duration(burn.window.long_seconds)}"
        f" (limit {burn.window.factor:.4g})"
        for burn in burning
    ]
    return "; ".join(words) or "no"


def _spent(seconds: float | None) -> str:
    if seconds is None:
        return "–"
    if seconds <= 0:
        return "spent"
    return f"{seconds / 86400:.1f} d" if seconds >= 2 * 86400 else f"{seconds / 3600:.1f} h"
