"""`acceptd read URL` on a real server: the page, what the server tells of itself, and where the two differ."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from monitor.cli.main import main
from tests.fakes.pages import V1, llamacpp_page, v1_page

ANSWERS = Path(__file__).parents[2] / "golden" / "answers"
PAGE = v1_page(V1(drafts=1000, at=(800, 600, 400), generation=3000, finished=20))


@dataclass
class Answers:
    """What a small server answers by path, who may ask, and how many pages it gives before it breaks off."""

    bodies: dict[str, bytes]
    headers: list[str] = field(default_factory=list)
    token: str | None = None
    pages: int = 1_000_000

    def handler(self) -> type[BaseHTTPRequestHandler]:
        answers = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                path = self.path.partition("?")[0]
                body = answers.bodies.get(path)
                if path == "/metrics":
                    answers.pages -= 1
                    if answers.pages < 0:
                        self.close_connection = True
                        return
                if answers.token is not None and self.headers["Authorization"] != f"Bearer {answers.token}":
                    self.send_error(401)
                    return
                self.send_response(404 if body is None else 200)
                self.send_header("Content-Type", "text/plain; version=0.0.4")
                self.send_header("Content-Length", str(len(body or b"")))
                if answers.headers and path == "/metrics":
                    self.send_header("Process-Start-Time-Unix", answers.headers.pop(0))
                self.end_headers()
                self.wfile.write(body or b"")

            def log_message(self, *_: Any) -> None:
                pass

        return Handler


@contextmanager
def serving(answers: Answers) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), answers.handler())
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def url() -> Iterator[str]:
    """A vLLM in development mode whose page shows 3 tokens and whose configuration says 5."""
    info = json.loads((ANSWERS / "vllm-0.32.0_draft.json").read_text())
    bodies = {"/metrics": PAGE, "/version": b'{"version": "0.32.0"}', "/server_info": json.dumps(info).encode()}
    with serving(Answers(bodies)) as base:
        yield base


@pytest.fixture
def read(capfd: pytest.CaptureFixture[str]) -> Callable[..., tuple[str, str]]:
    """Runs `acceptd read ARGS…` in this process; what it printed."""

    def run(*arguments: str) -> tuple[str, str]:
        capfd.readouterr()
        with pytest.raises(SystemExit) as end:
            main(["read", *arguments])
        said = capfd.readouterr()
        assert not end.value.code, said.err
        return said.out, said.err

    return run


Read = Callable[..., tuple[str, str]]


@pytest.mark.parametrize("path", ["", "/metrics"])
def test_people_are_told_what_it_is_how_it_is_set_and_who_disagrees(read: Read, url: str, path: str) -> None:
    said, _ = read(url + path, "--between", "0")
    assert "vLLM (V1 engine)" in said
    assert "acceptance length      2.80" in said
    assert "version   0.32.0" in said
    assert "setting   draft_model, 3 tokens (schedule)" in said
    assert "method from server_info" in said
    assert "disagrees num_speculative_tokens: page says 3, server_info says 5" in said


def test_programs_get_the_page_alone(read: Read, url: str) -> None:
    said = json.loads(read(url, "--between", "0.2", "--json")[0])
    assert said["state"] == "idle"
    assert said["models"][0]["num_speculative_tokens"] == 3
    assert said["models"][0]["interval"]["num_drafts"] == 0


def test_the_version_that_the_server_tells_decides_where_its_page_does_not(read: Read) -> None:
    page = v1_page(V1(at=None, generation=500, created=None, engine="0"), process_start=None)
    page = page.replace(b'engine="0",', b"").replace(b"kv_cache_usage", b"gpu_cache_usage")
    with serving(Answers({"/metrics": page, "/version": b'{"version": "0.8.1"}'})) as url:
        assert json.loads(read(url, "--between", "0", "--json")[0])["dialect"] == "vllm_v0"
    with serving(Answers({"/metrics": page, "/version": b'{"version": "0.12.0"}'})) as url:
        assert json.loads(read(url, "--between", "0", "--json")[0])["dialect"] == "vllm_v1"


def test_another_process_of_llama_server_is_a_restart_although_no_counter_fell(read: Read) -> None:
    page = llamacpp_page(predicted=400, drafts=100, draft_tokens=300, accepted=199, at=(90, 60, 49))
    with serving(Answers({"/metrics": page}, headers=["1000", "2000"])) as url:
        assert json.loads(read(url, "--between", "0.1", "--json")[0])["verdict"] == "reset_detected"


def test_a_token_from_a_file_is_sent_and_never_shown(read: Read, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("s3cret\n")
    with serving(Answers({"/metrics": PAGE}, token="s3cret")) as url:
        assert "HTTP 401" in read(url, "--between", "0")[0]
        said, complaints = read(url, "--between", "0", "--token-file", str(tmp_path / "token"))
    assert "acceptance length      2.80" in said
    assert "s3cret" not in said + complaints


def test_a_server_that_goes_away_between_the_pages_is_said_to(read: Read) -> None:
    with serving(Answers({"/metrics": PAGE}, pages=1)) as url:
        said, complaints = read(url, "--between", "0.1")
    assert "no second page" in complaints
    assert "since its start" in said


@pytest.mark.parametrize(
    ("page", "asked"),
    [
        ("/stats/page.prom", "/stats/page.prom"),
        ("/stats", "/stats?format=prometheus"),
        ("/gateway/metrics", "/gateway"),
        ("/metrics", "/"),
    ],
    ids=["a page by any name", "with a query", "a server below a gateway's path", "a server's own"],
)
def test_the_page_may_be_anywhere(read: Read, page: str, asked: str) -> None:
    with serving(Answers({page: PAGE})) as url:
        said = json.loads(read(url + asked, "--between", "0", "--json")[0])
    assert said["models"][0]["lifetime"]["num_drafts"] == 1000


def test_programs_get_a_verdict_where_no_page_could_be_had(capfd: pytest.CaptureFixture[str]) -> None:
    with serving(Answers({}, pages=0)) as url, pytest.raises(SystemExit) as end:
        main(["read", url, "--json"])
    said = capfd.readouterr()
    assert end.value.code == 1
    answer = json.loads(said.out)
    assert (answer["verdict"], answer["dialect"], answer["models"]) == ("scrape_error", "none", [])
    assert answer["reason"] and answer["reason"] in said.err.replace("\n", " ")
