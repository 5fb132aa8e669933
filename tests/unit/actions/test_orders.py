"""What may be asked for, and what is refused with which reason."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from monitor.actions.plan import make_plan, plan_id
from monitor.errors import ActionError
from monitor.model.decision import Action, DecisionId, DecisionState, Reason
from monitor.model.life import Life, LifeId, StartEvidence
from monitor.model.record import Rejection
from monitor.model.rollout import ChangeState, Outcome, RolloutState
from monitor.model.server import GroupName, ServerName
from tests.fakes.fake_world import GROUP, LIMITS, WORSE, World, tokens


def refusal(world: World, to: int, **more: object) -> str:
    with pytest.raises(ActionError) as caught:
        world.begin(to, **more)
    with world.store.read() as unit:
        assert unit.rollouts.active() == [] or caught.value.reason == "active_rollout"
    return caught.value.reason


class TestBegin:
    def test_the_decision_is_marked_and_the_records_are_there_before_anything_happens(self) -> None:
        world = World(2)
        decision = world.decision(3)
        with world.store.write() as unit:
            unit.decisions.add(decision)
        rollout, events = world.orders.begin(decision, "ann", world.clock.now())
        assert [e.sentence for e in events] == ["g: 2 -> 3 (s1, s2)"]
        with world.store.read() as unit:
            stored = unit.decisions.get(decision.id)
            assert stored is not None
            assert (stored.state, stored.note) == (DecisionState.ACTED_ON, "ann")
            assert [c.state for c in unit.changes.of_rollout(rollout.id)] == [ChangeState.PLANNED] * 2
        assert all(not s.stops and s.traffic_allowed for s in world.servers)

    def test_each_refusal_has_its_reason(self) -> None:
        assert refusal(World(), 9) == "limits"
        assert refusal(World(limits=replace(LIMITS, allow_off=False)), 0) == "limits"
        assert refusal(World(), 3, lives_for=0.0) == "expired"
        assert refusal(World(), 3, action=Action.KEEP) == "nothing_to_do"
        assert refusal(World(limits=replace(LIMITS, allow_downtime=False)), 3) == "downtime"
        assert refusal(World(2, has_control=False, limits=replace(LIMITS, allow_downtime=False)), 3) == "downtime"
        assert refusal(World(limits=replace(LIMITS, restarts_per_day=1)), 3) == "budget"
        world = World()
        world.server.launcher = replace(world.server.launcher, limit=2)
        assert refusal(world, 3) == "preflight"

    def test_servers_with_drain_control_and_peers_need_no_leave_for_downtime(self) -> None:
        world = World(2, limits=replace(LIMITS, allow_downtime=False))
        world.begin(3)
        assert world.run()
        assert world.rollout().state is RolloutState.PROMOTED

    def test_unknown_groups_and_servers_are_named(self) -> None:
        world = World()
        decision = world.decision(3)
        with pytest.raises(ActionError, match="no group 'x'"):
            world.orders.begin(replace(decision, group=GroupName("x")), "t", world.clock.now())
        with pytest.raises(ActionError, match="names s9, not in group g"):
            world.orders.begin(replace(decision, servers=(ServerName("s9"),)), "t", world.clock.now())
        world.fleet = replace(world.fleet, managed={})
        orders = type(world.orders)(world.store, world.fleet, holder="host-1")
        with pytest.raises(ActionError, match="s1: watched, not managed"):
            orders.begin(decision, "t", world.clock.now())

    def test_pace_is_kept_by_the_daemon_and_not_asked_of_an_operator(self) -> None:
        world = World(limits=replace(LIMITS, changes_per_day=1, cooldown_seconds=1800, restarts_per_day=20))
        world.begin(3)
        assert world.run()
        assert refusal(world, 4, current=3) == "changes_per_day"
        world.begin(4, current=3, by_operator=True)
        assert world.run()
        world.clock.advance(86400)
        world.begin(5, current=4)
        assert world.run()
        world.with_limits(changes_per_day=9)
        assert refusal(world, 6, current=5) == "cooldown"
        world.clock.advance(1800)
        world.begin(6, current=5)

    def test_a_rollout_that_touched_nothing_does_not_use_up_the_day(self) -> None:
        world = World(limits=replace(LIMITS, changes_per_day=1))
        world.server.behaviour.drain_seconds = 1e9
        world.begin(3)
        assert world.run()
        assert world.rollout().outcome is Outcome.DRAIN_TIMED_OUT
        world.server.behaviour.drain_seconds = 5
        world.begin(3)
        assert world.run()
        assert world.rollout().state is RolloutState.PROMOTED

    def test_a_setting_that_lost_may_be_tried_once_the_load_has_moved(self) -> None:
        world = World()
        now = world.clock.now()
        lost = Rejection(GROUP, 3, "ngram", now, now + timedelta(days=1), 1, "12 % less", batch=4.0)
        with world.store.write() as unit:
            unit.rejections.add(lost)
        assert refusal(world, 3) == "rejected_before"
        decision = replace(world.decision(3), evidence={"batch": 8.0})
        world.orders.begin(decision, "test", now)

    def test_a_rollout_waits_for_those_of_other_groups(self) -> None:
        world = World()
        world.begin(3)
        other = GroupName("other")
        groups = {**world.fleet.groups, other: replace(world.group, name=other)}
        orders = type(world.orders)(world.store, replace(world.fleet, groups=groups), holder="host-1")
        decision = replace(world.decision(3), group=other)
        with pytest.raises(ActionError, match="1 of 1 rollouts at once are under way: r-2 of g") as caught:
            orders.begin(decision, "t", world.clock.now())
        assert (caught.value.reason, caught.value.retryable) == ("busy", True)

    def test_a_life_that_is_not_the_one_decided_upon_is_not_tuned(self) -> None:
        world = World()
        life = Life(
            id=LifeId("l2"), server=world.server.name, model="tiny", engine="0", first_seen=world.clock.now(),
            evidence=StartEvidence.PROCESS_START, counts_from_zero=True,
        )  # fmt: skip
        with world.store.write() as unit:
            unit.lives.add(life)
        decision = world.decision(3)
        lives = {world.server.name: (LifeId("l1"),)}
        decision = replace(decision, precondition=replace(decision.precondition, lives=lives))
        world.orders.begin(decision, "t", world.clock.now())
        assert world.run()
        assert world.rollout().state is RolloutState.ABANDONED
        assert "restarted or changed since the decision" in world.rollout().sentence
        assert world.server.stops == []


class TestPlan:
    def test_it_shows_command_cost_risk_and_checks_and_is_applied_by_its_id(self) -> None:
        world = World()
        world.begin(3)
        assert world.run()
        decision = replace(world.decision(4, current=3), gain=0.1, gain_low=-0.01, gain_high=0.2)
        with world.store.read() as unit:
            plan = make_plan(
                unit, decision, world.fleet, world.clock.now(), tokens_per_second={world.server.name: 100.0}
            )
        (server,) = plan.servers
        assert server.diff == (
            '- --speculative-config {"method": "ngram", "num_speculative_tokens": 3}',
            '+ --speculative-config {"method": "ngram", "num_speculative_tokens": 4}',
        )
        assert (server.cost.down_seconds, server.cost.learned_from, server.cost.lost_tokens) == (33.0, 1, 3300.0)
        assert [c.ok for c in server.checks] == [True] * 4
        assert plan.refusal == ""
        assert any("without it while it restarts" in risk for risk in plan.risks)
        assert any("reaches down to -1.0%" in risk for risk in plan.risks)
        rollout, _ = world.orders.begin(decision, "ann", world.clock.now(), by_operator=True, expected_plan=plan.id)
        assert rollout.proposed == tokens(4)

    def test_a_stale_plan_is_refused(self) -> None:
        world = World()
        decision = world.decision(3)
        seen = plan_id(decision, world.fleet.managed)
        world.server.restart_by_hand(2)
        with pytest.raises(ActionError, match="is stale") as caught:
            world.orders.begin(decision, "ann", world.clock.now(), expected_plan=seen)
        assert caught.value.reason == "stale_plan"

    def test_what_stands_in_the_way_is_said_and_nothing_is_stored(self) -> None:
        world = World()
        world.server.restart_by_hand(5)
        with world.store.read() as unit:
            plan = make_plan(unit, world.decision(3), world.fleet, world.clock.now())
        assert "it runs with 5 speculative tokens, the decision is about 2" in plan.refusal
        with world.store.read() as unit:
            plan = make_plan(unit, world.decision(99), world.fleet, world.clock.now())
        assert "outside 1..8" in plan.refusal

    def test_a_server_that_is_down_or_foreign_fails_its_check(self) -> None:
        world = World()
        world.server.crash()
        with world.store.read() as unit:
            plan = make_plan(unit, world.decision(3), world.fleet, world.clock.now())
        assert "the server exited (signal 11)" in plan.refusal
        world.server.foreign = True
        with world.store.read() as unit:
            plan = make_plan(unit, world.decision(3), world.fleet, world.clock.now())
        assert "a process that acceptd did not start" in plan.refusal


class TestRestart:
    def restart(self, world: World, reason: Reason = Reason.REQUESTED_BY_OPERATOR, incident: str = "") -> None:
        world.events += world.orders.restart(
            world.server.name, "because", world.clock.now(), requested_by="ann", reason=reason, incident=incident
        )[1]

    def test_a_serving_server_is_drained_and_restarted_with_its_setting(self) -> None:
        world = World()
        world.begin(3)
        assert world.run()
        self.restart(world)
        assert world.run()
        assert (world.rollout().state, world.rollout().outcome) == (RolloutState.PROMOTED, Outcome.RESTARTED)
        assert world.server.tokens == 3
        assert world.server.cut_requests == 0
        assert world.rollout().measured is None

    def test_a_server_that_is_down_is_started_with_its_last_good_setting(self) -> None:
        world = World()
        world.begin(3)
        assert world.run()
        world.server.crash()
        self.restart(world)
        assert world.run()
        assert world.rollout().outcome is Outcome.RESTARTED
        assert world.server.tokens == 3
        assert world.server.serves

    def test_after_the_operator_edited_the_command_it_is_started_as_written(self) -> None:
        world = World()
        world.begin(3)
        assert world.run()
        world.server.launcher = replace(world.server.launcher, base=("vllm", "serve", "x"), setting=tokens(7))
        self.restart(world)
        assert world.run()
        assert world.server.tokens == 7

    def test_a_stuck_server_is_not_waited_for_and_restarted_once_an_incident(self) -> None:
        world = World(limits=replace(LIMITS, restart_stuck=True))
        world.server.behaviour.drain_seconds = 1e9
        world.server.behaviour.mute_at = frozenset({2})
        self.restart(world, Reason.ENGINE_STUCK, "i1")
        world.run(20, until=lambda: bool(world.server.stops))
        world.server.behaviour.mute_at = frozenset()
        assert world.run()
        assert world.rollout().outcome is Outcome.RESTARTED
        assert world.server.serves
        with pytest.raises(ActionError, match="once for this incident"):
            self.restart(world, Reason.ENGINE_STUCK, "i1")
        self.restart(world, Reason.ENGINE_STUCK, "i2")

    def test_a_stuck_server_is_left_alone_where_the_group_does_not_allow_it(self) -> None:
        world = World()
        with pytest.raises(ActionError, match="does not allow stuck servers to be restarted"):
            self.restart(world, Reason.ENGINE_STUCK, "i1")

    def test_a_restart_that_fails_is_tried_again_with_rests_and_then_given_up(self) -> None:
        world = World()
        world.server.crash()
        world.server.behaviour.crashes_at = frozenset({2})
        self.restart(world)
        assert world.run(4 * 3600)
        assert world.rollout().outcome is Outcome.UNDO_FAILED
        assert len(world.server.starts) == LIMITS.restarts_per_day
        with pytest.raises(ActionError, match="0 of 6 starts a day left"):
            self.restart(world)

    def test_a_server_of_nobody_is_refused(self) -> None:
        world = World()
        with pytest.raises(ActionError, match="'s9' is not a server that acceptd manages"):
            world.orders.restart(
                ServerName("s9"), "x", world.clock.now(), requested_by="a", reason=Reason.REQUESTED_BY_OPERATOR
            )


class TestRollBack:
    def test_the_last_change_that_was_kept_is_undone_without_being_measured_and_rests(self) -> None:
        world = World()
        world.begin(3)
        assert world.run()
        world.orders.roll_back(world.group.name, "ann", world.clock.now())
        assert world.run()
        assert (world.rollout().state, world.rollout().outcome) == (RolloutState.PROMOTED, Outcome.RESTORED)
        assert world.server.tokens == 2
        with world.store.read() as unit:
            assert [r.num_speculative_tokens for r in unit.rejections.of(world.group.name)] == [3]
        with pytest.raises(ActionError, match="went back already"):
            world.orders.roll_back(world.group.name, "ann", world.clock.now())

    def test_servers_that_left_their_last_good_setting_by_any_hand_go_back_to_it(self) -> None:
        """Given a server that somebody restarted with another number, going back finds what worked."""
        world = World(2)
        world.begin(3)
        assert world.run()
        world.servers[1].restart_by_hand(7)
        rollout, _ = world.orders.roll_back(GROUP, "ann", world.clock.now())
        assert (rollout.current, rollout.proposed) == (tokens(7), tokens(3))
        assert world.run()
        assert [server.tokens for server in world.servers] == [3, 3]
        assert len(world.servers[0].starts) == 1

    def test_there_is_nothing_to_go_back_from_at_first_or_after_a_loss(self) -> None:
        world = World()
        world.judge.default = WORSE
        for _ in range(2):
            with pytest.raises(ActionError, match="no change to go back from"):
                world.orders.roll_back(world.group.name, "ann", world.clock.now())
            world.begin(3, by_operator=True)
            assert world.run()

    def test_going_back_works_on_a_lone_server_that_allows_no_downtime(self) -> None:
        world = World()
        world.begin(3)
        assert world.run()
        world.with_limits(allow_downtime=False, max_speculative_tokens=1)
        world.orders.roll_back(world.group.name, "ann", world.clock.now())
        assert world.run()
        assert world.server.tokens == 2

    def test_calling_off_twice_says_it_once(self) -> None:
        world = World()
        world.begin(3)
        _, first = world.orders.roll_back(world.group.name, "ann", world.clock.now())
        _, second = world.orders.roll_back(world.group.name, "bob", world.clock.now())
        assert len(first) == 1
        assert second == []


def test_ids_are_short_and_new() -> None:
    from monitor.actions.orders import new_id

    assert new_id("r") != new_id("r")
    assert len(new_id("r")) == 8
    assert DecisionId(new_id("d")).startswith("d-")


def test_the_budget_is_counted_over_a_day() -> None:
    world = World(limits=replace(LIMITS, restarts_per_day=2))
    world.begin(3)
    assert world.run()
    assert refusal(world, 4, current=3) == "budget"
    world.clock.advance(timedelta(days=1).total_seconds())
    world.begin(4, current=3)
