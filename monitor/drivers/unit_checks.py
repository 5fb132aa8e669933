"""What must be in place so that a unit can be changed: asked of systemd and of the unit's files. It changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from monitor.drivers.process import folder_check
from monitor.drivers.protocol import Check
from monitor.drivers.systemctl import Systemctl, UnitState
from monitor.drivers.unit_command import DROP_IN, UnitOptions, is_edited
from monitor.drivers.unit_launcher import UnitLauncher
from monitor.errors import ActionError


def unit_checks(options: UnitOptions, launcher: UnitLauncher, systemctl: Systemctl) -> tuple[Check, ...]:
    """Launch folder writable, unit loaded and passing the variable, nothing edited behind it, leave of polkit."""
    found = [folder_check("launch file", options.outside(options.folder))]
    try:
        found += _of_unit(options, launcher, systemctl)
    except ActionError as error:
        found.append(Check("unit", False, str(error)))
    return tuple(found)


def _of_unit(options: UnitOptions, launcher: UnitLauncher, systemctl: Systemctl) -> Iterator[Check]:
    unit, name = loaded_unit(systemctl, options.unit), options.unit
    yield Check("unit", True, f"{name} is loaded")
    problems = "; ".join(launcher.command.problems)
    yield Check("command line", not problems, problems or f"{name} passes acceptd's words to the server")
    edited = edited_behind(options, unit)
    yield Check("unit file", not edited, edited or "as systemd and acceptd know it")
    if unit.active == "failed":
        return
    try:
        # Of a unit that has not failed it changes nothing, and it asks polkit the question that stopping asks.
        reset_failed(systemctl, name)
        yield Check("permission", True, "systemd lets acceptd act on this unit")
    except ActionError as error:
        yield Check("permission", None if error.retryable else False, str(error))


def loaded_unit(systemctl: Systemctl, unit: str) -> UnitState:
    """The state of a unit that exists. Raises ActionError for one that does not, or is masked or broken."""
    found = systemctl.state(unit)
    if found.load_state != "loaded":
        raise ActionError(f"systemd has no usable unit {unit} ({found.load_state})", reason="no_unit")
    return found


def reset_failed(systemctl: Systemctl, unit: str) -> None:
    """Make systemd forget failures and the starts it counted. Raises ActionError where that is not permitted."""
    try:
        systemctl.act("reset-failed", unit)
    except ActionError as error:
        # systemd forgets a unit that nothing refers to, and its failures with it.
        if error.reason != "no_unit":
            raise


def edited_behind(options: UnitOptions, unit: UnitState) -> str:
    """Why the unit's command is not what acceptd took over; empty where it is, or where nothing was replaced."""
    if unit.needs_reload:
        return f"{options.unit} was edited since systemd read it: `systemctl daemon-reload` first"
    texts: dict[str, str] = {}
    for path in (unit.fragment, *unit.drop_ins):
        try:
            texts[path] = options.outside(Path(path)).read_text()
        except OSError:
            return ""
    ours = next((text for path, text in texts.items() if Path(path).name == DROP_IN), "")
    if not is_edited(ours, [text for text in texts.values() if text != ours]):
        return ""
    return f"{unit.fragment} was edited since it was adopted: run `acceptd adopt {options.unit}` again"
