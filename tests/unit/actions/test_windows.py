"""Changes begin in maintenance windows only; what ends trouble does not wait for one."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from monitor.actions.learned import Starts
from monitor.errors import ActionError
from monitor.model.decision import Reason
from monitor.model.maintenance import Window
from monitor.model.rollout import ChangeState, Outcome, RolloutState
from monitor.model.server import ActionLimits
from tests.fakes.fake_world import GROUP, LIMITS, WORSE, World


def opening_in(world: World, minutes: float, lasts: float = 3600.0) -> ActionLimits:
    """Limits with a daily window that opens so many minutes from now."""
    at = world.clock.now() + timedelta(minutes=minutes)
    return replace(world.limits, maintenance=(Window(f"{at.minute} {at.hour} * * *", lasts),))


def windowed(minutes: float, servers: int = 1, lasts: float = 3600.0) -> World:
    world = World(servers)
    world.limits = opening_in(world, minutes, lasts)
    world.new_daemon()
    return world


class TestBeginning:
    def test_outside_a_window_nothing_begins_and_the_next_is_told(self) -> None:
        world = windowed(30)
        with pytest.raises(ActionError, match=r"outside the maintenance windows of g: the next opens at 20") as caught:
            world.begin(3)
        assert (caught.value.reason, caught.value.retryable) == ("window", True)
        with pytest.raises(ActionError, match="outside"):
            world.begin(3, by_operator=True)
        world.clock.advance(31 * 60)
        world.begin(3)
        assert world.run()
        assert world.rollout().state is RolloutState.PROMOTED

    def test_a_window_that_closes_before_a_restart_would_be_over_is_not_used(self) -> None:
        world = windowed(-56)
        world.begin(3)
        assert not world.run(seconds=120)
        assert world.change().state is ChangeState.PLANNED
        assert "before a restart would be over" in world.change().sentence
        assert world.server.stops == []

    def test_a_restart_and_a_way_back_do_not_wait(self) -> None:
        world = windowed(-10)
        world.begin(3)
        assert world.run()
        world.clock.advance(3600)
        world.orders.restart(
            world.server.name, "x", world.clock.now(), requested_by="ann", reason=Reason.REQUESTED_BY_OPERATOR
        )
        assert world.run()
        assert len(world.server.starts) == 2
        world.orders.roll_back(GROUP, "ann", world.clock.now())
        assert world.run()
        assert world.server.tokens == 2

    def test_what_has_begun_is_finished_also_the_way_back(self) -> None:
        world = windowed(-52)
        world.judge.default = WORSE
        world.judge.after_seconds = 250.0
        world.begin(3)
        assert world.run()
        assert world.rollout().state is RolloutState.ROLLED_BACK
        assert world.server.tokens == 2


class TestAGroup:
    def test_servers_whose_turn_comes_after_the_window_wait_for_the_next(self) -> None:
        """Given a window too short for all, the rest follow the day after and the group is not taken back."""
        world = windowed(0, servers=3, lasts=600)
        world.begin(3)
        assert world.run(seconds=30 * 3600, step=5)
        assert world.rollout().state is RolloutState.PROMOTED
        began = [world.servers[n].starts[0][0] for n in range(3)]
        assert began[-1] - began[0] > 20 * 3600
        assert [s.tokens for s in world.servers] == [3, 3, 3]

    def test_nobody_waits_beyond_the_end_of_the_next_window(self) -> None:
        world = windowed(0, servers=2, lasts=420)
        world.begin(3)
        world.run(until=lambda: world.change(0).state is ChangeState.PROMOTED)
        world.gate.reason = "an objective burns"
        assert world.run(seconds=40 * 3600, step=10)
        assert world.change(1).outcome is Outcome.EXPIRED
        assert [s.tokens for s in world.servers] == [2, 2]
        assert 24 * 3600 < world.clock.monotonic() - world.servers[0].starts[0][0] < 26 * 3600


class TestNever:
    def test_a_number_that_is_never_to_be_set_is_refused_to_everyone(self) -> None:
        world = World(limits=replace(LIMITS, never=(3,)))
        with pytest.raises(ActionError, match=r"never to run with 3 tokens \(limits.never\)"):
            world.begin(3, by_operator=True)
        world.begin(4)


class TestLearnedStarts:
    def test_the_limit_is_several_times_the_slowest_start_and_never_above_the_configured_one(self) -> None:
        assert Starts().limit(900) == Starts((30.0,)).limit(900) == 900
        assert Starts((30.0, 20.0)).limit(900) == 120
        assert Starts((80.0, 60.0)).limit(900) == 240
        assert Starts((800.0, 60.0)).limit(900) == 900
        # The newest five count.
        assert Starts((800.0, 50.0, 50.0, 50.0, 50.0, 50.0)).limit(900) == 150
        assert (Starts().usual, Starts((40.0,)).usual) == (180.0, 40.0)

    def test_a_server_whose_starts_are_known_is_not_waited_for_as_long_as_a_new_one(self) -> None:
        """Given two starts of 30 s, one that hangs at a setting seen before is given up after 2 minutes, not 5."""
        world = World(limits=replace(LIMITS, restarts_per_day=9))
        for tokens, current in ((3, 2), (2, 3)):
            world.begin(tokens, current=current)
            assert world.run()
        world.server.behaviour.never_ready_at = frozenset({3})
        world.begin(3)
        world.run(until=lambda: world.change().started_at is not None)
        began = world.clock.monotonic()
        assert world.run(until=lambda: world.change().state is ChangeState.UNDOING)
        assert 118 <= world.clock.monotonic() - began <= 125
        assert world.run()
        assert world.rollout().outcome is Outcome.START_TIMED_OUT
