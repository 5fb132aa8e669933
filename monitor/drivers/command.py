"""Driver `command`: the operator's own commands start, stop and look at the server (containers, schedulers).

It owns no process but those of these commands, which are argument lists and never pass a shell. What each must do is in
docs/acting.md; the state file keeps which run a start became, so that a new daemon takes the server up again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

from monitor.clock import Clock
from monitor.drivers.command_runner import CommandRunner, Commands
from monitor.drivers.kin import CHILDREN
from monitor.drivers.procfs import ProcFs
from monitor.drivers.protocol import Check, Command, DriverStatus, Launcher, PortOwner, ServerState
from monitor.drivers.record import StartRecord, StateFile
from monitor.errors import ActionError
from monitor.model.life import Setting
from monitor.model.server import ServerName

#: The item of `start` that the server's command line takes the place of.
COMMAND_ITEM = "{command}"
#: What `status` answers by its exit code.
_RUNS, _GONE, _LEFTOVERS = 0, 3, 4


@dataclass(frozen=True, slots=True)
class _Look:
    """What `status` said: how it is, and its lines (the run's name, an exit code, what is left)."""

    code: int
    lines: tuple[str, ...]

    @property
    def run(self) -> str:
        """The name of the run; empty where none is there."""
        return self.lines[0] if self.code == _RUNS and self.lines else ""

    @property
    def is_gone(self) -> bool:
        """Whether nothing of the server is there."""
        return self.code == _GONE or (self.code == _RUNS and not self.lines)


class CommandDriver:
    """Starts and stops one server by the operator's commands."""

    kind = "command"
    acts = True

    def __init__(
        self, name: ServerName, launcher: Launcher, commands: Commands, clock: Clock, proc: ProcFs | None = None
    ) -> None:
        self._name = name
        self._launcher = launcher
        self._commands = commands
        self._clock = clock
        self._proc = proc or ProcFs()
        self._file = StateFile(commands.state_folder, name)
        self._runner = CommandRunner(name, commands)

    @property
    def launcher(self) -> Launcher:
        """What renders the server's command line."""
        return self._launcher

    def status(self) -> DriverStatus:
        """What `status` says now; takes up a run that someone else began. Raises ActionError where it cannot tell."""
        look, stored = self._look(), self._file.read()
        record = self._known(stored, look)
        if record is not None and record != stored:
            # Lost to another daemon that acts right now: it will see the same.
            with contextlib.suppress(ActionError), self._file.locked():
                if self._file.read() == stored:
                    self._file.write(record)
        return self._describe(record, look)

    def start(self, setting: Setting, token: str) -> None:
        """Run `start` with the command line for `setting`. See `Driver.start`."""
        command = self._launcher.render(setting)
        with self._file.locked():
            look = self._look()
            stored = self._known(self._file.read(), look)
            self._describe(stored, look).require_gone(self._name)
            record = StartRecord(
                token=token, setting=setting, command_hash=self._launcher.base_hash, boot_id=self._proc.boot_id(),
                asked_at=self._clock.now(), before=stored.instance or stored.before if stored is not None else "",
            )  # fmt: skip
            # Written before it is run: if we die in between, the run that follows is known to be this start.
            self._file.write(record)
            headline = f"{self._name} started at {record.asked_at:%Y-%m-%d %H:%M:%S} UTC as {token}"
            child = self._runner.begin(_filled(self._commands.start, command), command.env, headline=headline)
            born = self._proc.process(child.pid)
            self._file.write(replace(record, pid=child.pid, start_ticks=born.start_ticks if born else None))

    def stop(self, *, force: bool = False) -> None:
        """Run `stop`, once a run, or `kill` (`force`). See `Driver.stop`."""
        with self._file.locked():
            look = self._look()
            record = self._known(self._file.read(), look)
            asked = record is not None and record.stop_asked
            if record is not None and not asked:
                self._file.write(replace(record, stop_asked=True))
            if look.is_gone:
                return
            if force:
                self._runner.begin(self._commands.kill or self._commands.stop)
            elif not asked:
                self._runner.begin(self._commands.stop)

    def log_tail(self, lines: int = 40) -> str:
        """What `log` prints and, where that is nothing, what `start` printed; secrets redacted."""
        text = ""
        if self._commands.log and self._file.read() is not None:
            with contextlib.suppress(ActionError):
                text = self._runner.ask(self._commands.log, keep_errors=True).stdout
        told = "\n".join(text.splitlines()[-lines:]) or self._runner.printed(lines)
        return self._launcher.redact(told)

    def checks(self) -> tuple[Check, ...]:
        """Folders writable, and every command an executable program."""
        return self._runner.checks()

    def _known(self, stored: StartRecord | None, look: _Look) -> StartRecord | None:
        """The record, brought up to the run that is there; a new one for a run that someone else began."""
        for child in tuple(CHILDREN.values()):
            # Commands that ended are let go.
            child.poll()
        if stored is not None and stored.exit_code is None and stored.pid is not None:
            ended = CHILDREN.get(stored.pid)
            if ended is not None and ended.returncode is not None:
                stored = replace(stored, exit_code=ended.returncode)
        if not look.run or (stored is not None and stored.instance == look.run):
            return stored
        if stored is not None and not stored.instance and look.run != stored.before:
            return replace(stored, instance=look.run)
        if stored is not None and not stored.instance and self._is_busy(stored):
            return stored
        return StartRecord(
            token="", setting=None, command_hash="", boot_id=self._proc.boot_id(), asked_at=self._clock.now(),
            instance=look.run,
        )  # fmt: skip

    def _is_busy(self, record: StartRecord) -> bool:
        """Whether the command that starts it still runs."""
        if record.pid is None or record.boot_id != self._proc.boot_id():
            return False
        process = self._proc.process(record.pid)
        return process is not None and process.is_alive and process.start_ticks == record.start_ticks

    def _describe(self, record: StartRecord | None, look: _Look) -> DriverStatus:
        starting = record is not None and not record.instance and self._is_busy(record)
        failed = record is not None and not record.instance and bool(record.exit_code)
        owner = self._port_owner(look)
        state = self._state(record, look, owner, starting)
        runs = state is ServerState.RUNNING
        # Asked for, its command never ran (we died before that): whoever asked may ask again.
        vain = record is not None and not record.instance and record.pid is None
        told = int(look.lines[0]) if look.code == _GONE and look.lines and _is_whole(look.lines[0]) else None
        return DriverStatus(
            state=state,
            process=look.run,
            started_at=record.asked_at if record else None,
            setting=record.setting if record else None,
            token=record.token if record and not vain else "",
            command_hash=record.command_hash if record else "",
            exit_code=None if runs or record is None else record.exit_code if failed else told,
            stop_asked=record.stop_asked if record else False,
            leftovers=look.lines or ("unnamed",) if state is ServerState.LEFTOVERS else (),
            port_owner=owner,
            note="its start command runs" if starting else "its start command failed" if failed and not runs else "",
        )

    def _state(self, record: StartRecord | None, look: _Look, owner: PortOwner, starting: bool) -> ServerState:
        if look.run or starting:
            return ServerState.RUNNING
        if look.code == _LEFTOVERS:
            return ServerState.LEFTOVERS
        if owner is PortOwner.OTHER:
            return ServerState.FOREIGN
        if record is None or record.stop_asked:
            return ServerState.STOPPED
        return ServerState.EXITED

    def _port_owner(self, look: _Look) -> PortOwner:
        """Who listens: with a run there, its own business (a proxy of the container's may hold the port)."""
        if self._commands.port is None:
            return PortOwner.UNKNOWN
        if not self._proc.listeners(self._commands.port):
            return PortOwner.NOBODY
        return PortOwner.OTHER if look.is_gone else PortOwner.UNKNOWN

    def _look(self) -> _Look:
        done = self._runner.ask(self._commands.status)
        lines = tuple(line.strip() for line in done.stdout.splitlines() if line.strip())
        if done.returncode not in (_RUNS, _GONE, _LEFTOVERS):
            said = (done.stderr.strip() or done.stdout.strip()).splitlines()
            raise ActionError(
                f"{self._name}: `{self._commands.status[0]}` ended with {done.returncode}, expected 0 and the name"
                f" of the run (none: not there), 3 (not there) or 4 (something is left)"
                f"{': ' + self._launcher.redact(said[-1]) if said else ''}",
                reason="status", retryable=True,
            )  # fmt: skip
        return _Look(done.returncode, lines)


def _filled(start: Sequence[str], command: Command) -> list[str]:
    """`start` with the server's command line in the place of `{command}`."""
    return [word for item in start for word in (command.argv if item == COMMAND_ITEM else (item,))]


def _is_whole(text: str) -> bool:
    return text.removeprefix("-").isdigit()
