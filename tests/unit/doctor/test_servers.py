"""What the doctor says of servers and receivers, each a real one over HTTP."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from monitor.clock import SystemClock
from monitor.config.model import Config
from monitor.doctor.finding import Finding, State
from monitor.doctor.receivers import check_receivers
from monitor.doctor.servers import check_servers, clock_skew
from monitor.watchdog import Watchdog
from tests.fakes.pages import V1, v1_page
from tests.fakes.slack_server import CHANNEL_NAME, TOKEN, Failure, SlackServer

Answer = Callable[[BaseHTTPRequestHandler], tuple[int, bytes, dict[str, str]]]


@pytest.fixture
def serve() -> Iterator[Callable[[Answer], str]]:
    """Starts servers that answer `/metrics` as told and say vLLM 0.11.0."""
    started: list[tuple[ThreadingHTTPServer, threading.Thread]] = []

    def start(metrics: Answer) -> str:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                found = metrics(self) if self.path == "/metrics" else (404, b"", {})
                status, body, headers = (200, b'{"version": "0.11.0"}', {}) if self.path == "/version" else found
                self.send_response_only(status)
                for name, value in {"Content-Length": str(len(body)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        started.append((server, thread))
        return f"http://127.0.0.1:{server.server_address[1]}"

    yield start
    for server, thread in started:
        server.shutdown()
        server.server_close()
        thread.join()


def look(url: str, **server: object) -> list[Finding]:
    config = Config.model_validate({"servers": [{"name": "a", "url": url, **server}]})
    clock = SystemClock()
    watchdog = Watchdog(clock)
    watchdog.start()
    try:
        return list(check_servers(config, watchdog, clock))
    finally:
        watchdog.stop()


def page(*engines: V1, status: int = 200, **headers: str) -> Answer:
    return lambda _: (status, v1_page(*engines), {name.replace("_", "-"): value for name, value in headers.items()})


def states(findings: Sequence[Finding]) -> list[State]:
    return [one.state for one in findings]


GOOD = V1(drafts=10_000, at=(8000, 6000, 4000), generation=28_000)


def test_a_good_server_is_well(serve: Callable[[Answer], str]) -> None:
    found = look(serve(page(GOOD)), speculation={"method": "mtp"})
    assert states(found) == [State.OK] and "vllm_v1" in found[0].sentence


@pytest.mark.parametrize(
    ("status", "todo"), [(401, "bearer_token_file"), (404, "metrics_url"), (500, "curl -i http://")]
)
def test_a_refused_page_says_what_to_set(serve: Callable[[Answer], str], status: int, todo: str) -> None:
    (found,) = look(serve(lambda _: (status, b"no", {})))
    assert found.state is State.PROBLEM and todo in found.todo


def test_a_server_that_is_down_and_a_page_of_something_else(serve: Callable[[Answer], str]) -> None:
    (down,) = look("http://127.0.0.1:9")
    assert down.state is State.PROBLEM and "is it up" in down.todo
    (other,) = look(serve(lambda _: (200, b"# TYPE go_goroutines gauge\ngo_goroutines 7\n", {})))
    assert other.state is State.PROBLEM and "--disable-log-stats" in other.todo


def test_what_would_keep_it_from_being_tuned_is_noted(serve: Callable[[Answer], str]) -> None:
    found = look(serve(page(GOOD)))
    assert states(found) == [State.OK, State.NOTE] and "speculation.method" in found[1].todo


def test_a_poor_pair_and_a_look_too_far_ahead_are_noted(serve: Callable[[Answer], str]) -> None:
    found = look(serve(page(V1(drafts=10_000, at=(5000, 900, 100), generation=16_000))), speculation={"method": "mtp"})
    text = "\n".join(one.sentence for one in found)
    assert "20% of its draft tokens" in text and "the last of its 3 tokens is accepted in 1.0% of drafts" in text
    few = look(serve(page(V1(drafts=100, at=(10, 1, 0), generation=111))), speculation={"method": "mtp"})
    assert states(few) == [State.OK]


def test_clocks_that_differ_are_a_problem(serve: Callable[[Answer], str]) -> None:
    off = format_datetime(SystemClock().now() + timedelta(seconds=90), usegmt=True)
    found = look(serve(page(GOOD, Date=off)), speculation={"method": "mtp"})
    assert states(found) == [State.PROBLEM, State.OK] and "s ahead of this host's" in found[0].sentence
    now = datetime(2026, 11, 29, 12, tzinfo=UTC)
    assert clock_skew("Sun, 29 Nov 2026 11:59:00 GMT", now) == -60.0
    assert clock_skew("yesterday", now) is None and clock_skew(None, now) is None


class TestReceivers:
    def look(self, **settings: object) -> dict[str, Finding]:
        config = Config.model_validate(settings)
        return {one.subject: one for one in check_receivers(config, SystemClock())}

    def test_slack_says_whose_the_token_is_or_what_to_do(self) -> None:
        with SlackServer() as slack:
            settings = {"bot_token": TOKEN, "channel": CHANNEL_NAME, "api_url": slack.api_url}
            assert self.look(slack=settings)["Slack"].state is State.OK
            slack.fail_next(Failure(error="invalid_auth"))
            found = self.look(slack=settings)["Slack"]
            assert found.state is State.PROBLEM and "make a new token" in found.todo
            assert TOKEN not in json.dumps([found.sentence, found.todo])
            assert slack.messages == []

    def test_nobody_who_is_woken_is_noted(self) -> None:
        found = self.look()
        assert found["console"].state is State.NOTE and found["dead man's switch"].state is State.NOTE

    def test_an_alertmanager_that_is_not_there_is_a_problem(self) -> None:
        found = self.look(alertmanager={"urls": ["http://127.0.0.1:9"]})
        assert found["Alertmanager http://127.0.0.1:9"].state is State.PROBLEM
