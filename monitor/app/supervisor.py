"""Talking to systemd: ready, watchdog, reloading, stopping. Does nothing where no supervisor listens.

Protocol: https://www.freedesktop.org/software/systemd/man/latest/sd_notify.html
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping

from monitor.clock import awake_microseconds

#: Turns of the loop that the watchdog must last at least.
_TURNS = 3.0


class Supervisor:
    """Sends states to the socket in NOTIFY_SOCKET."""

    def __init__(self, environ: Mapping[str, str] | None = None) -> None:
        known = os.environ if environ is None else environ
        self._address = known.get("NOTIFY_SOCKET", "")
        microseconds = known.get("WATCHDOG_USEC", "")
        ours = known.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        self.watchdog_seconds = int(microseconds) / 1e6 if microseconds.isdigit() and ours else None

    def ready(self, status: str, *, turn_seconds: float | None = None) -> None:
        """Start-up or reload is finished. `turn_seconds`: how often the loop turns, which the watchdog must outlast.

        A watchdog that is set too short for it is set anew, since it would end a daemon that is well.
        """
        least = None if turn_seconds is None else _TURNS * turn_seconds
        longer = ""
        if least is not None and self.watchdog_seconds is not None and self.watchdog_seconds < least:
            longer = f"\nWATCHDOG_USEC={int(least * 1e6)}"
        self._send(f"READY=1\nSTATUS={_line(status)}{longer}")

    def alive(self, status: str) -> None:
        """The loop finished a turn."""
        self._send(f"WATCHDOG=1\nSTATUS={_line(status)}")

    def reloading(self) -> None:
        """The configuration is being reloaded; the time is needed from systemd 253 on (Type=notify-reload).

        By the one clock that systemd compares it with, which is not ours: that one goes on while the machine sleeps.
        """
        self._send(f"RELOADING=1\nMONOTONIC_USEC={awake_microseconds()}")

    def stopping(self) -> None:
        """The daemon is going down."""
        self._send("STOPPING=1")

    def _send(self, message: str) -> None:
        if not self._address:
            return
        address = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as channel:
                channel.sendto(message.encode(), address)
        except OSError:
            # A supervisor that has gone is no reason to stop watching servers.
            return


def _line(text: str) -> str:
    """A status is one line; what follows it would be read as another variable."""
    return " ".join(text.split())
