"""Driver `process`: the server as a child of the daemon in a session of its own, which outlives the daemon.

It owns starting, stopping and recognising the server's processes; what it started is kept in a state file, so that a
new daemon takes the server up again by pid and start time, or by the marker in the environment of its processes.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from monitor.clock import Clock
from monitor.drivers.kin import CHILDREN, Family, Kin
from monitor.drivers.logs import ServerLog
from monitor.drivers.procfs import Process, ProcFs
from monitor.drivers.protocol import Check, Command, DriverStatus, Launcher, PortOwner, ServerState
from monitor.drivers.record import StartRecord, StateFile
from monitor.errors import ActionError
from monitor.model.life import Setting
from monitor.model.server import ServerName

#: Of the daemon's own environment: meant for it alone (systemd's protocol, credentials).
_PRIVATE = (
    "NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC", "LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES",
    "INVOCATION_ID", "JOURNAL_STREAM", "CREDENTIALS_DIRECTORY", "MAINPID", "MANAGERPID",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessOptions:
    """How the server is started. `port` None means that nobody knows it: port checks are then left out."""

    state_folder: Path
    log_folder: Path
    environ: Mapping[str, str]
    cwd: Path | None = None
    port: int | None = None
    log_size_limit: int = 64 * 1024**2


class ProcessDriver:
    """Starts and stops one server as a process of its own session."""

    kind = "process"
    acts = True

    def __init__(
        self, name: ServerName, launcher: Launcher, options: ProcessOptions, clock: Clock, proc: ProcFs | None = None
    ) -> None:
        self._name = name
        self._launcher = launcher
        self._options = options
        self._clock = clock
        self._proc = proc or ProcFs()
        self._file = StateFile(options.state_folder, name)
        self._log = ServerLog(options.log_folder, name, size_limit=options.log_size_limit)
        self._family = Family(name, options.state_folder, self._proc)

    @property
    def launcher(self) -> Launcher:
        """What renders the server's command line."""
        return self._launcher

    def status(self) -> DriverStatus:
        """What is there of the server now; takes up its process where the record lost it. Raises ActionError."""
        stored = self._file.read()
        seen = self._family.main_only(stored)
        if seen is None or self._port_owner(seen.members) is PortOwner.OTHER:
            # Gone, lost, or another process of it listens: only now are all processes of the host looked at.
            seen = self._family.look(stored)
        if seen.is_news and seen.record is not None:
            # Lost to another daemon that acts right now: it will see the same.
            with contextlib.suppress(ActionError), self._file.locked():
                if self._file.read() == seen.stored:
                    self._file.write(seen.record)
        if seen.main is not None:
            self._log.trim()
        return self._describe(seen)

    def start(self, setting: Setting, token: str) -> None:
        """Start the server with `setting`. See `Driver.start`."""
        refuse_under_unit(self._proc)
        command = self._launcher.render(setting)
        program = self._program(command)
        with self._file.locked():
            self._describe(self._family.look(self._file.read())).require_gone(self._name)
            record = StartRecord(
                token=token,
                setting=setting,
                command_hash=self._launcher.base_hash,
                boot_id=self._proc.boot_id(),
                asked_at=self._clock.now(),
            )
            # Written before the process is born: if we die in between, its marker leads back to it.
            self._file.write(record)
            self._spawn(command, program, record)

    def stop(self, *, force: bool = False) -> None:
        """Ask the server to end, or kill all that belongs to it. See `Driver.stop`."""
        with self._file.locked():
            seen = self._family.look(self._file.read())
            record, main = seen.record, seen.main
            if force:
                self._signal(seen.members, signal.SIGKILL)
            elif main is None:
                self._signal(seen.members, signal.SIGTERM)
            elif record is None or not record.stop_asked:
                # Only the main process, and once: it tells its engines itself, and a second SIGTERM means "at once".
                self._signal([main], signal.SIGTERM)
            if record is not None and not record.stop_asked:
                self._file.write(replace(record, stop_asked=True))

    def log_tail(self, lines: int = 40) -> str:
        """The last lines of the newest start, secrets redacted."""
        return self._launcher.redact(self._log.tail(lines))

    def checks(self) -> tuple[Check, ...]:
        """Folders of state and logs writable, program and working directory there, not below the daemon's own unit."""
        options, found = self._options, [folder_check("launch file", self._options.state_folder)]
        found.append(folder_check("log folder", options.log_folder))
        if options.cwd is not None and not options.cwd.is_dir():
            found.append(Check("working directory", False, f"{options.cwd} is not a folder"))
        try:
            program = self._program(self._launcher.render(self._launcher.base_setting))
            found.append(Check("program", True, f"{program} can be executed"))
            refuse_under_unit(self._proc)
        except ActionError as error:
            found.append(Check("program", False, str(error)))
        return tuple(found)

    def _describe(self, seen: Kin) -> DriverStatus:
        record, main = seen.record, seen.main
        port_owner = self._port_owner(seen.members)
        if main is not None:
            state = ServerState.RUNNING
        elif seen.members:
            state = ServerState.LEFTOVERS
        elif port_owner is PortOwner.OTHER:
            state = ServerState.FOREIGN
        elif record is None or record.stop_asked:
            state = ServerState.STOPPED
        else:
            state = ServerState.EXITED
        return DriverStatus(
            state=state,
            process=f"pid {main.pid} of {main.start_ticks}" if main else "",
            pid=main.pid if main else None,
            started_at=record.asked_at if record else None,
            setting=record.setting if record else None,
            token=record.token if record else "",
            command_hash=record.command_hash if record else "",
            exit_code=record.exit_code if record else None,
            stop_asked=record.stop_asked if record else False,
            leftovers=tuple(f"{p.name} (pid {p.pid})" for p in seen.members) if main is None else (),
            port_owner=port_owner,
        )

    def _signal(self, processes: Iterable[Process], signum: signal.Signals) -> None:
        for process in processes:
            self._proc.send(process, signum)

    def _port_owner(self, members: Sequence[Process]) -> PortOwner:
        if self._options.port is None:
            return PortOwner.UNKNOWN
        inodes = self._proc.listeners(self._options.port)
        if not inodes:
            return PortOwner.NOBODY
        ours = frozenset[int]().union(*(self._proc.sockets(p.pid) for p in members))
        return PortOwner.OURS if inodes & ours else PortOwner.OTHER

    def _program(self, command: Command) -> str:
        environ = self._environ(command, "")
        program = shutil.which(command.argv[0], path=environ.get("PATH"))
        if program is None:
            raise ActionError(
                f"{self._name}: {command.argv[0]!r} is not an executable program on this host", reason="missing_program"
            )
        return program

    def _spawn(self, command: Command, program: str, record: StartRecord) -> None:
        log = self._log.open(f"{self._name} started at {record.asked_at:%Y-%m-%d %H:%M:%S} UTC as {record.token}")
        try:
            child = subprocess.Popen(
                command.argv,
                executable=program,
                env=self._environ(command, record.token),
                cwd=self._options.cwd,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            raise ActionError(
                f"{self._name}: {program} cannot be started ({error.strerror})", reason="missing_program"
            ) from error
        finally:
            os.close(log)
        CHILDREN[child.pid] = child
        born = self._proc.process(child.pid)
        self._file.write(replace(record, pid=child.pid, start_ticks=born.start_ticks if born else None))

    def _environ(self, command: Command, token: str) -> dict[str, str]:
        inherited = {k: v for k, v in self._options.environ.items() if k not in _PRIVATE}
        return {**inherited, **command.env, **self._family.marker(token)}


def folder_check(name: str, folder: Path) -> Check:
    """Whether files can be written in a folder, or the folder be made where it is not there yet."""
    there = next((path for path in (folder, *folder.parents) if path.exists()), None)
    if there is None or not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        return Check(name, False, f"{folder} cannot be written by this user")
    return Check(name, True, f"{folder} can be written")


def refuse_under_unit(proc: ProcFs, unit: str = "acceptd.service") -> None:
    """Refuse to start servers below the daemon's own systemd unit: stopping the unit would stop them.

    Raises ActionError (not retryable) there.
    """
    text = ""
    with contextlib.suppress(OSError):
        text = proc.cgroup()
    if f"/{unit}" in text:
        raise ActionError(
            f"the process driver cannot be used below {unit}: stopping it would stop the server; use a systemd unit "
            "for the server",
            reason="under_unit",
        )
