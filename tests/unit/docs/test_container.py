"""The container file: pinned, not root, no secrets, everything it copies is there, and its check of health works."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from monitor import __version__

ROOT = Path(__file__).resolve().parents[3]
TEXT = (ROOT / "docs/Containerfile").read_text()


def steps() -> list[tuple[str, str]]:
    """Instructions and what follows them, lines that go on joined."""
    joined = re.sub(r"\\\n\s*", " ", TEXT)
    lines = [line for line in joined.splitlines() if line and not line.startswith("#")]
    return [(word, rest.strip()) for word, _, rest in (line.partition(" ") for line in lines)]


def test_bases_are_pinned_and_the_last_user_is_a_number_that_is_not_root() -> None:
    for base in (rest.split()[0] for word, rest in steps() if word == "FROM"):
        assert re.fullmatch(r"docker\.io/library/python:3\.\d+\.\d+-slim-\w+", base)
    (user,) = (rest for word, rest in steps() if word == "USER")
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", user)


def test_what_it_copies_is_there_and_what_the_wheel_needs_is_copied() -> None:
    copied = [part for word, rest in steps() if word == "COPY" and "--from" not in rest for part in rest.split()[:-1]]
    assert [part for part in copied if not (ROOT / part).exists()] == []
    built = (ROOT / "pyproject.toml").read_text().partition("[tool.hatch.build.targets.sdist]")[0]
    forced = re.findall(r'^"([\w./-]+)" = "', built.partition("force-include]")[2], re.MULTILINE)
    assert {path.partition("/")[0] for path in forced} <= set(copied) and "monitor" in copied


def test_commands_need_no_shell_and_hold_no_secret() -> None:
    for word, rest in steps():
        if word in ("RUN", "ENTRYPOINT", "CMD"):
            assert isinstance(json.loads(rest), list), rest
        assert word not in ("ADD", "ARG"), "nothing is fetched from elsewhere, nothing given at build time"
        assert not re.search(r"(?i)token|password|secret", rest), rest
    assert f"acceptd:{__version__}" in TEXT


@pytest.mark.parametrize(("status", "code"), [(200, 0), (401, 0), (503, 1)])
def test_its_check_of_health_asks_the_daemon(tmp_path: Path, status: int, code: int) -> None:
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    (check,) = (rest.partition("CMD ")[2] for word, rest in steps() if word == "HEALTHCHECK")
    _, *arguments, _ = json.loads(check)
    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        running = tmp_path / "running.json"
        running.write_text(json.dumps({"listen": f"127.0.0.1:{server.server_address[1]}"}))
        done = subprocess.run([sys.executable, *arguments, str(running)], capture_output=True, text=True, timeout=60)
        thread.join()
    assert (done.returncode, asked) == (code, ["/-/healthy"]), done.stderr


def test_without_a_daemon_it_is_not_healthy(tmp_path: Path) -> None:
    (check,) = (rest.partition("CMD ")[2] for word, rest in steps() if word == "HEALTHCHECK")
    _, *arguments, _ = json.loads(check)
    done = subprocess.run([sys.executable, *arguments, str(tmp_path / "running.json")], capture_output=True, timeout=60)
    assert done.returncode == 1
