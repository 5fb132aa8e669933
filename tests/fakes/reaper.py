"""Ends what a test run leaves behind, also where the run itself was killed: `python reaper.py MARK` beside it.

It waits until the run is gone (its standard input ends), then kills every process that has MARK in its environment. All
that a test starts inherits the mark: daemons, the servers that outlive them, databases that run as another user.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator

#: The variable that holds the mark.
VARIABLE = "TEST_RUN_MARK"


def marked(mark: str) -> list[int]:
    """Processes that inherited the mark, but for this one."""
    wanted = f"{VARIABLE}={mark}".encode()
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == os.getpid():
            continue
        try:
            with open(f"/proc/{name}/environ", "rb") as file:
                environ = file.read()
        except OSError:
            continue
        if wanted in environ.split(b"\0"):
            found.append(int(name))
    return found


def kill_marked(mark: str) -> None:
    """Kill them all, and what they started meanwhile."""
    for _ in range(3):
        pids = marked(mark)
        if not pids:
            return
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                continue


@contextlib.contextmanager
def tidied() -> Iterator[None]:
    """Nothing that is started within outlives it, nor this process."""
    mark = uuid.uuid4().hex
    os.environ[VARIABLE] = mark
    # Without site packages and in a session of its own: it starts in no time, and Ctrl-C is not meant for it.
    watcher = subprocess.Popen(
        [sys.executable, "-S", "-E", __file__, mark], stdin=subprocess.PIPE, start_new_session=True,
        env={name: value for name, value in os.environ.items() if name != VARIABLE},
    )  # fmt: skip
    try:
        yield
    finally:
        assert watcher.stdin is not None
        watcher.stdin.close()
        watcher.wait()
        os.environ.pop(VARIABLE, None)


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    sys.stdin.buffer.read()
    kill_marked(sys.argv[1])
