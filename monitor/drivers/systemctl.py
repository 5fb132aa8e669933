"""Talking to systemd: bounded calls of its own programs, their answers as values. It decides nothing.

The programs are used and no library: they are there wherever systemd is, they speak to every version of it, and what
acceptd does can be done by hand to the letter.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from monitor.errors import ActionError

#: Longest wait for one answer (seconds). A systemd that is busy starting others answers within a second.
_WAIT_SECONDS = 20.0
_BUS = "org.freedesktop.systemd1"
_UNITS = "/org/freedesktop/systemd1/unit"
#: How ways of ending are numbered in `ExecMainCode` (`CLD_EXITED` in wait(2)).
_EXITED = "1"
_SHOWN = (
    "LoadState", "ActiveState", "SubState", "Result", "MainPID", "ExecMainCode", "ExecMainStatus",
    "ExecMainStartTimestamp", "NRestarts", "InvocationID", "ControlGroup", "Job", "FragmentPath", "DropInPaths",
    "NeedDaemonReload", "KillMode",
)  # fmt: skip
_DENIED = re.compile(r"[Aa]ccess denied|[Ii]nteractive authentication|Permission denied|not permitted")
_UNKNOWN = re.compile(r"not loaded|not found|does not exist|[Nn]o such (file|unit)|masked|Invalid unit name")


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitState:
    """A service as systemd sees it now. `invocation` names one run of it; empty where it never ran since boot.

    `exit_code` is that of the last main process, negative for a signal; None while it runs or where none ran.
    """

    load_state: str
    active: str
    sub: str
    result: str
    pid: int | None
    exit_code: int | None
    started_at: datetime | None
    restarts: int
    invocation: str
    control_group: str
    has_job: bool
    fragment: str
    drop_ins: tuple[str, ...]
    needs_reload: bool
    kill_mode: str

    @property
    def waits_to_restart(self) -> bool:
        """Whether its main process ended and systemd will start it again by itself."""
        return self.active == "activating" and self.sub.startswith("auto-restart")


@dataclass(frozen=True, slots=True)
class UnitCommandLine:
    """What systemd starts, before variables are put in: items, prefixes by their long names, variables, files of them.

    `program` is what is executed, the first item what it is called. Each file stands with whether it may be missing.
    """

    program: str
    items: tuple[str, ...]
    prefixes: tuple[str, ...]
    environment: tuple[str, ...]
    files: tuple[tuple[str, bool], ...]
    count: int


class Systemctl:
    """Asks and tells the system's manager. `enter` is put before each command (tests drive another machine so)."""

    def __init__(self, enter: Sequence[str] = (), *, wait_seconds: float = _WAIT_SECONDS) -> None:
        self._enter = tuple(enter)
        self._wait_seconds = wait_seconds

    def state(self, unit: str) -> UnitState:
        """The unit as it is now. Raises ActionError (retryable) where systemd does not answer."""
        text = self._call("systemctl", "show", unit, "--property", ",".join(_SHOWN))
        return read_state(dict(line.split("=", 1) for line in text.splitlines() if "=" in line))

    def command_line(self, unit: str) -> UnitCommandLine:
        """What the loaded unit starts. Raises ActionError where systemd does not answer."""
        names = ("ExecStartEx", "Environment", "EnvironmentFiles")
        text = self._call(
            "busctl", "--system", "--json=short", "get-property", _BUS, object_path(unit), f"{_BUS}.Service", *names
        )
        return read_command_line(text)

    def running(self) -> tuple[str, ...]:
        """Names of the services that are not inactive."""
        text = self._call("systemctl", "list-units", "--type=service", "--plain", "--no-legend", "--full")
        return tuple(line.split()[0] for line in text.splitlines() if line.strip())

    def act(self, verb: str, unit: str, *options: str) -> None:
        """Tell systemd to do something with the unit; jobs are queued, not waited for.

        Raises ActionError: `not_permitted`, `no_unit` (neither retryable), or retryable.
        """
        queued = () if verb in ("reset-failed", "kill") else ("--no-block",)
        self._call("systemctl", "--no-ask-password", *queued, verb, *options, unit)

    def journal(self, *options: str) -> str:
        """What journalctl prints; empty where it may not be read."""
        try:
            return self._call("journalctl", "--quiet", "--no-pager", *options)
        except ActionError:
            return ""

    def _call(self, *argv: str) -> str:
        environ = {**os.environ, "LC_ALL": "C.UTF-8", "TZ": "UTC", "SYSTEMD_COLORS": "0", "SYSTEMD_PAGER": ""}
        try:
            done = subprocess.run(
                [*self._enter, *argv], capture_output=True, text=True, errors="replace", env=environ,
                timeout=self._wait_seconds, check=False, stdin=subprocess.DEVNULL,
            )  # fmt: skip
        except subprocess.TimeoutExpired as error:
            raise ActionError(
                f"`{argv[0]}` did not answer within {self._wait_seconds:g} s", reason="systemd", retryable=True
            ) from error
        except OSError as error:
            raise ActionError(f"{argv[0]} cannot be run ({error.strerror})", reason="systemd") from error
        if done.returncode:
            raise _refusal(argv, done.stderr.strip() or done.stdout.strip() or f"exit code {done.returncode}")
        return done.stdout


