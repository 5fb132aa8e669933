"""docs/cli.md against the program: every command, every option, and the keys of every JSON document."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from docs import generate
from docs.commands import commands
from monitor.cli import main as cli
from monitor.config.running import Running, write_running
from monitor.model.alert import Alert, AlertState, fingerprint
from monitor.model.decision import Action, Decision, DecisionId, Precondition, Reason, ThresholdAnswer
from monitor.model.life import LastReading, Life, LifeId, Setting, StartEvidence
from monitor.model.reading import Reading, Verdict
from monitor.model.record import AuditEntry, Pause, group_scope
from monitor.model.rollout import Change, ChangeId, ChangeState, Rollout, RolloutId
from monitor.model.server import Group, GroupName, Server, ServerName
from monitor.shipped import rules_folder
from monitor.store import open_store

PAGE = (generate.DOCS / "cli.md").read_text()
SAMPLES = Path(__file__).resolve().parents[2] / "golden" / "exposition" / "samples"
SERVER, GROUP = ServerName("chat-1"), GroupName("chat")
MTP = Setting(method="mtp", num_speculative_tokens=2)


def documented(name: str) -> Any:
    found = re.search(rf"<!-- json: {name} -->\n```json\n(.*?)```", PAGE, re.DOTALL)
    assert found is not None, f"docs/cli.md has no document called {name}"
    return json.loads(found[1])


def run(*arguments: str) -> tuple[int, str]:
    out = io.StringIO()
    code = 0
    with redirect_stdout(out):
        try:
            cli.main(list(arguments))
        except SystemExit as end:
            code = int(end.code or 0)
    return code, out.getvalue()


def answer(*arguments: str) -> Any:
    code, text = run(*arguments)
    assert code == 0, text
    return json.loads(text)


#: Objects whose keys are names of servers, signals or labels, or titles: any key is right.
OPEN = frozenset({"labels", "evidence", "sources", "reasons", "per_engine", "projection", "env", "parts", "plan"})


def differences(told: Any, real: Any, path: str = "") -> Iterator[str]:
    """Where the keys of a real document are not those that the page tells; parts that are null on one side pass."""
    if isinstance(told, dict) and isinstance(real, dict) and path.rpartition(".")[2] not in OPEN:
        yield from (f"{path}.{key} is not on the page" for key in real.keys() - told.keys())
        yield from (f"{path}.{key} is only on the page" for key in told.keys() - real.keys())
        for key in told.keys() & real.keys():
            yield from differences(told[key], real[key], f"{path}.{key}")
    elif isinstance(told, list) and isinstance(real, list) and told and isinstance(told[0], dict):
        for item in real:
            yield from differences(told[0], item, f"{path}[]")


def test_differences_are_seen() -> None:
    told = {"a": [{"b": 1}], "c": None}
    assert list(differences(told, {"a": [{"b": 2}], "c": {"d": 1}})) == []
    assert list(differences(told, {"a": [{"x": 2}]})) == [
        ".c is only on the page", ".a[].x is not on the page", ".a[].b is only on the page",
    ]


class TestCommands:
    def test_every_command_is_on_the_page(self) -> None:
        named = set(re.findall(r"^### `acceptd ([a-z -]+)`$", PAGE, re.MULTILINE))
        assert named == {name for name, _ in commands()}

    def test_every_option_is_on_the_page(self) -> None:
        for name, command in commands():
            part = PAGE.partition(f"### `acceptd {name}`\n")[2].partition("\n### ")[0]
            options = [option for one in command.params for option in one.opts if option.startswith("--")]
            assert [option for option in options if f"`{option}`" not in part and option != "--help"] == []

    def test_commands_in_the_text_exist(self) -> None:
        known = {name.split()[0] for name, _ in commands()}
        for page in (*generate.DOCS.rglob("*.md"), generate.DOCS.parent / "README.md"):
            asked = set(re.findall(r"`(?:sudo )?acceptd ([a-z]+)[ `]", page.read_text()))
            assert asked - known - {"is", "runs"} == set(), page.name


class TestExitCodes:
    CODES = frozenset(int(code) for code in re.findall(r"^\| (\d+) \|", PAGE, re.MULTILINE))

    def test_done_is_0(self, tmp_path: Path) -> None:
        (tmp_path / "acceptd.yaml").write_text("mode: auto\n")
        assert run("check", str(tmp_path / "acceptd.yaml"))[0] == 0

    def test_no_is_1(self) -> None:
        assert run("read", "http://127.0.0.1:9", "--between", "0")[0] == 1

    def test_wrong_input_is_2(self, tmp_path: Path) -> None:
        (tmp_path / "acceptd.yaml").write_text("mode: automatic\n")
        assert run("check", str(tmp_path / "acceptd.yaml"))[0] == 2
        assert run("read", str(tmp_path / "no page"))[0] == 2

    def test_what_is_not_there_is_3(self, tmp_path: Path) -> None:
        assert run("--data-dir", str(tmp_path), "status")[0] == 3
        assert run("--data-dir", str(tmp_path), "apply", "d-1")[0] == 3

    def test_the_page_has_all_of_them(self) -> None:
        assert {0, 1, 2, 3} <= self.CODES


class TestWithoutDaemon:
    def test_read(self) -> None:
        pages = [str(SAMPLES / f"llamacpp_pair_spec_basic.t{n}.prom") for n in (0, 1)]
        real = answer("read", *pages, "--elapsed", "30", "--json")
        told = documented("read")
        assert list(differences(told, real)) == []
        engine = real["models"][0]["per_engine"]["0"]
        assert set(engine) == {"num_speculative_tokens", "running", "waiting", "kv_usage", "lifetime", "interval"}
        for span in ("lifetime", "interval"):
            for key, value in told["models"][0][span].items():
                assert value == pytest.approx(real["models"][0][span][key]), key

    def test_tune(self, tmp_path: Path) -> None:
        (tmp_path / "observed.json").write_text(json.dumps(documented("tune document")))
        told, real = documented("tune"), answer("tune", str(tmp_path / "observed.json"), "--json")
        assert list(differences(told, real)) == []
        assert (told["action"], told["num_speculative_tokens"]) == (real["action"], real["num_speculative_tokens"])
        assert set(told["projection"]["4"]) == set(real["projection"]["4"])

    def test_tune_names_every_mistake(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        wrong = '{"num_speculative_tokens": -1}\n'
        (tmp_path / "observed.json").write_text(wrong)
        assert run("tune", str(tmp_path / "observed.json"), "--json") == (2, "")
        monkeypatch.setattr("sys.stdin", io.StringIO(wrong))
        line = answer("tune", "--stdin")
        assert (set(line), set(line["problems"][0])) == ({"error", "problems"}, {"path", "found", "expected"})

    def test_launch_render(self) -> None:
        speculation = '{"method": "eagle3", "model": "org/draft", "num_speculative_tokens": 4}'
        real = answer("launch", "render", "--engine", "vllm", "--version", "0.32.0", "--speculation", speculation,
                      "--target-args", "--model org/target --port 8000", "--json")
        assert real == documented("launch render")

    def test_launch_render_of_what_a_version_cannot_do(self) -> None:
        code, text = run("launch", "render", "--engine", "vllm", "--version", "0.8.5", "--speculation",
                         '{"method": "suffix", "num_speculative_tokens": 4}', "--json")
        said = json.loads(text)
        assert (code, set(said)) == (2, {"error"})
        assert said["error"] in " ".join(PAGE.split())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data folder of a daemon that is down, with one of everything."""
    place = tmp_path_factory.mktemp("data")
    now = datetime.now(UTC)  # noqa: TID251  # the command line reads the real clock
    server = Server(name=SERVER, group=GROUP, base_url="http://h", metrics_url="http://h/metrics", managed=True)
    group = Group(name=GROUP, servers=(SERVER,))
    write_running(place, Running(
        pid=1, version="0.1.0", started_at=now, host="vm", listen="127.0.0.1:9747", simulated=False,
        servers=(server,), groups=(group,), slo_files=(str(rules_folder() / "slo.yaml"),),
    ))
    more = replace(MTP, num_speculative_tokens=3)
    labels = {"alertname": "Saturated", "severity": "info", "server": SERVER}
    store = open_store(f"sqlite:///{place / 'local.db'}")
    store.upgrade()
    with store.write() as unit:
        unit.lives.add(Life(
            id=LifeId("l1"), server=SERVER, model="m", engine="0", first_seen=now, evidence=StartEvidence.FIRST_SEEN,
            counts_from_zero=False, setting=MTP,
        ))
        unit.readings.put(LastReading(Reading(
            server=SERVER, scraped_at=now, monotonic=1.0, dialect="vllm_v1", verdict=Verdict.OK, reason="fine",
        ), now))
        unit.decisions.add(Decision(
            id=DecisionId("d-1"), group=GROUP, servers=(SERVER,), rule="raise-tokens", action=Action.RAISE,
            reason=Reason.ABOVE_RAISE_THRESHOLD, sentence="high", current=MTP, proposed=more,
            precondition=Precondition({}, MTP), made_at=now, expires_at=now + timedelta(hours=1),
            threshold=ThresholdAnswer(Action.RAISE, 3, "raise to 3"),
        ))
        unit.rollouts.add(Rollout(
            id=RolloutId("r-1"), group=GROUP, decision=DecisionId("d-1"), current=MTP, proposed=more, created_at=now,
            requested_by="ada",
        ))
        unit.changes.add([Change(
            id=ChangeId("r-1-1"), rollout=RolloutId("r-1"), server=SERVER, position=0, state=ChangeState.PLANNED,
            current=MTP, proposed=more, entered_at=now,
        )])
        unit.alerts.put([Alert(
            fingerprint=fingerprint(labels), labels=labels, annotations={"summary": "full"},
            state=AlertState.PENDING, active_since=now,
        )])
        unit.pauses.set(Pause(group_scope(GROUP), "ada", "looking", now))
        unit.audit.add(AuditEntry(now, "ada", "rollout.started", "r-1", "began"))
    store.close()
    return place


