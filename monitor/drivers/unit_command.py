"""The operator's command of a server that is a systemd unit: what the unit starts, and where acceptd's words go in it.

It reads the loaded unit and its environment files, and changes nothing. The unit is the one place where the command
stands; acceptd's part of it is the variable `ACCEPTD_SPECULATION`, whose value the operator gives and acceptd's launch
file, read later by systemd, replaces.
"""

from __future__ import annotations

import glob
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from monitor.drivers.systemctl import Systemctl, UnitCommandLine
from monitor.launch.unit_text import expand, read_env, split_words, variable_of, variables_in

#: What acceptd's launch file of a unit is called, after the unit.
LAUNCH_FILE_ENDING = ".env"
#: The variable that a unit passes to the server's command line.
VARIABLE = "ACCEPTD_SPECULATION"
#: Name of the drop-in that `acceptd adopt` writes.
DROP_IN = "50-acceptd.conf"
#: Begins the line of that drop-in that tells what it replaced; systemd passes over names that begin with X-.
REPLACES = "X-AcceptdReplaces="


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitOptions:
    """Which unit, and where things lie. `port` None means that nobody knows it: port checks are then left out.

    `root` is the root of the machine (elsewhere in tests).
    """

    unit: str
    folder: Path
    port: int | None = None
    root: Path = Path("/")

    def outside(self, path: Path) -> Path:
        """The path by which this process sees a file of the unit's machine."""
        return self.root / path.relative_to("/")


@dataclass(frozen=True, slots=True)
class UnitCommand:
    """A unit's command: words before and after the variable, and the words that the operator gives the variable.

    `environ` holds what could be read of the unit's variables, acceptd's launch file left out. `sources` are the files
    that the words come from. `problems` say why another setting cannot be passed to this unit.
    """

    before: tuple[str, ...]
    own: tuple[str, ...]
    after: tuple[str, ...]
    environ: Mapping[str, str]
    sources: tuple[Path, ...]
    problems: tuple[str, ...]

    @property
    def argv(self) -> tuple[str, ...]:
        """The operator's whole command."""
        return (*self.before, *self.own, *self.after)


def read_unit_command(
    line: UnitCommandLine, *, unit: str, launch_file: Path, drop_ins: Sequence[str] = (), fragment: str = "",
    outside: Callable[[Path], Path] = Path,
) -> UnitCommand:
    """The command of a loaded unit. `outside` gives the path by which this process sees a file of its machine."""
    environ = dict(pair.split("=", 1) for pair in line.environment if "=" in pair)
    problems, sources, closed = [], [], []
    reads_launch_file = False
    for pattern, optional in line.files:
        if Path(pattern) == launch_file:
            reads_launch_file = True
            continue
        for path in _matching(pattern, outside):
            try:
                environ |= read_env(outside(path).read_text())
                sources.append(path)
            except FileNotFoundError:
                if not optional:
                    problems.append(f"{path}, which {unit} needs, is not there")
            except (OSError, UnicodeDecodeError):
                closed.append(path)
    items = line.items
    names = [name for item in items for name in variables_in(item)]
    lost = sorted({name for name in names if name not in environ and name != VARIABLE})
    if closed and lost:
        files = ", ".join(str(path) for path in closed)
        problems.append(f"${lost[0]} of its command line cannot be known: {files} may not be read by this user")
    if line.count != 1:
        problems.append(f"{unit} has {line.count} commands in ExecStart=, expected one")
    place = next((index for index, item in enumerate(items) if variable_of(item) == VARIABLE), None)
    if place is None:
        problems.append(f"{unit} does not pass ${VARIABLE} to its command line: `acceptd adopt {unit}` shows how")
    elif not reads_launch_file:
        problems.append(f"{unit} does not read {launch_file}: `acceptd adopt {unit}` shows how")
    if names.count(VARIABLE) > 1:
        problems.append(f"{unit} has ${VARIABLE} more than once on its command line")
    cut = len(items) if place is None else place
    ours = [Path(path) for path in drop_ins if Path(path).name == DROP_IN]
    return UnitCommand(
        before=expand(items[:cut], environ),
        own=split_words(environ.get(VARIABLE, "")) if place is not None else (),
        after=expand(items[cut + 1 :], environ),
        environ=environ,
        # The unit itself only where nothing else says what the command is: its other lines may change freely.
        sources=tuple([*ours, *sources] or ([Path(fragment)] if fragment else [])),
        problems=tuple(problems),
    )


def _matching(pattern: str, outside: Callable[[Path], Path]) -> list[Path]:
    if not glob.has_magic(pattern):
        return [Path(pattern)]
    top = outside(Path("/"))
    return [Path("/") / Path(path).relative_to(top) for path in sorted(glob.glob(str(outside(Path(pattern)))))]


def replaced_command(texts: Sequence[str]) -> str:
    """Hash of the `ExecStart=` lines in unit files, in the order in which systemd reads them (an empty one resets).

    It is how an edit of a unit is noticed whose command a drop-in replaces.
    """
    lines: list[str] = []
    for text in texts:
        for line in text.replace("\\\n", " ").splitlines():
            name, equals, value = line.strip().partition("=")
            if equals and name.strip() == "ExecStart":
                lines = [*lines, value.strip()] if value.strip() else []
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def is_edited(drop_in: str, texts: Sequence[str]) -> bool:
    """Whether the command that a drop-in of acceptd's replaces is another one in the unit's other files by now."""
    replaced = next((line.removeprefix(REPLACES) for line in drop_in.splitlines() if line.startswith(REPLACES)), "")
    return bool(replaced) and replaced != replaced_command(texts)


class UnitReader:
    """Reads the command of one unit, each time it is called."""

    def __init__(self, options: UnitOptions, systemctl: Systemctl) -> None:
        self._options = options
        self._systemctl = systemctl

    def __call__(self) -> UnitCommand:
        """The command now. Raises ActionError where systemd does not answer."""
        options, unit = self._options, self._systemctl.state(self._options.unit)
        return read_unit_command(
            self._systemctl.command_line(options.unit), unit=options.unit,
            launch_file=options.folder / f"{options.unit}{LAUNCH_FILE_ENDING}", drop_ins=unit.drop_ins,
            fragment=unit.fragment, outside=options.outside,
        )  # fmt: skip
