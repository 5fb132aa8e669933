"""Alerts shown to a real Alertmanager: it receives, groups, sends on and resolves them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from monitor.clock import SystemClock
from monitor.model.alert import Alert, AlertState, Fingerprint, fingerprint
from monitor.notify.alertmanager import Alertmanagers, document, shown
from tests.fakes.slack_socket import wait_for
from tests.integration.notify.collector import Collector
from tests.unit.policy.words import alert, minute

PROGRAM = shutil.which("prometheus-alertmanager") or shutil.which("alertmanager")
CLOCK = SystemClock()


class Counted:
    def __init__(self) -> None:
        self.outcomes: list[str] = []

    def notice(self, receiver: str, outcome: str) -> None:
        self.outcomes.append(f"{receiver} {outcome}")


def firing(server: str, *, name: str = "ServerDown", now: datetime, **labels: str) -> Alert:
    made = {"alertname": name, "severity": "page", "server": server, "group": "chat", **labels}
    return Alert(
        fingerprint=fingerprint(made), labels=made, state=AlertState.FIRING, active_since=now, fired_at=now,
        notified_at=now, annotations={"summary": f"{server} does not answer", "runbook": "server-down"},
        evidence={"seconds_since_last_sample": 130.0},
    )


def made(*urls: str, counted: Counted | None = None, interval: float = 60.0) -> Alertmanagers:
    return Alertmanagers(
        urls, clock=CLOCK, counters=counted or Counted(), wants=lambda labels: True, interval_seconds=interval,
        page_url="http://127.0.0.1:9747/",
    )


@pytest.fixture(scope="module")
def alertmanager(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Collector]]:
    """A real one, and what its webhook receiver was sent."""
    if PROGRAM is None:
        why = "no Alertmanager on this machine (Debian: prometheus-alertmanager)"
        if os.environ.get("CI") == "true":
            pytest.fail(why)
        pytest.skip(why)
    folder: Path = tmp_path_factory.mktemp("alertmanager")
    with Collector() as sent:
        config = {
            "route": {"receiver": "hook", "group_by": ["alertname"], "group_wait": "1s", "group_interval": "1s"},
            "receivers": [{"name": "hook", "webhook_configs": [{"url": f"{sent.url}/", "send_resolved": True}]}],
        }
        (folder / "alertmanager.yml").write_text(json.dumps(config))
        process = subprocess.Popen(
            [PROGRAM, f"--config.file={folder}/alertmanager.yml", f"--storage.path={folder}/data",
             "--web.listen-address=127.0.0.1:0", "--cluster.listen-address="],
            stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        try:
            yield f"http://{_address(process)}", sent
        finally:
            process.terminate()
            process.wait(30)
            assert process.stderr is not None
            process.stderr.close()


def _address(process: subprocess.Popen[str]) -> str:
    """Where it listens, as it says itself; the rest of its log is read and dropped, so that it never blocks."""
    assert process.stderr is not None
    for line in process.stderr:
        if "address=127.0.0.1:" in line:
            threading.Thread(target=process.stderr.read, daemon=True).start()
            return line.split("address=")[1].split()[0]
    raise AssertionError("Alertmanager ended without listening")


def _listed(url: str) -> list[dict[str, Any]]:
    with urlopen(f"{url}/api/v2/alerts", timeout=10) as answer:
        found: list[dict[str, Any]] = json.load(answer)
    return found


def test_it_receives_groups_and_resolves(alertmanager: tuple[str, Collector]) -> None:
    url, sent = alertmanager
    now = CLOCK.now()
    alerts = [
        firing("chat-1", now=now, **{"team-name": "chät", "empty": ""}), firing("chat-2", now=now),
        firing("chat-1", name="EngineStuck", now=now),
    ]
    shows = made(url)
    shows.start()
    try:
        shows.show(alerts, (), now)
        wait_for(lambda: len(_listed(url)) == 3, "three alerts at Alertmanager")
        one = next(a for a in _listed(url) if a["labels"]["server"] == "chat-1" and "team_name" in a["labels"])
        assert one["labels"] == {"alertname": "ServerDown", "severity": "page", "server": "chat-1", "group": "chat",
                                 "team_name": "chät"}  # fmt: skip
        assert one["annotations"] == {"summary": "chat-1 does not answer", "runbook": "server-down",
                                      "numbers": "seconds_since_last_sample 2 min"}  # fmt: skip
        # Alertmanager takes it for over four evaluations after the newest one.
        ends = datetime.fromisoformat(one["endsAt"].replace("Z", "+00:00"))
        assert timedelta(seconds=200) < ends - now < timedelta(seconds=300)
        wait_for(lambda: {len(d["alerts"]) for d in sent.documents()} == {1, 2}, "a message of two and one of one")
        grouped = next(d for d in sent.documents() if len(d["alerts"]) == 2)
        assert (grouped["status"], grouped["groupLabels"]) == ("firing", {"alertname": "ServerDown"})

        # Shown again, as each evaluation does, nothing new is said; over, it is said and gone.
        over = [replace(a, state=AlertState.RESOLVED, resolved_at=CLOCK.now()) for a in alerts[:2]]
        shows.show([*over, alerts[2]], (), CLOCK.now())
        wait_for(lambda: any(d["status"] == "resolved" for d in sent.documents()), "the word that it is over")
        resolved = next(d for d in sent.documents() if d["status"] == "resolved")
        assert {a["labels"]["server"] for a in resolved["alerts"]} == {"chat-1", "chat-2"}
        wait_for(lambda: [a["labels"]["alertname"] for a in _listed(url)] == ["EngineStuck"], "one alert left")
    finally:
        shows.stop()


def test_an_alert_that_is_not_shown_any_more_ends_by_itself(alertmanager: tuple[str, Collector]) -> None:
    """As when this daemon dies: what nobody vouches for must not fire for ever."""
    url, _ = alertmanager
    shows = made(url, interval=0.5)
    shows.start()
    shows.show([firing("gone", name="Left", now=CLOCK.now())], (), CLOCK.now())
    wait_for(lambda: any(a["labels"]["alertname"] == "Left" for a in _listed(url)), "the alert at Alertmanager")
    shows.stop()
    wait_for(lambda: not any(a["labels"]["alertname"] == "Left" for a in _listed(url)), "its end")


def test_every_one_of_a_cluster_is_told_and_one_that_takes_it_is_enough() -> None:
    counted = Counted()
    with Collector() as works, Collector() as other:
        other.answers.append((500, {}))
        shows = made(works.url, other.url, counted=counted)
        shows.start()
        now = CLOCK.now()
        shows.show([firing(f"s-{n}", now=now) for n in range(100)], (), now)
        wait_for(lambda: len(works.posts) == 2 and bool(other.posts), "posts to both")
        shows.stop()
        assert [len(batch) for batch in works.documents()] == [64, 36]
        assert {path for path, _, _ in works.posts} == {"/api/v2/alerts"}
        assert shows.failing_seconds(now) == 0.0
    assert sorted(counted.outcomes) == ["alertmanager http_500", "alertmanager sent"]


def test_one_that_refuses_is_said_once_and_known_to_fail(caplog: pytest.LogCaptureFixture) -> None:
    with Collector() as refuses:
        refuses.answers.extend([(400, {})] * 2)
        shows = made(refuses.url)
        shows.start()
        now = CLOCK.now()
        for count in (1, 2):
            shows.show([firing("a", now=now)], (), now)
            wait_for(lambda count=count: len(refuses.posts) == count, "a post")  # type: ignore[misc]
        wait_for(lambda: shows.failing_seconds(CLOCK.now()) > 0, "the word that it fails")
        assert len([r for r in caplog.records if "does not take alerts" in r.getMessage()]) == 1
        shows.show([firing("a", now=now)], (), now)
        wait_for(lambda: shows.failing_seconds(CLOCK.now()) == 0, "the word that it works")
        shows.stop()


def test_any_answer_that_takes_it_is_as_good_as_200() -> None:
    counted = Counted()
    with Collector() as gateway:
        gateway.answers.extend([(202, {}), (204, {})])
        shows = made(gateway.url, counted=counted)
        shows.start()
        now = CLOCK.now()
        for count in (1, 2):
            shows.show([firing("a", now=now)], (), now)
            wait_for(lambda count=count: len(counted.outcomes) == count, "a post")  # type: ignore[misc]
        shows.stop()
    assert counted.outcomes == ["alertmanager sent"] * 2


def test_what_could_not_be_shown_and_is_no_more_does_not_fail_for_ever() -> None:
    with Collector() as away:
        away.answers.append((503, {}))
        shows = made(away.url)
        shows.start()
        now = CLOCK.now()
        shows.show([firing("a", now=now)], (), now)
        wait_for(lambda: shows.failing_seconds(CLOCK.now()) > 0, "the word that it fails")
        shows.show([], (), CLOCK.now())
        wait_for(lambda: shows.failing_seconds(CLOCK.now()) == 0, "the word that nothing fails")
        shows.stop()


class TestWhatIsShown:
    def names(self, *alerts: Alert, muted: tuple[Fingerprint, ...] = (), at: float = 10) -> list[str]:
        return [a.labels["server"] for a in shown(alerts, muted, lambda labels: True, minute(at))]

    @pytest.mark.parametrize(
        ("one", "is_shown"),
        [
            (alert(), True),
            (alert(state=AlertState.PENDING), False),
            (alert(severity="info"), False),
            (alert(state=AlertState.RESOLVED, resolved=9, notified=0), True),
            # Long over: it has been shown often enough.
            (alert(state=AlertState.RESOLVED, resolved=-6, notified=-20, fired=-20), False),
            # Nobody was told that it fired.
            (alert(state=AlertState.RESOLVED, resolved=9), False),
        ],
    )
    def test_by_its_state(self, one: Alert, is_shown: bool) -> None:
        assert (self.names(one) != []) is is_shown

    def test_one_that_is_muted_is_not_unless_it_was_told_before(self) -> None:
        new, told = alert(), alert(server="b", notified=0)
        assert self.names(new, told, muted=(new.fingerprint, told.fingerprint)) == ["b"]

    def test_one_that_is_only_held_is_no_news_there_either(self) -> None:
        held = replace(alert(), clear_since=minute(9))
        assert self.names(held) == []
        assert self.names(replace(held, notified_at=held.fired_at)) == ["a"]

    def test_only_what_its_routes_send_there(self) -> None:
        wants: Callable[[Any], bool] = lambda labels: labels["server"] == "b"  # noqa: E731
        assert [a.labels["server"] for a in shown([alert(), alert(server="b")], (), wants, minute(0))] == ["b"]

    def test_a_name_that_is_no_label_does_not_make_it_refuse_the_rest(self) -> None:
        odd = replace(alert(), labels={**alert().labels, "9-x.y": "1"})
        assert document(odd, minute(0), good_seconds=240, page_url="http://p/")["labels"]["_9_x_y"] == "1"
