"""Which processes of this host listen on which TCP port, from /proc. It owns no knowledge of servers."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

#: State of a listening socket in /proc/net/tcp (Linux `include/net/tcp_states.h`).
_LISTEN = "0A"
_SOCKET = re.compile(r"socket:\[(\d+)\]")


@dataclass(frozen=True, slots=True)
class Listener:
    """A process that listens: its ports and its command line, as far as this user may read them."""

    pid: int
    ports: tuple[int, ...]
    argv: tuple[str, ...]


def listening_inodes(proc: Path = Path("/proc")) -> dict[int, int]:
    """Port by inode of every listening TCP socket of this network namespace."""
    found = {}
    for name in ("net/tcp", "net/tcp6"):
        try:
            lines = (proc / name).read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            columns = line.split()
            if len(columns) > 9 and columns[3] == _LISTEN:
                found[int(columns[9])] = int(columns[1].rsplit(":", 1)[1], 16)
    return found


def command_line(pid: int, proc: Path = Path("/proc")) -> tuple[str, ...]:
    """Arguments of a process; empty where it has gone or may not be read."""
    try:
        raw = (proc / str(pid) / "cmdline").read_bytes()
    except OSError:
        return ()
    return tuple(part.decode(errors="replace") for part in raw.rstrip(b"\0").split(b"\0")) if raw else ()


def listeners(proc: Path = Path("/proc")) -> list[Listener]:
    """Every process of this host that listens on TCP and may be looked at, by pid.

    A socket that a parent shares with its children is counted for each of them.
    """
    inodes = listening_inodes(proc)
    ports: dict[int, set[int]] = defaultdict(set)
    for entry in proc.iterdir():
        if not entry.name.isdigit():
            continue
        try:
            for link in (entry / "fd").iterdir():
                match = _SOCKET.match(str(link.readlink()))
                if match and int(match[1]) in inodes:
                    ports[int(entry.name)].add(inodes[int(match[1])])
        except OSError:
            continue  # gone meanwhile, or another user's
    return [Listener(pid, tuple(sorted(found)), command_line(pid, proc)) for pid, found in sorted(ports.items())]
