"""Daemons that are forked from a process with everything imported, instead of started anew."""

from __future__ import annotations

import contextlib
import ctypes
import multiprocessing
import os
import resource
import signal
import sys
from collections.abc import Mapping
from multiprocessing.process import BaseProcess
from pathlib import Path

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["monitor.app.run", "monitor.cli.main", "monitor.cli.running"])

#: Limits by their name in `resource`: soft and hard. That of address space is above what is taken at the start.
Limits = Mapping[str, tuple[int, int]]


class ForkedDaemon:
    """`acceptd --config FILE run` in a process of its own; looks like a Popen object as far as tests ask."""

    def __init__(
        self, config: Path, log: Path, folder: Path, environ: Mapping[str, str], limits: Limits, mounts_of: int | None
    ) -> None:
        """`mounts_of`: the process whose mounts it sees."""
        arguments = (["--config", str(config), "run"], str(log), str(folder), dict(environ), dict(limits), mounts_of)
        self._process: BaseProcess = _CONTEXT.Process(target=_run, args=arguments)
        self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid

    def poll(self) -> int | None:
        """Its exit code; negative for a signal, None while it runs."""
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int | None:
        """Wait until it ends."""
        self._process.join(timeout)
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        """Send it a signal."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def kill(self) -> None:
        """SIGKILL."""
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        """SIGTERM."""
        self.send_signal(signal.SIGTERM)


def _run(
    arguments: list[str], log: str, folder: str, environ: dict[str, str], limits: dict[str, tuple[int, int]],
    mounts_of: int | None,
) -> None:
    """In the child: become what the shell would have started."""
    if mounts_of is not None:
        namespace = os.open(f"/proc/{mounts_of}/ns/mnt", os.O_RDONLY)
        if ctypes.CDLL(None, use_errno=True).setns(namespace, 0):
            raise OSError(ctypes.get_errno(), "setns")
        os.close(namespace)
    out = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for number, handle in enumerate((nothing, out, out)):
        os.dup2(handle, number)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environ)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    taken = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    for name, (soft, hard) in limits.items():
        above = taken if name == "RLIMIT_AS" else 0
        resource.setrlimit(getattr(resource, name), (soft + above, hard + above))
    sys.stdout = os.fdopen(1, "w", buffering=1, closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)
    from monitor.cli.main import main

    main(arguments)
