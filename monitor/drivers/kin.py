"""Which processes belong to a server: its main process, its session, and whatever carries its marker. Reads only.

Its engines and workers outlive a main process that is killed, in its session or out of it; their environment, written
at their birth, still names the server.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from monitor.drivers.procfs import Process, ProcFs
from monitor.drivers.record import StartRecord
from monitor.model.server import ServerName

#: Marks every process of a server: its name, the state folder (two daemons may use one name), the start.
_SERVER, _HOME, _TOKEN = "ACCEPTD_SERVER", "ACCEPTD_HOME", "ACCEPTD_START"
#: py-setproctitle, which vLLM uses, writes over the environment (and so our marker) unless this is set: seen with
#: setproctitle 1.3.8, which leaves nothing but zeros.
_KEEP_ENVIRON = {"SPT_NOENV": "1"}

#: Our children by pid: only a parent learns an exit code, and only while it keeps the handle. Kept per process and not
#: per driver, since a reload makes new drivers for the same children.
CHILDREN: dict[int, subprocess.Popen[bytes]] = {}


@dataclass(frozen=True, slots=True)
class Kin:
    """One look: the record as stored and as now known, the main process, and all living members.

    `members` holds only the main process where nothing more was asked for.
    """

    stored: StartRecord | None
    record: StartRecord | None
    main: Process | None
    members: tuple[Process, ...]

    @property
    def is_news(self) -> bool:
        """Whether something became known that is not stored yet."""
        return self.record != self.stored


class Family:
    """Recognises the processes of one server."""

    def __init__(self, name: ServerName, home: Path, proc: ProcFs) -> None:
        self._name = name
        self._home = str(home.resolve())
        self._proc = proc

    def marker(self, token: str) -> dict[str, str]:
        """What is added to the environment of the server, so that its processes are known again."""
        return {**_KEEP_ENVIRON, _SERVER: self._name, _HOME: self._home, _TOKEN: token}

    def main_only(self, stored: StartRecord | None) -> Kin | None:
        """A quick look that reads one process; None where that does not find the main process alive."""
        if stored is None or stored.pid is None or stored.boot_id != self._proc.boot_id():
            return None
        main = self._proc.process(stored.pid)
        if main is None or not main.is_alive or main.start_ticks != stored.start_ticks:
            return None
        return Kin(stored, stored, main, (main,))

    def look(self, stored: StartRecord | None) -> Kin:
        """The record with what has become known since, and every living process that belongs to the server."""
        for child in tuple(CHILDREN.values()):
            # Whoever ended is let go, also where the record of it is lost.
            child.poll()
        record = self._with_exit_code(stored) if stored is not None else None
        processes = [p for p in self._proc.processes() if p.is_alive]
        marked = {p: token for p in processes if (token := self._marker_of(p)) is not None}
        if record is not None and record.pid is None and record.boot_id == self._proc.boot_id():
            born = _first(p for p, token in marked.items() if token == record.token)
            if born is not None:
                record = replace(record, pid=born.pid, start_ticks=born.start_ticks)
        members = sorted({*marked, *self._session(record, processes)}, key=lambda p: p.start_ticks)
        if record is None:
            # The state file is lost, but its server is not: what leads a session of ours is the main process.
            main = _first(p for p in members if p.pid == p.session)
        else:
            main = _first(p for p in members if (p.pid, p.start_ticks) == (record.pid, record.start_ticks))
        return Kin(stored, record, main, tuple(members))

    def _with_exit_code(self, record: StartRecord) -> StartRecord:
        """The record with the exit code, where the process was our child and has ended."""
        child = CHILDREN.get(record.pid) if record.pid is not None else None
        if child is None or record.exit_code is not None:
            return record
        before = self._proc.process(child.pid)
        if before is not None and before.start_ticks != record.start_ticks:
            return record
        return record if child.poll() is None else replace(record, exit_code=child.returncode)

    def _session(self, record: StartRecord | None, processes: Sequence[Process]) -> list[Process]:
        """Living processes of the session that the main process was given.

        A session's number cannot be given anew while a process is in it, so as long as the main process lives its
        session is ours; afterwards only processes that are not older, and whose environment does not say otherwise.
        """
        if record is None or record.pid is None or record.boot_id != self._proc.boot_id():
            return []
        holder = self._proc.process(record.pid)
        if holder is not None and holder.start_ticks != record.start_ticks:
            return []
        return [p for p in processes if p.session == record.pid and self._may_be_ours(p, record)]

    def _may_be_ours(self, process: Process, record: StartRecord) -> bool:
        if process.start_ticks < (record.start_ticks or 0):
            return False
        environ = self._proc.environ(process.pid)
        return environ is None or self._has_marker(environ) or process.pid == record.pid

    def _marker_of(self, process: Process) -> str | None:
        """The token of the start that `process` descends from; None where it does not carry our marker."""
        environ = self._proc.environ(process.pid)
        return environ.get(_TOKEN, "") if environ is not None and self._has_marker(environ) else None

    def _has_marker(self, environ: Mapping[str, str]) -> bool:
        return environ.get(_SERVER) == self._name and environ.get(_HOME) == self._home


def _first(processes: Iterable[Process]) -> Process | None:
    """The one that was born first, a session's leader before all others."""
    return min(processes, key=lambda p: (p.pid != p.session, p.start_ticks), default=None)
