"""Running an operator's commands for one server: bounded questions, detached acts. It knows no server and no state."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from monitor.drivers.kin import CHILDREN
from monitor.drivers.logs import ServerLog
from monitor.drivers.process import folder_check
from monitor.drivers.protocol import Check
from monitor.errors import ActionError
from monitor.model.server import ServerName

#: Longest wait for `status` and `log` (seconds): they are asked once a second while a change is under way.
_WAIT_SECONDS = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Commands:
    """The operator's commands, and where things lie. `kill` and `log` may be empty; `port` None is not known."""

    start: tuple[str, ...]
    stop: tuple[str, ...]
    status: tuple[str, ...]
    kill: tuple[str, ...] = ()
    log: tuple[str, ...] = ()
    state_folder: Path
    log_folder: Path
    environ: Mapping[str, str]
    cwd: Path | None = None
    port: int | None = None
    wait_seconds: float = _WAIT_SECONDS


class CommandRunner:
    """Runs the commands of one server; what acts print goes to a log of theirs."""

    def __init__(self, name: ServerName, commands: Commands) -> None:
        self._name = name
        self._commands = commands
        self._log = ServerLog(commands.log_folder, name)

    def ask(self, argv: Sequence[str], *, keep_errors: bool = False) -> subprocess.CompletedProcess[str]:
        """Run a command and wait for its answer. Raises ActionError where it cannot be run or takes too long."""
        errors = subprocess.STDOUT if keep_errors else subprocess.PIPE
        try:
            return subprocess.run(
                list(argv), env=self._environ({}), cwd=self._commands.cwd, stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=errors, text=True, errors="replace", timeout=self._commands.wait_seconds,
                check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired as error:
            raise ActionError(
                f"{self._name}: `{argv[0]}` did not end within {self._commands.wait_seconds:g} s",
                reason="status", retryable=True,
            ) from error  # fmt: skip
        except OSError as error:
            raise self._cannot_run(argv, error) from error

    def begin(
        self, argv: Sequence[str], env: Mapping[str, str] | None = None, *, headline: str = ""
    ) -> subprocess.Popen[bytes]:
        """Run a command in a session of its own, which outlives us. Raises ActionError where it cannot be run."""
        log = self._log.open(headline)
        try:
            child = subprocess.Popen(
                list(argv), env=self._environ(env or {}), cwd=self._commands.cwd, stdin=subprocess.DEVNULL,
                stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            raise self._cannot_run(argv, error) from error
        finally:
            os.close(log)
        CHILDREN[child.pid] = child
        return child

    def printed(self, lines: int) -> str:
        """The last lines that the commands of the newest start printed."""
        return self._log.tail(lines)

    def checks(self) -> tuple[Check, ...]:
        """Folders writable, and every command an executable program."""
        commands = self._commands
        found = [folder_check("launch file", commands.state_folder), folder_check("log folder", commands.log_folder)]
        given = {
            "start": commands.start, "stop": commands.stop, "status": commands.status, "kill": commands.kill,
            "log": commands.log,
        }  # fmt: skip
        for name, argv in given.items():
            if not argv:
                continue
            program = shutil.which(argv[0], path=commands.environ.get("PATH"))
            sentence = f"{program} can be executed" if program else f"{argv[0]!r} is not an executable program"
            found.append(Check(name, program is not None, sentence))
        return tuple(found)

    def _environ(self, env: Mapping[str, str]) -> dict[str, str]:
        return {**self._commands.environ, **env, "ACCEPTD_SERVER": self._name}

    def _cannot_run(self, argv: Sequence[str], error: OSError) -> ActionError:
        return ActionError(f"{self._name}: {argv[0]!r} cannot be run ({error.strerror})", reason="missing_program")
