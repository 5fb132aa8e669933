"""A local stand-in of Slack's Web API and webhooks that refuses what Slack refuses, and can be told to fail.

Limits and errors follow Slack's documentation: chat.postMessage / chat.update errors, Block Kit limits, one message a
second and channel (429 with Retry-After), scopes, the file upload in steps, history with metadata, Socket Mode. Runs as
a thread in tests or as a process:
`python -m tests.fakes.slack_server --port P --record FILE`.
"""

from __future__ import annotations

import argparse
import json
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qs

from tests.fakes.slack_blocks import message_fault
from tests.fakes.slack_socket import SocketMode

TOKEN = "xoxb-test-token"
APP_TOKEN = "xapp-test-token"
CHANNEL = "C0TESTCHAN"
CHANNEL_NAME = "#llm-oncall"


@dataclass
class Message:
    """A message as it stands now, with all it said before."""

    channel: str
    ts: str
    thread_ts: str | None
    text: str
    blocks: list[dict[str, Any]]
    metadata: dict[str, Any] | None = None
    #: What it said before each edit.
    edits: list[str] = field(default_factory=list)

    def first(self) -> str:
        """What it said when it was posted."""
        return self.edits[0] if self.edits else self.whole()

    def whole(self) -> str:
        """All texts of the message, for searching."""
        return self.text + "\n" + json.dumps(self.blocks, ensure_ascii=False)


@dataclass
class Failure:
    """An answer to give instead of the real one."""

    status: int = 200
    error: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    #: Take the message all the same, as a server that fails after it has accepted.
    accepts: bool = False
    #: Close the connection instead of answering.
    hangs_up: bool = False
    #: Wait for this method; empty for whatever is called next.
    method: str = ""


#: Which scope a method needs (the first that the app has counts).
_SCOPES = {
    "chat.postMessage": ("chat:write",),
    "chat.update": ("chat:write",),
    "chat.postEphemeral": ("chat:write",),
    "files.getUploadURLExternal": ("files:write",),
    "files.completeUploadExternal": ("files:write",),
    "conversations.history": ("channels:history", "groups:history"),
    "conversations.replies": ("channels:history", "groups:history"),
}
ALL_SCOPES = frozenset(scope for scopes in _SCOPES.values() for scope in scopes)


#: Messages that a channel takes at once before the limit of one a second holds.
_BURST = 5.0


