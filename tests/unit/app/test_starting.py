"""A server that we started may take its time, and nobody is told that it does not answer yet."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from monitor.actions.fleet import Fleet
from monitor.app.starting import still_starting
from monitor.drivers.protocol import DriverStatus, ServerState
from monitor.model.server import ActionLimits, Group, GroupName, ServerName

NAME = ServerName("a")
BEGAN = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
GROUP = Group(
    name=GroupName("g"), servers=(NAME,), limits=ActionLimits(start_seconds=900.0, first_start_seconds=600.0)
)


def starting(after: float, *, last_ok: datetime | None = None, **status: Any) -> set[ServerName]:
    known = {"state": ServerState.RUNNING, "token": "boot-1", "started_at": BEGAN, **status}
    driver = SimpleNamespace(acts=True, status=lambda: DriverStatus(**known))
    fleet = Fleet(groups={GROUP.name: GROUP}, managed={NAME: SimpleNamespace(driver=driver)})  # type: ignore[dict-item]
    return still_starting(fleet, lambda name: GROUP, lambda name: last_ok, BEGAN + timedelta(seconds=after))


@pytest.mark.parametrize("last_ok", [None, BEGAN - timedelta(hours=1)], ids=["never answered", "answered before"])
def test_it_is_starting_until_its_time_is_over(last_ok: datetime | None) -> None:
    assert starting(1400.0, last_ok=last_ok) == {NAME}
    assert starting(1501.0, last_ok=last_ok) == set()


def test_one_that_answered_is_started() -> None:
    assert starting(60.0, last_ok=BEGAN + timedelta(seconds=30)) == set()


@pytest.mark.parametrize(
    "status", [{"state": ServerState.EXITED}, {"token": "change-1"}, {"started_at": None}], ids=str
)
def test_one_that_died_or_belongs_to_a_change_is_not_starting(status: dict[str, Any]) -> None:
    assert starting(60.0, **status) == set()
