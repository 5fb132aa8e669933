"""Commands that show how things stand: the same figures for people and programs, daemon up or down."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from monitor.model.alert import Alert, AlertState
from tests.unit.cli.conftest import Folder, Run

COMMANDS = [
    ("status",), ("servers",), ("history", "chat-1"), ("history", "chat-2"), ("why", "chat"), ("why", "chat-1"),
    ("why", "d-1"), ("why", "r-0"), ("why", "c-0"), ("alerts",), ("evidence", "chat-1"), ("evidence", "e1"),
    ("plan", "chat"), ("plan", "d-1"), ("plan", "d-0"), ("report",), ("report", "--week"), ("db", "size"),
]  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
class TestEveryCommand:
    def test_it_works_with_the_daemon_down(self, acceptd: Run, folder: Folder, command: tuple[str, ...]) -> None:
        said = acceptd("--data-dir", folder.path, *command)
        assert (said.code, said.err) == (0, "")
        assert said.out.strip()

    def test_it_is_one_json_document_for_programs(
        self, acceptd: Run, daemon: Folder, command: tuple[str, ...]
    ) -> None:
        said = acceptd("--data-dir", daemon.path, *command, "--json")
        assert (said.code, said.err) == (0, "")
        # No NaN, no Infinity: not every reader takes them.
        json.loads(said.out, parse_constant=lambda word: pytest.fail(f"{word} in JSON"))

    def test_without_a_daemon_ever_it_says_how_to_begin(self, acceptd: Run, command: tuple[str, ...]) -> None:
        for more in ((), ("--json",)):
            said = acceptd(*command, *more)
            assert (said.code, said.out) == (3, "")
            assert "acceptd run" in said.err


class TestStatus:
    def test_it_says_what_matters_first(self, acceptd: Run, folder: Folder) -> None:
        said = acceptd("--data-dir", folder.path, "status").out
        assert "not running" in said
        assert "PAGE it fell (since 20 min ago)" in said
        assert re.search(r"^Group \w+ \(\w+\) .*raise to 3", said, re.MULTILINE)
        assert "Acceptance 77 % [markup], above 70 %." in said
        assert "77.0%" in said and "chat-2" in said

    def test_a_daemon_that_runs_is_named(self, acceptd: Run, daemon: Folder) -> None:
        assert "running (pid 4242)" in acceptd("--data-dir", daemon.path, "status").out
        view = acceptd("--data-dir", daemon.path, "status", "--json").json()
        assert view["daemon"]["running"] is True and view["daemon"]["pid"] == 4242

    def test_figures_are_those_of_the_window_asked_for(self, acceptd: Run, folder: Folder) -> None:
        for window, drafts in (("5m", 5000.0), ("30m", 30000.0)):
            view = acceptd("--data-dir", folder.path, "status", "--json", "--window", window).json()
            server = view["groups"][0]["servers"][0]
            assert server["figures"]["num_drafts"] == pytest.approx(drafts, rel=0.21)
            assert server["figures"]["acceptance_rate"] == pytest.approx(0.77)

    def test_a_server_never_read_has_no_numbers_rather_than_zeros(self, acceptd: Run, folder: Folder) -> None:
        view = acceptd("--data-dir", folder.path, "status", "--json").json()
        silent = view["groups"][0]["servers"][1]
        assert (silent["name"], silent["reason"], silent["num_speculative_tokens"]) == ("chat-2", "not read yet", None)
        assert set(silent["figures"].values()) == {None}

    @pytest.mark.parametrize("window", ["0s", "0", "-5m", "five", "5", "99999999999y"])
    def test_a_window_that_is_none_is_refused(self, acceptd: Run, folder: Folder, window: str) -> None:
        said = acceptd("--data-dir", folder.path, "status", f"--window={window}")
        assert said.code == 2
        assert said.err.startswith(f"--window: found '{window}', expected")


class TestServers:
    def test_how_its_setting_is_known(self, acceptd: Run, folder: Folder) -> None:
        said = acceptd("--data-dir", folder.path, "servers").out
        assert "ngram, 2 tokens (method from command line, num_speculative_tokens from page)" in said
        assert "84.0% 70.0%" in said
        assert "no: watched only" in said


class TestHistory:
    def test_steps_without_data_stay_empty(self, acceptd: Run, folder: Folder) -> None:
        options = ("--since", "1h", "--step", "10m", "--json")
        view = acceptd("--data-dir", folder.path, "history", "chat-1", *options).json()
        rates = [row["acceptance_rate"] for row in view["rows"]]
        assert len(rates) == 6
        assert rates[:2] == [None, None]
        assert rates[-1] == pytest.approx(0.77)
        assert [change["id"] for change in view["changes"]] == ["c-0"]

    @pytest.mark.parametrize(
        ("options", "named"),
        [
            (("--step", "0s"), "--step"), (("--step", "x"), "--step"), (("--since", "1 hour"), "--since"),
            (("--since", "9999y"), "--since"), (("--since", "0s"), "--since"),
            (("--since", "400d", "--step", "1s"), "--step"),
        ],
    )  # fmt: skip
    def test_times_that_make_no_sense_are_named(
        self, acceptd: Run, folder: Folder, options: tuple[str, ...], named: str
    ) -> None:
        said = acceptd("--data-dir", folder.path, "history", "chat-1", *options)
        assert said.code == 2 and said.err.startswith(named)

    def test_an_unknown_server_is_told_the_known_ones(self, acceptd: Run, folder: Folder) -> None:
        said = acceptd("--data-dir", folder.path, "history", "chat")
        assert (said.code, said.err.strip()) == (3, "no server 'chat'; known: chat-1, chat-2")


class TestWhy:
    def test_evidence_rule_and_what_came_of_it(self, acceptd: Run, folder: Folder) -> None:
        said = acceptd("--data-dir", folder.path, "why", "r-0").out
        for words in ("above_raise_threshold", "rule        raise-tokens, window 1800 s", "+12.0% (+5.0% to +20.0%)",
                      "70/50 rule  raise to 3.", "no data",
                      "Rollout r-0 by ann", "measured -10.0% (-20.0% to -5.0%)", "It lost.", "began [r-0]"):
            assert words in said

    def test_an_unknown_subject_is_told_the_groups(self, acceptd: Run, folder: Folder) -> None:
        said = acceptd("--data-dir", folder.path, "why", "nope")
        assert said.code == 3 and "groups: chat" in said.err


class TestAlerts:
    def test_none_is_said(self, acceptd: Run, folder: Folder) -> None:
        store = folder.store()
        with store.write() as unit:
            unit.alerts.put([_over(one, folder) for one in unit.alerts.all()])
        store.close()
        assert "No alerts." in acceptd("--data-dir", folder.path, "alerts", "--since", "1h").out
        assert "AcceptanceCliff" in acceptd("--data-dir", folder.path, "alerts", "--since", "3d").out

    @pytest.mark.parametrize("since", ["x", "9999999y", ""])
    def test_a_time_that_makes_no_sense_is_named(self, acceptd: Run, folder: Folder, since: str) -> None:
        said = acceptd("--data-dir", folder.path, "alerts", f"--since={since}")
        assert said.code == 2 and said.err.startswith("--since")


def _over(one: Alert, folder: Folder) -> Alert:
    return replace(one, state=AlertState.RESOLVED, resolved_at=folder.now - timedelta(days=2))


class TestRunbook:
    @pytest.mark.parametrize("name", ["server-down", "ServerDown"])
    def test_it_is_the_page_of_an_alert_under_either_name(self, acceptd: Run, name: str) -> None:
        said = acceptd("runbook", name)
        assert said.code == 0 and said.out.startswith("# ServerDown\n")

    @pytest.mark.parametrize("name", ["nothing", "../../../etc/passwd", "README/../server-down"])
    def test_there_is_no_other(self, acceptd: Run, name: str) -> None:
        said = acceptd("runbook", name)
        assert said.code == 3 and "no runbook" in said.err


class TestEvidence:
    def test_every_part_is_shown_as_it_is(self, acceptd: Run, folder: Folder) -> None:
        said = acceptd("--data-dir", folder.path, "evidence", "chat-1").out
        assert "generation probe failed" in said and "vllm:x 1" in said and "[x]" in said

    def test_none_is_said(self, acceptd: Run, folder: Folder) -> None:
        said = acceptd("--data-dir", folder.path, "evidence", "chat-2")
        assert (said.code, said.err.strip()) == (3, "no evidence 'chat-2'")


class TestReport:
    def test_it_is_written_into_a_folder(self, acceptd: Run, folder: Folder, tmp_path: Path) -> None:
        said = acceptd("--data-dir", folder.path, "report", "--output", tmp_path / "out")
        assert said.code == 0
        endings = {Path(line).suffix for line in said.out.split()}
        # The picture needs two points in time: what was just written lies in one, or on both sides of a day's end.
        assert endings - {".png"} == {".html", ".json", ".md"}
        assert all(Path(line).stat().st_size for line in said.out.split())

    @pytest.mark.parametrize("form", ["markdown", "html", "json"])
    def test_each_form(self, acceptd: Run, folder: Folder, form: str) -> None:
        said = acceptd("--data-dir", folder.path, "report", "--format", form).out
        assert "chat-1" in said
        if form == "json":
            assert json.loads(said)["groups"][0]["name"] == "chat"

    @pytest.mark.parametrize(
        ("options", "named"),
        [(("--format", "pdf"), "--format"), (("--days", "0"), "--days"), (("--days", "nan"), "--days"),
         (("--days", "401"), "--days")],
    )  # fmt: skip
    def test_wrong_options_are_named(
        self, acceptd: Run, folder: Folder, options: tuple[str, ...], named: str
    ) -> None:
        said = acceptd("--data-dir", folder.path, "report", *options)
        assert said.code == 2 and said.err.startswith(named)

    def test_a_folder_that_cannot_be_written_is_named(self, acceptd: Run, folder: Folder) -> None:
        said = acceptd("--data-dir", folder.path, "report", "--output", folder.path / "local.db" / "x")
        assert said.code == 1
        assert str(folder.path) in said.err


class TestBrokenFolders:
    def test_a_note_of_the_daemon_that_cannot_be_read_is_named(self, acceptd: Run, folder: Folder) -> None:
        for text in ("{", "[]", "{}", '{"started_at": "x"}', "\x00"):
            (folder.path / "running.json").write_text(text)
            said = acceptd("--data-dir", folder.path, "status")
            assert said.code == 3
            assert "running.json" in said.err

    def test_a_note_of_a_newer_daemon_can_be_read(self, acceptd: Run, folder: Folder) -> None:
        path = folder.path / "running.json"
        data = json.loads(path.read_text())
        data["more"] = 1
        data["servers"][0]["more"] = data["groups"][0]["limits"]["more"] = 2
        path.write_text(json.dumps(data))
        assert acceptd("--data-dir", folder.path, "status").code == 0

    def test_a_database_that_is_none_is_named(self, acceptd: Run, folder: Folder) -> None:
        (folder.path / "local.db").write_bytes(b"not a database" * 100)
        said = acceptd("--data-dir", folder.path, "status")
        assert said.code == 1
        assert "local.db" in said.err

    def test_a_folder_of_the_configuration_is_found(self, acceptd: Run, folder: Folder, tmp_path: Path) -> None:
        config = tmp_path / "acceptd.yaml"
        config.write_text(f"data_dir: {folder.path}\n")
        assert acceptd("--config", config, "status").code == 0
        said = acceptd("--config", tmp_path / "nope.yaml", "status")
        assert said.code == 2 and "nope.yaml" in said.err
