"""The endpoints: what they say, who may ask, what headers guard them."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient

from monitor.web.pages import make_app


class Source:
    """A daemon with one server."""

    def __init__(self, folder: Path) -> None:
        self.why: str | None = None
        self.slos: list[dict[str, Any]] | None = None
        self.folder = folder

    def metrics(self) -> bytes:
        return b"acceptd_build_info 1\n"

    def unhealthy(self) -> str | None:
        return self.why

    def unready(self) -> str | None:
        return self.why

    def serving(self, server: str) -> bool | None:
        return {"up": True, "draining": False}.get(server)

    def overview(self) -> dict[str, Any]:
        figures = dict.fromkeys(
            ("acceptance_rate", "acceptance_length", "step_seconds", "generation_tokens_per_second", "running",
             "waiting", "kv_usage")
        )
        server = {
            "name": "chat-1", "verdict": "ok", "state": None, "reason": "", "flags": [], "change": None,
            "num_speculative_tokens": 0, "method": "<b>ngram</b>", "figures": {**figures, "acceptance_rate": 0.61},
        }
        group = {"name": "chat", "mode": "auto", "paused": None, "advice": None, "rollout": None, "servers": [server]}
        return {"at": "2026-03-02", "window_seconds": 300.0, "alerts": [], "pauses": [], "groups": [group],
                "slos": self.slos}

    def live_report(self) -> str:
        return "<p>so far</p>"

    def report_file(self, key: str | None) -> Path | None:
        path = self.folder / f"{key or 'latest'}.html"
        return path if path.is_file() else None


@pytest.fixture
def source(tmp_path: Path) -> Source:
    return Source(tmp_path)


def client(source: Source, token: str | None = None) -> FlaskClient:
    return make_app(source, token=token, hosts=frozenset({"localhost"}), simulated=True).test_client()


def test_metrics_health_and_readiness(source: Source) -> None:
    web = client(source)
    assert web.get("/metrics").data == b"acceptd_build_info 1\n"
    assert (web.get("/-/healthy").status_code, web.get("/-/ready").status_code) == (200, 200)
    source.why = "the loop stands still for 90 s"
    assert (web.get("/-/healthy").status_code, web.get("/-/ready").status_code) == (503, 503)
    assert b"stands still" in web.get("/-/healthy").data


def test_a_balancer_learns_which_server_is_draining(source: Source) -> None:
    web = client(source)
    assert [web.get(f"/-/serving/{name}").status_code for name in ("up", "draining", "other")] == [200, 503, 404]


def test_the_page_escapes_names_shows_unknown_as_a_dash_and_says_simulated(source: Source) -> None:
    page = client(source).get("/")
    text = page.get_data(as_text=True)
    assert "&lt;b&gt;ngram&lt;/b&gt;" in text
    assert "61.0%" in text and "–" in text and "SIMULATED" in text
    assert "<script" not in text
    policy = page.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy


def test_objectives_are_shown_once_their_history_is_read(source: Source) -> None:
    web = client(source)
    assert "Their history is being read." in web.get("/").get_data(as_text=True)
    source.slos = []
    assert "None is configured." in web.get("/").get_data(as_text=True)
    known = {"server": None, "group": "<chat>", "objective": 0.99, "period_days": 30.0, "report_only": False}
    source.slos = [
        {**known, "name": "first-token", "reached": 0.985, "error_budget_remaining": -0.5, "burn_rate": 15.2,
         "burning": True, "exhausted_in_seconds": 0.0},
        {**known, "name": "uptime", "reached": None, "error_budget_remaining": None, "burn_rate": None,
         "burning": False, "exhausted_in_seconds": None},
        {**known, "name": "pace", "reached": 1.0, "error_budget_remaining": 0.5, "burn_rate": 1.0,
         "burning": False, "exhausted_in_seconds": 86400.0 * 15},
    ]
    text = web.get("/").get_data(as_text=True)
    assert "&lt;chat&gt;" in text and "99.0% of 30 d" in text
    assert "98.5%" in text and '<td class="bad">-50.0%</td>' in text and '<td class="bad">15.20</td>' in text
    assert "is spent" in text and "15.0 d" in text
    assert web.get("/api/v1/status").get_json()["slos"] == source.slos


def test_a_report_is_served_by_its_key(source: Source, tmp_path: Path) -> None:
    web = client(source)
    assert web.get("/report").data == b"<p>so far</p>"
    assert web.get("/report/latest").status_code == 404
    (tmp_path / "latest.html").write_text("<p>week</p>")
    assert web.get("/report/latest").data == b"<p>week</p>"
    assert web.get("/report/..%2f..%2fetc%2fpasswd").status_code == 404


def test_a_strange_host_name_is_refused(source: Source) -> None:
    assert client(source).get("/metrics", headers={"Host": "evil.example"}).status_code == 421


@pytest.mark.parametrize(
    ("header", "status"),
    [
        (None, 401),
        ("Bearer wrong", 401),
        ("Bearer hunter2", 200),
        ("Basic " + base64.b64encode(b"anyone:hunter2").decode(), 200),
        ("Basic " + base64.b64encode(b"hunter2:x").decode(), 401),
        ("Basic !!!", 401),
    ],
)
def test_with_a_token_every_request_needs_it(source: Source, header: str | None, status: int) -> None:
    web = client(source, token="hunter2")
    for path in ("/", "/metrics", "/-/healthy", "/api/v1/status", "/report"):
        answer = web.get(path, headers={"Authorization": header} if header else {})
        assert (answer.status_code == 401) == (status == 401)
    assert web.get("/metrics?token=hunter2").status_code == 401
