"""Inference servers of this host, from their processes: where they listen and which setting they were started with."""

from __future__ import annotations

import ipaddress
import socket
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from monitor.launch import ParsedCommand, looks_like_server, parse_command
from monitor.model.life import Said, Setting, SettingSource
from monitor.model.server import Engine
from monitor.targets.listeners import Listener, listeners
from monitor.targets.saying import said_by

_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1", "0.0.0.0"})


@dataclass(frozen=True, slots=True)
class LocalServer:
    """One server process of this host."""

    engine: Engine
    pid: int
    port: int
    argv: tuple[str, ...]
    command: ParsedCommand

    @property
    def base_url(self) -> str:
        """Where it can be asked from this host."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def said(self) -> Said:
        """What its command line says; nothing (and why) where it cannot be read for sure."""
        if self.command.problems:
            note = f"command line not used: {self.command.problems[0]}"
            return Said(source=SettingSource.COMMAND_LINE, note=note)
        return said_by(SettingSource.COMMAND_LINE, self.command.speculation)

    @property
    def setting(self) -> Setting:
        """The speculation setting on its command line; off where it asks for none, unknown where it cannot be read."""
        return self.said.setting


def find_servers(proc: Path = Path("/proc")) -> list[LocalServer]:
    """Every inference server that listens on this host and whose command line may be read, by port.

    Servers with several API processes share a port: the process with the lowest id stands for them.
    """
    found: dict[int, LocalServer] = {}
    for listener in listeners(proc, lambda argv: looks_like_server(argv) is not None):
        server = _server(listener)
        if server is not None and server.port not in found:
            found[server.port] = server
    return [found[port] for port in sorted(found)]


def server_behind(url: str, proc: Path = Path("/proc")) -> LocalServer | None:
    """The server process of this host that answers at `url`; None for another host, or where none is recognised."""
    parts = urlsplit(url)
    if parts.hostname is None or not is_this_host(parts.hostname):
        return None
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return next((server for server in find_servers(proc) if server.port == port), None)


def is_this_host(host: str) -> bool:
    """Whether `host` of a URL is this machine: loopback, its name, or an address of its own. It asks no name server."""
    if host in _LOOPBACK or host == socket.gethostname():
        return True
    try:
        address = ipaddress.ip_address(host)
        with socket.socket(socket.AF_INET6 if address.version == 6 else socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.bind((host, 0))  # only an address of this machine can be bound
    except (ValueError, OSError):
        return False
    return True


def _server(listener: Listener) -> LocalServer | None:
    engine = looks_like_server(listener.argv)
    if engine is None or not listener.ports:
        return None
    command = parse_command(engine, listener.argv)
    # Engines listen on further ports for their own workers; the API's is the one on the command line.
    port = command.port if command.port in listener.ports else listener.ports[0]
    return LocalServer(engine, listener.pid, port, listener.argv, command)
