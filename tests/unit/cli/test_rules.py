"""`acceptd rules`: files are checked and tested without anything else; replay and show read what a daemon left."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from monitor.config.running import read_running, write_running
from monitor.shipped import rules_folder
from monitor.store import Retention
from tests.unit.cli.conftest import Folder, Run

GOOD = """
groups:
  - name: ours
    rules:
      - alert: SlowTokens
        when: acceptance_rate < 0.80
        need: {num_drafts: 100}
        for: 2m
        labels: {severity: ticket}
        annotations: {summary: "{{ $labels.server }} is slow"}
      - {tune: more, when: acceptance_rate > 0.70, window: 10m, for: 10m, need: {num_drafts: 100},
         do: {num_speculative_tokens: "+1"}}
"""
TEST = """
rule_files: [ours.yaml]
tests:
  - name: slow
    input_series:
      - {series: 'acceptance_rate{server="a", group="g"}', values: '0.7x9'}
      - {series: 'num_drafts{server="a", group="g"}', values: '500x9'}
    alert_rule_test:
      - {eval_time: 1m, alertname: SlowTokens}
      - eval_time: 2m
        alertname: SlowTokens
        exp_alerts: [{exp_labels: {severity: SEVERITY, server: a, group: g}}]
"""


@pytest.fixture
def ours(tmp_path: Path) -> Path:
    path = tmp_path / "ours.yaml"
    path.write_text(GOOD)
    return path


class TestCheck:
    def test_every_shipped_file_is_fine(self, acceptd: Run) -> None:
        said = acceptd("rules", "check", *sorted(rules_folder().glob("*.yaml")), "--json")
        assert said.code == 0
        found = {Path(one["file"]).name: one["holds"] for one in said.json()["files"]}
        assert found["slo.yaml"] == "5 objectives"
        assert found["threshold.yaml"] == "0 alerts, 2 tuning rules"
        assert found["threshold.test.yaml"].endswith("tests")
        assert not any(one["notes"] for one in said.json()["files"])

    def test_every_mistake_of_every_file_is_named(self, acceptd: Run, ours: Path, tmp_path: Path) -> None:
        bad = tmp_path / "bad.yaml"
        bad.write_text(GOOD.replace("acceptance_rate <", "acceptance_rat <").replace("for: 2m", "for: 2"))
        slo = tmp_path / "slo.yaml"
        slo.write_text("slos: [{name: a, indicator: uptime, objective: 99}]")
        said = acceptd("rules", "check", ours, bad, slo, tmp_path / "none.yaml")
        assert said.code == 2
        assert f"{ours}: fine (1 alert, 1 tuning rule)" in said.out
        assert f"{bad}:6:15: rule SlowTokens: when" in said.out and "acceptance_rate" in said.out
        assert f"{bad}:8:14: rule SlowTokens: for: found 2, expected a duration" in said.out
        assert f"{slo}:1:48: SLO a: objective: found 99" in said.out
        assert "none.yaml" in said.out
        found = acceptd("rules", "check", bad, "--json")
        assert found.code == 2
        assert [one["found"] for one in found.json()["problems"]] != []

    def test_what_is_seldom_meant_is_noted_and_passes(self, acceptd: Run, ours: Path) -> None:
        ours.write_text(GOOD.replace("        need: {num_drafts: 100}\n", ""))
        said = acceptd("rules", "check", ours)
        assert said.code == 0
        assert "note:" in said.out and "without a `need` for num_drafts" in said.out

    @pytest.mark.parametrize("content", [b"\xff\xfe", b"", b"groups: [", b"x: 1", b"- 1"])
    def test_what_is_no_rule_file_is_a_mistake(self, acceptd: Run, tmp_path: Path, content: bytes) -> None:
        (tmp_path / "x.yaml").write_bytes(content)
        said = acceptd("rules", "check", tmp_path / "x.yaml")
        assert said.code == 2
        assert "x.yaml" in said.out


class TestTest:
    @pytest.fixture
    def test_file(self, ours: Path) -> Path:
        path = ours.with_name("ours.test.yaml")
        path.write_text(TEST.replace("SEVERITY", "ticket"))
        return path

    def test_what_holds_passes_as_promtool_says_it(self, acceptd: Run, test_file: Path) -> None:
        said = acceptd("rules", "test", test_file)
        assert said.code == 0
        assert said.out == f"Unit Testing:  {test_file}\n  SUCCESS (2 checked)\n"

    def test_what_does_not_fails_and_the_rest_is_run(self, acceptd: Run, test_file: Path) -> None:
        broken = test_file.with_name("broken.test.yaml")
        broken.write_text(TEST.replace("SEVERITY", "page"))
        said = acceptd("rules", "test", broken, test_file)
        assert said.code == 1
        lines = said.out.splitlines()
        assert lines[1] == "  FAILED:"
        assert lines[2].startswith("    slow: at 2m SlowTokens firing: expected ")
        assert 'severity="page"}, found {group="g", server="a", severity="ticket"}' in lines[2]
        assert lines[-1] == "  SUCCESS (2 checked)"
        report = acceptd("rules", "test", broken, test_file, "--json").json()
        assert (report["ok"], [len(one["failures"]) for one in report["files"]]) == (False, [1, 0])

    def test_a_test_of_a_rule_that_does_not_exist_is_a_mistake(self, acceptd: Run, test_file: Path) -> None:
        test_file.write_text(TEST.replace("alertname: SlowTokens", "alertname: SlowToken"))
        said = acceptd("rules", "test", test_file)
        assert said.code == 2
        assert "SlowToken" in said.out and "a rule of ours.yaml: SlowTokens" in said.out

    def test_a_rule_file_that_is_not_beside_it_is_named(self, acceptd: Run, test_file: Path, ours: Path) -> None:
        ours.unlink()
        said = acceptd("rules", "test", test_file)
        assert said.code == 2
        assert str(ours) in said.out

    def test_the_shipped_tests_pass(self, acceptd: Run) -> None:
        assert acceptd("rules", "test", *sorted(rules_folder().glob("*.test.yaml"))).code == 0


class TestReplay:
    """The folder holds half an hour of one server at 77 % acceptance."""

    def test_what_others_would_have_done(self, acceptd: Run, folder: Folder, ours: Path) -> None:
        said = acceptd("--data-dir", folder.path, "rules", "replay", "--since", "30m", "--rules", ours, "--json")
        assert said.code == 0
        found = said.json()
        assert (found["step_seconds"], found["approximate"], found["not_judged"]) == (60.0, False, {})
        alert, tune = sorted(found["events"], key=lambda one: one["kind"])
        assert (alert["kind"], alert["rule"], alert["summary"]) == (
            "alert_firing", "SlowTokens", "ticket: chat-1 is slow"
        )
        assert (tune["kind"], tune["decision"]["action"], tune["decision"]["to"]) == (
            "tune_began", "raise", "ngram, 3 tokens"
        )

    def test_for_people(self, acceptd: Run, folder: Folder, ours: Path) -> None:
        said = acceptd("--data-dir", folder.path, "rules", "replay", "--since", "30m", "--rules", ours)
        assert "evaluated every 1m; from pages as scraped" in said.out
        assert "SlowTokens fires 1x; more tunes 1x" in said.out
        assert "raise -> ngram, 3 tokens" in said.out

    def test_sums_over_five_minutes_are_called_approximate(self, acceptd: Run, folder: Folder, ours: Path) -> None:
        said = acceptd("--data-dir", folder.path, "rules", "replay", "--step", "5m", "--rules", ours, "--json")
        assert (said.json()["approximate"], said.json()["step_seconds"]) == (True, 300.0)
        assert {one["rule"] for one in said.json()["events"]} == {"SlowTokens", "more"}

    def test_where_history_begins_later_it_is_said(self, acceptd: Run, folder: Folder) -> None:
        said = acceptd("--data-dir", folder.path, "rules", "replay", "--since", "2h")
        assert "History begins" in said.out and "approximate" not in said.out

    def test_what_was_pruned_is_called_approximate(self, acceptd: Run, folder: Folder, ours: Path) -> None:
        store = folder.store()
        store.prune(folder.now, Retention(raw_hours=0.25))
        store.close()
        said = acceptd("--data-dir", folder.path, "rules", "replay", "--since", "25m", "--rules", ours)
        assert "approximate before" in said.out and "where only sums over 5 minutes are kept" in said.out

    def test_those_in_force_by_default_and_what_cannot_be_judged(self, acceptd: Run, folder: Folder) -> None:
        said = acceptd("--data-dir", folder.path, "rules", "replay", "--since", "20m")
        assert said.code == 0
        assert "not judged: EngineStuck rests on probe_failed" in said.out
        assert "not judged: ServerDown" not in said.out

    def test_several_processes_say_the_same(self, acceptd: Run, folder: Folder, ours: Path) -> None:
        running = read_running(folder.path)
        group, server = running.groups[0], running.servers[1]
        second = replace(group, name="other", servers=(server.name,))
        write_running(folder.path, replace(running, groups=(group, second)))  # type: ignore[arg-type]
        said = [
            acceptd("--data-dir", folder.path, "rules", "replay", "--since", "30m", "--rules", ours, "--jobs", jobs,
                    "--step", "5m", "--json").json()["events"]
            for jobs in (1, 2)
        ]
        assert len(said[0]) == 2
        assert [one["rule"] for one in said[0]] == [one["rule"] for one in said[1]]

    def test_nothing_would_have_happened(self, acceptd: Run, folder: Folder, ours: Path) -> None:
        ours.write_text(GOOD.replace("< 0.80", "< 0.10").replace("> 0.70", "> 0.99"))
        said = acceptd("--data-dir", folder.path, "rules", "replay", "--since", "20m", "--rules", ours)
        assert "Nothing would have happened." in said.out

    @pytest.mark.parametrize(
        ("arguments", "code", "words"),
        [
            (["--group", "code"], 3, "no group 'code'; known: chat"),
            (["--since", "7"], 2, "--since"),
            (["--step", "1ms"], 2, "at most 100,000 steps"),
            (["--rules", "/nowhere/x.yaml"], 2, "/nowhere/x.yaml"),
        ],
    )
    def test_mistakes(self, acceptd: Run, folder: Folder, arguments: list[str], code: int, words: str) -> None:
        said = acceptd("--data-dir", folder.path, "rules", "replay", *arguments)
        assert said.code == code
        assert words in said.err

    def test_without_a_daemon_ever_there_is_nothing_to_replay(self, acceptd: Run, tmp_path: Path) -> None:
        assert acceptd("--data-dir", tmp_path / "none", "rules", "replay").code == 3


class TestShow:
    def test_the_rules_in_force_with_their_sources(self, acceptd: Run, folder: Folder, ours: Path) -> None:
        slo = ours.with_name("slo.yaml")
        slo.write_text("slos: [{name: up, indicator: uptime, objective: 0.99}]")
        write_running(folder.path, replace(
            read_running(folder.path), slo_files=(str(slo),),
            rule_settings={"files": [str(ours)], "parameters": {"raise-tokens.for": 7200.0}},
        ))  # fmt: skip
        found = acceptd("--data-dir", folder.path, "rules", "show", "--json").json()
        alerts = {one["name"]: one["where"] for one in found["alerts"]}
        assert alerts["SlowTokens"] == f"{ours}:5"
        assert alerts["AcceptanceCliff"].startswith(str(rules_folder()))
        guarded = found["tuning"]["guarded"]
        assert guarded["groups"] == ["chat"]
        assert {one["name"]: one["for_seconds"] for one in guarded["rules"]}["raise-tokens"] == 7200.0
        assert found["tuning"]["ours"]["rules"][0]["does"] == "+1"
        assert found["slos"] == [{"name": "up", "indicator": "uptime", "where": f"{slo}:1"}]
        people = acceptd("--data-dir", folder.path, "rules", "show").out
        assert "Tuning set guarded (of chat)" in people
        assert "Not used: threshold, goodput, ours" in people
        assert f"{ours}:5" in people.replace("\n", "") or "ours.yaml" in people

    def test_a_file_that_has_gone_is_named(self, acceptd: Run, folder: Folder) -> None:
        write_running(folder.path, replace(read_running(folder.path), rule_settings={"files": ["/nowhere/r.yaml"]}))
        said = acceptd("--data-dir", folder.path, "rules", "show")
        assert said.code == 2
        assert "/nowhere/r.yaml" in said.err
