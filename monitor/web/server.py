"""Serves the application with waitress in a thread of its own."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Callable
from typing import Any

from flask import Flask
from waitress.server import create_server

from monitor.clock import Clock, SystemClock
from monitor.errors import FatalError

log = logging.getLogger(__name__)

#: Rest after a connection that could not be taken (seconds): it waits in the kernel's queue meanwhile.
_ACCEPT_REST = 0.5


class WebServer:
    """Listens on one address from `start` to `stop`."""

    def __init__(self, app: Flask, listen: str, *, or_any_port: bool = False, clock: Clock | None = None) -> None:
        """`or_any_port`: where the port is taken, a free one of the same address will do."""
        self._app = app
        self._clock = clock or SystemClock()
        self._or_any_port = or_any_port
        host, _, port = listen.rpartition(":")
        self._host, self._port = host.strip("[]"), int(port)
        self._server: Any = None
        #: What waitress listens to: sockets, connections, its own pipe.
        self._open: dict[int, Any] = {}
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
            self._app, map=self._open, sockets=[found], threads=4, ident=None, clear_untrusted_proxy_headers=True,
            # select() ends at 1,024 files, which a thousand servers take.
            asyncore_use_poll=True,
        )
        self._server.accept = self._patient(self._server.accept)
        thread = threading.Thread(target=self._server.run, name="web", daemon=True)
        thread.start()
        self._thread = thread

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

    def _patient(self, accept: Callable[[], Any]) -> Callable[[], Any]:
        """`accept` that rests where the process has no file left: waitress would try, and log, without a pause."""
        complained = False

        def patient() -> Any:
            nonlocal complained
            try:
                taken = accept()
            except OSError as error:
                if not complained:
                    log.error("the page takes no connections: %s", error.strerror or error)
                complained = True
                self._clock.sleep(_ACCEPT_REST)
                return None
            complained = False
            return taken

        return patient

    @property
    def url(self) -> str:
        """Where it can be reached; the port is the real one where 0 was asked for."""
        port = self._server.effective_port if self._server is not None else self._port
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{port}"

    def stop(self) -> None:
        """Close socket and connections, and end all threads; a request under way has five seconds."""
        server, self._server = self._server, None
        if server is None:
            return
        # By its own thread: closing what that waits for would raise there.
        server.trigger.pull_trigger(self._close)
        if self._thread is not None:
            self._thread.join(timeout=5)
        server.task_dispatcher.shutdown(timeout=5)

    def _close(self) -> None:
        for one in list(self._open.values()):
            one.close()
