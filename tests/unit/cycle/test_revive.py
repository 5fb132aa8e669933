"""Managed servers that went away by themselves are ordered to start again; others are left alone."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from monitor.cycle.revive import Reviver
from monitor.drivers.protocol import DriverStatus, ServerState
from monitor.errors import ActionError
from monitor.model.decision import Reason
from monitor.model.server import ActionLimits, Group, GroupName, ServerName
from tests.fakes.memory_store import MemoryStore

NOON = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
NAME = ServerName("a")


class Orders:
    def __init__(self, refusal: ActionError | None = None) -> None:
        self.restarts: list[tuple[str, str, Reason]] = []
        self.refusal = refusal

    def restart(self, server: str, why: str, now: datetime, *, requested_by: str, reason: Reason) -> None:
        if self.refusal is not None:
            raise self.refusal
        self.restarts.append((server, why, reason))


def revive(
    status: DriverStatus | ActionError, *, keep_running: bool = True, acts: bool = True, orders: Orders | None = None
) -> Orders:
    def look() -> DriverStatus:
        if isinstance(status, ActionError):
            raise status
        return status

    managed: Mapping[ServerName, Any] = {NAME: SimpleNamespace(driver=SimpleNamespace(acts=acts, status=look))}
    group = Group(name=GroupName("g"), servers=(NAME,), limits=ActionLimits(keep_running=keep_running))
    placed = orders or Orders()
    Reviver(MemoryStore(), placed, {NAME: group}, managed).run(NOON)  # type: ignore[arg-type]
    return placed


EXITED = DriverStatus(state=ServerState.EXITED, exit_code=-9)


def test_one_that_exited_is_started_again_and_says_how_it_went() -> None:
    assert revive(EXITED).restarts == [(NAME, "it exited (signal 9)", Reason.SERVER_DOWN)]


@pytest.mark.parametrize(
    "status",
    [
        DriverStatus(state=ServerState.RUNNING),
        DriverStatus(state=ServerState.STOPPED),
        DriverStatus(state=ServerState.FOREIGN),
        DriverStatus(state=ServerState.EXITED, stop_asked=True),
        ActionError("cannot be told"),
    ],
    ids=str,
)
def test_one_that_runs_was_stopped_or_cannot_be_told_is_left_alone(status: DriverStatus | ActionError) -> None:
    assert revive(status).restarts == []


def test_only_where_the_group_asks_for_it_and_the_driver_acts() -> None:
    assert revive(EXITED, keep_running=False).restarts == []
    assert revive(EXITED, acts=False).restarts == []


@pytest.mark.parametrize("reason", ["budget", "limits"])
def test_a_refusal_ends_nothing_else(reason: str) -> None:
    assert revive(EXITED, orders=Orders(ActionError("no", reason=reason))).restarts == []
