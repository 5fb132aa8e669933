"""`acceptd check` and `acceptd db`: every mistake with its place; a store brought to this version."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from monitor.cli.setting_up import write_config
from monitor.config.load import load
from monitor.store import open_store
from tests.unit.cli.conftest import Folder, Run

WRONG = """
mode: sometimes
scrape: {interval: 5}
servers:
  - {name: a b, url: 'ftp://x'}
  - {name: chat-1, url: 'http://user:hunter2@127.0.0.1:8000', driver: {kind: process, command: [/no/such/program]}}
slack: {bot_token: xoxb-very-secret}
rules: {tuning: nope}
nonsense: 1
"""


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "acceptd.yaml"
    path.write_text(text)
    return path


class TestCheck:
    def test_every_mistake_at_once_with_place_value_and_what_was_expected(
        self, acceptd: Run, tmp_path: Path
    ) -> None:
        path = write(tmp_path, WRONG)
        said = acceptd("check", path)
        assert said.code == 2
        lines = said.out.splitlines()
        places = ("mode", "scrape.interval", "servers[0].name", "servers[0].url", "servers[1].url", "slack", "nonsense")
        for place in places:
            (line,) = [line for line in lines if f" {place}: found" in line]
            assert "expected" in line
        assert lines[-1] == f"{len(lines) - 1} mistakes in {path}"
        assert "hunter2" not in said.out and "very-secret" not in said.out

    def test_the_same_for_programs(self, acceptd: Run, tmp_path: Path) -> None:
        path = write(tmp_path, WRONG)
        said = acceptd("check", path, "--json")
        view = said.json()
        assert (said.code, view["ok"], view["config"]) == (2, False, str(path))
        assert all(set(problem) == {"file", "path", "found", "expected"} for problem in view["problems"])
        assert len(view["problems"]) >= 7
        assert "hunter2" not in said.out and "very-secret" not in said.out

    def test_a_right_one_is_fine(self, acceptd: Run, tmp_path: Path) -> None:
        path = write(tmp_path, "servers: [{name: chat-1, url: 'http://127.0.0.1:8000'}]\n")
        said = acceptd("check", path)
        assert said.code == 0
        assert said.out.startswith(f"{path}: fine (1 server, ")
        assert acceptd("check", path, "--json").json()["ok"] is True

    def test_the_usual_places_are_looked_at(
        self, acceptd: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert acceptd("check").out.startswith("defaults (no file): fine (0 servers")
        Path("acceptd.yaml").write_text("mode: nope\n")
        assert acceptd("check").code == 2
        path = write(tmp_path, "mode: auto\n")
        assert acceptd("--config", path, "check").code == 0
        monkeypatch.setenv("ACCEPTD_CONFIG", str(path))
        assert acceptd("check").out.startswith(f"{path}: fine")

    @pytest.mark.parametrize("text", ["servers: [", "- a", "\t", "a: b: c", "{}: 1", "servers: {a: 1}", "1"])
    def test_what_is_no_mapping_of_settings_is_named(self, acceptd: Run, tmp_path: Path, text: str) -> None:
        said = acceptd("check", write(tmp_path, text))
        assert said.code == 2
        assert "acceptd.yaml" in said.out

    def test_a_file_that_is_not_there_or_no_text_is_named(self, acceptd: Run, tmp_path: Path) -> None:
        (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
        for name in ("nope.yaml", "binary", ""):
            said = acceptd("check", tmp_path / name)
            assert said.code == 2 and str(tmp_path) in said.out

    def test_mistakes_in_rules_are_named_by_file_and_rule(self, acceptd: Run, tmp_path: Path) -> None:
        rules = tmp_path / "own.yaml"
        rules.write_text("groups: [{name: g, rules: [{alert: Mine, when: acceptence_rate < 0.5}]}]\n")
        path = write(tmp_path, f"rules: {{files: [{rules}], parameters: {{raise-tokens.fro: 5m}}}}\n")
        said = acceptd("check", path)
        assert said.code == 2
        assert str(rules) in said.out and "acceptence_rate" in said.out
        rest = "labels: {severity: info}, annotations: {summary: low}"
        rules.write_text(f"groups: [{{name: g, rules: [{{alert: Mine, when: acceptance_rate < 0.5, {rest}}}]}}]\n")
        said = acceptd("check", path)
        assert said.code == 2 and "rules.parameters.raise-tokens.fro" in said.out


class TestStore:
    def test_it_is_made_and_brought_to_this_version(self, acceptd: Run, tmp_path: Path) -> None:
        base = ("--data-dir", tmp_path / "new" / "folder")
        said = acceptd(*base, "db", "upgrade", "--json")
        view = said.json()
        assert said.code == 0 and view["steps"]
        assert view["revision"] == view["steps"][-1]
        again = acceptd(*base, "db", "upgrade").out.strip()
        assert again.endswith(f"nothing to do, now at revision {view['revision']}")

    def test_a_folder_that_cannot_be_made_is_named(self, acceptd: Run, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        said = acceptd("--data-dir", tmp_path / "file" / "x", "db", "upgrade")
        assert said.code == 1
        assert str(tmp_path / "file" / "x") in said.err

    def test_its_size_table_by_table(self, acceptd: Run, folder: Folder) -> None:
        view = acceptd("--data-dir", folder.path, "db", "size", "--json").json()
        assert view["total_bytes"] >= sum(table["bytes"] or 0 for table in view["tables"]) > 0
        assert next(table["rows"] for table in view["tables"] if table["name"] == "intervals") == 30
        assert "intervals" in acceptd("--data-dir", folder.path, "db", "size").out

    def test_a_store_of_a_newer_version_is_not_touched(self, acceptd: Run, folder: Folder) -> None:
        with sqlite3.connect(folder.path / "local.db") as database:
            database.execute("UPDATE alembic_version SET version_num = 'f00000000000'")
        database.close()
        said = acceptd("--data-dir", folder.path, "db", "upgrade")
        assert said.code == 1
        assert "f00000000000" in said.err
        assert open_store(f"sqlite:///{folder.path}/local.db").revision() == "f00000000000"


def test_a_configuration_without_servers_can_be_loaded(tmp_path: Path) -> None:
    assert load(write(tmp_path, write_config([])), {}).servers == ()
