"""Whose run a unit is in: the record of what acceptd asked for, against the invocation systemd shows. Reads only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from monitor.clock import Clock
from monitor.drivers.launch_file import LaunchFile
from monitor.drivers.procfs import ProcFs
from monitor.drivers.record import StartRecord
from monitor.drivers.systemctl import UnitState
from monitor.drivers.unit_launcher import UnitLauncher
from monitor.launch import looks_like_server, parse_command
from monitor.model.life import Setting
from monitor.model.server import Engine

#: Seconds that a file may be younger than a run that read it: systemd shows whole seconds.
_SLACK_SECONDS = 1.0


class UnitRuns:
    """Brings the record of one unit's server up to the run that the unit is in."""

    def __init__(
        self, engine: Engine, launcher: UnitLauncher, launch: LaunchFile, proc: ProcFs, clock: Clock, *,
        outside: Callable[[Path], Path],
    ) -> None:
        """`outside` gives the path by which this process sees a file of the unit's machine."""
        self._engine = engine
        self._launcher = launcher
        self._launch = launch
        self._proc = proc
        self._clock = clock
        self._outside = outside

    def known(self, stored: StartRecord | None, unit: UnitState) -> StartRecord | None:
        """The record as it should now be stored; a new one without a token for a run that someone else began."""
        run, here = unit.invocation, stored is not None and stored.boot_id == self._proc.boot_id()
        if not run:
            # Not since this boot, or ended cleanly and forgotten by systemd.
            return stored if here else None
        if stored is not None and here:
            if stored.instance == run:
                return replace(stored, restarts=unit.restarts)
            if not stored.instance:
                return replace(stored, instance=run, restarts=unit.restarts) if run != stored.before else stored
            if unit.restarts >= max(stored.restarts, 1):
                # systemd itself started it again after it failed: the same start, another process. It counts a start of
                # its own a moment before it gives the run an id, and begins at 0 again where someone else starts it.
                return replace(stored, instance=run, restarts=unit.restarts)
        return StartRecord(
            token="", setting=self._setting(unit), command_hash=self._hash_at(unit), boot_id=self._proc.boot_id(),
            asked_at=unit.started_at or self._clock.now(), instance=run, restarts=unit.restarts,
        )  # fmt: skip

    def _setting(self, unit: UnitState) -> Setting | None:
        """What the main process was started with: its command line, else what systemd passed it; None where unknown."""
        argv = self._proc.argv(unit.pid) if unit.pid is not None else ()
        if looks_like_server(argv) is not self._engine:
            # A wrapper, such as the start of a container. Only acceptd writes the launch file, and only at starts.
            known, words = self._launcher.command, self._launch.words()
            argv = (*known.before, *(known.own if words is None else words), *known.after)
        command = parse_command(self._engine, argv)
        if command.problems:
            return None
        return command.speculation.setting if command.speculation else Setting(num_speculative_tokens=0)

    def _hash_at(self, unit: UnitState) -> str:
        """Hash of the command of a run that someone else began; no command's where a file was edited since."""
        began = unit.started_at.timestamp() if unit.started_at is not None else 0.0
        for path in self._launcher.command.sources:
            try:
                if self._outside(path).stat().st_mtime > began + _SLACK_SECONDS:
                    return "edited"
            except OSError:
                continue
        return self._launcher.base_hash
