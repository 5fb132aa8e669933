"""Sources between looks: changes are told once; what was found last stays while a source is away."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from monitor.app.sources import Sources
from monitor.clock import SystemClock
from monitor.config.found import with_found
from monitor.config.model import Config
from monitor.launch import parse_command
from monitor.model.server import Engine
from monitor.targets.local import LocalServer

CLOCK = SystemClock()


class Bench:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file = folder / "fleet.json"
        self.changed = threading.Event()
        self.sources: Sources | None = None

    def start(self) -> Sources:
        given = {"name": "files", "file_sd": {"files": [str(self.file)]}, "refresh": "1h"}
        config = Config.model_validate({"sources": [given]})
        self.sources = Sources(config.sources, self.folder, CLOCK, self.changed.set, glance_seconds=0.01)
        self.sources.start()
        return self.sources

    def write(self, text: str) -> None:
        part = self.folder / "part"
        part.write_text(text)
        part.replace(self.file)

    def targets(self, *names: str) -> None:
        self.write(json.dumps([{"targets": list(names)}]))

    def found(self) -> list[str]:
        assert self.sources is not None
        return [one.address for one in self.sources.found()["files"]]


def until(look: Callable[[], object]) -> None:
    deadline = CLOCK.monotonic() + 30
    while not look():
        assert CLOCK.monotonic() < deadline
        CLOCK.sleep(0.01)


def test_a_changed_file_is_read_at_once_and_told_a_broken_one_changes_nothing(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.targets("a:1", "b:1")
    sources = bench.start()
    assert bench.found() == ["a:1", "b:1"]
    bench.targets("a:1")
    assert bench.changed.wait(30)
    assert bench.found() == ["a:1"]
    bench.changed.clear()
    bench.write('[{"targets": [')
    until(sources.troubles)
    assert "is not JSON" in sources.troubles()["files"]
    assert bench.found() == ["a:1"] and not bench.changed.is_set()
    bench.targets("c:1")
    assert bench.changed.wait(30)
    assert (bench.found(), sources.troubles()) == (["c:1"], {})
    sources.stop()


def test_what_was_found_last_outlives_us_while_the_source_is_away(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.targets("a:1")
    bench.start().stop()
    bench.file.unlink()
    bench.start().stop()
    assert bench.found() == ["a:1"]
    (tmp_path / "sources.json").write_text("no JSON")
    bench.start().stop()
    assert bench.found() == []


def test_what_is_no_server_in_the_file_takes_no_other_with_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    bench = Bench(tmp_path)
    bad = [{"targets": ["b:1", "c:1"], "labels": {}}, {"targets": [7], "labels": {}}, "x", None,
           {"targets": ["d:1"], "labels": {"rack": 12}}]  # fmt: skip
    good = [{"targets": [one], "labels": {"rack": "r1"}} for one in ("a:1", "gpu-1/vllm-0")]
    kept = {"files": [good[0], *bad, good[1]], "other": 5}
    (tmp_path / "sources.json").write_text(json.dumps(kept))
    bench.start().stop()
    assert bench.found() == ["a:1", "gpu-1/vllm-0"]
    of_files, of_other = [one.getMessage() for one in caplog.records if "left out" in one.getMessage()]
    assert "source=files count=5 of=7" in of_files and "c:1" in of_files and "source=other count=1 of=1" in of_other


def test_servers_of_this_host_are_found_by_their_processes(tmp_path: Path) -> None:
    command = parse_command(Engine.VLLM, ["vllm", "serve", "m", "--port", "8123"])
    server = LocalServer(Engine.VLLM, 1, 8123, ("vllm", "serve", "m"), command)
    config = Config.model_validate({"sources": [{"name": "host", "local": True}]})
    sources = Sources(config.sources, tmp_path, CLOCK, lambda: None, local=lambda: [server])
    sources.start()
    sources.stop()
    assert [one.address for one in sources.found()["host"]] == ["127.0.0.1:8123"]


class Thanos(BaseHTTPRequestHandler):
    """An API that answers for the `targets` of its class, and warns while `partial`."""

    targets: tuple[str, ...] = ()
    partial = away = False

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        result = [{"metric": {"__name__": "up", "instance": one}, "value": [1.0, "1"]} for one in self.targets]
        warnings = ["receive series from 10.0.0.1: deadline exceeded"] if self.partial else []
        status = "error" if self.away else "success"
        body = json.dumps({"status": status, "data": {"result": result}, "warnings": warnings}).encode()
        self.send_response(503 if self.away else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def central(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], Sources]]:
    """Starts to look for the targets of a store that is asked every second."""
    monkeypatch.setattr("monitor.app.sources._SCRAPING_SECONDS", 2.0)
    Thanos.targets, Thanos.partial, Thanos.away = (), False, False
    with ThreadingHTTPServer(("127.0.0.1", 0), Thanos) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        settings = {"url": f"http://127.0.0.1:{server.server_port}", "selector": '{job="vllm"}'}
        config = Config.model_validate({"sources": [{"name": "central", "prometheus": settings, "refresh": "1s"}]})
        made = Sources(config.sources, tmp_path, CLOCK, lambda: None, glance_seconds=0.01)

        def start() -> Sources:
            made.start()
            return made

        yield start
        made.stop()
        server.shutdown()


def found(sources: Sources) -> list[str]:
    return sorted(one.address for one in sources.found()["central"])


def test_targets_of_a_store_that_did_not_answer_behind_another_have_not_gone(central: Callable[[], Sources]) -> None:
    Thanos.targets = ("a:1", "b:1")
    sources = central()
    Thanos.targets, Thanos.partial = ("b:1", "c:1"), True
    until(lambda: found(sources) == ["a:1", "b:1", "c:1"])
    Thanos.partial = False
    until(lambda: found(sources) == ["b:1", "c:1"])


def test_an_address_that_is_no_host_and_port_survives_a_restart_with_the_others(
    central: Callable[[], Sources], tmp_path: Path
) -> None:
    Thanos.targets = ("a:1", "gpu-1/vllm-0", "a#b:1")
    central().stop()
    assert len(json.loads((tmp_path / "sources.json").read_text())["central"]) == 3
    settings = {"url": "http://127.0.0.1:1", "selector": '{job="vllm"}'}
    config = Config.model_validate({"sources": [{"name": "central", "prometheus": settings}]})
    again = Sources(config.sources, tmp_path, CLOCK, lambda: None)
    again.start()
    again.stop()
    assert found(again) == ["a#b:1", "a:1", "gpu-1/vllm-0"]
    joined = with_found(config, again.found())
    assert [server.name for server in joined.config.servers] == ["a-1", "gpu-1-vllm-0"]
    (left_out,) = joined.left_out
    assert left_out.startswith("source central: a#b:1: url is 'http://a#b:1'")


def test_a_store_that_comes_back_may_scrape_its_targets_before_they_are_missed(central: Callable[[], Sources]) -> None:
    Thanos.targets = ("a:1", "b:1")
    sources = central()
    Thanos.away = True
    until(sources.troubles)
    Thanos.targets, Thanos.away = (), False
    until(lambda: not sources.troubles())
    assert found(sources) == ["a:1", "b:1"]
    Thanos.targets = ("b:1",)
    until(lambda: found(sources) == ["b:1"])