def _refusal(argv: Sequence[str], said: str) -> ActionError:
    line = said.splitlines()[0]
    what = " ".join([item for item in argv if not item.startswith("--")][:3])
    if _DENIED.search(said):
        return ActionError(
            f"`{what}` is not permitted ({line}): `acceptd install` as root writes the polkit rule for this unit",
            reason="not_permitted",
        )
    if _UNKNOWN.search(said):
        return ActionError(f"`{what}`: {line}", reason="no_unit")
    return ActionError(f"`{what}`: {line}", reason="systemd", retryable=True)


def read_state(shown: dict[str, str]) -> UnitState:
    """The answer of `systemctl show`."""
    pid = int(shown.get("MainPID") or 0)
    code, status = shown.get("ExecMainCode", "0"), int(shown.get("ExecMainStatus") or 0)
    ended = code != "0" and not pid
    return UnitState(
        load_state=shown.get("LoadState", ""),
        active=shown.get("ActiveState", ""),
        sub=shown.get("SubState", ""),
        result=shown.get("Result", ""),
        pid=pid or None,
        exit_code=None if not ended else status if code == _EXITED else -status,
        started_at=_time(shown.get("ExecMainStartTimestamp", "")),
        restarts=int(shown.get("NRestarts") or 0),
        invocation=shown.get("InvocationID", ""),
        control_group=shown.get("ControlGroup", ""),
        has_job=shown.get("Job", "") not in ("", "0"),
        fragment=shown.get("FragmentPath", ""),
        drop_ins=tuple(shown.get("DropInPaths", "").split()),
        needs_reload=shown.get("NeedDaemonReload") == "yes",
        kill_mode=shown.get("KillMode", ""),
    )


def _time(text: str) -> datetime | None:
    """`Sun 2026-11-29 22:52:01 UTC`; None for one that never was."""
    try:
        return datetime.strptime(text, "%a %Y-%m-%d %H:%M:%S UTC").replace(tzinfo=UTC)
    except ValueError:
        return None


def read_command_line(text: str) -> UnitCommandLine:
    """The answer of `busctl --json=short get-property` for `ExecStartEx`, `Environment`, `EnvironmentFiles`."""
    commands, environment, files = (json.loads(line)["data"] for line in text.splitlines() if line.strip())
    # Of one command: path, items, prefixes, times and results of its last run.
    first = commands[0] if commands else ("", [], [])
    return UnitCommandLine(
        program=first[0],
        items=tuple(first[1]),
        prefixes=tuple(first[2]),
        environment=tuple(environment),
        files=tuple((path, bool(optional)) for path, optional in files),
        count=len(commands),
    )


def object_path(unit: str) -> str:
    """The unit's place on the bus: letters and digits stay, everything else is `_` and two hexadecimal digits."""
    escaped = "".join(
        letter if letter.isascii() and letter.isalnum() and not (place == 0 and letter.isdigit())
        else "".join(f"_{byte:02x}" for byte in letter.encode())
        for place, letter in enumerate(unit)
    )
    return f"{_UNITS}/{escaped}"


def default_group(unit: str) -> str:
    """The control group that systemd gives a system service, where it does not say."""
    prefix, at, _ = unit.partition("@")
    within = f"system-{prefix.replace('-', chr(92) + 'x2d')}.slice/" if at else ""
    return f"/system.slice/{within}{unit}"
