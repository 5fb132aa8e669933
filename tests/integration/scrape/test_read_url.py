"""`acceptd read URL` on a real server: the page, what the server tells of itself, and where the two differ."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.pages import V1, v1_page

ANSWERS = Path(__file__).parents[2] / "golden" / "answers"
PAGE = v1_page(V1(drafts=1000, at=(800, 600, 400), generation=3000, finished=20))


@pytest.fixture
def url() -> Iterator[str]:
    """A vLLM in development mode whose page shows 3 tokens and whose configuration says 5."""
    info = json.loads((ANSWERS / "vllm-0.32.0_draft.json").read_text())
    answers = {"/metrics": PAGE, "/version": b'{"version": "0.32.0"}', "/server_info": json.dumps(info).encode()}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = answers.get(self.path.partition("?")[0])
            self.send_response(404 if body is None else 200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(body or b"")))
            self.end_headers()
            self.wfile.write(body or b"")

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def read(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "monitor", "read", *arguments], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("path", ["", "/", "/metrics"])
def test_people_are_told_what_it_is_how_it_is_set_and_who_disagrees(url: str, path: str) -> None:
    said = read(url + path, "--between", "0")
    assert "vLLM (V1 engine)" in said
    assert "acceptance length      2.80" in said
    assert "version   0.32.0" in said
    assert "setting   draft_model, 3 tokens (schedule)" in said
    assert "method from server_info" in said
    assert "disagrees num_speculative_tokens: page says 3, server_info says 5" in said


def test_programs_get_the_page_alone(url: str) -> None:
    said = json.loads(read(url, "--between", "0.2", "--json"))
    assert said["state"] == "idle"
    assert said["models"][0]["num_speculative_tokens"] == 3
    assert said["models"][0]["interval"]["num_drafts"] == 0
