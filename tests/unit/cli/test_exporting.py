"""What Prometheus and Grafana can take over: every objective, only metrics that exist."""

from __future__ import annotations

import json
import re
from pathlib import Path

import yaml

from docs import generate
from monitor.config.running import Running, write_running
from monitor.report.grafana import dashboard
from monitor.shipped import rules_folder
from tests.fakes.fake_clock import FakeClock
from tests.unit.cli.conftest import Run


def folder_with(path: Path, slo_files: tuple[str, ...]) -> Path:
    write_running(path, Running(
        pid=1, version="0.1.0", started_at=FakeClock().now(), host="h", listen="127.0.0.1:1", simulated=False,
        servers=(), groups=(), slo_files=slo_files,
    ))  # fmt: skip
    return path


def metrics_in(text: str) -> set[str]:
    return {re.sub(r"_(bucket|sum|count)$", "", name) for name in re.findall(r"\bacceptd_[a-z_0-9]+", text)}


def test_every_objective_of_the_configuration_becomes_rules(acceptd: Run, tmp_path: Path) -> None:
    folder = folder_with(tmp_path, (str(rules_folder() / "slo.yaml"),))
    said = acceptd("--data-dir", folder, "export", "prometheus-rules").out
    groups = {group["name"]: group["rules"] for group in yaml.safe_load(said)["groups"]}
    assert {"acceptd-slo-availability", "acceptd-slo-acceptance", "acceptd"} <= set(groups)
    alerts = [rule for rule in groups["acceptd-slo-availability"] if "alert" in rule]
    assert [rule["labels"]["severity"] for rule in alerts] == ["page", "ticket"]
    assert "acceptd:slo_burn_rate:1h" in alerts[0]["expr"] and "> 14.4" in alerts[0]["expr"]
    assert ">= 100" in alerts[0]["expr"]
    # What is only reported is recorded and never alerted on.
    assert not [rule for rule in groups["acceptd-slo-acceptance"] if "alert" in rule]
    assert "&id" not in said
    assert metrics_in(said) <= generate.metric_names()


def test_without_objectives_there_is_nothing_to_export(acceptd: Run, tmp_path: Path) -> None:
    said = acceptd("--data-dir", folder_with(tmp_path, ()), "export", "prometheus-rules")
    assert said.code == 3 and "no objectives are configured" in said.err


def test_the_dashboard_asks_only_for_metrics_that_exist(acceptd: Run, tmp_path: Path) -> None:
    path = tmp_path / "board.json"
    assert acceptd("export", "grafana", "--output", path).code == 0
    board = json.loads(path.read_text())
    assert board == dashboard()
    assert metrics_in(path.read_text()) <= generate.metric_names()
    titles = [panel["title"] for panel in board["panels"]]
    assert len(titles) == len(set(titles)) == len({panel["id"] for panel in board["panels"]})
    for word in ("Acceptance rate", "by position", "length", "Engine step", "output token", "tokens per second"):
        assert any(word in title for title in titles), word
    assert [one["name"] for one in board["annotations"]["list"]] == ["Setting changed", "Changes that ended"]
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in board["panels"]]
    assert len(places) == len(set(places))


def test_the_dashboard_has_the_fields_that_grafana_publishes() -> None:
    """By Grafana's own kind of the classic model (grafana/grafana, kinds/dashboard/dashboard_kind.cue)."""
    board = dashboard()
    assert 8 <= len(board["uid"]) <= 40 and isinstance(board["schemaVersion"], int)
    assert board["graphTooltip"] in (0, 1, 2) and isinstance(board["editable"], bool)
    assert set(board["time"]) == {"from", "to"}
    for variable in board["templating"]["list"]:
        assert variable["type"] in ("query", "datasource") and variable["name"] and variable["hide"] in (0, 1, 2)
        assert isinstance(variable["query"], str)
    for annotation in board["annotations"]["list"]:
        assert set(annotation["datasource"]) <= {"type", "uid"} and isinstance(annotation["enable"], bool)
        assert annotation["name"] and annotation["iconColor"]
        # Releases up to 11 read the query here, newer ones there.
        assert annotation["target"]["expr"] == annotation["expr"] and annotation["target"]["refId"]
        assert "$__rate_interval" in annotation["expr"]
    assert board["panels"]
    for panel in board["panels"]:
        place = panel["gridPos"]
        assert place["h"] > 0 and 0 < place["w"] <= 24 and 0 <= place["x"] < 24 and place["x"] + place["w"] <= 24
        assert panel["type"] == "timeseries" and panel["options"] and set(panel["datasource"]) == {"type", "uid"}
        assert set(panel["fieldConfig"]) == {"defaults", "overrides"}
        # What Grafana's types (@grafana/schema) do not let be left out.
        assert set(panel["options"]["legend"]) == {"showLegend", "displayMode", "placement", "calcs"}
        assert set(panel["options"]["tooltip"]) == {"mode", "sort"}
        references = [target["refId"] for target in panel["targets"]]
        assert references and len(references) == len(set(references))


def test_without_a_daemon_the_objectives_are_those_of_the_configuration_or_the_shipped_ones(
    acceptd: Run, tmp_path: Path
) -> None:
    shipped = acceptd("export", "prometheus-rules")
    assert (shipped.code, shipped.err) == (0, "")
    assert "acceptd-slo-availability" in {group["name"] for group in yaml.safe_load(shipped.out)["groups"]}
    own, config = tmp_path / "slo.yaml", tmp_path / "acceptd.yaml"
    own.write_text("slos:\n  - {name: mine, indicator: time_to_first_token, threshold: 1s, objective: 0.95}\n")
    config.write_text(f"slo: {{files: [{own}]}}\ndata_dir: {tmp_path}\n")
    groups = yaml.safe_load(acceptd("--config", config, "export", "prometheus-rules").out)["groups"]
    assert [group["name"] for group in groups if group["name"] != "acceptd"] == ["acceptd-slo-mine"]
