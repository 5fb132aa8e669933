"""Serves the application with waitress in a thread of its own."""

from __future__ import annotations

import socket
import threading
from typing import Any

from flask import Flask
from waitress.server import create_server

from monitor.errors import FatalError


class WebServer:
    """Listens on one address from `start` to `stop`."""

    def __init__(self, app: Flask, listen: str, *, or_any_port: bool = False) -> None:
        """`or_any_port`: where the port is taken, a free one of the same address will do."""
        self._app = app
        self._or_any_port = or_any_port
        host, _, port = listen.rpartition(":")
        self._host, self._port = host.strip("[]"), int(port)
        self._server: Any = None
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Bind and serve. Raises FatalError where the address cannot be had, naming it."""
        # Bound here: waitress leaves a socket open where it cannot bind.
        try:
            found = self._bound(self._port)
        except FatalError:
            if not self._or_any_port:
                raise
            found = self._bound(0)
        self._server = create_server(
            self._app, sockets=[found], threads=4, ident=None, clear_untrusted_proxy_headers=True
        )
        self._thread = threading.Thread(target=self._server.run, name="web", daemon=True)
        self._thread.start()

    def _bound(self, port: int) -> socket.socket:
        where = f"{self._host}:{port}"
        try:
            family, kind, protocol, _, address = socket.getaddrinfo(
                self._host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )[0]
            found = socket.socket(family, kind, protocol)
            try:
                found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                found.bind(address)
                found.listen()
            except OSError:
                found.close()
                raise
        except OSError as error:
            why = error.strerror or error
            raise FatalError(f"web.listen: {where} cannot be used ({why}); set another address") from error
        return found

    @property
    def url(self) -> str:
        """Where it can be reached; the port is the real one where 0 was asked for."""
        port = self._server.effective_port if self._server is not None else self._port
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{port}"

    def stop(self) -> None:
        """Close the socket and end the thread."""
        if self._server is not None:
            self._server.close()
            if self._thread is not None:
                self._thread.join(timeout=5)
            self._server = None
