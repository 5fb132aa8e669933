"""Which runs of a unit are starts of ours."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from monitor.drivers.record import StartRecord
from monitor.drivers.systemctl import UnitState
from monitor.drivers.unit_runs import UnitRuns
from monitor.model.life import Setting
from monitor.model.server import Engine

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
UNIT = UnitState(
    load_state="loaded", active="active", sub="running", result="success", pid=None, exit_code=None, started_at=NOON,
    restarts=0, invocation="a", control_group="", has_job=False, fragment="", drop_ins=(), needs_reload=False,
    kill_mode="mixed",
)  # fmt: skip
OURS = StartRecord(
    token="c-1", setting=Setting(method="ngram", num_speculative_tokens=4), command_hash="h", boot_id="boot",
    asked_at=NOON, instance="a",
)  # fmt: skip


@pytest.fixture
def runs() -> UnitRuns:
    command: Any = SimpleNamespace(before=(), own=(), after=())
    launcher: Any = SimpleNamespace(command=command, base_hash="h", files=())
    launch: Any = SimpleNamespace(words=lambda: None)
    proc: Any = SimpleNamespace(boot_id=lambda: "boot", argv=lambda pid: ())
    return UnitRuns(Engine.VLLM, launcher, launch, proc, SimpleNamespace(now=lambda: NOON), outside=Path)  # type: ignore[arg-type]


def token_after(runs: UnitRuns, *states: UnitState) -> str:
    record: StartRecord | None = OURS
    for state in states:
        record = runs.known(record, state)
    assert record is not None
    return record.token


def test_a_start_by_systemd_itself_is_ours_whether_it_was_seen_counted_before_it_had_an_id_or_not(
    runs: UnitRuns,
) -> None:
    counted = replace(UNIT, restarts=1)
    second = replace(UNIT, invocation="b", restarts=1)
    third = replace(UNIT, invocation="c", restarts=2)
    assert token_after(runs, second, third) == "c-1"
    assert token_after(runs, counted, second, third) == "c-1"
    assert token_after(runs, counted, second, replace(second, restarts=2), third) == "c-1"


def test_a_start_by_someone_else_is_not_ours_since_systemd_counts_from_nothing_again(
    runs: UnitRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "_setting", lambda unit: None)
    monkeypatch.setattr(runs, "_hash_at", lambda unit: "")
    by_hand = replace(UNIT, invocation="d")
    assert token_after(runs, by_hand) == ""
    assert token_after(runs, replace(UNIT, invocation="b", restarts=1), by_hand) == ""
