"""Which user of this host is behind a loopback connection, from /proc/net: what the page asks instead of a password."""

from __future__ import annotations

import ipaddress
import pwd
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_ESTABLISHED = "01"


def peer_uid(environ: Mapping[str, Any], proc: Path = Path("/proc")) -> int | None:
    """User id of the process at the other end of the request's connection; None where it is on no loopback address
    of this network namespace, or gone.
    """
    try:
        address = ipaddress.ip_address(str(environ.get("REMOTE_ADDR", "")))
        port = int(environ.get("REMOTE_PORT", ""))
        own = int(environ.get("SERVER_PORT", ""))
    except ValueError:
        return None
    if not address.is_loopback:
        return None
    for name in ("net/tcp", "net/tcp6"):
        try:
            lines = (proc / name).read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            columns = line.split()
            if len(columns) < 8 or columns[3] != _ESTABLISHED:
                continue
            here, there = columns[1].rsplit(":", 1), columns[2].rsplit(":", 1)
            # The client's end: its own port, and ours as the remote one.
            if int(here[1], 16) == port and int(there[1], 16) == own and _is(here[0], address):
                return int(columns[7])
    return None


def _is(hexadecimal: str, address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    """Whether an address as the kernel prints it (words in the machine's order) is `address`."""
    step = -1 if sys.byteorder == "little" else 1
    words = [bytes.fromhex(hexadecimal[i : i + 8])[::step] for i in range(0, len(hexadecimal), 8)]
    found = ipaddress.ip_address(b"".join(words))
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return address in (found, mapped)


def user_name(uid: int) -> str:
    """The name of a user of this host."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"
