"""The command `acceptd`: options before the command's name, and one place where errors become exit codes."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from monitor import __version__
from monitor.cli.context import Absent, Context
from monitor.cli.output import errors
from monitor.errors import ConfigError, MonitorError

#: Where each command lives, in the order in which they are listed.
COMMANDS = {
    **dict.fromkeys(("run", "demo"), "running"),
    **dict.fromkeys(("init", "check"), "setting_up"),
    **dict.fromkeys(("status", "servers", "history", "why", "alerts", "evidence", "runbook"), "looking"),
    "watch": "watching",
    **dict.fromkeys(("plan", "apply", "reject", "rollback", "pause", "resume"), "acting"),
    **dict.fromkeys(("silence", "unsilence", "silences", "ack"), "silencing"),
    "slo": "slo",
    "rules": "rules",
    "report": "reporting",
    "export": "exporting",
    "read": "reading",
    **dict.fromkeys(("tune", "launch"), "advising"),
    "advise": "advise",
    "bench": "bench",
    "doctor": "doctor",
    "db": "database",
    **dict.fromkeys(("install", "adopt"), "installing"),
}


class Commands(TyperGroup):
    """Imports a command where it is asked for: one that reads a page waits for no database and no charts."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Names of all commands."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of that name; None where there is none."""
        if cmd_name not in COMMANDS:
            # The names that an unknown one is compared with.
            self.commands = {name: self.get_command(ctx, name) for name in COMMANDS}
            return None
        found = getattr(import_module(f"monitor.cli.{COMMANDS[cmd_name]}"), cmd_name)
        if isinstance(found, typer.Typer):
            command: Any = typer.main.get_group(found)
        else:
            alone = typer.Typer(add_completion=False, rich_markup_mode=None)
            alone.command()(found)
            command = typer.main.get_command(alone)
        command.name = cmd_name
        return command


app = typer.Typer(
    name="acceptd",
    cls=Commands,
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


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; exit 0 done, 1 no, 2 wrong input, 3 what is needed is not there, 130 interrupted."""
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr, format="%(levelname)s %(message)s")
    try:
        app(args=arguments, prog_name="acceptd")
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
    except OSError as error:
        # A file or folder that this user may not touch, a full disk: a sentence, not a traceback.
        where = f"{error.filename}: " if error.filename is not None else ""
        errors.print(f"{where}{error.strerror or error}", style="red", markup=False, soft_wrap=True)
        sys.exit(1)
