"""Taking over a server's unit that exists: a drop-in that moves its speculation flags into a variable.

The unit's own command stays what it says, but for those flags, which become the operator's value of the variable; a
unit that cannot be understood to the last word is refused.
"""

from __future__ import annotations

import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from monitor.drivers.systemctl import UnitCommandLine, UnitState
from monitor.drivers.unit_command import DROP_IN, LAUNCH_FILE_ENDING, REPLACES, VARIABLE, replaced_command
from monitor.errors import ActionError, LaunchError
from monitor.launch import ParsedCommand, looks_like_server, parse_command
from monitor.launch.container import image_at
from monitor.launch.program import find_program
from monitor.launch.unit_text import env_line, expand, quote_words, read_env, unit_words, variables_in
from monitor.model.server import Engine
from monitor.units.install import UNITS
from monitor.units.permission import permitted, rule
from monitor.units.plan import Plan, Put, Remove, Run

#: Where acceptd's launch files lie; the daemon's `data_dir` must be the folder above.
LAUNCH = Path("/var/lib/acceptd/launch")
#: Words in the name of a container's image, or of a script, that tell its engine.
_ENGINE_WORDS = {"vllm": Engine.VLLM, "sglang": Engine.SGLANG, "llama": Engine.LLAMACPP}
#: How `ExecStart=` writes what systemd shows as the flags of a command.
_PREFIXES = {"ignore-failure": "-", "privileged": "+", "no-setuid": "!", "ambient": "!!"}
#: Drops a launch file that was written for another command; the same line is in vllm@.service.
_GUARD = (
    "ExecStartPre=-+/bin/sh -c 'cd {folder} 2>/dev/null || exit 0; test ! -e \"%n.env\" ||"
    ' sha256sum --check --status "%n.key" || mv -f "%n.env" "%n.void.env"\''
)


@dataclass(frozen=True, slots=True)
class Adoption:
    """What adopting a unit means: the files to write, the engine and the command that were understood."""

    unit: str
    engine: Engine
    command: ParsedCommand
    plan: Plan


def drop_in_path(unit: str) -> Path:
    """Where the drop-in of a unit lies."""
    return UNITS / f"{unit}.d" / DROP_IN


def adopt_plan(
    unit: str, state: UnitState, line: UnitCommandLine, texts: Sequence[str], *, root: Path = Path("/"),
    engine: Engine | None = None,
) -> Adoption:
    """How to adopt `unit`. `line` is its command without our drop-in, `texts` its unit files in systemd's order.

    Raises ActionError naming what stands in the way.
    """
    environ = _environ(line, root)
    argv = expand(line.items, environ)
    found = engine or engine_of(argv)
    _refuse(unit, state, line, found)
    assert found is not None
    command = parse_command(found, argv)
    if command.part_of is not None:
        raise ActionError(f"{unit} is {command.part_of}: it is watched, not restarted", reason="adopt")
    if command.problems:
        raise ActionError(f"{unit}: its command cannot be read for sure: {'; '.join(command.problems)}", reason="adopt")
    _refuse_hidden(unit, found, line, argv)
    passes = VARIABLE in {name for item in line.items for name in variables_in(item)}
    launch_file = LAUNCH / f"{unit}{LAUNCH_FILE_ENDING}"
    reads = launch_file in {Path(path) for path, _ in line.files}
    steps: list[Put | Run] = []
    if not (passes and reads):
        text = _drop_in(unit, found, line, texts, passes)
        # It may hold what the unit holds, secrets too: readable as the unit is.
        steps += [Put(drop_in_path(unit), text, _mode(state, root)), Run(("systemctl", "daemon-reload"))]
    steps.insert(0, rule(permitted(root) | {unit}))
    return Adoption(unit, found, command, Plan(tuple(steps), _remarks(unit, state, command, passes and reads), root))


def release_plan(unit: str, root: Path = Path("/")) -> Plan:
    """How to give a unit back: its own command as it was, no permission, no launch file. It goes on running."""
    drop_in, launch = drop_in_path(unit), LAUNCH / f"{unit}{LAUNCH_FILE_ENDING}"
    steps = (
        Remove(drop_in, keep=UNITS), Remove(launch, keep=LAUNCH), rule(permitted(root) - {unit}),
        Run(("systemctl", "daemon-reload")),
    )  # fmt: skip
    remarks = (
        f"{unit} goes on as it runs; from its next start on it has the setting of its own command",
        "its server must lose `driver:` in acceptd's configuration",
    )
    return Plan(steps, remarks, root)


def engine_of(argv: Sequence[str]) -> Engine | None:
    """The engine that a command starts: by its program, else by the name of its container's image."""
    known = looks_like_server(argv) or next(
        (engine for engine in _ENGINE_WORDS.values() if find_program(argv, engine) is not None), None
    )
    image = image_at(argv)
    if known is not None or image is None:
        return known
    return next((engine for word, engine in _ENGINE_WORDS.items() if word in argv[image].lower()), None)


