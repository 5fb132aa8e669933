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


def test_sources_are_asked_and_so_are_the_servers_that_they_list(acceptd: Run, tmp_path: Path) -> None:
    file, listed, again = tmp_path / "acceptd.yaml", tmp_path / "fleet.yml", tmp_path / "again.yml"
    listed.write_text("- targets: ['127.0.0.1:9']\n  labels: {acceptd_name: a}\n")
    again.write_text("- targets: ['127.0.0.1:9', '127.0.0.1:10']\n  labels: {acceptd_name: 'b c'}\n")
    (tmp_path / "empty.yml").touch()
    sources = "".join(
        f"  - {{name: {name}, {kind}}}\n"
        for name, kind in {
            "good": f"file_sd: {{files: ['{listed}']}}", "odd": f"file_sd: {{files: ['{again}']}}",
            "empty": f"file_sd: {{files: ['{tmp_path / 'empty.yml'}']}}",
            "gone": f"file_sd: {{files: ['{tmp_path / 'gone.json'}']}}",
            "list": "http_sd: {url: 'http://127.0.0.1:9/list?key=hunter2'}",
            "store": "prometheus: {url: 'http://127.0.0.1:9', selector: '{job=\"vllm\"}'}",
        }.items()
    )
    file.write_text(f"data_dir: {tmp_path / 'data'}\nservers:\n  - {{name: through, url: 'http://127.0.0.1:11', "
                    f"through: store}}\nsources:\n{sources}")
    found = acceptd("--config", file, "doctor", "--json").json()["findings"]
    told = {(one["subject"], one["state"]): (one["sentence"], one["todo"]) for one in found}
    assert told["good", "ok"] == ("lists 1 server", None)
    assert told["empty", "note"][0] == "lists no server" and "meant to be empty" in told["empty", "note"][1]
    assert "gone.json: No such file" in told["gone", "problem"][0] and "look at the file" in told["gone", "problem"][1]
    assert "connection refused" in told["list", "problem"][0]
    assert told["list", "problem"][1].startswith("curl -i http://127.0.0.1:9/list?key=<secret>")
    assert told["store", "problem"][1] == "curl -i http://127.0.0.1:9/api/v1/query?query=up"
    said, todo = told["odd", "problem"]
    assert "127.0.0.1:9: name is 'b c'" in said and "change its labels" in todo
    # Found, and asked as one of the file would be; what is read through a store is not.
    assert "connection refused" in told["a", "problem"][0] and "is it up" in told["a", "problem"][1]
    assert told["through", "ok"][0] == "read through source store, not asked itself"
    assert "hunter2" not in str(found) and ("none", "note") not in told
    assert not (tmp_path / "data").exists()


def test_without_a_configuration_it_looks_at_the_folder_of_the_daemon_that_runs(acceptd: Run, daemon: Folder) -> None:
    said = acceptd("--data-dir", daemon.path, "doctor")
    assert "acceptd init writes one" in said.out and "runs as pid 4242" in said.out
    assert "whole" in said.out
