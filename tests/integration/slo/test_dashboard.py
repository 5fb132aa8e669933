"""The exported dashboard over a real Prometheus with a past: every panel draws, every change is marked."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import requests
import yaml
from prometheus_client.parser import text_string_to_metric_families

from monitor.clock import SystemClock
from monitor.report.grafana import dashboard
from monitor.slo.prometheus import prometheus_rules
from monitor.telemetry import Telemetry
from tests.integration.metric_stores import metric_store
from tests.integration.slo.test_exported_rules import promtool, shipped

__all__ = ["promtool"]

CLOCK = SystemClock()
SCRAPE = 15
HOURS = 3
#: When (seconds ago) `chat-1` went away to be restarted, was back with one token more, and the change was over.
GONE, BACK, ENDED = 5400, 5100, 4800


def pages(now: datetime) -> Iterator[tuple[datetime, str]]:
    """What a daemon showed: `chat-1` speculates and is changed once, `plain-1` never speculates."""
    told = Telemetry()
    told.watching({"chat-1", "plain-1"}, {"chat", "plain"})
    for age in range(HOURS * 3600, -1, -SCRAPE):
        for server, group, tokens in (("chat-1", "chat", 3.0 if age >= GONE else 4.0), ("plain-1", "plain", 0.0)):
            up = server != "chat-1" or not BACK < age < GONE
            speculates = up and tokens > 0
            for name in told.signal_names:
                told.signal(name, server, group, 0.5 if up and (speculates or "accept" not in name) else None)
            told.signal("num_speculative_tokens", server, group, tokens if up else None)
            told.positions(server, group, [0.8, 0.6] if speculates else [])
        for scope in ({"group": "chat"}, {"model": "org/target"}, {"group": "plain", "server": "plain-1"}):
            told.slo_events("availability", scope, 10, 10)
            told.slo_known("availability", scope, HOURS * 3600.0 - age)
        told.alerts_firing({"page": 0, "ticket": 1})
        told.cycle("ok", 0.1)
        if age == ENDED:
            told.change_ended("chat", "promoted")
        yield now - timedelta(seconds=age), told.page().decode()


def backfill(promtool: str, folder: Path, now: datetime) -> None:
    """Put the pages into a folder of Prometheus'."""
    lines: dict[tuple[str, str], list[str]] = {}
    for at, page in pages(now):
        for family in text_string_to_metric_families(page):
            found = lines.setdefault((family.name, family.type), [])
            for one in family.samples:
                labels = ",".join(f'{name}="{value}"' for name, value in one.labels.items())
                found.append(f"{one.name}{{{labels}}} {one.value} {at.timestamp():.0f}")
    text = "".join(f"# TYPE {name} {kind}\n" + "".join(f"{line}\n" for line in found)
                   for (name, kind), found in lines.items())
    (folder / "pages.om").write_text(text + "# EOF\n")
    done = subprocess.run(
        [promtool, "tsdb", "create-blocks-from", "openmetrics", str(folder / "pages.om"), str(folder / "data")],
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


class Grafana:
    """What Grafana asks of Prometheus for this dashboard: variables put in, points as far apart as it has them."""

    def __init__(self, url: str, now: datetime) -> None:
        self._url = url
        self._now = now
        self.board = dashboard()
        self.chosen: dict[str, list[str]] = {}
        for one in self.board["templating"]["list"]:
            if one["type"] == "query":
                self.chosen[one["name"]] = self.values(one["query"])

    def ask(self, path: str, **given: Any) -> Any:
        answer: Any = requests.get(f"{self._url}/api/v1/{path}", params=given, timeout=30).json()
        assert answer["status"] == "success", answer
        return answer["data"]

    def values(self, query: str) -> list[str]:
        """Values of a variable."""
        found = re.fullmatch(r"label_values\((.*), (\w+)\)", query)
        assert found is not None, query
        since = (self._now - timedelta(hours=24)).timestamp()
        return list(self.ask(f"label/{found[2]}/values", **{
            "match[]": self.filled(found[1], 60), "start": since, "end": self._now.timestamp(),
        }))  # fmt: skip

    def filled(self, expr: str, step: float) -> str:
        """An expression as it is sent."""
        for name, values in self.chosen.items():
            expr = expr.replace(f"${name}", values[0] if len(values) == 1 else f"({'|'.join(values)})")
        return expr.replace("$__rate_interval", f"{max(step + SCRAPE, 4 * SCRAPE):g}s")

    def drawn(self, title: str) -> list[dict[str, str]]:
        """Labels of the series in a panel, now."""
        panel = next(one for one in self.board["panels"] if one["title"] == title)
        asked = [self.filled(target["expr"], SCRAPE) for target in panel["targets"]]
        answers = [self.ask("query", query=one, time=self._now.timestamp()) for one in asked]
        return [found["metric"] for answer in answers for found in answer["result"]]

    def marks(self, name: str, hours: float) -> list[tuple[dict[str, str], float]]:
        """Annotations on the last hours: their labels, and how long ago (seconds) they are first marked."""
        one = next(one for one in self.board["annotations"]["list"] if one["name"] == name)
        end = self._now.timestamp()
        # 100 points however long the time (grafana/grafana#82636).
        step = max(60.0, hours * 36.0)
        query = self.filled(one["target"]["expr"], step)
        found = self.ask("query_range", query=query, start=end - hours * 3600, end=end, step=step)
        return [(series["metric"], end - min(at for at, value in series["values"] if float(value) > 0))
                for series in found["result"]]


@pytest.fixture(scope="module")
def grafana(promtool: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Grafana]:
    """The dashboard over that past."""
    folder = tmp_path_factory.mktemp("board")
    now = CLOCK.now().replace(microsecond=0)
    backfill(promtool, folder, now)
    records = [rule for group in prometheus_rules(shipped())["groups"] for rule in group["rules"] if "record" in rule]
    rules = folder / "rules.yml"
    rules.write_text(yaml.safe_dump({"groups": [{"name": "all", "rules": records}]}))
    with metric_store("prometheus", folder, [], rules=rules) as url:
        asked = Grafana(url, now)
        deadline = CLOCK.monotonic() + 90
        while not asked.drawn("Error budget left") and CLOCK.monotonic() < deadline:
            CLOCK.sleep(0.5)
            # Recorded by Prometheus' own clock.
            asked._now = CLOCK.now()
        yield asked


def test_every_panel_draws_and_every_server_can_be_chosen(grafana: Grafana) -> None:
    assert grafana.chosen == {"group": ["chat", "plain"], "server": ["chat-1", "plain-1"]}
    empty = [panel["title"] for panel in grafana.board["panels"] if not grafana.drawn(panel["title"])]
    assert empty == []
    assert {one["server"] for one in grafana.drawn("Acceptance rate")} == {"chat-1"}
    assert {one["group"] for one in grafana.drawn("Generated tokens per second")} == {"chat", "plain"}


def test_objectives_of_groups_servers_and_models_are_drawn(grafana: Grafana) -> None:
    scopes = {(one.get("group", ""), one.get("server", ""), one.get("model", ""))
              for one in grafana.drawn("Error budget left")}
    assert scopes == {("chat", "", ""), ("", "", "org/target"), ("plain", "plain-1", "")}
    grafana.chosen, everything = {"group": ["chat"], "server": ["chat-1"]}, grafana.chosen
    scopes = {(one.get("group", ""), one.get("server", "")) for one in grafana.drawn("Burn rate, last hour")}
    grafana.chosen = everything
    assert scopes == {("chat", ""), ("", "")}


@pytest.mark.parametrize("hours", [3, 24, 72])
def test_a_change_is_marked_however_long_the_time_shown(grafana: Grafana, hours: float) -> None:
    """The setting is unknown while the server restarts, and the first change of a group is the counter's first."""
    step = max(60.0, hours * 36.0)
    (setting, began), = grafana.marks("Setting changed", hours)
    assert setting["server"] == "chat-1" and BACK - step <= began <= BACK + 60
    (ended, at), = grafana.marks("Changes that ended", hours)
    assert (ended["group"], ended["outcome"]) == ("chat", "promoted") and ENDED - step <= at <= ENDED + 60
