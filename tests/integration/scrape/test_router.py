"""A router in front of models that sleep: nothing that acceptd asks by itself loads one."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from monitor.clock import SystemClock
from monitor.cycle.settings import SettingFinder
from monitor.dialects import Dialects
from monitor.model.reading import Reading, Verdict
from monitor.model.server import Engine, GroupName, Server, ServerName
from monitor.scrape.client import ACCEPT_PAGE, ServerClient
from monitor.scrape.probe import ServerProbe
from monitor.targets.told import ask_server
from monitor.watchdog import Watchdog

REFUSAL = {"error": {"code": 400, "message": "model name is missing from the request", "type": "invalid_request_error"}}


class Router:
    """llama-server as a router: whatever names a model loads it, unless it says autoload=false."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.loaded: list[str] = []
        router = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                router.asked.append(self.path)
                query = parse_qs(urlsplit(self.path).query)
                model = query.get("model", [None])[0]
                if model is not None and query.get("autoload") != ["false"]:
                    router.loaded.append(model)
                status = 200 if self.path == "/health" else 400
                body = json.dumps({"status": "ok"} if status == 200 else REFUSAL).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json; charset=utf-8")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}"


@pytest.fixture
def router() -> Iterator[Router]:
    made = Router()
    thread = threading.Thread(target=made.http.serve_forever, daemon=True)
    thread.start()
    yield made
    made.http.shutdown()
    thread.join()
    made.http.server_close()


def scrape(url: str, metrics_url: str) -> Reading:
    """What one scrape does: the page, then everybody who may know the setting; and the health that is asked then."""
    clock = SystemClock()
    server = Server(name=ServerName("s"), group=GroupName("g"), base_url=url, metrics_url=metrics_url)
    dog = Watchdog(clock)
    dog.start()
    client = ServerClient(dog, size_limit=10_000)
    probe = ServerProbe(client, url)

    def ask(_: Server, engine: Engine) -> Any:
        return ask_server(engine, probe.document)

    try:
        answer = client.get(metrics_url, deadline_seconds=10, accept=ACCEPT_PAGE)
        reading = Dialects().reader(server.name).read(
            answer.body, scraped_at=clock.now(), monotonic=clock.monotonic(), status=answer.status,
            content_type=answer.content_type,
        )  # fmt: skip
        finder = SettingFinder(ask=ask, process=lambda _: None, launched=lambda _: None, configured={})
        finder.of(server, reading)
        assert probe.health().ok
    finally:
        client.close()
        dog.stop()
    return reading


def test_a_scrape_of_a_router_loads_no_model_and_says_what_it_is(router: Router) -> None:
    reading = scrape(router.url, f"{router.url}/metrics")
    assert reading.verdict is Verdict.SCRAPE_ERROR
    assert reading.reason.startswith("HTTP 400: per-model query required (a llama.cpp router")
    assert (router.asked, router.loaded) == (["/metrics", "/health"], [])


def test_a_full_metrics_url_that_says_not_to_load_is_kept_as_it_is(router: Router) -> None:
    scrape(router.url, f"{router.url}/metrics?model=org%2Fm&autoload=false")
    assert router.asked[0] == "/metrics?model=org%2Fm&autoload=false"
    assert router.loaded == []
