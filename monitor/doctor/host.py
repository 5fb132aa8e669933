"""This host: its clock, its limits, its GPUs' memory."""

from __future__ import annotations

import resource
import subprocess
from collections.abc import Callable, Iterator, Sequence

from monitor.doctor.finding import Area, Finding, Subject
from monitor.targets.gpus import Gpu

#: Open files that each server may need, and what the daemon needs beside them (as `app/limits.py`).
_FILES_EACH, _FILES_BASE = 4, 256
#: Clocks that differ by more (seconds) make windows, alerts and reports of different hosts disagree.
SKEW_SECONDS = 5.0
#: A card with less of its memory free (share) is about to spill or to fail: engines take what they are given at start.
_LEAST_GPU_FREE = 0.01

#: The text that a program prints, None where it is not there or fails.
Run = Callable[[Sequence[str]], str | None]


def run(command: Sequence[str]) -> str | None:
    """What a program of the system prints; None where it is not there, fails or takes more than 10 s."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10.0, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout


def check_clock(ask: Run = run) -> Finding:
    """Whether something keeps this host's clock right."""
    of = Subject(Area.HOST, "clock")
    answer = ask(["timedatectl", "show", "--property=NTPSynchronized", "--value"])
    if answer is None:
        return of.note("nobody could say whether it is synchronised (no timedatectl)",
                       "make sure that NTP runs, or that the hypervisor sets the clock")
    if answer.strip() == "yes":
        return of.ok("synchronised")
    return of.problem("is not synchronised: windows and reports of several hosts will disagree",
                      "systemctl enable --now systemd-timesyncd (or chrony)")


def check_limits(servers: int) -> Finding:
    """Whether this user's processes may have as many files open as so many servers need."""
    of = Subject(Area.HOST, "open files")
    wanted = _FILES_BASE + _FILES_EACH * servers
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < wanted:
        return of.problem(f"at most {hard}, and {servers} servers may need {wanted}",
                          f"LimitNOFILE={max(65536, wanted)} in the unit, or `ulimit -Hn`")
    return of.ok("unlimited" if hard == resource.RLIM_INFINITY else f"up to {hard:,}")


def check_gpus(found: Sequence[Gpu]) -> Iterator[Finding]:
    """How full the GPUs' memory is."""
    for number, gpu in enumerate(found):
        of = Subject(Area.HOST, f"GPU {number} ({gpu.name})")
        free = gpu.memory_bytes - gpu.used_bytes
        said = f"{free / 1024**3:.1f} GiB free of {gpu.memory_bytes / 1024**3:.0f}"
        if gpu.memory_bytes and free / gpu.memory_bytes < _LEAST_GPU_FREE:
            yield of.note(said, "a draft model has no room there, and what spills into the host's memory is slow: lower"
                          " --gpu-memory-utilization, quantize the draft, or use n-gram")
        else:
            yield of.ok(said)
