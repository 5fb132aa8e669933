"""Taking over a container: from the command that starts it to the settings of the `command` driver. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from monitor.drivers.command import COMMAND_ITEM
from monitor.errors import ActionError
from monitor.launch import ParsedCommand, parse_command
from monitor.launch.argv import option_value
from monitor.launch.container import image_at
from monitor.model.server import Engine
from monitor.units.adopt import engine_of

#: Seconds that the runtime waits after SIGTERM before it kills: above a drain by `--shutdown-timeout`.
_STOP_SECONDS = "120"


@dataclass(frozen=True, slots=True)
class ContainerAdoption:
    """The driver's settings for a container, what was understood of its command, and remarks for people."""

    name: str
    engine: Engine
    command: ParsedCommand
    driver: dict[str, Any]
    remarks: tuple[str, ...]


def adopt_container(argv: Sequence[str], engine: Engine | None = None) -> ContainerAdoption:
    """Settings for a container that `argv` starts. Raises ActionError naming what stands in the way."""
    image, found = image_at(argv), engine or engine_of(argv)
    if image is None:
        shown = " ".join(argv[:2])
        raise ActionError(f"`{shown} …` starts no container, expected docker run or podman run", reason="adopt")
    if found is None:
        raise ActionError(f"image {argv[image]}: name its engine with --engine", reason="adopt")
    options, server = list(argv[:image]), tuple(argv[image + 1 :])
    name = option_value(options, "--name")
    if name is None:
        raise ActionError("the container needs a name (--name), by which it is stopped and looked at", reason="adopt")
    command = parse_command(found, argv)
    if command.part_of is not None or command.problems:
        why = command.part_of or "; ".join(command.problems)
        raise ActionError(f"container {name}: {why}", reason="adopt")
    run = next(at for at, item in enumerate(options) if item in ("run", "create"))
    runtime = tuple(options[:run])
    if not any(item in ("-d", "--detach") or _is_short(item, "d") for item in options):
        options.insert(run + 1, "--detach")
    driver: dict[str, Any] = {
        "kind": "command",
        "command": list(server),
        "start": [*options, argv[image], COMMAND_ITEM],
        "stop": [*runtime, "stop", "--time", _STOP_SECONDS, name],
        "kill": [*runtime, "kill", name],
        "status": [*runtime, "ps", "--quiet", "--no-trunc", "--filter", f"name=^{name}$"],
        "log": [*runtime, "logs", "--tail", "200", name],
    }
    return ContainerAdoption(name, found, command, driver, tuple(_remarks(options, name)))


def _remarks(options: Sequence[str], name: str) -> list[str]:
    remarks = ["the daemon's user must be allowed to use the container runtime: that is root's power, in effect"]
    if "--rm" not in options and "--replace" not in options:
        remarks.append(f"a stopped container keeps its name: add --rm, or start by a script that removes {name} first")
    restart = option_value(options, "--restart")
    if restart not in (None, "no"):
        remarks.append(f"--restart {restart}: the runtime would start it beside acceptd; take it out, use keep_running")
    return remarks


def _is_short(item: str, letter: str) -> bool:
    return item.startswith("-") and not item.startswith("--") and item[1:].isalpha() and letter in item[1:]
