"""`acceptd init` asks real servers and writes a configuration that `acceptd check` accepts; `acceptd read URL`."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import yaml

from monitor.config.load import load
from tests.fakes.pages import V1, llamacpp_page, sglang_page, v1_page


class Server:
    """A server with a page, a version and models; counts move with every page."""

    def __init__(self, *, model: str = "org/Qwen3.5-8B", page: bytes | None = None, version: str | None = "0.32.0",
                 status: int = 200) -> None:
        self.model, self.fixed, self.version, self.status = model, page, version, status
        self.reads = 0

    def page(self) -> bytes:
        self.reads += 1
        drafts = 1000.0 * self.reads
        return self.fixed or v1_page(
            V1(drafts=drafts, at=(0.8 * drafts, 0.5 * drafts), generation=2.3 * drafts, running=3, model=self.model)
        )

    def answer(self, path: str) -> tuple[int, bytes, str]:
        if path == "/metrics":
            return self.status, self.page(), "text/plain; version=0.0.4"
        if path == "/v1/models":
            return 200, json.dumps({"data": [{"id": self.model}]}).encode(), "application/json"
        if path == "/version" and self.version is not None:
            return 200, json.dumps({"version": self.version}).encode(), "application/json"
        return 404, b"", "text/plain"


@contextmanager
def listening(server: Server) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body, kind = server.answer(self.path)
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    http.daemon_threads = True
    thread = threading.Thread(target=http.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{http.server_address[1]}"
    finally:
        http.shutdown()
        http.server_close()
        thread.join()


def acceptd(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "monitor", *arguments], capture_output=True, text=True, cwd=folder, timeout=120
    )


class TestInit:
    def test_what_it_writes_is_fine_and_says_what_was_found(self, tmp_path: Path) -> None:
        with listening(Server()) as one, listening(Server()) as two:
            done = acceptd(tmp_path, "init", one, f"{two}/metrics", f"{one}/")
            assert done.returncode == 0, done.stderr
            checked = acceptd(tmp_path, "check", "acceptd.yaml")
        assert "acceptd.yaml: fine (2 servers" in checked.stdout
        config = load(tmp_path / "acceptd.yaml", {})
        assert [server.name for server in config.servers] == ["qwen3.5-8b-1", "qwen3.5-8b-2"]
        assert [server.url for server in config.servers] == [one, two]
        text = (tmp_path / "acceptd.yaml").read_text()
        assert "version 0.32.0; model org/Qwen3.5-8B; num_speculative_tokens 2 (from the page)" in text
        assert "Next: acceptd check acceptd.yaml" in done.stdout

    def test_whatever_their_models_are_called(self, tmp_path: Path) -> None:
        models = ("2024-01", "1.5", "null", "yes", "a: b", "模型", "", "x" * 300, "../../etc", "-", "{{ x }}", "a'b\"c")
        with ExitStack() as stack:
            urls = [stack.enter_context(listening(Server(model=model, page=v1_page(V1())))) for model in models]
            done = acceptd(tmp_path, "init", *urls)
        assert done.returncode == 0, done.stderr
        checked = acceptd(tmp_path, "check", "acceptd.yaml")
        assert checked.returncode == 0, checked.stdout
        assert f"fine ({len(models)} servers" in checked.stdout

    def test_other_engines_are_named(self, tmp_path: Path) -> None:
        pages = (sglang_page(calls=10), llamacpp_page(drafts=10))
        with ExitStack() as stack:
            urls = [stack.enter_context(listening(Server(page=page, version=None))) for page in pages]
            assert acceptd(tmp_path, "init", *urls).returncode == 0
        assert [server.engine for server in load(tmp_path / "acceptd.yaml", {}).servers] == ["sglang", "llamacpp"]

    def test_one_that_does_not_answer_is_written_with_its_verdict(self, tmp_path: Path) -> None:
        with listening(Server(status=401)) as locked:
            done = acceptd(tmp_path, "init", locked, "http://127.0.0.1:1")
        assert done.returncode == 0
        assert "HTTP 401" in done.stdout and "connection refused" in done.stdout
        assert acceptd(tmp_path, "check", "acceptd.yaml").returncode == 0

    def test_into_a_pipe_goes_the_configuration_alone(self, tmp_path: Path) -> None:
        with listening(Server()) as url:
            done = acceptd(tmp_path, "init", url, "-o", "-")
        assert yaml.safe_load(done.stdout)["servers"][0]["url"] == url
        assert "ok" in done.stderr
        assert not (tmp_path / "acceptd.yaml").exists()

    def test_a_file_that_is_there_is_kept(self, tmp_path: Path) -> None:
        (tmp_path / "acceptd.yaml").write_text("mine\n")
        with listening(Server()) as url:
            done = acceptd(tmp_path, "init", url)
            assert done.returncode == 2 and "--force" in done.stderr
            assert (tmp_path / "acceptd.yaml").read_text() == "mine\n"
            assert acceptd(tmp_path, "init", url, "--force").returncode == 0
        assert (tmp_path / "acceptd.yaml").read_text() != "mine\n"

    def test_what_is_no_address_is_refused_with_all_of_them_and_without_the_password(self, tmp_path: Path) -> None:
        done = acceptd(tmp_path, "init", "ftp://x", "http://ann:hunter2@127.0.0.1:8000", "8000", "http://[::1")
        assert done.returncode == 2
        assert [line.partition(",")[0] for line in done.stderr.splitlines()] == [
            "URLS: found 'ftp://x'", "URLS: found 'http://<secret>@127.0.0.1:8000'", "URLS: found '8000'",
            "URLS: found 'http://[::1'",
        ]  # fmt: skip
        assert "hunter2" not in done.stderr
        assert not (tmp_path / "acceptd.yaml").exists()

    def test_a_file_that_cannot_be_written_is_named(self, tmp_path: Path) -> None:
        with listening(Server()) as url:
            done = acceptd(tmp_path, "init", url, "-o", "no/such/folder/acceptd.yaml")
        assert done.returncode == 1
        assert done.stderr.startswith("no/such/folder/acceptd.yaml: No such file or directory")


class TestReadUrl:
    def test_two_pages_give_what_happened_between_them(self, tmp_path: Path) -> None:
        with listening(Server()) as url:
            done = acceptd(tmp_path, "read", url, "--between", "0.1", "--json")
        (model,) = json.loads(done.stdout)["models"]
        assert model["interval"]["num_drafts"] == 1000.0
        assert model["interval"]["acceptance_rate"] == pytest.approx(0.65)
        assert model["lifetime"]["num_drafts"] == 2000.0

    def test_one_page_is_enough_where_it_is_asked_for(self, tmp_path: Path) -> None:
        with listening(Server()) as url:
            done = acceptd(tmp_path, "read", f"{url}/metrics", "--between", "0", "--json")
        assert json.loads(done.stdout)["models"][0]["interval"] is None

    @pytest.mark.parametrize("status", [401, 403, 404, 500, 503])
    def test_another_status_is_a_verdict(self, tmp_path: Path, status: int) -> None:
        with listening(Server(status=status)) as url:
            done = acceptd(tmp_path, "read", url, "--json")
        assert done.returncode == 0
        answer = json.loads(done.stdout)
        assert answer["verdict"] in ("scrape_error", "starting") and str(status) in answer["reason"]
