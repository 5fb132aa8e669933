"""Which processes of this host listen on which TCP port, from /proc. It owns no knowledge of servers."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable
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
            # Most lines are connections: what does not hold the state's two digits need not be taken apart.
            columns = line.split() if _LISTEN in line else []
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


def listeners(
    proc: Path = Path("/proc"), is_wanted: Callable[[tuple[str, ...]], bool] = lambda argv: True
) -> list[Listener]:
    """Every process of this host with a wanted command line that listens on TCP and may be looked at, by pid.

    A socket that a parent shares with its children is counted for each of them. The sockets of all other processes are
    not looked at: one that watches a thousand servers has a thousand of them.
    """
    argvs = {int(name): command_line(int(name), proc) for name in os.listdir(proc) if name.isdigit()}
    wanted = {pid: argv for pid, argv in sorted(argvs.items()) if is_wanted(argv)}
    inodes = listening_inodes(proc) if wanted else {}
    ports = {pid: {inodes[one] for one in _sockets(pid, proc) if one in inodes} for pid in wanted}
    return [Listener(pid, tuple(sorted(ports[pid])), argv) for pid, argv in wanted.items() if ports[pid]]


def _sockets(pid: int, proc: Path) -> list[int]:
    """Inodes of the sockets that a process has open; none where it has gone or may not be looked at."""
    folder = proc / str(pid) / "fd"
    found = []
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            with contextlib.suppress(OSError):
                match = _SOCKET.match(os.readlink(folder / name))
                if match:
                    found.append(int(match[1]))
    return found
