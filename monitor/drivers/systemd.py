"""Driver `systemd`: the server is a unit of its own; acceptd writes its launch file and asks systemd to restart it.

It owns no process and needs no privilege but polkit's leave to start, stop and kill exactly this unit. Whose run a unit
is in shows in its invocation id: one that acceptd started carries the token of that start, any other none.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace

from monitor.clock import Clock
from monitor.drivers.launch_file import LaunchFile
from monitor.drivers.procfs import ProcFs
from monitor.drivers.protocol import Check, DriverStatus, PortOwner, ServerState
from monitor.drivers.record import StartRecord, StateFile
from monitor.drivers.systemctl import Systemctl, UnitState, default_group
from monitor.drivers.unit_checks import loaded_unit, reset_failed, unit_checks
from monitor.drivers.unit_command import UnitOptions
from monitor.drivers.unit_launcher import UnitLauncher
from monitor.drivers.unit_runs import UnitRuns
from monitor.errors import ActionError
from monitor.model.life import Setting
from monitor.model.server import Engine, ServerName

logger = logging.getLogger(__name__)

#: What systemd says of a unit that has ended as it was told to.
_CLEAN = "success"


class SystemdDriver:
    """Starts and stops one server that is a systemd unit."""

    kind = "systemd"
    acts = True

    def __init__(
        self, name: ServerName, engine: Engine, launcher: UnitLauncher, options: UnitOptions, clock: Clock,
        systemctl: Systemctl | None = None, proc: ProcFs | None = None,
    ) -> None:
        self._name = name
        self._launcher = launcher
        self._options = options
        self._clock = clock
        self._systemctl = systemctl or Systemctl()
        self._proc = proc or ProcFs()
        self._file = StateFile(options.outside(options.folder), name)
        self._launch = LaunchFile(options.outside(options.folder), options.unit, outside=options.outside)
        self._runs = UnitRuns(engine, launcher, self._launch, self._proc, clock, outside=options.outside)
        #: The run that ended by itself or on request, looked up once: its invocation, and which.
        self._ended: tuple[str, bool] = ("", False)

    @property
    def launcher(self) -> UnitLauncher:
        """What renders the server's command line."""
        return self._launcher

    def status(self) -> DriverStatus:
        """The unit now; takes up a run that someone else began. Raises ActionError."""
        unit = self._unit()
        stored = self._file.read()
        record = self._runs.known(stored, unit)
        if record is not None and record != stored:
            self._store(stored, record)
        self._void_if_edited(unit)
        return self._describe(record, unit)

    def start(self, setting: Setting, token: str) -> None:
        """Write the launch file for `setting` and start the unit. See `Driver.start`."""
        with self._file.locked():
            unit = self._unit()
            record = self._runs.known(self._file.read(), unit)
            self._describe(record, unit).require_gone(self._name)
            self._launcher.refresh()
            words, command = self._launcher.words(setting), self._launcher.command
            base_hash = self._launcher.base_hash
            asked = StartRecord(
                token=token, setting=setting, command_hash=base_hash, boot_id=self._proc.boot_id(),
                asked_at=self._clock.now(), before=unit.invocation,
            )  # fmt: skip
            # Written before systemd is asked: if we die in between, the run that follows is known to be this start.
            self._file.write(asked)
            if words is None:
                self._launch.remove()
            else:
                self._launch.write(words, base_hash=base_hash, sources=command.sources, remark=setting.describe())
            # Starts that failed before must not forbid this one: acceptd counts its own.
            reset_failed(self._systemctl, self._options.unit)
            self._systemctl.act("restart" if unit.waits_to_restart else "start", self._options.unit)

    def stop(self, *, force: bool = False) -> None:
        """Ask systemd to stop the unit, or kill all that belongs to it. See `Driver.stop`."""
        with self._file.locked():
            unit = self._unit()
            record = self._runs.known(self._file.read(), unit)
            if record is not None and not record.stop_asked:
                # Before it is done: an end that follows is then known to have been asked for.
                self._file.write(replace(record, stop_asked=True))
            if unit.active not in ("inactive", "failed"):
                self._ask_to_stop(record)
            if force:
                self._kill(unit)

    def _ask_to_stop(self, record: StartRecord | None) -> None:
        try:
            self._systemctl.act("stop", self._options.unit)
        except ActionError as error:
            # Refused, so nothing was asked of the unit: an end that follows is the server's own.
            if error.reason in ("not_permitted", "no_unit") and record is not None:
                self._file.write(record)
            raise

    def log_tail(self, lines: int = 40) -> str:
        """The last lines of the journal of the unit's newest run, secrets redacted."""
        unit = self._unit()
        record = self._runs.known(self._file.read(), unit)
        run = unit.invocation or (record.instance if record is not None else "")
        if not run:
            return ""
        # What the unit printed, and what systemd says of it.
        which = (f"_SYSTEMD_INVOCATION_ID={run}", "+", f"INVOCATION_ID={run}")
        return self._launcher.redact(self._systemctl.journal("--output=cat", f"--lines={lines}", *which)).rstrip("\n")

    def checks(self) -> tuple[Check, ...]:
        """Unit loaded and passing the variable, launch folder writable, leave of polkit, nothing edited behind it."""
        return unit_checks(self._options, self._launcher, self._systemctl)

    def _unit(self) -> UnitState:
        return loaded_unit(self._systemctl, self._options.unit)

    def _store(self, stored: StartRecord | None, record: StartRecord) -> None:
        try:
            with self._file.locked():
                if self._file.read() == stored:
                    self._file.write(record)
        except ActionError as error:
            # Another process acts right now and will see the same, or the disk is full: asked again at the next look.
            logger.debug("server=%s record not stored: %s", self._name, error)

    def _describe(self, record: StartRecord | None, unit: UnitState) -> DriverStatus:
        pending = record is not None and not record.instance
        forgotten = not unit.invocation
        ours = record if record and (pending or forgotten or record.instance == unit.invocation) else None
        left = tuple(self._members(unit))
        owner = self._port_owner(unit)
        state = self._state(unit, ours, left, owner)
        runs = state is ServerState.RUNNING
        # Asked for, and nothing came of it: whoever asked may ask again.
        vain = pending and not unit.has_job and not runs
        return DriverStatus(
            state=state,
            process=f"pid {unit.pid or '?'} of {unit.invocation[:12]}" if runs else "",
            pid=unit.pid if runs else None,
            started_at=unit.started_at if runs and unit.started_at else ours.asked_at if ours else None,
            setting=ours.setting if ours else None,
            token=ours.token if ours and not vain else "",
            command_hash=ours.command_hash if ours else "",
            # What systemd forgets had ended cleanly.
            exit_code=None if runs else 0 if forgotten and state is ServerState.EXITED else unit.exit_code,
            stop_asked=ours.stop_asked if ours else False,
            leftovers=left if state is ServerState.LEFTOVERS else (),
            port_owner=owner,
            note=_note(unit, state),
        )

    def _state(
        self, unit: UnitState, record: StartRecord | None, left: tuple[str, ...], owner: PortOwner
    ) -> ServerState:
        if unit.waits_to_restart:
            return ServerState.EXITED
        if unit.active not in ("inactive", "failed") or unit.has_job:
            return ServerState.RUNNING
        if left:
            return ServerState.LEFTOVERS
        if owner is PortOwner.OTHER:
            return ServerState.FOREIGN
        run = unit.invocation or (record.instance if record is not None else "")
        if not run or (record is not None and record.stop_asked):
            return ServerState.STOPPED
        if unit.active == "failed" or not self._was_asked_to_end(run):
            return ServerState.EXITED
        return ServerState.STOPPED

    def _was_asked_to_end(self, run: str) -> bool:
        """Whether someone stopped this run, as the journal tells; taken for granted where that may not be read.

        Both ways of ending look alike otherwise: an engine that dies may well end with exit code 0.
        """
        if self._ended[0] != run:
            asked = self._systemctl.journal("--output=cat", "--lines=1", f"INVOCATION_ID={run}", "JOB_TYPE=stop")
            told = asked or not self._systemctl.journal("--output=cat", "--lines=1", f"INVOCATION_ID={run}")
            self._ended = (run, bool(told))
        return self._ended[1]

    def _members(self, unit: UnitState) -> Iterator[str]:
        """Processes in the unit's control group, by name and pid."""
        group = unit.control_group or default_group(self._options.unit)
        for pid in self._proc.group_members(group):
            process = self._proc.process(pid)
            if process is not None and process.is_alive:
                yield f"{process.name} (pid {pid})"

    def _port_owner(self, unit: UnitState) -> PortOwner:
        """Who holds the port. Whose socket it is can only be told of processes that this user may look into."""
        if self._options.port is None:
            return PortOwner.UNKNOWN
        inodes = self._proc.listeners(self._options.port)
        if not inodes:
            return PortOwner.NOBODY
        if unit.active in ("inactive", "failed"):
            return PortOwner.OTHER
        sockets = self._proc.sockets(unit.pid) if unit.pid is not None else frozenset()
        return PortOwner.OURS if sockets & inodes else PortOwner.UNKNOWN

    def _kill(self, unit: UnitState) -> None:
        try:
            self._systemctl.act("kill", self._options.unit, "--signal=SIGKILL")
        except ActionError as error:
            if error.reason == "not_permitted" or next(self._members(unit), None) is not None:
                raise

    def _void_if_edited(self, unit: UnitState) -> None:
        """A launch file that was written for another command of the operator's must not be used with this one."""
        written_for = self._launch.base_hash()
        if not written_for or unit.needs_reload or self._launcher.command.problems:
            return
        if written_for != self._launcher.base_hash and self._launch.void():
            logger.warning(
                "server=%s the command of %s was edited: the launch file that acceptd wrote for the former one is void,"
                " its next start has the operator's own setting", self._name, self._options.unit,
            )  # fmt: skip


def _note(unit: UnitState, state: ServerState) -> str:
    """What systemd adds: why it counts as failed, how often it was started again."""
    parts = []
    if state is not ServerState.RUNNING and unit.result not in ("", _CLEAN):
        parts.append(f"systemd: {unit.result}")
    if unit.restarts:
        parts.append(f"restarted {unit.restarts} times by systemd")
    return ", ".join(parts)
