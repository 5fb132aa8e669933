"""A stand-in for a container runtime: starts, stops and shows one program, as an operator's commands would.

    python container.py FOLDER start|stop|kill|status|log [PROGRAM…]

It answers `status` as the `command` driver wants it: 0 and the run's name, 3 and an exit code, 4 and what is left.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path


def main() -> int:
    folder, verb, *program = Path(sys.argv[1]), *sys.argv[2:]
    state = folder / "container.json"
    known = json.loads(state.read_text()) if state.is_file() else None
    if verb == "start":
        return _start(folder, state, program)
    if verb == "log":
        log = folder / "container.log"
        print(log.read_text() if log.is_file() else "", end="")
        return 0
    if known is None:
        return 3
    alive = _alive(known["name"])
    if verb == "status":
        return _status(folder, known, alive)
    for pid in alive:
        if verb == "kill":
            os.kill(pid, signal.SIGKILL)
        elif pid == known["pid"]:
            os.kill(pid, signal.SIGTERM)
    return 0


def _start(folder: Path, state: Path, program: list[str]) -> int:
    # The keeper stays as the parent, since only a parent learns an exit code.
    ready = folder / "container.ready"
    ready.unlink(missing_ok=True)
    if os.fork() == 0:
        os.setsid()
        name = f"c{time.monotonic_ns()}"
        with (folder / "container.log").open("wb") as log:
            child = subprocess.Popen(
                program, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env={**os.environ, "CONTAINER": name}
            )
        fresh = state.with_suffix(".new")
        fresh.write_text(json.dumps({"pid": child.pid, "name": name}))
        fresh.rename(state)
        ready.touch()
        told = folder / f"{name}.new"
        told.write_text(str(child.wait()))
        told.rename(folder / f"{name}.code")
        os._exit(0)
    while not ready.exists():
        time.sleep(0.01)
    return 0


def _status(folder: Path, known: dict[str, object], alive: list[int]) -> int:
    code = folder / f"{known['name']}.code"
    if known["pid"] in alive:
        print(known["name"])
        return 0
    if alive:
        print(*(f"process {one}" for one in alive), sep="\n")
        return 4
    # A runtime learns of an end and of its code at once; the keeper needs a moment to write the code down.
    deadline = time.monotonic() + 10.0
    while not code.is_file() and time.monotonic() < deadline:
        time.sleep(0.01)
    if code.is_file():
        print(code.read_text())
    return 3


def _alive(name: str) -> list[int]:
    """Living processes of the container of that name."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
                environ = (entry / "environ").read_bytes()
            except OSError:
                continue
            if state not in "ZX" and f"CONTAINER={name}".encode() in environ.split(b"\0"):
                found.append(int(entry.name))
    return sorted(found)


if __name__ == "__main__":
    sys.exit(main())
