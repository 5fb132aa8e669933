"""Rollouts over several servers, and two daemons on one store."""

from __future__ import annotations

from dataclasses import replace

import pytest

from monitor.actions.events import EventKind
from monitor.actions.executor import Executor
from monitor.actions.orders import Orders
from monitor.actions.records import AWAY, is_in_traffic
from monitor.drivers.protocol import DriverStatus
from monitor.errors import ActionError
from monitor.model.rollout import Change, ChangeState, Outcome, RolloutState
from monitor.model.server import GroupName
from tests.fakes.fake_world import LIMITS, WORSE, World


def serving(world: World) -> int:
    return sum(s.serves and s.traffic_allowed for s in world.servers)


def run_and_count(world: World, seconds: float = 7200.0) -> int:
    """Run to the end; the least number of servers that served at any moment."""
    least = len(world.servers)

    def look() -> bool:
        nonlocal least
        least = min(least, serving(world))
        return world.is_quiet()

    assert world.run(seconds, until=look)
    return least


class TestFourReplicas:
    def test_a_good_setting_reaches_all_in_order_and_three_always_serve(self) -> None:
        world = World(4)
        world.begin(3)
        assert run_and_count(world) == 3
        assert world.rollout().state is RolloutState.PROMOTED
        assert [s.tokens for s in world.servers] == [3, 3, 3, 3]
        first_starts = [s.starts[0][0] for s in world.servers]
        assert first_starts == sorted(first_starts)
        assert [c.is_canary for c in world.changes()] == [True, False, False, False]
        assert sum(s.cut_requests for s in world.servers) == 0

    def test_a_bad_setting_is_caught_on_the_canary_and_three_never_see_it(self) -> None:
        world = World(4)
        world.judge.says["s1"] = WORSE
        world.begin(3)
        assert run_and_count(world) == 3
        assert world.rollout().state is RolloutState.ROLLED_BACK
        assert [s.tokens for s in world.servers] == [2, 2, 2, 2]
        assert [len(s.starts) for s in world.servers] == [2, 0, 0, 0]
        assert [c.state for c in world.changes()] == [ChangeState.ROLLED_BACK] + [ChangeState.ABANDONED] * 3
        assert {c.outcome for c in world.changes()[1:]} == {Outcome.CANCELLED}

    def test_a_server_that_cannot_follow_brings_the_others_back(self) -> None:
        world = World(3)
        world.servers[2].behaviour.crashes_at = frozenset({3})
        world.begin(3)
        assert run_and_count(world) == 2
        assert (world.rollout().state, world.rollout().outcome) == (RolloutState.ROLLED_BACK, Outcome.START_FAILED)
        assert [s.tokens for s in world.servers] == [2, 2, 2]
        assert [len(s.starts) for s in world.servers] == [2, 2, 2]
        assert len(world.pages()) == 1
        backs = [c for c in world.changes() if c.id.endswith("-back")]
        assert [(c.server, c.state, c.outcome) for c in backs] == [
            ("s1", ChangeState.PROMOTED, Outcome.RESTORED), ("s2", ChangeState.PROMOTED, Outcome.RESTORED),
        ]  # fmt: skip

    def test_a_server_that_is_down_for_good_keeps_the_healthy_ones_from_being_touched(self) -> None:
        world = World(3)
        world.begin(3)
        assert world.run(until=lambda: world.servers[0].tokens == 3 and world.change(0).state.is_final)
        world.servers[1].behaviour.crashes_at = frozenset({2, 3})
        assert world.run(4 * 3600)
        assert (world.rollout().state, world.rollout().outcome) == (RolloutState.ABANDONED, Outcome.UNDO_FAILED)
        assert [s.tokens for s in world.servers] == [3, None, 2]
        assert "Still at ngram, 3 tokens: s1" in world.rollout().sentence
        assert len(world.servers[0].starts) == 1
        assert world.servers[2].starts == []

    def test_a_peer_that_does_not_serve_keeps_the_next_from_beginning(self) -> None:
        world = World(3)
        world.begin(3)
        assert world.run(until=lambda: world.change(0).state.is_final)
        world.servers[2].behaviour.health_broken = True
        world.run(600, until=lambda: False)
        assert world.change(1).state is ChangeState.PLANNED
        assert world.servers[1].stops == []
        world.servers[2].behaviour.health_broken = False
        assert world.run()
        assert world.rollout().state is RolloutState.PROMOTED

    def test_a_peer_that_fails_while_draining_puts_the_server_back(self) -> None:
        world = World(2)
        world.begin(3)
        assert world.until_state("draining")
        world.servers[1].crash()
        assert world.run()
        assert world.rollout().state is RolloutState.ABANDONED
        assert "s2 of the same group does not serve" in world.rollout().sentence
        assert world.servers[0].tokens == 2
        assert world.servers[0].traffic_allowed

    def test_calling_it_off_brings_every_changed_server_back(self) -> None:
        world = World(3)
        world.begin(3)
        assert world.run(until=lambda: world.change(1).state is ChangeState.OBSERVING)
        world.orders.roll_back(world.group.name, "ann", world.clock.now())
        assert run_and_count(world) >= 2
        assert (world.rollout().state, world.rollout().outcome) == (RolloutState.ROLLED_BACK, Outcome.CANCELLED)
        assert [s.tokens for s in world.servers] == [2, 2, 2]
        assert [len(s.starts) for s in world.servers] == [2, 2, 0]
        assert "called off by ann" in world.rollout().sentence

    @pytest.mark.parametrize("state", ["planned", "draining", "restarting", "warming", "observing"])
    def test_it_can_be_called_off_in_every_state(self, state: str) -> None:
        world = World()
        world.begin(3)
        assert state == "planned" or world.until_state(state)
        world.orders.roll_back(world.group.name, "ann", world.clock.now())
        assert world.run()
        assert world.rollout().outcome is Outcome.CANCELLED
        assert world.server.tokens == 2
        assert world.server.serves
        assert world.server.traffic_allowed
        touched = state not in ("planned", "draining")
        assert world.rollout().state is (RolloutState.ROLLED_BACK if touched else RolloutState.ABANDONED)

    def test_a_called_off_setting_is_not_stopped_while_paused(self) -> None:
        world = World()
        world.begin(3)
        assert world.until_state("observing")
        world.orders.roll_back(world.group.name, "ann", world.clock.now())
        world.pause()
        world.run(600, until=lambda: False)
        assert len(world.server.stops) == 1
        world.lift()
        assert world.run()
        assert world.server.tokens == 2