class SlackServer:
    """The stand-in; `messages` holds what was taken, `requests` every call as (method, arguments).

    `clock` gives seconds, for the limit of messages; None does not limit them.
    """

    def __init__(
        self, port: int = 0, *, record: Path | None = None, clock: Callable[[], float] | None = None,
        scopes: frozenset[str] = ALL_SCOPES,
    ) -> None:
        self.scopes = scopes
        #: What happened to messages: "post", "reply" or "edit", with the message as it stood then.
        self.events: list[tuple[str, Message]] = []
        #: Told to a person alone: (user, text).
        self.whispers: list[tuple[str, str]] = []
        #: Channels that are there, by id; one can be taken away or archived.
        self.channels = {CHANNEL: CHANNEL_NAME}
        #: What every call is answered with while it is set, as with a revoked token.
        self.always: Failure | None = None
        self._clock = clock
        self._allowance: dict[str, tuple[float, float]] = {}
        self.socket = SocketMode(self._interacted)
        self.messages: list[Message] = []
        self.requests: list[tuple[str, dict[str, Any]]] = []
        self.files: list[tuple[str, bytes]] = []
        self.failures: deque[Failure] = deque()
        self._record = record
        self._tick = 0
        self._lock = threading.Lock()
        self._count = 0
        self._uploads: dict[str, tuple[str, bytes]] = {}
        stand_in = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                answer = stand_in.answer(self.path, dict(self.headers), body)
                if answer is None:
                    self.close_connection = True
                    return
                status, payload, headers = answer
                data = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
                self.send_response(status)
                kind = "text/plain" if isinstance(payload, bytes) else "application/json; charset=utf-8"
                for name, value in {"Content-Type": kind, "Content-Length": str(len(data)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_POST

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True, args=(0.05,))

    @property
    def base(self) -> str:
        """Address of the server."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def api_url(self) -> str:
        """Base URL of the Web API."""
        return f"{self.base}/api"

    @property
    def webhook_url(self) -> str:
        """An incoming webhook."""
        return f"{self.base}/services/T000/B000/secretpart"

    def __enter__(self) -> Self:
        self._thread.start()
        self.socket.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.stop()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def fail_next(self, *failures: Failure) -> None:
        """Answer the next calls with these instead."""
        self.failures.extend(failures)

    def root(self, text: str) -> Message:
        """The newest message outside threads that says `text`."""
        return next(m for m in reversed(self.messages) if m.thread_ts is None and text in m.whole())

    def press(self, message: Message, action_id: str, *, user: str = "U0ANN", name: str = "ann") -> dict[str, Any]:
        """Press a button of a message as a person would; the acknowledgement that came back.

        Raises LookupError where the message shows no such button, or nobody is connected.
        """
        elements = [e for block in message.blocks for e in block.get("elements", ()) if e.get("action_id")]
        button = next((e for e in elements if e["action_id"] == action_id), None)
        if button is None:
            raise LookupError(f"no button {action_id} in {[e['action_id'] for e in elements]}")
        payload = {
            "type": "block_actions",
            "user": {"id": user, "username": name, "name": name, "team_id": "T0TEST"},
            "team": {"id": "T0TEST", "domain": "test"},
            "container": {"type": "message", "message_ts": message.ts, "channel_id": message.channel},
            "channel": {"id": message.channel, "name": CHANNEL_NAME.lstrip("#")},
            "message": {"type": "message", "ts": message.ts, "text": message.text},
            "actions": [
                {"type": "button", "action_id": action_id, "block_id": "b", "value": button.get("value", ""),
                 "action_ts": f"{message.ts}1"}
            ],
            "response_url": f"{self.base}/response",
            "trigger_id": "1.2.3",
        }
        return self.socket.interactive(payload)

    def _interacted(self, payload: dict[str, Any]) -> None:
        self.requests.append(("interactive", payload))

    def answer(self, path: str, headers: dict[str, str], body: bytes) -> tuple[int, Any, dict[str, str]] | None:
        """Status, body and headers for one request; None to hang up."""
        with self._lock:
            if path.startswith("/services/"):
                return self._webhook(body)
            if path.startswith("/upload/"):
                name, _ = self._uploads[path.rsplit("/", 1)[1]]
                self._uploads[path.rsplit("/", 1)[1]] = (name, body)
                return 200, b"OK", {}
            return self._method(path.removeprefix("/api/"), headers, body)

    def _arguments(self, headers: dict[str, str], body: bytes) -> dict[str, Any]:
        if "json" in headers.get("Content-Type", ""):
            arguments: dict[str, Any] = json.loads(body or b"{}")
        else:
            arguments = {name: values[-1] for name, values in parse_qs(body.decode()).items()}
        if isinstance(arguments.get("blocks"), str):
            arguments["blocks"] = json.loads(arguments["blocks"])
        return arguments

    def _method(
        self, method: str, headers: dict[str, str], body: bytes
    ) -> tuple[int, Any, dict[str, str]] | None:
        arguments = self._arguments(headers, body)
        self.requests.append((method, arguments))
        failure = self._failure(method)
        if failure is not None and not failure.accepts:
            return self._fail(failure)
        wait = self._wait(method, arguments)
        if wait > 0:
            return 429, {"ok": False, "error": "ratelimited"}, {"Retry-After": str(max(1, round(wait)))}
        result = self._call(method, headers, arguments)
        self._write()
        return self._fail(failure) if failure is not None else (200, result, {})

    def _failure(self, method: str) -> Failure | None:
        if self.always is not None:
            return self.always
        if not self.failures or self.failures[0].method not in ("", method):
            return None
        return self.failures.popleft()

    def _fail(self, failure: Failure) -> tuple[int, Any, dict[str, str]] | None:
        if failure.hangs_up:
            return None
        return failure.status, {"ok": False, "error": failure.error}, failure.headers

    def _wait(self, method: str, arguments: dict[str, Any]) -> float:
        """Seconds until the channel takes another message: about one a second, short bursts allowed."""
        if self._clock is None or method not in ("chat.postMessage", "webhook"):
            return 0.0
        channel, now = str(arguments.get("channel")), self._clock()
        left, at = self._allowance.get(channel, (_BURST, now))
        left = min(_BURST, left + now - at)
        self._allowance[channel] = (left - 1.0 if left >= 1.0 else left, now)
        return 0.0 if left >= 1.0 else 1.0 - left

    def _call(self, method: str, headers: dict[str, str], arguments: dict[str, Any]) -> dict[str, Any]:
        if method == "apps.connections.open":
            if headers.get("Authorization") != f"Bearer {APP_TOKEN}":
                return {"ok": False, "error": "not_allowed_token_type"}
            return {"ok": True, "url": self.socket.new_url()}
        if headers.get("Authorization") != f"Bearer {TOKEN}":
            return {"ok": False, "error": "invalid_auth" if headers.get("Authorization") else "not_authed"}
        needed = _SCOPES.get(method, ())
        if needed and not self.scopes & set(needed):
            return {"ok": False, "error": "missing_scope", "needed": needed[0], "provided": ",".join(self.scopes)}
        if method in ("conversations.history", "conversations.replies"):
            return self._history(method, arguments)
        if method == "chat.postEphemeral":
            self.whispers.append((str(arguments["user"]), str(arguments["text"])))
            return {"ok": True, "message_ts": "1.1"}
        if method == "auth.test":
            return {"ok": True, "user": "acceptd", "team": "Test"}
        if method == "chat.postMessage":
            return self._post(arguments)
        if method == "chat.update":
            return self._update(arguments)
        if method == "files.getUploadURLExternal":
            self._count += 1
            self._uploads[f"F{self._count}"] = (str(arguments["filename"]), b"")
            return {"ok": True, "upload_url": f"{self.base}/upload/F{self._count}", "file_id": f"F{self._count}"}
        if method == "files.completeUploadExternal":
            given = arguments["files"]
            given = json.loads(given) if isinstance(given, str) else given
            if arguments.get("channel_id") not in self.channels:
                return {"ok": False, "error": "channel_not_found"}
            self.files.extend(self._uploads[entry["id"]] for entry in given)
            return {"ok": True, "files": [{"id": entry["id"]} for entry in given]}
        if method == "files.info":
            return {"ok": True, "file": {"id": arguments["file"]}}
        return {"ok": False, "error": "unknown_method"}

    def _history(self, method: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Messages of a channel (newest first) or of a thread (oldest first), with metadata where it is asked for."""
        if arguments.get("channel") not in self.channels:
            # A name is no id.
            return {"ok": False, "error": "channel_not_found"}
        thread = arguments.get("ts")
        found = [m for m in self.messages if (m.thread_ts == thread or m.ts == thread if thread else not m.thread_ts)]
        found = [m for m in found if float(m.ts) >= float(arguments.get("oldest", 0))]
        with_metadata = str(arguments.get("include_all_metadata")) in ("1", "True", "true")
        said = [
            {"type": "message", "ts": m.ts, "text": m.text, **({"metadata": m.metadata} if with_metadata else {})}
            for m in (found if thread else reversed(found))
        ]
        return {"ok": True, "messages": said[: int(arguments.get("limit", 100))], "has_more": False}

    def _post(self, arguments: dict[str, Any]) -> dict[str, Any]:
        channel = next((i for i, name in self.channels.items() if arguments.get("channel") in (i, name)), None)
        if channel is None:
            return {"ok": False, "error": "channel_not_found"}
        fault = message_fault(arguments)
        if fault:
            return {"ok": False, "error": fault}
        thread = arguments.get("thread_ts")
        if thread is not None and thread not in {m.ts for m in self.messages}:
            return {"ok": False, "error": "thread_not_found"}
        metadata = arguments.get("metadata")
        message = Message(
            channel, self._new_ts(), thread, str(arguments.get("text", "")), arguments.get("blocks") or [],
            json.loads(metadata) if isinstance(metadata, str) else metadata,
        )
        self.messages.append(message)
        self.events.append(("reply" if thread else "post", replace(message)))
        return {"ok": True, "channel": channel, "ts": message.ts, "message": {"text": message.text}}

    def _new_ts(self) -> str:
        """A message's name: when it was posted, unique in its channel."""
        self._tick += 1
        return f"{self._clock() if self._clock else time.time():.0f}.{self._tick:06d}"

    def _update(self, arguments: dict[str, Any]) -> dict[str, Any]:
        if arguments.get("channel") not in self.channels:
            # An edit takes the channel's id; a name that posting accepts is refused here.
            return {"ok": False, "error": "channel_not_found"}
        fault = message_fault(arguments)
        if fault:
            return {"ok": False, "error": fault}
        message = next((m for m in self.messages if m.ts == arguments.get("ts")), None)
        if message is None:
            return {"ok": False, "error": "message_not_found"}
        message.edits.append(message.whole())
        message.text, message.blocks = str(arguments.get("text", "")), arguments.get("blocks") or []
        self.events.append(("edit", replace(message)))
        return {"ok": True, "channel": message.channel, "ts": message.ts, "text": message.text}

    def _webhook(self, body: bytes) -> tuple[int, Any, dict[str, str]] | None:
        arguments = json.loads(body)
        self.requests.append(("webhook", arguments))
        failure = self._failure("webhook")
        if failure is not None:
            return None if failure.hangs_up else (failure.status, failure.error.encode(), failure.headers)
        wait = self._wait("webhook", arguments)
        if wait > 0:
            return 429, b"rate_limited", {"Retry-After": str(max(1, round(wait)))}
        fault = message_fault(arguments)
        if fault:
            return 400, fault.encode(), {}
        blocks = arguments.get("blocks") or []
        self.messages.append(Message(CHANNEL, self._new_ts(), None, str(arguments.get("text", "")), blocks))
        self._write()
        return 200, b"ok", {}

    def _write(self) -> None:
        if self._record is not None:
            data = [
                {"ts": m.ts, "thread_ts": m.thread_ts, "text": m.text, "blocks": m.blocks, "edits": m.edits}
                for m in self.messages
            ]
            partial = self._record.with_suffix(".part")
            partial.write_text(json.dumps(data, ensure_ascii=False))
            partial.replace(self._record)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--record", type=Path)
    args = parser.parse_args()
    with SlackServer(args.port, record=args.record) as server:
        print(server.api_url, flush=True)
        while True:
            time.sleep(3600)


if __name__ == "__main__":
    main()
