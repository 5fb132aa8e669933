"""What the kernel says of processes and ports, from /proc. It owns no rule of what belongs to whom.

A process is known by pid *and* start time (clock ticks since boot), so that a reused pid is another process.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

#: States of processes that run no more: they hold no memory and no port (zombie, dead).
_GONE = frozenset("ZXx")
_LISTEN = "0A"


@dataclass(frozen=True, slots=True)
class Process:
    """One process; `start_ticks` are clock ticks after boot."""

    pid: int
    start_ticks: int
    parent: int
    group: int
    session: int
    state: str
    name: str

    @property
    def is_alive(self) -> bool:
        """Whether it still runs (a zombie does not)."""
        return self.state not in _GONE


class ProcFs:
    """Reads /proc; `root` is elsewhere in tests."""

    def __init__(self, root: Path = Path("/proc")) -> None:
        self._root = root

    def boot_id(self) -> str:
        """Identity of this boot; start times of another one say nothing. Empty where the kernel hides it."""
        try:
            return (self._root / "sys/kernel/random/boot_id").read_text().strip()
        except OSError:
            return ""

    def cgroup(self) -> str:
        """The control groups of this process, as the kernel prints them. Raises OSError."""
        return (self._root / "self/cgroup").read_text()

    def process(self, pid: int) -> Process | None:
        """The process `pid`, zombies included; None where there is none."""
        try:
            text = (self._root / str(pid) / "stat").read_text(errors="replace")
        except OSError:
            return None
        # The name is in parentheses and may itself hold spaces and parentheses.
        name, _, rest = text.partition("(")[2].rpartition(")")
        fields = rest.split()
        if len(fields) < 20:
            return None
        return Process(
            pid=pid,
            state=fields[0],
            parent=int(fields[1]),
            group=int(fields[2]),
            session=int(fields[3]),
            start_ticks=int(fields[19]),
            name=name,
        )

    def processes(self) -> Iterator[Process]:
        """Every process that can be seen now."""
        for entry in os.listdir(self._root):
            if entry.isdigit():
                process = self.process(int(entry))
                if process is not None:
                    yield process

    def environ(self, pid: int) -> dict[str, str] | None:
        """The environment `pid` was started with; None where it may not be read or was overwritten."""
        try:
            raw = (self._root / str(pid) / "environ").read_bytes()
        except OSError:
            return None
        pairs = [item.partition(b"=") for item in raw.split(b"\0") if item]
        if not pairs or any(not separator or not name for name, separator, _ in pairs):
            # Programs that set their title may write it over their environment.
            return None
        return {name.decode(errors="replace"): value.decode(errors="replace") for name, _, value in pairs}

    def argv(self, pid: int) -> tuple[str, ...]:
        """The command line of `pid` as it shows it; empty where it is gone, is a zombie or may not be read."""
        try:
            raw = (self._root / str(pid) / "cmdline").read_bytes()
        except OSError:
            return ()
        return tuple(part.decode(errors="replace") for part in raw.rstrip(b"\0").split(b"\0")) if raw else ()

    def group_members(self, group: str, mounted: Path = Path("/sys/fs/cgroup")) -> tuple[int, ...]:
        """Processes in control group `group` (as systemd names it) and below, whichever hierarchy systemd uses."""
        found: set[int] = set()
        for hierarchy in (".", "unified", "systemd"):
            top = mounted / hierarchy / group.lstrip("/")
            for file in (top / "cgroup.procs", *top.glob("**/cgroup.procs")):
                with contextlib.suppress(OSError, ValueError):
                    found |= {int(line) for line in file.read_text().split()}
        return tuple(sorted(found))

    def listeners(self, port: int) -> frozenset[int]:
        """Inodes of the sockets that listen on TCP `port`, on any address."""
        found = set()
        for table in ("tcp", "tcp6"):
            with contextlib.suppress(OSError):
                for line in (self._root / "net" / table).read_text().splitlines()[1:]:
                    fields = line.split()
                    if fields[3] == _LISTEN and int(fields[1].rpartition(":")[2], 16) == port:
                        found.add(int(fields[9]))
        return frozenset(found)

    def sockets(self, pid: int) -> frozenset[int]:
        """Inodes of the sockets that `pid` has open; empty where they may not be seen."""
        found = set()
        folder = self._root / str(pid) / "fd"
        with contextlib.suppress(OSError):
            for entry in os.listdir(folder):
                with contextlib.suppress(OSError):
                    target = os.readlink(folder / entry)
                    if target.startswith("socket:["):
                        found.add(int(target[8:-1]))
        return frozenset(found)

    def send(self, process: Process, signum: signal.Signals) -> bool:
        """Signal exactly `process`; False where it is gone, even if its pid lives on as another process."""
        try:
            handle = os.pidfd_open(process.pid)
        except ProcessLookupError:
            return False
        try:
            # The handle pins the process; only now does reading its start time prove whose handle it is.
            now = self.process(process.pid)
            if now is None or now.start_ticks != process.start_ticks:
                return False
            signal.pidfd_send_signal(handle, signum)
        except ProcessLookupError:
            return False
        finally:
            os.close(handle)
        return True