class TestTwoDaemons:
    def test_only_one_carries_a_server_and_coordinates_its_group(self) -> None:
        world = World()
        first = world.executor
        orders = world.orders
        world.new_daemon("host-2")
        second = world.executor
        orders.begin(world.decision(3), "test", world.clock.now())

        def both() -> bool:
            world.events += first.tick(world.clock.now())
            world.clock.advance(0.5)
            assert second.tick(world.clock.now()) == [] or world.is_quiet()
            return world.is_quiet()

        for _ in range(4000):
            if both():
                break
            world.clock.advance(0.5)
        assert world.rollout().state is RolloutState.PROMOTED
        assert [len(s.starts) for s in world.servers] == [1]
        assert [len(s.stops) for s in world.servers] == [1]
        assert [b.told for b in world.balancers] == [["out", "back"]]
        assert world.kinds().count(EventKind.FINISHED) == 1

    def test_two_threads_that_look_at_once_act_once(self) -> None:
        """Given one that acts while the other still looks, the other notices when it wants to write."""
        world = World()
        first = world.executor
        world.new_daemon()
        second = world.executor
        world.begin(3)
        plain = world.drivers[0].status
        nested = []

        def status() -> DriverStatus:
            seen = plain()
            if not nested and world.change().state is ChangeState.RESTARTING and seen.is_gone:
                nested.append(True)
                second.tick(world.clock.now())
            return seen

        world.drivers[0].status = status  # type: ignore[method-assign]
        for _ in range(1000):
            first.tick(world.clock.now())
            if world.is_quiet():
                break
            world.clock.advance(1)
        assert nested
        assert world.rollout().state is RolloutState.PROMOTED
        assert len(world.server.starts) == 1
        assert world.change().attempts == 1
        with world.store.read() as unit:
            assert len(unit.restarts.since(world.server.name, world.rollout().created_at)) == 1

    def test_another_daemon_takes_over_when_the_lease_of_a_dead_one_is_over(self) -> None:
        world = World()
        world.begin(3)
        assert world.until_state("restarting")
        world.new_daemon("host-2")
        start = world.clock.monotonic()
        assert world.run()
        assert world.clock.monotonic() - start > world.timing.lease_seconds / 2
        assert world.rollout().state is RolloutState.PROMOTED
        assert len(world.server.starts) == 1

    def test_a_second_daemon_cannot_begin_a_rollout_beside_the_first(self) -> None:
        world = World()
        world.begin(3)
        world.tick()
        world.new_daemon("host-2")
        with pytest.raises(ActionError, match="coordinated by host-1") as caught:
            world.begin(4)
        assert caught.value.reason == "not_coordinator"