class TestLooking:
    def test_status_and_its_parts(self, folder: Path) -> None:
        told, real = documented("status"), answer("--data-dir", str(folder), "status", "--json")
        assert list(differences(told, real)) == []
        group, why = real["groups"][0], documented("why")
        assert list(differences(why["decision"], group["advice"])) == []
        assert list(differences(why["rollouts"][0], group["rollout"])) == []
        assert list(differences(why["changes"][0], group["servers"][0]["change"])) == []
        assert real["alerts"] and real["pauses"]

    def test_servers_and_alerts(self, folder: Path) -> None:
        told = documented("status")
        servers = answer("--data-dir", str(folder), "servers", "--json")
        assert servers and list(differences(told["groups"][0]["servers"], servers)) == []
        alerts = answer("--data-dir", str(folder), "alerts", "--json")
        assert alerts and list(differences(told["alerts"], alerts)) == []

    def test_why(self, folder: Path) -> None:
        real = answer("--data-dir", str(folder), "why", "chat", "--json")
        assert list(differences(documented("why"), real)) == []
        assert real["rollouts"] and real["changes"] and real["trail"]

    def test_plan(self, folder: Path) -> None:
        real = answer("--data-dir", str(folder), "plan", "chat", "--json")
        more = {"plan": None, "plan_note": None, "schedule": None}
        assert list(differences({**documented("why")["decision"], **more}, real)) == []

    def test_slo(self, folder: Path) -> None:
        real = answer("--data-dir", str(folder), "slo", "--json")
        assert real["slos"] and list(differences(documented("slo"), real)) == []

    def test_history(self, folder: Path) -> None:
        real = answer("--data-dir", str(folder), "history", SERVER, "--json")
        assert list(differences(documented("history"), real)) == []
        assert real["rows"] and real["changes"]
        assert list(differences(documented("why")["changes"], real["changes"])) == []


