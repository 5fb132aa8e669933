"""How a server is emptied and ended: balancers that poll, servers that let their requests finish."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from monitor.actions.step import Terms, Timing
from monitor.model.rollout import ChangeState, Outcome, RolloutState
from tests.fakes.fake_launcher import FakeLauncher
from tests.fakes.fake_world import LIMITS, WORSE, World, tokens

CONSTANT_LOAD = 1e9


def lone(grace: float, *, version: str = "0.32.0", requests_last: float = 40.0) -> World:
    """A lone server under constant load, with `--shutdown-timeout`; nothing keeps requests away from it."""
    world = World(has_control=False)
    server = world.server
    base = ("vllm", "serve", "tiny", "--shutdown-timeout", f"{grace:g}")
    server.launcher = FakeLauncher(base, engine_version=version)
    server.process = None
    server.boot()
    server.behaviour.grace_seconds, server.behaviour.drain_seconds = grace, requests_last
    return world


class TestLettingRequestsFinish:
    def test_a_lone_server_under_constant_load_finishes_its_requests_and_is_restarted(self) -> None:
        world = lone(90)
        world.begin(3)
        assert world.run()
        assert world.rollout().state is RolloutState.PROMOTED, world.change().history
        assert world.server.tokens == 3
        assert world.server.cut_requests == 0
        assert world.server.kills == []
        assert any("2 requests still there after 60 s; s1 lets them finish" in line for line in world.change().history)

    def test_it_is_not_killed_before_it_has_had_its_time(self) -> None:
        """Given requests that end after 85 of 90 s and a stop limit of 30 s, it ends by itself."""
        world = lone(90, requests_last=85)
        world.begin(3)
        assert world.run()
        assert world.server.kills == []
        assert world.change().stopped_at is not None

    def test_one_that_never_ends_is_killed_after_its_time_and_a_margin(self) -> None:
        world = lone(90)
        world.server.behaviour.ignores_term = True
        world.begin(3)
        assert world.run()
        (killed,) = world.server.kills
        assert 105 <= killed - world.server.stops[0] <= 108

    def test_it_comes_back_the_same_way_where_the_new_setting_is_worse(self) -> None:
        world = lone(90)
        world.judge.default = WORSE
        world.begin(3)
        assert world.run()
        assert world.rollout().state is RolloutState.ROLLED_BACK
        assert (world.server.tokens, world.server.cut_requests) == (2, 0)

    @pytest.mark.parametrize(
        ("grace", "version", "downtime"),
        [
            pytest.param(59, "0.32.0", True, id="shorter than the drain"),
            pytest.param(90, "0.17.1", True, id="a release without it"),
            pytest.param(90, "0.32.0", False, id="no downtime allowed"),
        ],
    )
    def test_otherwise_it_is_left_alone(self, grace: float, version: str, downtime: bool) -> None:
        world = lone(grace, version=version)
        world.begin(3)
        # The leave for downtime is taken back while it is drained.
        world.until_state("draining")
        world.with_limits(allow_downtime=downtime)
        assert world.run()
        assert (world.change().outcome, world.server.stops) == (Outcome.DRAIN_TIMED_OUT, [])
        assert ("--shutdown-timeout 60 or more" in world.change().sentence) is downtime

    def test_the_last_look_lets_nothing_end_that_came_within_the_time_to_drain(self) -> None:
        """Given an idle moment and a request right after it, the server is drained on, not ended with it."""
        world = lone(90)
        world.server.quiet = lambda now: now % 20 < 1
        world.begin(3)
        assert world.run()
        assert world.server.cut_requests == 0
        assert world.rollout().state is RolloutState.PROMOTED

    def test_a_server_without_a_limit_of_its_own_is_waited_for_half_an_hour_at_most(self) -> None:
        terms = Terms(
            limits=LIMITS, timing=Timing(), goal=tokens(3), undo_to=tokens(2), base_hash="h", grace_seconds=math.inf
        )
        assert (terms.end_seconds, terms.may_let_finish) == (1815, True)
        assert replace(terms, grace_seconds=0.0).end_seconds == LIMITS.stop_seconds
        assert replace(terms, grace_seconds=5.0).end_seconds == LIMITS.stop_seconds


class TestPolling:
    def test_a_server_is_not_stopped_before_its_balancer_has_heard(self) -> None:
        world = World()
        world.balancers[0].knows = False
        world.begin(3)
        assert not world.run(seconds=40)
        assert world.server.stops == []
        world.balancers[0].knows = True
        heard = world.clock.monotonic()
        assert world.run()
        assert world.server.stops[0] - heard >= Timing().settle_seconds

    def test_where_nobody_asks_the_change_is_abandoned_and_says_so(self) -> None:
        world = World()
        world.balancers[0].knows = False
        world.begin(3)
        assert world.run()
        assert world.change().outcome is Outcome.DRAIN_TIMED_OUT
        assert "its balancer has not asked /-/serving/s1 often enough after 60 s" in world.change().sentence
        assert world.server.stops == []


class TestPeers:
    def test_a_peer_that_gets_no_requests_keeps_the_others_from_being_taken_out(self) -> None:
        """Given a server that its balancer never took back, healthy as it is, nobody else is drained."""
        world = World(2)
        world.balancers[0].fails_back = 100
        world.begin(3)
        assert world.run()
        assert world.change(0).traffic_held
        world.begin(4, current=2, servers=[world.servers[1]])
        world.run(seconds=300)
        change = world.change(1)
        assert (change.state, world.servers[1].stops) == (ChangeState.PLANNED, [])
        assert "s1 of the same group gets no requests" in change.sentence
