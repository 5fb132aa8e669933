"""A small real server for tests of drivers and changes: speaks the parts of vLLM's HTTP API that acceptd asks for.

    python tiny_server.py --port 8001 [--speculative-config JSON] [--trouble NAME[=VALUE]]...

Troubles: `ignore-term` (lives on after SIGTERM), `orphan` (starts an engine process in a session of its own),
`engine` (an engine process in the same session; both survive their parent), `crash-from=K` (exits 1 where
num_speculative_tokens >= K), `oom-from=K` (prints an out-of-memory error, exits 1), `bad-flag` (exits 2 as argparse
does), `slow-start=S`, `mute` (completions answer 500), `die-on-request` (500, then exit), both also with `-from=K`,
`running=N` (says that N requests run), `hide-environ` (writes over its environment, as programs that set a title do).
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--speculative-config", type=json.loads, default={})
    parser.add_argument("--api-key", default="")
    parser.add_argument("--trouble", action="append", default=[])
    options = parser.parse_args()
    troubles = {name: value for name, _, value in (item.partition("=") for item in options.trouble)}
    tokens = int(options.speculative_config.get("num_speculative_tokens", 0))
    print(f"tiny server with {tokens} tokens, key {options.api_key!r}", flush=True)
    _before_serving(troubles, tokens)
    server = ThreadingHTTPServer(("127.0.0.1", options.port), _handler(troubles, tokens))
    if "ignore-term" not in troubles:
        signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    else:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    print("serving", flush=True)
    server.serve_forever()


def _before_serving(troubles: dict[str, str], tokens: int) -> None:
    if "bad-flag" in troubles:
        print("usage: tiny_server [-h]\ntiny_server: error: unrecognized arguments: --bad", flush=True)
        sys.exit(2)
    if "oom-from" in troubles and tokens >= int(troubles["oom-from"]):
        print("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB", flush=True)
        sys.exit(1)
    if "crash-from" in troubles and tokens >= int(troubles["crash-from"]):
        print("something broke", flush=True)
        sys.exit(1)
    if "hide-environ" in troubles:
        _overwrite_environ()
    for trouble, own_session in (("orphan", True), ("engine", False)):
        if trouble in troubles:
            code = "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nwhile True: time.sleep(60)"
            subprocess.Popen([sys.executable, "-c", code], start_new_session=own_session)
    time.sleep(float(troubles.get("slow-start", 0)))


def _is_on(troubles: dict[str, str], name: str, tokens: int) -> bool:
    """Whether a trouble was ordered, or ordered from a number of tokens on (`NAME-from=K`)."""
    return name in troubles or tokens >= int(troubles.get(f"{name}-from", 1000))


def _overwrite_environ() -> None:
    raw = open("/proc/self/environ", "rb").read()
    stat = open("/proc/self/stat").read().rpartition(")")[2].split()
    start = int(stat[47])  # env_start, field 50 of proc(5)
    ctypes.memset(start, ord("x"), len(raw) - 1)


def _handler(troubles: dict[str, str], tokens: int) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/health":
                self._answer(200, "")
            elif self.path == "/v1/models":
                self._answer(200, json.dumps({"data": [{"id": "tiny"}]}))
            elif self.path == "/metrics":
                self._answer(200, page(tokens, int(troubles.get("running") or 0)))
            else:
                self._answer(404, "")

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            if _is_on(troubles, "die-on-request", tokens):
                self._answer(500, '{"error": "engine died"}')
                threading.Timer(0.2, lambda: os._exit(1)).start()
            elif _is_on(troubles, "mute", tokens):
                self._answer(500, '{"error": "no engine"}')
            else:
                self._answer(200, json.dumps({"choices": [{"text": "x"}]}))

        def _answer(self, status: int, body: str) -> None:
            data = body.encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: Any) -> None:
            pass

    return Handler


def page(tokens: int, running: int) -> str:
    labels = 'engine="0",model_name="tiny"'
    lines = [
        "# TYPE vllm:num_requests_running gauge",
        f"vllm:num_requests_running{{{labels}}} {running}.0",
        "# TYPE vllm:num_requests_waiting gauge",
        f"vllm:num_requests_waiting{{{labels}}} 0.0",
        "# TYPE vllm:generation_tokens_total counter",
        f"vllm:generation_tokens_total{{{labels}}} 0.0",
    ]
    if tokens:
        for name in ("num_drafts", "num_draft_tokens", "num_accepted_tokens"):
            lines += [
                f"# TYPE vllm:spec_decode_{name}_total counter",
                f"vllm:spec_decode_{name}_total{{{labels}}} 0.0",
            ]
        lines.append("# TYPE vllm:spec_decode_num_accepted_tokens_per_pos_total counter")
        lines += [
            f'vllm:spec_decode_num_accepted_tokens_per_pos_total{{{labels},position="{i}"}} 0.0' for i in range(tokens)
        ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