class TestOneAtATime:
    def test_a_second_rollout_is_refused_with_the_name_of_the_first(self) -> None:
        world = World()
        rollout = world.begin(3)
        with pytest.raises(ActionError, match=f"already has rollout {rollout.id} under way") as caught:
            world.begin(4)
        assert caught.value.reason == "active_rollout"

    def test_never_are_two_changes_of_a_group_under_way(self) -> None:
        world = World(3)
        world.begin(3)

        def look() -> bool:
            busy = [c for c in world.changes() if not c.state.is_final and c.state is not ChangeState.PLANNED]
            assert len(busy) <= 1
            return world.is_quiet()

        assert world.run(until=look)

    def test_starts_of_a_day_are_never_more_than_allowed_and_keep_one_to_go_back(self) -> None:
        world = World(limits=replace(LIMITS, restarts_per_day=3, changes_per_day=10))
        world.judge.default = WORSE
        world.begin(3)
        assert world.run()
        with pytest.raises(ActionError, match="1 of 3 starts a day left, 2 are needed"):
            world.begin(4)
        assert len(world.server.starts) == 2


class TestOneHost:
    def test_servers_of_two_groups_on_one_host_are_away_one_after_the_other(self) -> None:
        world = World(2)
        one, two = (replace(world.group, name=GroupName(f"g{n}"), servers=(world.servers[n].name,)) for n in (0, 1))
        fleet = replace(world.fleet, groups={one.name: one, two.name: two})
        orders = Orders(world.store, fleet, holder="host-1", max_concurrent=2)
        executor = Executor(world.store, world.clock, fleet, world.judge, holder="host-1")
        for group in (one, two):
            decision = replace(world.decision(3), group=group.name, servers=group.servers)
            orders.begin(decision, "test", world.clock.now())
        observed_together = False
        for _ in range(2000):
            executor.tick(world.clock.now())
            with world.store.read() as unit:
                states = [c.state for c in unit.changes.active()]
                in_traffic = [is_in_traffic(unit, s.name, world.clock.now()) for s in world.servers]
            assert sum(state in AWAY for state in states) <= 1
            assert in_traffic == [s.traffic_allowed for s in world.servers]
            observed_together |= states.count(ChangeState.OBSERVING) == 2
            if world.is_quiet():
                break
            world.clock.advance(1)
        assert [s.tokens for s in world.servers] == [3, 3]
        assert observed_together

    def test_a_rollout_that_breaks_the_daemon_does_not_keep_others_from_their_end(self) -> None:
        world = World(2)
        one, two = (replace(world.group, name=GroupName(f"g{n}"), servers=(world.servers[n].name,)) for n in (0, 1))
        fleet = replace(world.fleet, groups={one.name: one, two.name: two})
        orders = Orders(world.store, fleet, holder="host-1", max_concurrent=2)
        executor = Executor(world.store, world.clock, fleet, world.judge, holder="host-1")
        for group in (one, two):
            decision = replace(world.decision(3), group=group.name, servers=group.servers)
            orders.begin(decision, "test", world.clock.now())

        def broken() -> DriverStatus:
            raise ZeroDivisionError("a bug in a driver")

        world.drivers[0].status = broken  # type: ignore[method-assign]
        for _ in range(600):
            with pytest.raises(ZeroDivisionError):
                executor.tick(world.clock.now())
            world.clock.advance(1)
        assert [s.tokens for s in world.servers] == [2, 3]


def test_changes_keep_their_order() -> None:
    world = World(3)
    world.begin(3)
    changes: list[Change] = world.changes()
    assert [c.position for c in changes] == [0, 1, 2]
    assert [c.server for c in changes] == ["s1", "s2", "s3"]
