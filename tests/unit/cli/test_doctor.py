"""`acceptd doctor` as people and programs see it."""

from __future__ import annotations

from pathlib import Path

from tests.unit.cli.conftest import Folder, Run


def test_it_says_what_to_do_and_ends_with_one(acceptd: Run, tmp_path: Path) -> None:
    file = tmp_path / "acceptd.yaml"
    file.write_text(f"data_dir: {tmp_path / 'data'}\nservers: [{{name: a, url: 'http://127.0.0.1:9'}}]\n")
    file.chmod(0o640)
    said = acceptd("--config", file, "doctor")
    assert said.code == 1
    assert "a: http://127.0.0.1:9/metrics: connection refused" in said.out and "-> is it up" in said.out
    assert f"no daemon runs on {tmp_path / 'data'}" in said.out
    quiet = acceptd("--config", file, "doctor", "--quiet")
    assert "no mistakes" in said.out and "no mistakes" not in quiet.out
    found = acceptd("--config", file, "doctor", "--json").json()
    assert found["ok"] is False
    assert {one["area"] for one in found["findings"]} >= {"configuration", "store", "daemon", "host", "servers"}
    assert all(one["todo"] for one in found["findings"] if one["state"] == "problem")


def test_a_faulty_configuration_does_not_keep_it_from_looking_at_the_rest(acceptd: Run, tmp_path: Path) -> None:
    file = tmp_path / "acceptd.yaml"
    file.write_text("scrape: {interval: 15}\nrules: {files: [/nowhere.yaml]}\n")
    said = acceptd("--config", file, "doctor")
    assert said.code == 1 and "scrape.interval: found 15" in said.out and "rules.files[0]" in said.out
    assert "HOST" in said.out and "STORE" in said.out


def test_without_a_configuration_it_looks_at_the_folder_of_the_daemon_that_runs(acceptd: Run, daemon: Folder) -> None:
    said = acceptd("--data-dir", daemon.path, "doctor")
    assert "acceptd init writes one" in said.out and "runs as pid 4242" in said.out
    assert "whole" in said.out
