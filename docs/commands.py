"""The commands as the program itself has them, for the pages that are made from them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer

from monitor.cli.main import app

#: Options that typer gives to every program.
_OF_EVERY_PROGRAM = ("help", "install_completion", "show_completion")


def program() -> Any:
    """The program: its parameters come before every command."""
    return typer.main.get_command(app)


def commands() -> Iterator[tuple[str, Any]]:
    """Every command that does something, by its whole name (`db size`)."""
    top = program()
    for name in top.list_commands(None):
        command = top.get_command(None, name)
        if hasattr(command, "commands"):
            yield from ((f"{name} {below}", one) for below, one in command.commands.items())
        else:
            yield name, command


def parameters(command: Any) -> list[Any]:
    """Its own arguments and options, in the order in which it lists them."""
    return [one for one in command.params if one.name not in _OF_EVERY_PROGRAM]


def is_argument(parameter: Any) -> bool:
    """Whether it is known by its place."""
    return not any(option.startswith("-") for option in parameter.opts)


def usage(name: str, command: Any) -> str:
    """How the command is called."""
    return " ".join(["acceptd", name, *(_shown(one) for one in command.params if is_argument(one)), "[OPTIONS]"])


def _shown(parameter: Any) -> str:
    shown = parameter.name.upper() + ("..." if parameter.nargs == -1 else "")
    return shown if parameter.required else f"[{shown}]"
