"""Faults as they come: a setting that does not start, or dies on its first request; an engine that hangs; silence."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import yaml

from monitor.shipped import rules_folder
from tests.acceptance.daemon import LONG_AGO, Daemon, Simulated

BUSY = "closed:clients=16,prompt=64,output=200"


def cycles(daemon: Daemon, count: int = 4) -> None:
    """Wait until the daemon has evaluated so many times more."""

    def done() -> float:
        page = daemon.page("/metrics") or ""
        return sum(float(line.split()[-1]) for line in page.splitlines() if line.startswith("acceptd_cycles_total{"))

    wanted = done() + count
    daemon.wait(lambda: done() >= wanted, f"{count} more evaluations")


class TestASettingThatDoesNotWork:
    def check(self, daemon: Daemon, server: Simulated, outcomes: set[str]) -> None:
        change = daemon.wait(lambda: daemon.change_in(server, "rolled_back"), "the change is taken back")
        assert change.outcome is not None and change.outcome.value in outcomes, change
        daemon.wait(lambda: server.tokens() == 3 and server.generates(), "it serves with its last good setting")
        (page,) = daemon.wait(lambda: daemon.pages() or None, "someone is told")
        assert page == "a restart of code by acceptd failed"
        began = daemon.starts(server)
        cycles(daemon)
        # One page and no loop: the setting rests.
        assert daemon.pages() == [page]
        assert daemon.starts(server) == began
        assert len(daemon.changes(server)) == 1
        with daemon.store() as store, store.read() as unit:
            (rejection,) = unit.rejections.of("code")  # type: ignore[arg-type]
            newest = unit.decisions.latest("code")[0]  # type: ignore[arg-type]
        assert rejection.num_speculative_tokens == 4
        assert newest.reason.value in ("rejected_before", "condition_not_held", "too_little_data", "no_data")

    def test_it_fails_at_start(self, make_daemon: Callable[..., Daemon]) -> None:
        server = Simulated("code", tokens=3, load=BUSY, faults=("start_failure_k=4",))
        daemon = make_daemon(server, limits={"cooldown": "0s"})
        daemon.start()
        self.check(daemon, server, {"start_failed"})
        assert "CUDA out of memory" in "\n".join(message.whole() for message in daemon.messages())

    def test_it_starts_healthy_and_dies_on_its_first_request(self, make_daemon: Callable[..., Daemon]) -> None:
        # After the restart nobody asks anything but the daemon itself: only a generated token can tell.
        server = Simulated("code", tokens=3, load="none", faults=("die_on_first_request_k=4",))
        daemon = make_daemon(server, limits={"cooldown": "0s"})
        daemon.start()
        daemon.wait(server.generates, "the server is up")
        server.load(BUSY)
        self.check(daemon, server, {"start_failed", "not_generating", "server_died"})


@pytest.fixture
def quick_alerts(tmp_path: Path) -> dict[str, object]:
    """The shipped alerts, with a stuck engine found in seconds."""
    text = (rules_folder() / "alerts.yaml").read_text()
    assert "stuck_seconds > 60.0" in text
    (tmp_path / "quick.yaml").write_text(text.replace("stuck_seconds > 60.0", "stuck_seconds > 6.0"))
    return {
        "alerts": False, "files": [str(tmp_path / "quick.yaml")],
        "parameters": {"EngineStuck.keep_firing_for": "2s", "ServerDown.for": "3s", "ScrapeUnauthorized.for": "2s"},
    }  # fmt: skip


def test_a_stuck_engine_is_paged_once_with_its_evidence_never_tuned_and_restarted_once(
    make_daemon: Callable[..., Daemon], quick_alerts: dict[str, object]
) -> None:
    server = Simulated("code", tokens=3, load=BUSY)
    daemon = make_daemon(server, rules={**quick_alerts, "tuning": "goodput"}, limits={"restart_stuck": True})
    daemon.start()
    daemon.wait(server.generates, "the server is up")
    began = daemon.starts(server)
    server.order("stuck")
    daemon.wait(lambda: daemon.pages() or None, "someone is paged")
    assert daemon.pages() == ["code has work but generates nothing"]
    (page,) = daemon.told("code has work but generates nothing")
    said = "\n".join((*page.edits, page.whole()))
    assert "no token generated" in said and "/health says 200" in said and "acceptd evidence" in said
    kept = json.loads(daemon.command("evidence", "code", "--json").stdout)
    assert set(kept["parts"]) >= {"page", "log", "process", "process state", "probe", "health"}
    assert "vllm:num_requests_running" in kept["parts"]["page"]
    assert "SIMULATED" in kept["parts"]["log"]
    assert "state" in kept["parts"]["process state"]
    daemon.wait(lambda: daemon.starts(server) == began + 1, "it is restarted")
    daemon.wait(lambda: server.generates() and server.tokens() == 3, "it serves again with the same setting")
    daemon.wait(lambda: daemon.told("Resolved: code has work but generates nothing") or None, "it is over")
    assert daemon.pages() == ["code has work but generates nothing"]
    assert daemon.starts(server) == began + 1
    with daemon.store() as store, store.read() as unit:
        made = unit.decisions.since(None, LONG_AGO)
    # Nothing was concluded from its numbers but to restart it.
    assert [decision.action.value for decision in made if decision.changes_setting] == ["restart"]
    assert "engine_stuck" in {decision.reason.value for decision in made}


@contextmanager
def answering(answer: Callable[[BaseHTTPRequestHandler], None]) -> Iterator[str]:
    """A server whose every answer is `answer`; its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer(self)

        do_POST = do_GET

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_refused_credentials_and_a_page_that_hangs_are_verdicts_and_wake_nobody(
    make_daemon: Callable[..., Daemon], quick_alerts: dict[str, object]
) -> None:
    over = threading.Event()

    def refuse(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(401)
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    def hang(handler: BaseHTTPRequestHandler) -> None:
        if handler.path == "/metrics":
            over.wait(120)
            return
        handler.send_response(200)
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    with answering(refuse) as refusing, answering(hang) as hanging:
        daemon = make_daemon(mode="observe", rules=quick_alerts)
        daemon.settings["servers"] = [{"name": "locked", "url": refusing}, {"name": "mute", "url": hanging}]
        daemon.settings["groups"] = []
        daemon.write()
        try:
            daemon.start()
            daemon.wait(lambda: daemon.told("locked refuses our credentials") or None, "a ticket about credentials")
            cycles(daemon, 6)
            view = json.loads(daemon.command("servers", "--json").stdout)
        finally:
            over.set()
    found = {server["name"]: (server["verdict"], server["reason"]) for server in view}
    assert found["locked"][0] == found["mute"][0] == "scrape_error"
    assert found["locked"][1].startswith("HTTP 401")
    assert "no whole answer within 0.5 s" in found["mute"][1]
    assert daemon.pages() == []
    text = yaml.safe_dump([message.text for message in daemon.messages()])
    assert "generates nothing" not in text and "does not answer" not in text
