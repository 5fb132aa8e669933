"""What the doctor says of the store and of the daemon that should run on it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from monitor import __version__
from monitor.clock import SystemClock
from monitor.config.running import FolderLock, Running, write_running
from monitor.doctor.daemon import check_daemon
from monitor.doctor.finding import State
from monitor.doctor.storage import check_store
from monitor.store import open_store


@contextmanager
def endpoints(status: int, text: str, seen: list[str | None] | None = None) -> Iterator[str]:
    """A daemon's answers; `seen` gets what each request shows as its right."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if seen is not None:
                seen.append(self.headers.get("Authorization"))
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


RUNNING = Running(
    pid=1, version=__version__, started_at=SystemClock().now() - timedelta(hours=1), host="h", listen="127.0.0.1:9",
    simulated=False, servers=(), groups=(),
)  # fmt: skip


class TestStore:
    def look(self, path: Path, *, deep: bool = False) -> list[tuple[State, str, str]]:
        return [(one.state, one.sentence, one.todo) for one in check_store(path, deep=deep)]

    def test_one_that_is_whole_and_one_that_is_not_there(self, tmp_path: Path) -> None:
        path = tmp_path / "local.db"
        assert self.look(path)[0][:2] == (State.NOTE, "is not there yet")
        store = open_store(f"sqlite:///{path}")
        store.upgrade()
        store.close()
        ((state, sentence, _),) = self.look(path)
        assert state is State.OK and sentence.endswith("whole")

    def test_damage_leads_to_the_way_out(self, tmp_path: Path) -> None:
        path = tmp_path / "local.db"
        store = open_store(f"sqlite:///{path}")
        store.upgrade()
        store.close()
        content = path.read_bytes()
        path.write_bytes(content[:4096] + b"\xff" * 40_960 + content[45_056:])
        ((state, _, todo),) = self.look(path)
        assert state is State.PROBLEM and "acceptd db recover" in todo

    def test_an_empty_file_says_who_makes_the_tables(self, tmp_path: Path) -> None:
        path = tmp_path / "local.db"
        path.touch()
        ((state, sentence, todo),) = self.look(path)
        assert state is State.PROBLEM and "no tables" in sentence and "db upgrade" in todo


class TestDaemon:
    def look(self, folder: Path, running: Running | None) -> list[tuple[State, str]]:
        lock = FolderLock(folder, SystemClock())
        lock.acquire()
        try:
            if running is not None:
                write_running(folder, running)
            return [(one.state, one.sentence) for one in check_daemon(folder, "token")]
        finally:
            lock.release()

    def test_none_runs(self, tmp_path: Path) -> None:
        (found,) = check_daemon(tmp_path, None)
        assert found.state is State.PROBLEM and found.sentence == f"no daemon runs on {tmp_path}"

    def test_one_that_works(self, tmp_path: Path) -> None:
        with endpoints(200, "fine\n") as listen:
            found = self.look(tmp_path, replace(RUNNING, listen=listen))
        assert [state for state, _ in found] == [State.OK] * 3

    def test_neither_a_proxy_nor_a_netrc_has_a_part_in_asking_it(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        seen: list[str | None] = []
        (tmp_path / "netrc").write_text("machine 127.0.0.1 login me password mine\n")
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
            monkeypatch.setenv(name, "http://127.0.0.1:1")
        for name in ("no_proxy", "NO_PROXY"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
        with endpoints(200, "fine\n", seen) as listen:
            found = self.look(tmp_path, replace(RUNNING, listen=listen))
        assert [state for state, _ in found] == [State.OK] * 3
        assert seen == ["Bearer token"] * 2

    def test_one_that_stands_still_says_why(self, tmp_path: Path) -> None:
        with endpoints(503, "the loop has not finished a turn for 400 s\n") as listen:
            found = self.look(tmp_path, replace(RUNNING, listen=listen))
        assert (State.PROBLEM, "the loop has not finished a turn for 400 s") in found

    def test_one_that_does_not_answer_and_is_of_another_version_and_reads_an_older_file(self, tmp_path: Path) -> None:
        file = tmp_path / "acceptd.yaml"
        file.write_text("")
        found = self.look(tmp_path, replace(RUNNING, version="0.0.1", config_file=str(file)))
        assert (State.PROBLEM, "does not answer") in found
        assert (State.NOTE, f"runs version 0.0.1, this command is {__version__}") in found
        assert (State.NOTE, f"{file} was changed after it was read") in found

    def test_one_whose_configuration_is_gone(self, tmp_path: Path) -> None:
        found = self.look(tmp_path, replace(RUNNING, config_file=str(tmp_path / "gone.yaml")))
        assert any("is gone" in sentence for state, sentence in found if state is State.PROBLEM)

    def test_one_that_cannot_be_seen(self, tmp_path: Path) -> None:
        assert self.look(tmp_path, None)[0][0] is State.PROBLEM
