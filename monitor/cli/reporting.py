"""The command `report`: a weekly report from the store, daemon up or down."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from monitor.app.limits import collect_seldom
from monitor.app.reports import write_report
from monitor.cli.context import Context
from monitor.cli.output import console
from monitor.clock import SystemClock
from monitor.config.rules import load_objectives
from monitor.errors import ConfigError, Problem
from monitor.report.assemble import assemble, week_key
from monitor.report.render import to_html, to_json, to_markdown

_RENDER = {"markdown": to_markdown, "html": to_html, "json": to_json}


def report(
    ctx: typer.Context,
    week: Annotated[bool, typer.Option("--week", help="The last seven days (the default).")] = True,
    days: Annotated[float, typer.Option(help="Another length, in days.")] = 7.0,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Folder for HTML, Markdown and JSON.")] = None,
    form: Annotated[str, typer.Option("--format", help="On the terminal: markdown, html or json.")] = "markdown",
    as_json: Annotated[bool, typer.Option("--json", help="Same as --format json.")] = False,
) -> None:
    """What was changed and what that did, how every server fared, and what to do now."""
    form = "json" if as_json else form
    if form not in _RENDER:
        raise ConfigError([Problem("--format", repr(form), "markdown, html or json")])
    if not 0 < days <= 400:
        raise ConfigError([Problem("--days", f"{days:g}", "more than 0 and at most 400")])
    context: Context = ctx.obj
    running = context.running()
    now = SystemClock().now()
    collect_seldom()
    with context.reading() as store, store.read() as unit:
        made = assemble(
            unit, running.groups, end=now, now=now, key=f"{week_key(now, 'UTC')}-so-far" if week else "report",
            host=running.host, target=running.report_target, simulated=running.simulated, days=days,
            policies=load_objectives(Path(file) for file in running.slo_files),
        )
    if output is None:
        print(_RENDER[form](made), end="" if form == "html" else "\n")
        return
    for path in write_report(made, output):
        console.print(str(path), markup=False)
