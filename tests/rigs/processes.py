"""Owns finding and ending a rig's processes through /proc; knows nothing of engines.

A server is started in a session of its own, and its session id survives what its other marks do not: vLLM renames its
children and so overwrites their command line *and* most of their environment, and when the API process is killed its
children get parent 1 while session and process group stay.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.rigs.cache import RigError

#: Seconds for the kernel to remove killed processes; a process in disk sleep needs some.
REAP_SECONDS = 20.0
#: Seconds that Python's resource tracker gets to see its family die, unlink their shared memory and end by itself.
TRACKER_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class Process:
    """One process as /proc shows it. `name` is cut to 15 bytes by the kernel, `title` is its command line."""

    pid: int
    parent: int
    group: int
    session: int
    state: str
    name: str
    title: str

    @property
    def is_alive(self) -> bool:
        """False for a zombie: it runs no more, its parent has only not looked yet."""
        return self.state not in "ZX"


def read_process(pid: int) -> Process | None:
    """The process of that id, `None` when there is none (any more)."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
        title = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return None
    # The name may hold spaces and brackets, so the fields are counted from its last bracket.
    name, _, rest = stat.partition("(")[2].rpartition(") ")
    fields = rest.split()
    return Process(
        pid=pid,
        parent=int(fields[1]),
        group=int(fields[2]),
        session=int(fields[3]),
        state=fields[0],
        name=name,
        title=title.rstrip(b"\0").replace(b"\0", b" ").decode(errors="replace"),
    )


def session_processes(session: int) -> list[Process]:
    """Every living process of that session, orphans with it, in order of their ids."""
    pids = sorted(int(name) for name in os.listdir("/proc") if name.isdigit())
    found = [process for pid in pids if (process := read_process(pid)) is not None]
    return [process for process in found if process.session == session and process.is_alive]


def memory_bytes(pid: int) -> int:
    """Its resident memory, pages shared with others counted in parts (PSS), so that a family's may be added up."""
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return next(int(line.split()[1]) * 1024 for line in rollup.splitlines() if line.startswith("Pss:"))


def kill_session(session: int) -> None:
    """SIGKILL everything of a session that we started and wait until it is gone.

    SIGKILL also ends a stopped process, and is repeated for children that were just being born. The resource tracker
    dies last: it removes from /dev/shm what the others could not.

    Raises:
        RigError: something lives on after `REAP_SECONDS`.
    """
    if session <= 1 or session == os.getsid(0):
        raise RigError(f"session {session} is not one that a rig started")
    began = time.monotonic()
    while left := session_processes(session):
        waited = time.monotonic() - began
        if waited > REAP_SECONDS:
            raise RigError(f"session {session} survives SIGKILL: {[(one.pid, one.title) for one in left]}")
        for process in left:
            if "resource_tracker" in process.title and waited < TRACKER_SECONDS:
                continue
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
        time.sleep(0.05)


@contextlib.contextmanager
def guarded(session: int) -> Iterator[None]:
    """Kill that session at the end, also when we are killed ourselves and no `finally` runs.

    A process of its own waits for the end of a pipe that only we hold open. A rig left behind would hold a core and
    gigabytes until somebody wonders.
    """
    watcher = subprocess.Popen(
        [sys.executable, "-P", str(Path(__file__).resolve()), str(session)],
        stdin=subprocess.PIPE, start_new_session=True, env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    assert watcher.stdin is not None
    try:
        yield
    finally:
        kill_session(session)
        watcher.stdin.close()
        watcher.wait()


def free_port() -> int:
    """A loopback port that was free a moment ago."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


if __name__ == "__main__":
    sys.stdin.read()
    kill_session(int(sys.argv[1]))
