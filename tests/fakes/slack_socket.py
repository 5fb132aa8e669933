"""Slack's side of Socket Mode: tickets, hello, envelopes that must be acknowledged, refreshes of the connection.

https://docs.slack.dev/apis/events-api/using-socket-mode
"""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Callable
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qs, urlsplit

from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response
from websockets.sync.server import Server, ServerConnection, serve

#: An envelope that is not acknowledged within three seconds counts as not delivered.
ACK_SECONDS = 3.0


class SocketMode:
    """The WebSocket end of the stand-in; `connections` are those open now, `opened` counts all that ever were."""

    def __init__(self, interacted: Callable[[dict[str, Any]], None]) -> None:
        self._interacted = interacted
        self._tickets: set[str] = set()
        self.connections: list[ServerConnection] = []
        self.opened = 0
        self._acks: dict[str, dict[str, Any]] = {}
        self._changed = threading.Condition()
        self._server: Server | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Listen on a port of its own."""
        self._server = serve(
            self._serve, "127.0.0.1", 0, process_request=self._admit, compression=None, close_timeout=1
        )
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Close everything."""
        if self._server is None or self._thread is None:
            return
        for connection in list(self.connections):
            connection.close()
        self._server.shutdown()
        self._thread.join()
        self._server = None

    def new_url(self) -> str:
        """An address that can be connected to once."""
        assert self._server is not None
        ticket = uuid.uuid4().hex
        self._tickets.add(ticket)
        return f"ws://127.0.0.1:{self._server.socket.getsockname()[1]}/link/?ticket={ticket}&app_id=A0TEST"

    def wait_connected(self, count: int = 1, seconds: float = 20.0) -> None:
        """Wait until so many connections are open. Raises TimeoutError."""
        with self._changed:
            if not self._changed.wait_for(lambda: len(self.connections) == count, seconds):
                raise TimeoutError(f"{len(self.connections)} connections, expected {count}")

    def interactive(self, payload: dict[str, Any]) -> dict[str, Any]:
        """Send a press of a button to the newest connection; what it acknowledged. Raises LookupError, TimeoutError."""
        if not self.connections:
            raise LookupError("no app is connected")
        self._interacted(payload)
        envelope = str(uuid.uuid4())
        message = {
            "type": "interactive", "envelope_id": envelope, "payload": payload, "accepts_response_payload": False
        }
        self.connections[-1].send(json.dumps(message))
        with self._changed:
            if not self._changed.wait_for(lambda: envelope in self._acks, ACK_SECONDS):
                raise TimeoutError("not acknowledged within three seconds")
            return self._acks[envelope]

    def refresh(self) -> None:
        """Ask the app to connect anew, as Slack does every few hours, and close a little later."""
        for connection in list(self.connections):
            connection.send(json.dumps({"type": "disconnect", "reason": "refresh_requested", "debug_info": {}}))

    def _admit(self, connection: ServerConnection, request: Request) -> Response | None:
        ticket = parse_qs(urlsplit(request.path).query).get("ticket", [""])[0]
        if ticket not in self._tickets:
            return connection.respond(HTTPStatus.FORBIDDEN, "no such ticket\n")
        self._tickets.discard(ticket)
        return None

    def _serve(self, connection: ServerConnection) -> None:
        connection.send(
            json.dumps(
                {"type": "hello", "num_connections": len(self.connections) + 1, "connection_info": {"app_id": "A0TEST"},
                 "debug_info": {"host": "stand-in", "approximate_connection_time": 18060}}
            )
        )
        with self._changed:
            self.connections.append(connection)
            self.opened += 1
            self._changed.notify_all()
        try:
            for text in connection:
                said = json.loads(text)
                with self._changed:
                    self._acks[said["envelope_id"]] = said.get("payload") or {}
                    self._changed.notify_all()
        except ConnectionClosed:
            pass
        finally:
            with self._changed:
                self.connections.remove(connection)
                self._changed.notify_all()


def wait_for(condition: Callable[[], bool], what: str, seconds: float = 20.0) -> None:
    """Wait until `condition` holds. Raises TimeoutError saying what did not come."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(what)
        time.sleep(0.02)
