"""The commands `export`: rules for Prometheus and a dashboard for Grafana, over acceptd's own metrics."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
import yaml

from monitor.cli.context import Absent, Context
from monitor.cli.output import console
from monitor.config.rules import load_objectives, slo_paths
from monitor.report.grafana import dashboard
from monitor.slo.prometheus import prometheus_rules

export = typer.Typer(no_args_is_help=True, help="What Prometheus and Grafana can take over.", rich_markup_mode=None)

Output = Annotated[Path | None, typer.Option("--output", "-o", help="File to write; else standard output.")]


@export.command("prometheus-rules")
def rules(ctx: typer.Context, output: Output = None) -> None:
    """Recording and alerting rules with the same objectives, for a Prometheus that scrapes acceptd."""
    policies = load_objectives(_objectives(ctx.obj))
    if not policies:
        raise Absent("no objectives are configured (slo: in the configuration): there is nothing to export")
    text = yaml.safe_dump(prometheus_rules(policies), sort_keys=False, allow_unicode=True, width=120)
    _write("# Made by `acceptd export prometheus-rules`; make it anew after the objectives change.\n" + text, output)


@export.command("grafana")
def grafana(ctx: typer.Context, output: Output = None) -> None:
    """A dashboard to import into Grafana."""
    _write(json.dumps(dashboard(), indent=2) + "\n", output)


def _objectives(context: Context) -> list[Path]:
    """Files of objectives: of the daemon that runs or ran, else of the configuration or, without one, the shipped."""
    try:
        return [Path(file) for file in context.running().slo_files]
    except Absent:
        return list(slo_paths(context.config()))


def _write(text: str, output: Path | None) -> None:
    if output is None:
        print(text, end="")
        return
    output.write_text(text, encoding="utf-8")
    console.print(str(output), markup=False)