class TestTheRest:
    """The table of small documents."""

    def keys(self, command: str) -> list[str]:
        row = next(line for line in PAGE.splitlines() if line.startswith("| ") and f"`{command}`" in line.split("|")[1])
        return re.findall(r'"(\w+)"', row)

    def test_check(self, tmp_path: Path) -> None:
        (tmp_path / "acceptd.yaml").write_text("mode: automatic\n")
        _, text = run("check", str(tmp_path / "acceptd.yaml"), "--json")
        real = json.loads(text)
        assert [*real, *real["problems"][0]] == self.keys("check")

    def test_rules(self, tmp_path: Path) -> None:
        (tmp_path / "ours.yaml").write_text("groups: [{name: g, rules: [{alert: A}]}]\n")
        real = json.loads(run("rules", "check", str(tmp_path / "ours.yaml"), "--json")[1])
        assert {*real, *real["files"][0], *real["problems"][0]} == set(self.keys("rules check"))
        tests = answer("rules", "test", str(rules_folder() / "goodput.test.yaml"), "--json")
        assert {*tests, *tests["files"][0], *real["problems"][0]} == set(self.keys("rules test"))

    def test_rules_in_force_and_replay(self, folder: Path) -> None:
        shown = answer("--data-dir", str(folder), "rules", "show", "--json")
        assert {*shown, *shown["slos"][0]} == set(self.keys("rules show"))
        replayed = answer("--data-dir", str(folder), "rules", "replay", "--since", "10m", "--json")
        assert list(replayed) == self.keys("rules replay")

    def test_ack(self, folder: Path) -> None:
        assert run("--data-dir", str(folder), "ack", "Saturated", "--json") == (3, "[]\n")

    def test_pause_resume_silence(self, folder: Path) -> None:
        data = ("--data-dir", str(folder))
        assert list(answer(*data, "pause", "chat-1", "--json")) == self.keys("pause")
        assert list(answer(*data, "resume", "chat-1", "--json")) == self.keys("resume")
        assert list(answer(*data, "silence", "server=chat-1", "--json")) == self.keys("silence")

    def test_db(self, folder: Path) -> None:
        data = ("--data-dir", str(folder))
        assert list(answer(*data, "db", "upgrade", "--json")) == self.keys("db upgrade")
        real = answer(*data, "db", "size", "--json")
        keys = {*real, *real["tables"][0]}
        assert keys <= set(self.keys("db size")) <= keys | {"step_seconds", "server", "until", "newest"}
        assert list(answer(*data, "db", "check", "--json")) == self.keys("db check")
        copy = folder / "copy.db"
        assert list(answer(*data, "db", "export", str(copy), "--json")) == self.keys("db export")
        assert list(answer(*data, "db", "import", str(copy), "--json")) == self.keys("db import")
