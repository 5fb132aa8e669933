"""Inference servers of this host, from their processes: where they listen and which setting they were started with."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from monitor.launch import ParsedCommand, looks_like_server, parse_command
from monitor.model.life import Setting
from monitor.model.server import Engine
from monitor.targets.listeners import Listener, listeners

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
    def setting(self) -> Setting:
        """The speculation setting on its command line; off where it asks for none, unknown where it cannot be read."""
        if self.command.problems:
            return Setting()
        if self.command.speculation is None:
            return Setting(num_speculative_tokens=0)
        return self.command.speculation.setting


def find_servers(proc: Path = Path("/proc")) -> list[LocalServer]:
    """Every inference server that listens on this host and whose command line may be read, by port.

    Servers with several API processes share a port: the process with the lowest id stands for them.
    """
    found: dict[int, LocalServer] = {}
    for listener in listeners(proc):
        server = _server(listener)
        if server is not None and server.port not in found:
            found[server.port] = server
    return [found[port] for port in sorted(found)]


def server_behind(url: str, proc: Path = Path("/proc")) -> LocalServer | None:
    """The server process of this host that answers at `url`; None for another host, or where none is recognised."""
    parts = urlsplit(url)
    if parts.hostname not in _LOOPBACK:
        return None
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return next((server for server in find_servers(proc) if server.port == port), None)


def _server(listener: Listener) -> LocalServer | None:
    engine = looks_like_server(listener.argv)
    if engine is None or not listener.ports:
        return None
    command = parse_command(engine, listener.argv)
    # Engines listen on further ports for their own workers; the API's is the one on the command line.
    port = command.port if command.port in listener.ports else listener.ports[0]
    return LocalServer(engine, listener.pid, port, listener.argv, command)
