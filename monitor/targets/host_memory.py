"""Memory of this host, and what a server and its children take of it, from /proc."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

_KIB = 1024.0


@dataclass(frozen=True, slots=True)
class HostMemory:
    """What is free on this host, and what it swaps to (bytes)."""

    available_bytes: float
    swap_bytes: float
    swap_free_bytes: float


@dataclass(frozen=True, slots=True)
class Taken:
    """What a process and its descendants hold that comes back when they end, and what of them is swapped (bytes)."""

    resident_bytes: float
    swapped_bytes: float


def host_memory(root: Path = Path("/proc")) -> HostMemory | None:
    """The host's memory; None where the kernel does not say."""
    said = _fields(root / "meminfo")
    available = said.get("MemAvailable")
    if available is None:
        return None
    return HostMemory(available, said.get("SwapTotal", 0.0), said.get("SwapFree", 0.0))


def taken_by(pid: int, root: Path = Path("/proc")) -> Taken | None:
    """What `pid` and its descendants hold; None where it is gone or may not be seen.

    Pages of files (the weights, where they are mapped) are not counted: the kernel gives them back by itself.
    """
    children: dict[int, list[int]] = {}
    known: dict[int, dict[str, float]] = {}
    for entry in os.listdir(root):
        if entry.isdigit() and (said := _fields(root / entry / "status")):
            known[int(entry)] = said
            children.setdefault(int(said.get("PPid", 0.0)), []).append(int(entry))
    if pid not in known:
        return None
    resident = swapped = 0.0
    waiting = [pid]
    while waiting:
        one = waiting.pop()
        waiting += children.get(one, [])
        resident += known[one].get("RssAnon", known[one].get("VmRSS", 0.0)) + known[one].get("RssShmem", 0.0)
        swapped += known[one].get("VmSwap", 0.0)
    return Taken(resident, swapped)


def _fields(path: Path) -> dict[str, float]:
    """Lines `Name: 123 kB` in bytes, and numbers without a unit as they are."""
    found = {}
    try:
        text = path.read_text(errors="replace")
    except OSError:
        return {}
    for line in text.splitlines():
        name, _, value = line.partition(":")
        words = value.split()
        if words and words[0].isdigit():
            found[name] = float(words[0]) * (_KIB if words[-1] == "kB" else 1.0)
    return found
