"""Who has a say before a server is stopped: a burning objective, and a queue that says there is nothing to spare."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from monitor.cycle.gate import FleetGate, relieves
from monitor.cycle.history import History
from monitor.cycle.survivors import Survivors
from monitor.errors import StoreError
from monitor.model.life import Setting
from monitor.model.rollout import Change, ChangeId, ChangeState, RolloutId
from monitor.model.server import Group, GroupName, ServerName
from monitor.signals.capacity import Carrying
from tests.fakes.memory_store import MemoryStore
from tests.unit.signals.windows import NOON, interval, life

A, B = ServerName("a"), ServerName("b")
GROUP = Group(name=GroupName("chat"), servers=(A, B))


def setting(tokens: int | None) -> Setting:
    return Setting(method=None if tokens == 0 else "ngram", num_speculative_tokens=tokens)


def change(to: int | None, state: ChangeState = ChangeState.PLANNED) -> Change:
    return Change(id=ChangeId("c"), rollout=RolloutId("r"), server=A, position=0, state=state, current=setting(3),
                  proposed=setting(to), entered_at=NOON)


class Queue:
    """A fleet of two servers whose queues a test writes."""

    def __init__(self, waiting_share: float, burning: str = "") -> None:
        self.burning = burning
        self.history = History(3600.0)
        for name in (A, B):
            own = life(name)
            queued = round(40 * waiting_share)
            self.history.add(
                [own], [interval(own, -15.0 * n, waiting=5.0 if n < queued else 0.0) for n in range(40)], NOON
            )
        self.gate = FleetGate(lambda group: self.burning, self.history)

    def refusal(self, to: int | None = 4, state: ChangeState = ChangeState.PLANNED, after: float = 0.0) -> str | None:
        return self.gate.refusal(GROUP, change(to, state), NOON + timedelta(seconds=after))


class TestBurningObjectives:
    def test_they_stop_every_change_at_every_stage(self) -> None:
        queue = Queue(0.0, burning="SLO ttft of chat burns its error budget")
        for to in (4, 2, 0):
            for state in (ChangeState.PLANNED, ChangeState.DRAINING):
                assert queue.refusal(to, state) == "SLO ttft of chat burns its error budget"

    def test_none_stops_nothing(self) -> None:
        assert Queue(0.0).refusal() is None


class TestSaturation:
    def test_a_queue_in_more_than_a_tenth_of_the_time_stops_a_raise(self) -> None:
        assert Queue(0.10).refusal() is None
        assert Queue(0.2).refusal() == (
            "chat is saturated: requests queued in 20% of the last 10m (at most 10%); it needs capacity first"
        )

    @pytest.mark.parametrize(("to", "relief"), [(4, False), (3, False), (None, False), (2, True), (0, True)])
    def test_what_relieves_it_may_begin(self, to: int | None, relief: bool) -> None:
        assert (Queue(0.5).refusal(to) is None) is relief

    def test_what_has_begun_goes_on_since_its_own_drain_fills_the_others(self) -> None:
        assert Queue(0.5).refusal(4, ChangeState.DRAINING) is None

    def test_a_fleet_that_nothing_is_known_of_is_not_saturated(self) -> None:
        gate = FleetGate(lambda group: "", History(3600.0))
        assert gate.refusal(GROUP, change(4), NOON) is None

    def test_the_answer_holds_for_a_quarter_of_a_minute(self) -> None:
        queue = Queue(0.0)
        assert queue.refusal() is None
        own = life("a")
        queue.history.add([own], [interval(own, n, waiting=5.0) for n in range(1, 200)], NOON)
        assert queue.refusal(after=14.0) is None
        assert queue.refusal(after=200.0) is not None

    def test_only_its_own_servers_count(self) -> None:
        queue = Queue(0.5)
        other = replace(GROUP, name=GroupName("code"), servers=(ServerName("c"),))
        assert queue.gate.refusal(other, change(4), NOON) is None


@pytest.mark.parametrize(
    ("now", "then", "expected"),
    [(3, 2, True), (3, 0, True), (3, 4, False), (3, 3, False), (0, 0, False), (0, 1, False), (None, 2, False)],
)
def test_what_sheds_load(now: int | None, then: int | None, expected: bool) -> None:
    assert relieves(setting(now), setting(then)) is expected


class TestSurvivors:
    """One server fewer must carry the busiest time of the last day."""

    def of(self, ok: bool | None, waiting: float = 0.0) -> FleetGate:
        queue = Queue(waiting)
        return FleetGate(lambda group: "", queue.history, lambda group, now: Carrying(ok, "1 remaining server: 9 each"))

    def test_a_peak_that_they_would_not_carry_stops_every_change_before_it_begins(self) -> None:
        for to in (4, 2, 0):
            assert self.of(False).refusal(GROUP, change(to), NOON) == "1 remaining server: 9 each"
            assert self.of(False).refusal(GROUP, change(to, ChangeState.DRAINING), NOON) is None

    def test_one_that_they_would_carry_or_that_nobody_saw_stops_nothing(self) -> None:
        assert self.of(True).refusal(GROUP, change(4), NOON) is None
        assert self.of(None).refusal(GROUP, change(4), NOON) is None

    def test_a_saturated_group_may_still_be_relieved(self) -> None:
        assert self.of(False, waiting=0.5).refusal(GROUP, change(2), NOON) is None


class TestStoredPeaks:
    def store(self, running: float) -> MemoryStore:
        store = MemoryStore()
        with store.write() as unit:
            for name in (A, B):
                unit.lives.add(life(name))
                unit.intervals.add([interval(life(name), -15.0 * n, running=running) for n in range(40)])
        return store

    def test_the_peak_of_the_last_day_is_shared_by_those_that_remain(self) -> None:
        for running, ok in ((10.0, True), (40.0, False)):
            found = Survivors(self.store(running), {A: 64, B: 32}.get).carrying(GROUP, NOON)
            assert found is not None and found.ok is ok, found
            assert f"1 remaining server: {2 * running:.1f} requests each" in found.sentence

    def test_it_is_read_once_in_five_minutes(self) -> None:
        store = self.store(10.0)
        survivors = Survivors(store, lambda name: 64)
        survivors.carrying(GROUP, NOON)
        store.away = StoreError("away")
        assert survivors.carrying(GROUP, NOON + timedelta(seconds=299)) is not None
        with pytest.raises(StoreError):
            survivors.carrying(GROUP, NOON + timedelta(seconds=300))

    def test_a_lone_server_leaves_nobody_behind(self) -> None:
        alone = replace(GROUP, servers=(A,))
        assert Survivors(self.store(10.0), lambda name: 64).carrying(alone, NOON) is None
