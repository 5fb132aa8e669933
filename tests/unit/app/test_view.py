"""What a page waits for: the trends of a small fleet, not those of a large one."""

from __future__ import annotations

from datetime import timedelta

from monitor.app.heart import Heart
from monitor.app.view import DaemonView
from monitor.model.server import Server
from monitor.telemetry import Telemetry
from tests.bench.fleet_history import fleet, intervals_of, life_of
from tests.fakes.fake_clock import FakeClock
from tests.fakes.memory_store import MemoryStore


def view_of(count: int, store: MemoryStore, clock: FakeClock) -> tuple[DaemonView, Server]:
    """So many servers of which the first has had traffic for a day."""
    servers, groups = fleet(count, 10)
    now = clock.now()
    life = life_of(servers[0].name, now - timedelta(days=1))
    with store.write() as unit:
        unit.lives.add(life)
        unit.intervals.add(intervals_of(life, now - timedelta(days=1), now, 1800.0))
    view = DaemonView(
        store, Telemetry(), groups, servers, clock, Heart(clock, 120.0), tried_all=lambda: True,
        report_file=lambda key, ending: None, live_report=lambda: "",
    )
    return view, servers[0]


def test_the_trends_of_a_small_fleet_are_there_at_once_to_the_running_hour() -> None:
    store, clock = MemoryStore(), FakeClock()
    view, busy = view_of(3, store, clock)
    found = view.trends()
    assert found[busy.name][-1] is not None and found["group:g0"] == found[busy.name]


def test_those_of_a_large_one_are_read_while_nobody_waits() -> None:
    store, clock = MemoryStore(), FakeClock()
    view, busy = view_of(200, store, clock)
    store.roll_up(clock.now() - timedelta(hours=1))
    first = view.trends()
    assert view._reading is not None
    view._reading.join(30.0)
    found = view.trends()
    assert first in ({}, found)
    assert found[busy.name][-1] is not None and found[busy.name][-2] is not None
