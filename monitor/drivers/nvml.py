"""Who holds memory on the GPUs of this host, as the driver's own library (NVML) says. It reads, and judges nothing.

The library's Python binding is optional (extra `gpu`); without it, without a driver or without a GPU nothing is held.
None of this has run on a GPU yet: `make test-gpu` is the suite that will.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Holder:
    """A process with memory on a GPU; `used_bytes` None where the driver does not tell."""

    pid: int
    gpu: str
    used_bytes: int | None


class Nvml:
    """The library, initialised."""

    def __init__(self, library: Any) -> None:
        self._library = library

    def holders(self) -> tuple[Holder, ...]:
        """Every compute process on every GPU; what one GPU does not answer is left out."""
        library, found = self._library, []
        for handle in self._handles():
            try:
                name = _text(library.nvmlDeviceGetUUID(handle))
                running: Sequence[Any] = library.nvmlDeviceGetComputeRunningProcesses(handle)
            except library.NVMLError as error:
                logger.debug("a GPU does not say who uses it: %s", error)
                continue
            found += [Holder(int(one.pid), name, one.usedGpuMemory) for one in running]
        return tuple(found)

    def used_bytes(self) -> int:
        """Memory in use on all GPUs together."""
        library = self._library
        return sum(int(library.nvmlDeviceGetMemoryInfo(handle).used) for handle in self._handles())

    def _handles(self) -> list[Any]:
        try:
            count = self._library.nvmlDeviceGetCount()
            return [self._library.nvmlDeviceGetHandleByIndex(index) for index in range(count)]
        except self._library.NVMLError as error:
            logger.debug("GPUs cannot be listed: %s", error)
            return []


@cache
def open_nvml() -> Nvml | None:
    """The library, once a process; None where there is no binding, no driver or no GPU."""
    try:
        library = import_module("pynvml")
    except ImportError:
        return None
    try:
        library.nvmlInit()
    except library.NVMLError as error:
        logger.debug("no NVML here: %s", error)
        return None
    return Nvml(library) if Nvml(library)._handles() else None


def _text(value: str | bytes) -> str:
    # Older bindings answer in bytes.
    return value.decode() if isinstance(value, bytes) else value
