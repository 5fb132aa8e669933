"""The command line run in this process, and a data folder as a daemon leaves it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from monitor.cli.main import main
from monitor.clock import SystemClock
from monitor.config.running import FolderLock, Running, write_running
from monitor.model.alert import AlertState
from monitor.model.decision import Action, DecisionId, DecisionState, Precondition, Reason, ThresholdAnswer
from monitor.model.decision import Decision as Decided
from monitor.model.life import LastReading, Life, LifeId, Setting, SettingSource, StartEvidence
from monitor.model.reading import Reading, Verdict
from monitor.model.record import AuditEntry, Evidence
from monitor.model.rollout import Change, ChangeId, ChangeState, Measured, Outcome, Rollout, RolloutId, RolloutState
from monitor.model.server import Group, GroupName, Mode, Server, ServerName
from monitor.store import Store, open_store
from tests.integration.store.values import alert
from tests.unit.signals.windows import interval

GROUP, SERVER = GroupName("chat"), ServerName("chat-1")
TWO, THREE = (Setting(method="ngram", num_speculative_tokens=n) for n in (2, 3))


@dataclass(frozen=True)
class Said:
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        return json.loads(self.out)


Run = Callable[..., Said]


@pytest.fixture
def acceptd(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Run:
    """Runs `acceptd ARGS…` in an empty folder, with a home of its own."""
    (tmp_path / "cwd").mkdir(exist_ok=True)
    monkeypatch.chdir(tmp_path / "cwd")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    for name in ("ACCEPTD_CONFIG", "SUDO_USER"):
        monkeypatch.delenv(name, raising=False)

    def run(*arguments: object) -> Said:
        capfd.readouterr()
        code = 0
        try:
            main([str(argument) for argument in arguments])
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 0
        said = capfd.readouterr()
        assert "Traceback" not in said.err
        return Said(code, said.out, said.err)

    return run


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database of the newest schema, to be copied."""
    path = tmp_path_factory.mktemp("store") / "local.db"
    store = open_store(f"sqlite:///{path}")
    store.upgrade()
    store.close()
    return path


@dataclass(frozen=True)
class Folder:
    """A data folder, and how to open its store."""

    path: Path
    now: datetime

    def store(self) -> Store:
        return open_store(f"sqlite:///{self.path}/local.db")


@pytest.fixture
def folder(tmp_path: Path, empty_database: Path) -> Folder:
    """What a daemon left behind that watched one server for half an hour, changed it once and recommends a raise."""
    path = tmp_path / "data"
    path.mkdir()
    shutil.copy(empty_database, path / "local.db")
    now = SystemClock().now()
    write_running(path, running(now))
    made = Folder(path, now)
    store = made.store()
    with store.write() as unit:
        _write(unit, now)
    store.close()
    return made


@pytest.fixture
def daemon(folder: Folder) -> Iterator[Folder]:
    """The same folder with a daemon on it (that answers nothing)."""
    lock = FolderLock(folder.path, SystemClock())
    lock.acquire()
    yield folder
    lock.release()


def running(now: datetime) -> Running:
    server = Server(
        name=SERVER, group=GROUP, base_url="http://127.0.0.1:8000", metrics_url="http://127.0.0.1:8000/metrics",
        managed=True,
    )
    silent = Server(name=ServerName("chat-2"), group=GROUP, base_url="http://x:1", metrics_url="http://x:1/metrics")
    group = Group(name=GROUP, servers=(SERVER, silent.name), mode=Mode.RECOMMEND)
    return Running(
        pid=4242, version="0.1.0", started_at=now, host="host-1", listen="127.0.0.1:9747", simulated=False,
        servers=(server, silent), groups=(group,), rules={"chat": "guarded"},
    )


def decision(now: datetime) -> Decided:
    return Decided(
        id=DecisionId("d-1"), group=GROUP, servers=(SERVER,), rule="raise-tokens", action=Action.RAISE,
        reason=Reason.ABOVE_RAISE_THRESHOLD, sentence="Acceptance 77 % [markup], above 70 %.", current=TWO,
        proposed=THREE, precondition=Precondition({}, TWO), made_at=now, expires_at=now + timedelta(hours=1),
        state=DecisionState.RECOMMENDED, gain=0.12, gain_low=0.05, gain_high=0.2,
        evidence={"acceptance_rate": 0.77, "goodput": None}, window_seconds=1800.0,
        threshold=ThresholdAnswer(Action.RAISE, 3, "raise to 3."),
    )


def _write(unit: Any, now: datetime) -> None:
    life = Life(
        id=LifeId("l1"), server=SERVER, model="org/model", engine="0", first_seen=now - timedelta(hours=1),
        evidence=StartEvidence.FIRST_SEEN, counts_from_zero=False, engine_version="0.32.0", setting=TWO,
        sources={"method": SettingSource.COMMAND_LINE, "num_speculative_tokens": SettingSource.PAGE},
    )
    unit.lives.add(life)
    made = []
    for step in range(30):
        one = interval(life, 0.0, seconds=60.0, per_pos=(840.0, 700.0))
        end = now - timedelta(minutes=29 - step)
        made.append(replace(one, start=end - timedelta(minutes=1), end=end))
    unit.intervals.add(made)
    page = Reading(
        server=SERVER, scraped_at=now, monotonic=1.0, dialect="vllm_v1", verdict=Verdict.OK, reason="speculation"
    )
    unit.readings.put(LastReading(page, now))
    unit.decisions.add(decision(now))
    unit.evidence.add(Evidence("plan:d-1", SERVER, now, "plan", {"command line": "- k 2\n+ k 3", "risks": "[some]"}))
    unit.evidence.add(Evidence("e1", SERVER, now, "generation probe failed", {"page": "vllm:x 1", "log": "[x]"}))
    before = now - timedelta(minutes=20)
    rollout = Rollout(
        id=RolloutId("r-0"), group=GROUP, decision=DecisionId("d-0"), current=TWO, proposed=THREE, created_at=before,
        requested_by="ann", state=RolloutState.ROLLED_BACK, finished_at=now, outcome=Outcome.MEASURED_WORSE,
        sentence="It lost.", measured=Measured(gain=-0.1, gain_low=-0.2, gain_high=-0.05, method="m", minutes=9.0,
                                               sentence="10 % less"),
    )
    unit.decisions.add(replace(decision(before), id=DecisionId("d-0"), state=DecisionState.ACTED_ON))
    unit.rollouts.add(rollout)
    unit.changes.add(
        [Change(id=ChangeId("c-0"), rollout=rollout.id, server=SERVER, position=0, state=ChangeState.ROLLED_BACK,
                current=TWO, proposed=THREE, entered_at=before, outcome=Outcome.MEASURED_WORSE)]
    )
    unit.audit.add(AuditEntry(before, "acceptd", "rollout.started", "r-0", "began [r-0]"))
    unit.alerts.put([alert("AcceptanceCliff", before, AlertState.FIRING, acknowledged_by=None)])
