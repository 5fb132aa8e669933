"""The commands `install` and `adopt`: acceptd's own units and those of servers, shown first, changed with --yes."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml

from monitor.cli.context import Context, find_config
from monitor.cli.output import console
from monitor.config.scalars import unit_name
from monitor.drivers.systemctl import Systemctl
from monitor.drivers.unit_command import VARIABLE, is_edited
from monitor.errors import ActionError, ConfigError, LaunchError, Problem
from monitor.launch import ParsedCommand, redact_text
from monitor.launch.container import is_container_start
from monitor.model.server import Engine
from monitor.units.adopt import LAUNCH, Adoption, adopt_plan, drop_in_path, release_plan
from monitor.units.container import adopt_container
from monitor.units.install import install_plan, uninstall_plan
from monitor.units.plan import Plan

_Yes = Annotated[bool, typer.Option("--yes", help="Do it; otherwise it is only shown.")]


def install(
    ctx: typer.Context,
    yes: _Yes = False,
    uninstall: Annotated[bool, typer.Option("--uninstall", help="Take it away; servers go on.")] = False,
) -> None:
    """Put the service in place: units, users, folders, and leave to restart the servers of the configuration."""
    if uninstall:
        plan = uninstall_plan(running=_running_units())
    else:
        units, remarks = _configured_units(ctx.obj)
        made = install_plan(units, _program())
        plan = Plan(made.steps, (*made.remarks, *remarks))
    _show(plan, "nothing to do: all is in place" if not uninstall else "nothing to do: nothing is in place", yes)
    for path in plan.kept():
        console.print(f"{path} was edited and stays", markup=False, soft_wrap=True)
    if yes and not uninstall:
        console.print("Next: acceptd check; systemctl enable --now acceptd", markup=False)


def adopt(
    words: Annotated[
        list[str], typer.Argument(metavar="UNIT | -- docker run …", help="A server's unit, or a container's start.")
    ],
    yes: _Yes = False,
    release: Annotated[bool, typer.Option("--release", help="Give the unit back as it was.")] = False,
    engine: Annotated[Engine | None, typer.Option(help="Engine, where the command does not tell.")] = None,
) -> None:
    """Take over a server that runs as a unit or container, so that acceptd may change its speculation flags."""
    if len(words) > 1 or is_container_start(words):
        if release:
            raise ConfigError([Problem("--release", "a container's command", "a unit: a container has no drop-in")])
        _adopt_container(words, engine)
        return
    try:
        unit = unit_name(words[0])
    except ValueError as error:
        raise ConfigError([Problem("UNIT", repr(words[0]), str(error))]) from error
    if release:
        _show(release_plan(unit), f"nothing to do: {unit} is not adopted", yes)
        return
    adoption = _adoption(unit, engine, yes)
    _show(adoption.plan, f"nothing to do: {unit} is adopted", yes)
    driver = {"kind": "systemd", "unit": unit}
    _show_config(re.sub(r"[^A-Za-z0-9._-]", "-", unit.removesuffix(".service").rpartition("@")[2]), adoption.engine,
                 adoption.command, driver)  # fmt: skip
    console.print(f"(data_dir of that configuration must be {LAUNCH.parent})", markup=False)


def _adoption(unit: str, engine: Engine | None, yes: bool) -> Adoption:
    """How to adopt the unit; one that was adopted and edited since is given back first, where that may be done."""
    systemctl = Systemctl()
    state = systemctl.state(unit)
    texts = [text for path in (state.fragment, *state.drop_ins) if (text := _read(path)) and path != _ours(unit)]
    if _ours(unit) in state.drop_ins and is_edited(_read(_ours(unit)), texts):
        console.print(f"{unit} was edited since it was adopted: given back first, then adopted as it is now",
                      markup=False, soft_wrap=True)  # fmt: skip
        again = release_plan(unit)
        _show(again, "", yes)
        if not yes:
            raise typer.Exit
        state = systemctl.state(unit)
    return adopt_plan(unit, state, systemctl.command_line(unit), texts, engine=engine)


def _adopt_container(argv: Sequence[str], engine: Engine | None) -> None:
    try:
        adoption = adopt_container(argv, engine)
    except LaunchError as error:
        raise ActionError(str(error), reason="adopt") from error
    for remark in adoption.remarks:
        console.print(f"note: {remark}", style="yellow", markup=False, soft_wrap=True)
    _show_config(adoption.name, adoption.engine, adoption.command, adoption.driver)


def _show_config(name: str, engine: Engine, command: ParsedCommand, driver: dict[str, Any]) -> None:
    host = command.host if command.host not in (None, "0.0.0.0", "::") else "127.0.0.1"
    server = {"name": name, "url": f"http://{host}:{command.port}", "engine": engine.value, "driver": driver}
    console.print("\nIn acceptd's configuration, below `servers:`:\n", markup=False)
    print(redact_text(yaml.safe_dump([server], sort_keys=False, default_flow_style=None, width=110)), end="")


def _show(plan: Plan, nothing: str, yes: bool) -> None:
    """Show what a plan would do, secrets hidden; do it with `yes`."""
    lines = plan.diff()
    for line in lines:
        style = {"+": "green", "-": "red"}.get(line[:1])
        console.print(_hidden(line), style=style, markup=False, soft_wrap=True)
    if not lines and nothing:
        console.print(nothing, markup=False, soft_wrap=True)
    for remark in plan.remarks:
        console.print(f"note: {remark}", style="yellow", markup=False, soft_wrap=True)
    if lines and not yes:
        console.print("Nothing was changed; --yes does it.", style="bold")
    elif lines:
        if os.geteuid() != 0:
            raise ActionError("only root may do this: run it with sudo", reason="install")
        plan.carry_out()
        console.print("Done.", style="bold")


def _hidden(line: str) -> str:
    """A line without secrets; acceptd's variable, which may follow one on a command line, is none."""
    ending = f" ${VARIABLE}"
    return f"{redact_text(line.removesuffix(ending))}{ending}" if line.endswith(ending) else redact_text(line)


def _configured_units(context: Context) -> tuple[set[str], list[str]]:
    """The units that the configuration has drivers for; a remark where it cannot be read."""
    if find_config(context.config_path) is None:
        return set(), ["no configuration yet: run this again once it names units, so that acceptd may restart them"]
    try:
        config = context.config()
    except ConfigError as error:
        raise ConfigError([*error.problems, Problem("install", "mistakes in the configuration", "none")]) from error
    return {one.driver.unit for one in config.servers if one.driver is not None and one.driver.unit is not None}, []


def _program() -> Path:
    beside = Path(sys.executable).with_name("acceptd")
    if beside.exists():
        return beside
    found = shutil.which("acceptd")
    return Path(found) if found is not None else beside


def _running_units() -> Iterable[str]:
    return Systemctl().running()


def _ours(unit: str) -> str:
    return str(drop_in_path(unit))


def _read(path: str) -> str:
    try:
        return Path(path).read_text() if path else ""
    except OSError as error:
        raise ActionError(f"{path}: cannot be read ({error.strerror}); run this as root", reason="adopt") from error
