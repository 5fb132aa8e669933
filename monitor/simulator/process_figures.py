"""What this process costs, as prometheus_client's collectors print it. It reads `/proc` and no clock."""

from __future__ import annotations

import gc
import os
import resource
from dataclasses import dataclass
from pathlib import Path

#: Seconds for which figures are shared by the pages of one process: listing descriptors is dear in a fleet of hundreds.
_KEEP_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Figures:
    """Bytes, seconds and descriptors of this process; per generation, collections and objects of the collector."""

    virtual_bytes: float
    resident_bytes: float
    cpu_seconds: float
    open_fds: int
    max_fds: int
    gc_collected: tuple[int, ...]
    gc_uncollectable: tuple[int, ...]
    gc_collections: tuple[int, ...]


class ProcessFigures:
    """Figures of this process, read at most every few seconds."""

    def __init__(self) -> None:
        self._read_at: float | None = None
        self._figures: Figures | None = None

    def read(self, monotonic: float) -> Figures:
        """The figures, not older than a few seconds; `monotonic` is the caller's clock."""
        if self._figures is None or self._read_at is None or monotonic - self._read_at > _KEEP_SECONDS:
            self._figures, self._read_at = _read(), monotonic
        return self._figures


def _read() -> Figures:
    page_bytes = os.sysconf("SC_PAGE_SIZE")
    virtual, resident, *_ = (int(pages) for pages in Path("/proc/self/statm").read_text(encoding="ascii").split())
    times = os.times()
    generations = gc.get_stats()
    return Figures(
        virtual_bytes=float(virtual * page_bytes),
        resident_bytes=float(resident * page_bytes),
        cpu_seconds=round(times.user + times.system, 2),
        open_fds=len(os.listdir("/proc/self/fd")),
        max_fds=resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        gc_collected=tuple(generation["collected"] for generation in generations),
        gc_uncollectable=tuple(generation["uncollectable"] for generation in generations),
        gc_collections=tuple(generation["collections"] for generation in generations),
    )
