"""`acceptd slo`: from the store alone, daemon up or down."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from monitor.config.running import read_running, write_running
from monitor.model.record import Checks
from tests.unit.cli.conftest import SERVER, Folder, Run

FILE = """
slos:
  - {name: quick, indicator: time_to_first_token, threshold: 100ms, objective: 0.95}
  - {name: up, indicator: uptime, objective: 0.95}
  - {name: slices, indicator: acceptance, threshold: 0.5, objective: 0.9, report_only: true}
"""


@pytest.fixture
def slo_folder(folder: Folder, tmp_path: Path) -> Folder:
    """A daemon's folder whose objectives are those of FILE; two of twelve checks in all but 30 days were missed."""
    path = tmp_path / "slo.yaml"
    path.write_text(FILE)
    write_running(folder.path, replace(read_running(folder.path), slo_files=(str(path),)))
    store = folder.store()
    with store.write() as unit:
        unit.checks.add([
            Checks(SERVER, folder.now - timedelta(days=29.9), 10, 0),
            Checks(SERVER, folder.now - timedelta(minutes=10), 0, 2),
        ])
    store.close()
    return folder


def test_every_objective_with_what_is_left_of_its_budget(acceptd: Run, slo_folder: Folder) -> None:
    said = acceptd("--data-dir", slo_folder.path, "slo", "--json")
    assert said.code == 0
    found = {one["name"]: one for one in said.json()["slos"]}
    assert list(found) == ["up", "quick", "slices"]
    up, quick = found["up"], found["quick"]
    assert (up["good"], up["valid"], up["group"]) == (10.0, 12.0, "chat")
    assert up["known"] == pytest.approx(29.9 / 30, abs=0.001)
    assert up["error_budget_remaining"] == pytest.approx(1 - up["known"] * (2 / 12) / 0.05)
    assert quick["known"] < 0.01
    assert up["exhausted_in_seconds"] == 0.0
    assert quick["valid"] == 300.0
    assert (quick["reached"], quick["error_budget_remaining"]) == (1.0, 1.0)
    assert quick["burn_rate"] == 0.0
    assert found["slices"]["valid"] >= 5.0
    windows = {window["name"]: window for window in up["windows"]}
    assert list(windows) == ["page_quick", "page_slow", "ticket_quick", "ticket_slow"]
    assert (windows["page_slow"]["long"], windows["page_slow"]["known"]) == (pytest.approx(20.0), 1.0)
    assert (windows["ticket_quick"]["burning"], windows["page_quick"]["burning"]) == (True, False)


def test_for_people(acceptd: Run, slo_folder: Folder) -> None:
    said = acceptd("--data-dir", slo_folder.path, "slo")
    lines = {line.split()[0]: line for line in said.out.splitlines()}
    assert "83.3%" in lines["up"] and "-23" in lines["up"] and "spent" in lines["up"]
    assert "100.0%" in lines["quick"] and "0.95 of 30 d" in lines["quick"]
    assert "quick, slices: watched for less than the period so far" in " ".join(said.out.split())
    assert "report only" in lines["slices"]


def test_only_one_group(acceptd: Run, slo_folder: Folder) -> None:
    assert len(acceptd("--data-dir", slo_folder.path, "slo", "--group", "chat", "--json").json()["slos"]) == 3
    said = acceptd("--data-dir", slo_folder.path, "slo", "--group", "code")
    assert said.code == 3
    assert "no group 'code'; known: chat" in said.err


def test_without_objectives_it_says_so(acceptd: Run, folder: Folder) -> None:
    said = acceptd("--data-dir", folder.path, "slo")
    assert (said.code, said.out.strip()) == (0, "No objectives are configured (slo: in the configuration).")


def test_without_a_daemon_ever_there_is_nothing_to_say(acceptd: Run, tmp_path: Path) -> None:
    assert acceptd("--data-dir", tmp_path / "none", "slo").code == 3


def test_a_file_that_has_gone_is_named(acceptd: Run, slo_folder: Folder, tmp_path: Path) -> None:
    (tmp_path / "slo.yaml").unlink()
    said = acceptd("--data-dir", slo_folder.path, "slo")
    assert said.code == 2
    assert "slo.yaml" in said.err
