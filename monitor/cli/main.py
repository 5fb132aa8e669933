"""The command `acceptd`: options before the command's name, and one place where errors become exit codes."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import Annotated

import typer

from monitor import __version__
from monitor.cli import acting, looking, reading, reporting, running, setting_up
from monitor.cli.context import Absent, Context
from monitor.cli.output import errors
from monitor.errors import ConfigError, MonitorError

app = typer.Typer(
    name="acceptd",
    help="SLO and tuning daemon for fleets that serve LLMs with speculative decoding.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _version(value: bool) -> None:
    if value:
        print(f"acceptd {__version__}")
        raise typer.Exit


@app.callback()
def options(
    ctx: typer.Context,
    config: Annotated[
        Path | None, typer.Option(help="Configuration file; else ./acceptd.yaml, /etc/acceptd/acceptd.yaml.")
    ] = None,
    data_dir: Annotated[Path | None, typer.Option(help="Data folder; else the configuration's.")] = None,
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Show it.")] = False,
) -> None:
    """Options of every command."""
    ctx.obj = Context(config, data_dir)


for command in (
    running.run, running.demo, setting_up.init, setting_up.check, looking.status, looking.servers, looking.history,
    looking.why, looking.alerts, looking.evidence, acting.plan, acting.apply, acting.reject, acting.rollback,
    acting.pause, acting.resume, acting.silence, reporting.report, reading.read, reading.tune,
):
    app.command()(command)
app.add_typer(setting_up.db, name="db")
app.add_typer(reading.launch, name="launch")


def main() -> None:
    """Run the command line; exit 0 done, 1 no, 2 wrong input, 3 what is needed is not there."""
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr, format="%(levelname)s %(message)s")
    try:
        app()
    except ConfigError as error:
        for problem in error.problems:
            errors.print(str(problem), style="red", markup=False, soft_wrap=True)
        sys.exit(2)
    except Absent as error:
        errors.print(str(error), style="yellow", markup=False, soft_wrap=True)
        sys.exit(3)
    except MonitorError as error:
        errors.print(str(error), style="red", markup=False, soft_wrap=True)
        sys.exit(1)
    except BrokenPipeError:
        # The reader of a pipe has seen enough.
        sys.stderr.close()
        sys.exit(0)
