"""The GPUs of this host, as `nvidia-smi` lists them."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass

#: Longest wait (seconds): a wedged driver answers nothing for a long time.
_TIMEOUT_SECONDS = 10.0
_MIB = 1024.0**2


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU: its name, its memory and what is in use of it (bytes)."""

    name: str
    memory_bytes: float
    used_bytes: float


def gpus(program: str = "nvidia-smi") -> tuple[Gpu, ...]:
    """Every GPU; none where the program is not there or does not answer."""
    found = shutil.which(program)
    if found is None:
        return ()
    command = [found, "--query-gpu=name,memory.total,memory.used", "--format=csv,noheader,nounits"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_SECONDS, check=True)
    except (OSError, subprocess.SubprocessError):
        return ()
    return tuple(gpu for line in answer.stdout.splitlines() if (gpu := _gpu(line)) is not None)


def _gpu(line: str) -> Gpu | None:
    """A line `name, MiB, MiB`; None for one that says nothing (`[N/A]`)."""
    parts = [part.strip() for part in line.rsplit(",", 2)]
    try:
        name, total, used = parts
        return Gpu(name, float(total) * _MIB, float(used) * _MIB)
    except ValueError:
        return None