def _refuse(unit: str, state: UnitState, line: UnitCommandLine, engine: Engine | None) -> None:
    if state.load_state != "loaded":
        raise ActionError(f"systemd has no usable unit {unit} ({state.load_state})", reason="adopt")
    if line.count != 1:
        raise ActionError(f"{unit} has {line.count} commands in ExecStart=, expected one", reason="adopt")
    strange = [prefix for prefix in line.prefixes if prefix not in _PREFIXES]
    if strange:
        raise ActionError(f"{unit}: ExecStart= has the prefix for {strange[0]}: it passes no variables", reason="adopt")
    if engine is None:
        shown = " ".join(line.items[:3])
        raise ActionError(
            f"{unit} starts `{shown} …`, which is no server that acceptd knows: write the command of vLLM, SGLang or"
            " llama-server itself into ExecStart=, not a script that starts it; or name the engine with --engine",
            reason="adopt",
        )


def _drop_in(unit: str, engine: Engine, line: UnitCommandLine, texts: Sequence[str], passes: bool) -> str:
    head = (
        f"# Written by `acceptd adopt {unit}`; taken back by `acceptd adopt --release {unit}`. Edit the unit itself:\n"
        "# acceptd then says so, changes nothing, and wants to be run again.\n"
        "[Service]\n"
    )
    launch = f"EnvironmentFile=-{LAUNCH}/%n{LAUNCH_FILE_ENDING}\n{_GUARD.format(folder=LAUNCH)}\n"
    if passes:
        return head + launch
    base, own = _without_speculation(engine, line)
    called = base[0]
    prefix = "".join(_PREFIXES[name] for name in line.prefixes)
    if called not in (line.program, Path(line.program).name):
        prefix, base = f"{prefix}@", (line.program, *base)
    try:
        given = unit_words([f"{VARIABLE}={quote_words(own)}"])
        started = unit_words([*base, f"${VARIABLE}"])
    except LaunchError as error:
        raise ActionError(f"{unit}: {error}", reason="adopt") from error
    return (
        f"{head}# What this replaces, so that an edit is noticed.\n{REPLACES}{replaced_command(texts)}\n"
        f"# The unit's own speculation flags: they hold where acceptd has written nothing.\nEnvironment={given}\n"
        f"{launch}ExecStart=\nExecStart={prefix}{started}\n"
    )


def _without_speculation(engine: Engine, line: UnitCommandLine) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The unit's items without speculation flags, and those flags; variables in items stay what they are."""
    base = parse_command(engine, line.items).base_argv
    return base, _rest(line.items, base)


def _refuse_hidden(unit: str, engine: Engine, line: UnitCommandLine, argv: Sequence[str]) -> None:
    """Refuse speculation flags that stand in a variable of the unit's: there they cannot be replaced."""
    inside = _rest(argv, parse_command(engine, argv).base_argv)
    if VARIABLE in {name for item in line.items for name in variables_in(item)} or not inside:
        return
    if inside != _without_speculation(engine, line)[1]:
        names = ", ".join(f"${name}" for name in sorted({name for item in line.items for name in variables_in(item)}))
        raise ActionError(
            f"{unit} has its speculation flags in a variable ({names or 'or with a $ in them'}): take them out, set"
            f" {env_line(VARIABLE, quote_words(inside)).strip()} beside the others, add ${VARIABLE} at the end of"
            " ExecStart=, and adopt it again",
            reason="adopt",
        )


def _rest(items: Sequence[str], base: Sequence[str]) -> tuple[str, ...]:
    """The items that `base`, which keeps their order, lacks."""
    kept, rest = list(base), []
    for item in items:
        if kept and kept[0] == item:
            kept.pop(0)
        else:
            rest.append(item)
    return tuple(rest)


def _environ(line: UnitCommandLine, root: Path) -> dict[str, str]:
    environ = dict(pair.split("=", 1) for pair in line.environment if "=" in pair)
    for path, _ in line.files:
        try:
            environ |= read_env((root / path.lstrip("/")).read_text())
        except FileNotFoundError:
            continue
        except (OSError, UnicodeDecodeError) as error:
            raise ActionError(f"{path}: cannot be read ({error}); run this as root", reason="adopt") from error
    return environ


def _mode(state: UnitState, root: Path) -> int:
    try:
        return stat.S_IMODE((root / state.fragment.lstrip("/")).stat().st_mode) & 0o644
    except OSError:
        return 0o644


def _remarks(unit: str, state: UnitState, command: ParsedCommand, ready: bool) -> tuple[str, ...]:
    remarks = []
    if ready:
        remarks.append(f"{unit} passes ${VARIABLE} already: only the permission is added")
    else:
        remarks.append(f"nothing is restarted: {unit} goes on as it runs, and uses this from its next start on")
    if command.speculation is None:
        remarks.append("its command has no speculation: acceptd cannot switch on what it knows no method and draft of")
    if state.kill_mode in ("process", "none"):
        remarks.append(f"KillMode={state.kill_mode}: engines may outlive a stop; KillMode=mixed leaves none")
    return tuple(remarks)
