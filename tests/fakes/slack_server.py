"""A local stand-in of Slack's Web API and webhooks that refuses what Slack refuses, and can be told to fail.

Limits and errors follow Slack's documentation: chat.postMessage / chat.update errors, Block Kit limits, 429 with
Retry-After, the two-step file upload. Runs as a thread in tests or as a process:
`python -m tests.fakes.slack_server --port P --record FILE`.
"""

from __future__ import annotations

import argparse
import json
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

TOKEN = "xoxb-test-token"
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


def block_fault(blocks: Any) -> str | None:
    """The error word for blocks that Slack refuses; None where they are fine."""
    if not isinstance(blocks, list) or len(blocks) > 50:
        return "invalid_blocks"
    for block in blocks:
        kind = block.get("type")
        if kind == "header":
            text = block.get("text", {})
            if text.get("type") != "plain_text" or not 1 <= len(text.get("text", "")) <= 150:
                return "invalid_blocks"
        elif kind == "section":
            text, fields = block.get("text"), block.get("fields")
            if text is None and not fields:
                return "invalid_blocks"
            if text is not None and not 1 <= len(text.get("text", "")) <= 3000:
                return "invalid_blocks"
            if fields is not None and (
                not 1 <= len(fields) <= 10 or any(not 1 <= len(f.get("text", "")) <= 2000 for f in fields)
            ):
                return "invalid_blocks"
        elif kind == "context":
            elements = block.get("elements", [])
            if not 1 <= len(elements) <= 10 or any(not e.get("text") for e in elements):
                return "invalid_blocks"
        elif kind not in ("divider", "actions", "image"):
            return "invalid_blocks"
    return None


class SlackServer:
    """The stand-in; `messages` holds what was taken, `requests` every call as (method, arguments)."""

    def __init__(self, port: int = 0, *, record: Path | None = None) -> None:
        self.messages: list[Message] = []
        self.requests: list[tuple[str, dict[str, Any]]] = []
        self.files: list[tuple[str, bytes]] = []
        self.failures: deque[Failure] = deque()
        self._record = record
        self._lock = threading.Lock()
        self._count = 0
        self._uploads: dict[str, tuple[str, bytes]] = {}
        stand_in = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                status, payload, headers = stand_in.answer(self.path, dict(self.headers), body)
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

    def __enter__(self) -> SlackServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def fail_next(self, *failures: Failure) -> None:
        """Answer the next calls with these instead."""
        self.failures.extend(failures)

    def answer(self, path: str, headers: dict[str, str], body: bytes) -> tuple[int, Any, dict[str, str]]:
        """Status, body and headers for one request."""
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

    def _method(self, method: str, headers: dict[str, str], body: bytes) -> tuple[int, Any, dict[str, str]]:
        arguments = self._arguments(headers, body)
        self.requests.append((method, arguments))
        failure = self.failures.popleft() if self.failures else None
        if failure is not None and not failure.accepts:
            return failure.status, {"ok": False, "error": failure.error}, failure.headers
        result = self._call(method, headers, arguments)
        self._write()
        if failure is not None:
            return failure.status, {"ok": False, "error": failure.error}, failure.headers
        return 200, result, {}

    def _call(self, method: str, headers: dict[str, str], arguments: dict[str, Any]) -> dict[str, Any]:
        if headers.get("Authorization") != f"Bearer {TOKEN}":
            return {"ok": False, "error": "invalid_auth" if headers.get("Authorization") else "not_authed"}
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
            if arguments.get("channel_id") != CHANNEL:
                return {"ok": False, "error": "channel_not_found"}
            self.files.extend(self._uploads[entry["id"]] for entry in given)
            return {"ok": True, "files": [{"id": entry["id"]} for entry in given]}
        if method == "files.info":
            return {"ok": True, "file": {"id": arguments["file"]}}
        return {"ok": False, "error": "unknown_method"}

    def _fault(self, arguments: dict[str, Any]) -> str | None:
        if not arguments.get("text") and not arguments.get("blocks"):
            return "no_text"
        if len(str(arguments.get("text", ""))) > 40_000:
            return "msg_too_long"
        return block_fault(arguments["blocks"]) if arguments.get("blocks") else None

    def _post(self, arguments: dict[str, Any]) -> dict[str, Any]:
        if arguments.get("channel") not in (CHANNEL, CHANNEL_NAME):
            return {"ok": False, "error": "channel_not_found"}
        fault = self._fault(arguments)
        if fault:
            return {"ok": False, "error": fault}
        thread = arguments.get("thread_ts")
        if thread is not None and thread not in {m.ts for m in self.messages}:
            return {"ok": False, "error": "thread_not_found"}
        self._count += 1
        ts = f"{1700000000 + self._count}.{self._count:06d}"
        message = Message(CHANNEL, ts, thread, str(arguments.get("text", "")), arguments.get("blocks") or [])
        self.messages.append(message)
        return {"ok": True, "channel": CHANNEL, "ts": ts, "message": {"text": message.text}}

    def _update(self, arguments: dict[str, Any]) -> dict[str, Any]:
        if arguments.get("channel") != CHANNEL:
            # An edit takes the channel's id; a name that posting accepts is refused here.
            return {"ok": False, "error": "channel_not_found"}
        fault = self._fault(arguments)
        if fault:
            return {"ok": False, "error": fault}
        message = next((m for m in self.messages if m.ts == arguments.get("ts")), None)
        if message is None:
            return {"ok": False, "error": "message_not_found"}
        message.edits.append(message.whole())
        message.text, message.blocks = str(arguments.get("text", "")), arguments.get("blocks") or []
        return {"ok": True, "channel": CHANNEL, "ts": message.ts, "text": message.text}

    def _webhook(self, body: bytes) -> tuple[int, Any, dict[str, str]]:
        arguments = json.loads(body)
        self.requests.append(("webhook", arguments))
        failure = self.failures.popleft() if self.failures else None
        if failure is not None:
            return failure.status, failure.error.encode(), failure.headers
        fault = self._fault(arguments)
        if fault:
            return 400, fault.encode(), {}
        self._count += 1
        blocks = arguments.get("blocks") or []
        self.messages.append(Message(CHANNEL, f"{self._count}", None, str(arguments.get("text", "")), blocks))
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
