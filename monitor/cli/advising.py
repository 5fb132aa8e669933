"""The commands `tune` and `launch render`: answers to documents, without configuration or daemon."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from monitor.cli.context import file_bytes
from monitor.cli.output import console, interval, print_json
from monitor.errors import ConfigError, Problem
from monitor.launch import render_json
from monitor.tuning import serve, tune_json


def tune(
    observed: Annotated[Path | None, typer.Argument(help="JSON file of what a server showed.")] = None,
    stdin: Annotated[bool, typer.Option("--stdin", help="One JSON object a line in, one out, until the end.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Which num_speculative_tokens serves most, from observed acceptance and step times; with reason and forecast."""
    if stdin:
        serve(sys.stdin, _write_line)
        return
    if observed is None:
        raise ConfigError([Problem("OBSERVED", "nothing", "a JSON file, or --stdin")])
    try:
        given = json.loads(file_bytes(observed))
    except (ValueError, RecursionError) as error:
        raise ConfigError([Problem(str(observed), str(error), "one JSON object")]) from error
    answer = tune_json(given)
    if as_json or "error" in answer:
        print_json(answer)
    else:
        _print_advice(answer)
    if "error" in answer:
        raise typer.Exit(2)


def _write_line(line: str) -> None:
    sys.stdout.write(line)
    sys.stdout.flush()


def _print_advice(answer: dict[str, Any]) -> None:
    console.print(f"{answer['action']}: num_speculative_tokens {answer['num_speculative_tokens']}", style="bold")
    console.print(f"  {answer['sentence']}", markup=False)
    if answer["gain"] is not None:
        gain = interval(answer["gain"], answer["gain_low"], answer["gain_high"])
        console.print(f"  predicted gain {gain}", markup=False)
    rule = answer["threshold_rule"]
    console.print(f"  70/50 rule: {rule['action']} ({rule['num_speculative_tokens']})", markup=False)


launch = typer.Typer(help="Command lines of the engines.", no_args_is_help=True, rich_markup_mode=None)


@launch.command("render")
def launch_render(
    engine: Annotated[str, typer.Option(help="vllm, sglang or llamacpp.")],
    version: Annotated[str, typer.Option(help="Its version, e.g. 0.32.0.")],
    speculation: Annotated[str, typer.Option(help="Speculation settings as a JSON object.")],
    target_args: Annotated[str, typer.Option(help="The server's other arguments, quoted as in a shell.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """The command line that one version of an engine wants for a speculation setting."""
    code, answer = render_json(engine, version, speculation, target_args)
    rendered: dict[str, Any] = answer
    if as_json or "error" in answer:
        print_json(answer)
    else:
        for name, value in rendered["env"].items():
            console.print(f"{name}={value}", markup=False)
        console.print(" ".join(shlex.quote(item) for item in rendered["argv"]), markup=False, soft_wrap=True)
        for warning in rendered["warnings"]:
            console.print(f"warning: {warning}", style="yellow", markup=False)
    if code:
        raise typer.Exit(code)
