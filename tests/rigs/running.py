"""Owns starting a real server, waiting until it truly serves, and leaving nothing behind; knows no engine.

Ready means that `/health` answers 200 *and* a token was generated: a vLLM whose engine is broken passes the first.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import requests

from tests.rigs.cache import RigError
from tests.rigs.processes import Process, guarded, session_processes

#: Seconds a start may take: vLLM needs 20 on a quiet machine, and 121 were seen on two cores with a load of 12.
START_SECONDS = 300.0
#: Lines of a server's log shown when it does not start.
LOG_TAIL_LINES = 30


@dataclass(frozen=True, slots=True)
class RunningServer:
    """A server that answers, and how it was started."""

    port: int
    argv: tuple[str, ...]
    log: Path
    pid: int
    #: Seconds from the start of the process to the first generated token.
    start_seconds: float
    process: subprocess.Popen[bytes]

    @property
    def url(self) -> str:
        """Its base URL, without a slash at the end."""
        return f"http://127.0.0.1:{self.port}"

    def processes(self) -> list[Process]:
        """Its living processes, the started one and every descendant, also once orphaned."""
        return session_processes(self.pid)

    def metrics(self) -> str:
        """Its page as text."""
        answer = requests.get(f"{self.url}/metrics", timeout=10)
        answer.raise_for_status()
        return answer.text

    def log_tail(self) -> str:
        """The last lines it printed."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-LOG_TAIL_LINES:])


@contextlib.contextmanager
def log_file(given: Path | None, name: str) -> Iterator[Path]:
    """Where a server's log goes: where the caller says, else into a folder that is gone at the end."""
    if given is not None:
        yield given
        return
    with tempfile.TemporaryDirectory(prefix="acceptd-rig-", ignore_cleanup_errors=True) as folder:
        yield Path(folder) / name


@contextlib.contextmanager
def running(
    argv: Sequence[str],
    env: Mapping[str, str],
    port: int,
    log: Path,
    start_seconds: float = START_SECONDS,
    ready: Callable[[str], bool] | None = None,
) -> Iterator[RunningServer]:
    """Start `argv` in a session of its own, yield it when `ready` (by default: it serves), kill all of it at the end.

    `env` is added to our own environment. stdout and stderr go to `log`, whose folder becomes the working directory.

    Raises:
        RigError: it ended, or did not generate a token in time; carries the end of its log.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    with log.open("wb") as output:
        process = subprocess.Popen(
            list(argv), env={**os.environ, **env}, cwd=log.parent,
            start_new_session=True, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
        )
    with process, guarded(process.pid):
        wait_until_serving(f"http://127.0.0.1:{port}", began + start_seconds, process, log, ready)
        yield RunningServer(port, tuple(argv), log, process.pid, time.monotonic() - began, process)


def wait_until_serving(
    url: str,
    deadline: float,
    process: subprocess.Popen[bytes] | None = None,
    log: Path | None = None,
    ready: Callable[[str], bool] | None = None,
) -> None:
    """Return once `/health` says 200 and a token was generated (or `ready` holds); `deadline` is monotonic.

    Raises:
        RigError: the process ended or the deadline passed.
    """
    while True:
        if (ready or is_serving)(url):
            return
        ended = process is not None and process.poll() is not None
        if ended or time.monotonic() > deadline:
            what = f"ended with code {process.returncode}" if process is not None and ended else "is not ready in time"
            tail = "\n".join(log.read_text(errors="replace").splitlines()[-LOG_TAIL_LINES:]) if log else ""
            raise RigError(f"the server of {url} {what}; its log {log} ends:\n{tail}")
        time.sleep(0.2)


def is_healthy(url: str) -> bool:
    """Whether `/health` says 200, which is not yet serving."""
    try:
        return requests.get(f"{url}/health", timeout=2).status_code == 200
    except requests.RequestException:
        return False


def is_serving(url: str, timeout: float = 10.0) -> bool:
    """Whether it is healthy and generates a token within `timeout` seconds."""
    if not is_healthy(url):
        return False
    try:
        answer = requests.post(f"{url}/v1/completions", json={"prompt": "import", "max_tokens": 1}, timeout=timeout)
        return answer.status_code == 200 and answer.json()["usage"]["completion_tokens"] >= 1
    except (requests.RequestException, ValueError, KeyError):
        return False
