"""Rare troubles, each at its moment: drivers that fail, ports that are held, people who get in between."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from monitor.actions.balancer import NoBalancer, PolledBalancer, Polls
from monitor.actions.course import next_in_rollout
from monitor.actions.events import EventKind
from monitor.actions.fleet import OpenGate
from monitor.actions.machine import next_step
from monitor.actions.plan import make_plan, restart_cost
from monitor.actions.preflight import preflight
from monitor.actions.step import Seen, Terms, Timing
from monitor.drivers.protocol import DriverStatus, PortOwner, ServerState
from monitor.errors import ActionError, LaunchError
from monitor.model.decision import Reason
from monitor.model.life import Life, LifeId, StartEvidence
from monitor.model.record import Restart
from monitor.model.rollout import ChangeState, Outcome, RolloutState
from monitor.model.server import GroupName, ServerName
from monitor.scrape.probe import Probed
from tests.fakes.fake_world import LIMITS, WORSE, World, sink, tokens
from tests.fakes.mortal import Died


def until_stopped(world: World) -> None:
    """The old process has just gone, and the daemon has not looked yet."""
    assert world.until_state("restarting")
    world.clock.advance(world.server.behaviour.stop_seconds + 1)
    world.server.settle()
    assert world.server.process is None


class TestDriverTroubles:
    def test_a_driver_that_cannot_look_stands_still_and_tells_someone_once(self) -> None:
        world = World()
        world.begin(3)
        assert world.until_state("draining")
        damaged = ActionError("s1.json: found junk", reason="state_file")
        world.drivers[0].failures["status"] = [damaged] * 90
        world.run(90, until=lambda: not world.drivers[0].failures["status"])
        assert [e.kind for e in world.pages()] == [EventKind.MANUAL_ACTION]
        assert "found junk" in world.pages()[0].sentence
        assert world.server.stops == []
        assert world.run()
        assert world.server.serves

    def test_a_stop_that_fails_is_asked_again(self) -> None:
        world = World()
        world.begin(3)
        assert world.until_state("draining")
        world.drivers[0].failures["stop"] = [ActionError("locked", reason="locked", retryable=True)] * 2
        assert world.run()
        assert world.rollout().state is RolloutState.PROMOTED
        assert len(world.server.stops) == 1

    def test_a_server_that_cannot_be_asked_to_end_serves_on_and_someone_is_told(self) -> None:
        world = World()
        world.begin(3)
        world.until_state("draining")
        world.drivers[0].failures["stop"] = [
            ActionError("systemd does not answer", reason="bus", retryable=True) for _ in range(1000)
        ]
        assert world.run()
        change = world.change()
        assert (change.state, change.outcome) == (ChangeState.ABANDONED, Outcome.STOP_FAILED)
        assert "cannot be asked to end (systemd does not answer): it serves on as it is" in change.sentence
        assert (world.server.tokens, world.server.serves, world.server.traffic_allowed) == (2, True, True)
        assert [event.kind for event in world.pages()] == [EventKind.MANUAL_ACTION]

    def test_one_that_does_not_serve_and_cannot_be_asked_is_killed(self) -> None:
        world = World()
        world.server.behaviour.mute_at = frozenset({3})
        world.begin(3)
        world.run(until=lambda: world.change().started_at is not None)
        world.drivers[0].failures["stop"] = [ActionError("no", reason="bus", retryable=True) for _ in range(70)]
        assert world.run()
        assert (world.server.tokens, len(world.server.kills)) == (2, 1)
        assert world.rollout().state is RolloutState.ROLLED_BACK

    def test_a_start_that_is_held_up_is_asked_again_without_counting_twice(self) -> None:
        world = World()
        world.begin(3)
        assert world.until_state("restarting")
        world.drivers[0].failures["start"] = [ActionError("locked", reason="locked", retryable=True)] * 5
        assert world.run()
        assert world.rollout().state is RolloutState.PROMOTED
        assert world.change().attempts == 1

    def test_a_start_that_is_held_up_for_too_long_goes_back(self) -> None:
        world = World()
        world.begin(3)
        assert world.until_state("restarting")
        world.drivers[0].failures["start"] = [ActionError("log cannot be written", reason="log", retryable=True)] * 70
        assert world.run()
        assert world.rollout().state is RolloutState.ROLLED_BACK
        assert "could not be started" in world.pages()[0].sentence
        assert world.server.tokens == 2

    @pytest.mark.parametrize("reason", ["missing_program", "other"])
    def test_a_start_that_must_fail_again_goes_back_at_once(self, reason: str) -> None:
        world = World()
        world.begin(3)
        assert world.until_state("restarting")
        world.drivers[0].failures["start"] = [ActionError("vllm is not a program", reason=reason)]
        assert world.run()
        assert world.rollout().state is RolloutState.ROLLED_BACK
        assert "vllm is not a program" in world.pages()[0].sentence
        assert world.server.tokens == 2

    def test_a_command_that_cannot_be_rendered_any_more_goes_back(self) -> None:
        world = World()
        world.begin(3)
        until_stopped(world)
        world.server.launcher = replace(world.server.launcher, limit=2)
        assert world.run()
        assert world.rollout().state is RolloutState.ROLLED_BACK
        assert "at most 2 tokens" in world.pages()[0].sentence
        assert world.server.tokens == 2

    def test_a_port_that_is_taken_after_the_stop_is_waited_for(self) -> None:
        world = World()
        world.begin(3)
        until_stopped(world)
        world.server.foreign = True
        world.run(30, until=lambda: False)
        assert world.server.starts == []
        world.server.foreign = False
        assert world.run()
        assert world.rollout().state is RolloutState.PROMOTED

    def test_a_port_that_stays_taken_ends_with_someone_told_and_starts_once_it_is_free(self) -> None:
        world = World()
        world.begin(3)
        until_stopped(world)
        world.server.foreign = True
        world.run(200, until=lambda: False)
        assert world.change().state is ChangeState.UNDOING
        assert [e.kind for e in world.pages()] == [EventKind.START_FAILED]
        world.server.foreign = False
        assert world.run()
        assert world.rollout().state is RolloutState.ROLLED_BACK
        assert world.server.tokens == 2
        assert world.server.serves

    def test_health_from_another_process_on_the_port_is_not_ready(self) -> None:
        world = World()
        driver = world.drivers[0]
        plain = driver.status
        driver.status = lambda: replace(plain(), port_owner=PortOwner.OTHER)  # type: ignore[method-assign]
        world.begin(3)
        assert world.until_state("undoing")
        assert world.change().outcome is Outcome.START_TIMED_OUT
        assert "another process answers on its port" in world.change().sentence


class TestDeadForAWhile:
    def die_after_deciding_to_stop(self, world: World) -> None:
        """The daemon dies when `restarting` is stored and nothing is done about it yet."""

        def reap(moment: str) -> None:
            if moment == "after commit" and world.change().state is ChangeState.RESTARTING:
                raise Died(moment)

        world.reap = reap
        for _ in range(200):
            try:
                world.tick()
            except Died:
                break
            world.clock.advance(1)
        world.reap = lambda _: None
        assert world.server.stops == []

    def test_a_server_that_is_still_idle_gets_its_whole_time_to_end(self) -> None:
        world = World()
        world.server.behaviour.stop_seconds = LIMITS.stop_seconds - 5
        world.begin(3)
        self.die_after_deciding_to_stop(world)
        world.clock.advance(600)
        world.new_daemon()
        assert world.run()
        assert world.rollout().state is RolloutState.PROMOTED
        assert len(world.server.stops) == 1
        assert world.server.kills == []

    def test_a_server_that_is_used_again_is_drained_again_and_left_where_that_takes_too_long(self) -> None:
        world = World(has_control=False)
        start = world.clock.monotonic()
        world.server.quiet = lambda now: now < start + 10
        world.begin(3)
        self.die_after_deciding_to_stop(world)
        world.clock.advance(600)
        world.new_daemon()
        assert world.run()
        assert world.rollout().outcome is Outcome.DRAIN_TIMED_OUT
        assert world.server.stops == []
        assert world.server.cut_requests == 0


class TestPeopleInBetween:
    def test_whoever_starts_the_server_first_keeps_it(self) -> None:
        moments: list[Callable[[World], None]] = [
            lambda w: None,
            lambda w: w.clock.advance(1),
        ]
        for moment in moments:
            world = World()
            world.begin(3)
            until_stopped(world)
            moment(world)
            world.server.restart_by_hand(5)
            assert world.run()
            assert world.rollout().state is RolloutState.ABANDONED
            assert "someone else started s1 meanwhile" in world.rollout().sentence
            assert world.server.tokens == 5
            assert world.server.traffic_allowed
            assert world.server.starts == []

    def test_a_server_restarted_while_it_ends_is_left_to_them(self) -> None:
        world = World()
        world.server.behaviour.stop_seconds = 20
        world.begin(3)
        assert world.until_state("restarting")
        world.server.restart_by_hand(5)
        assert world.run()
        assert world.rollout().state is RolloutState.ABANDONED
        assert world.server.tokens == 5

    def test_a_server_restarted_while_it_starts_is_left_to_them(self) -> None:
        world = World()
        world.begin(3)
        assert world.run(until=lambda: bool(world.server.starts))
        world.server.restart_by_hand(5)
        assert world.run(10)
        assert world.pages() == []
        assert world.rollout().state is RolloutState.ABANDONED
        assert world.server.tokens == 5

    def test_a_worse_server_restarted_before_it_was_taken_back_is_left_to_them(self) -> None:
        world = World()
        world.judge.default = WORSE
        world.server.behaviour.drain_seconds = 20
        world.begin(3)
        assert world.until_state("undoing")
        world.server.restart_by_hand(5)
        assert world.run()
        assert world.rollout().state is RolloutState.ABANDONED
        assert world.server.tokens == 5
        assert world.server.traffic_allowed

    @pytest.mark.parametrize("how", ["crash", "health"])
    def test_a_worse_server_that_goes_away_while_it_is_drained_is_not_waited_for(self, how: str) -> None:
        world = World()
        world.judge.default = WORSE
        world.begin(3)
        assert world.until_state("observing")
        world.server.behaviour.drain_seconds = 1e9
        assert world.until_state("undoing")
        if how == "crash":
            world.server.crash()
        else:
            world.server.behaviour.health_broken = True
            assert world.run(60, until=lambda: len(world.server.stops) == 2)
            world.server.behaviour.health_broken = False
        assert world.run(600)
        assert world.rollout().state is RolloutState.ROLLED_BACK
        assert world.server.tokens == 2

    def test_an_edit_of_the_command_while_draining_puts_the_server_back(self) -> None:
        world = World()
        world.begin(3)
        assert world.until_state("draining")
        world.server.launcher = replace(world.server.launcher, base=("vllm", "serve", "other"))
        assert world.run()
        assert "edited meanwhile" in world.rollout().sentence
        assert world.server.stops == []

    def test_a_put_back_that_fails_while_a_worse_server_rests_is_tried_again(self) -> None:
        world = World()
        world.judge.default = WORSE
        world.begin(3)
        assert world.until_state("observing")
        world.server.behaviour.drain_seconds = 1e9
        world.balancers[0].fails_back = 2
        assert world.until_state("undoing")
        assert world.run(200, until=lambda: world.server.traffic_allowed)
        world.balancers[0].fails_back = 100
        world.server.behaviour.drain_seconds = 5
        assert world.run(1500)
        assert world.server.tokens == 2
        assert world.pages()[-1].kind is EventKind.MANUAL_ACTION

    def test_a_rest_whose_put_back_never_works_is_given_up_with_a_page(self) -> None:
        world = World()
        world.judge.default = WORSE
        world.begin(3)
        assert world.until_state("observing")
        world.server.behaviour.drain_seconds = 1e9
        world.balancers[0].fails_back = 10**6
        assert world.run(8 * 3600, step=5)
        assert world.rollout().state is RolloutState.ABANDONED
        assert world.pages()[-1].kind is EventKind.MANUAL_ACTION


class TestBudget:
    def spend(self, world: World, starts: int) -> None:
        with world.store.write() as unit:
            for number in range(starts):
                unit.restarts.add(Restart(world.server.name, world.clock.now() - timedelta(minutes=number), "x", "x"))

    def test_a_budget_spent_before_the_drain_ends_the_change(self) -> None:
        world = World()
        world.begin(3)
        self.spend(world, 5)
        assert world.run()
        assert "starts a day are left" in world.rollout().sentence
        assert world.server.stops == []

    def test_the_last_start_belongs_to_the_setting_that_works(self) -> None:
        world = World()
        world.begin(3)
        until_stopped(world)
        self.spend(world, 5)
        assert world.run()
        assert world.rollout().state is RolloutState.ROLLED_BACK
        assert [s for _, s, _ in world.server.starts] == [tokens(2)]
        assert world.server.serves

    def test_without_any_start_left_a_stopped_server_is_left_with_a_page(self) -> None:
        world = World()
        world.begin(3)
        until_stopped(world)
        self.spend(world, 6)
        assert world.run()
        assert world.rollout().outcome is Outcome.UNDO_FAILED
        assert "no start is left for today" in world.pages()[-1].sentence
        assert world.server.starts == []


class TestReadiness:
    def test_a_token_that_is_awaited_is_waited_for(self) -> None:
        world = World()
        probe = world.fleet.managed[world.server.name].probe
        answers: list[Probed | None] = [None, None]
        plain = probe.generate
        probe.generate = lambda: answers.pop() if answers else plain()  # type: ignore[method-assign]
        world.begin(3)
        assert world.until_state("restarting")
        answers += [None, None, None]
        assert world.run()
        assert world.rollout().state is RolloutState.PROMOTED

    def test_models_that_are_listed_late_are_waited_for(self) -> None:
        for early in ((), ("other",)):
            world = World()
            world.begin(3)
            assert world.until_state("restarting")
            world.server.models = early
            world.run(45, until=lambda: False)
            assert world.change().state is ChangeState.RESTARTING
            world.server.models = ("tiny",)
            assert world.run()
            assert world.rollout().state is RolloutState.PROMOTED

    def test_a_page_that_shows_no_number_is_enough_where_it_generates(self) -> None:
        world = World()
        world.begin(3)
        probe = world.fleet.managed[world.server.name].probe
        plain = probe.page
        probe.page = lambda: replace(  # type: ignore[method-assign]
            (page := plain()), engines=tuple(replace(e, num_speculative_tokens=None) for e in page.engines)
        )
        assert world.run()
        assert world.rollout().state is RolloutState.PROMOTED
        assert any("does not show the number" in line for line in world.change().history)

    def test_a_page_that_cannot_be_read_goes_back_at_the_limit_and_not_before(self) -> None:
        world = World()
        world.begin(3)
        until_stopped(world)
        world.server.behaviour.page_broken = True
        world.run(200, until=lambda: False)
        assert world.change().state is ChangeState.RESTARTING
        assert world.run()
        assert world.rollout().outcome is Outcome.START_TIMED_OUT
        assert len(world.server.starts) == 2

    @pytest.mark.parametrize(
        ("trouble", "outcome"),
        [
            ({"shows_instead": {3: 5}}, Outcome.WRONG_SETTING),
            ({"page_broken": True}, Outcome.NOT_GENERATING),
            ({"mute_at": frozenset({3})}, Outcome.NOT_GENERATING),
        ],
        ids=str,
    )
    def test_what_is_wrong_at_the_end_of_the_warm_up_is_taken_back(
        self, trouble: dict[str, object], outcome: Outcome
    ) -> None:
        world = World()
        world.begin(3)
        assert world.until_state("warming")
        for name, value in trouble.items():
            setattr(world.server.behaviour, name, value)
        assert world.until_state("undoing")
        assert world.change().outcome is outcome
        world.server.behaviour.page_broken = False
        assert world.run()
        assert world.server.tokens == 2

    def test_a_plain_restart_whose_server_does_not_serve_at_the_end_is_no_success(self) -> None:
        world = World()
        world.orders.restart(
            world.server.name, "x", world.clock.now(), requested_by="a", reason=Reason.REQUESTED_BY_OPERATOR
        )
        assert world.until_state("warming")
        world.clock.advance(LIMITS.warmup_seconds - 1)
        world.server.behaviour.health_broken = True
        assert world.run(60, until=lambda: world.change().state is not ChangeState.WARMING)
        assert world.change().state is ChangeState.UNDOING
        world.server.behaviour.health_broken = False
        assert world.run()
        assert world.server.serves

    def test_it_is_not_stopped_for_that_while_paused(self) -> None:
        world = World()
        world.begin(3)
        assert world.until_state("warming")
        world.server.behaviour.shows_instead = {3: 5}
        world.pause()
        world.run(300, until=lambda: False)
        assert world.change().state is ChangeState.WARMING
        assert world.kinds().count(EventKind.HELD) == 1
        world.lift()
        assert world.run()
        assert world.server.tokens == 2

    @pytest.mark.parametrize("trouble", [{"shows_instead": {3: 5}}, {"unauthorized": True}, {"page_broken": True}])
    def test_one_that_comes_up_otherwise_than_asked_while_paused_serves_until_the_pause_ends(
        self, trouble: dict[str, object]
    ) -> None:
        world = World()
        world.begin(3)
        assert world.until_state("restarting")
        for name, value in trouble.items():
            setattr(world.server.behaviour, name, value)
        world.pause()
        world.run(900, until=lambda: False)
        assert world.change().state is ChangeState.UNDOING
        assert (len(world.server.stops), world.server.serves, world.server.traffic_allowed) == (1, True, True)
        world.lift()
        world.server.behaviour.unauthorized = world.server.behaviour.page_broken = False
        assert world.run()
        assert (world.server.serves, world.server.tokens, world.server.cut_requests) == (True, 2, 0)

    def test_one_that_comes_up_otherwise_than_asked_is_drained_where_requests_reach_it_at_once(self) -> None:
        world = World(has_control=False)
        world.server.quiet = lambda now: now % 60 < 20
        world.server.behaviour.shows_instead = {3: 5}
        world.begin(3)
        assert world.run()
        assert (world.server.serves, world.server.tokens, world.server.cut_requests) == (True, 2, 0)
        assert world.change().outcome is Outcome.WRONG_SETTING


class TestSmallThings:
    def test_a_server_that_cannot_render_its_own_setting_is_not_touched(self) -> None:
        world = World()
        world.begin(3)
        world.server.launcher = replace(world.server.launcher, limit=1)
        assert world.run()
        assert world.rollout().outcome is Outcome.PREFLIGHT_FAILED
        assert world.server.stops == []

    def test_foreign_servers_and_dead_ones_are_not_tuned(self) -> None:
        for trouble in ("foreign", "dead"):
            world = World()
            world.begin(3)
            world.server.crash()
            world.server.foreign = trouble == "foreign"
            assert world.run()
            assert world.rollout().outcome is Outcome.PRECONDITION_FAILED
            assert world.server.starts == []

    def test_lives_that_are_the_ones_decided_upon_are_tuned(self) -> None:
        world = World()
        life = Life(
            id=LifeId("l1"), server=world.server.name, model="tiny", engine="0", first_seen=world.clock.now(),
            evidence=StartEvidence.PROCESS_START, counts_from_zero=True,
        )  # fmt: skip
        with world.store.write() as unit:
            unit.lives.add(life)
        decision = world.decision(3)
        lives = {world.server.name: (LifeId("l1"),)}
        decision = replace(decision, precondition=replace(decision.precondition, lives=lives))
        world.orders.begin(decision, "t", world.clock.now())
        assert world.run()
        assert world.rollout().state is RolloutState.PROMOTED

    def test_a_decision_without_a_number_is_refused(self) -> None:
        world = World()
        decision = replace(world.decision(3), proposed=tokens(None))
        with pytest.raises((ActionError, LaunchError)):
            world.orders.begin(decision, "t", world.clock.now())

    def test_restarts_do_not_count_as_changes_of_the_day(self) -> None:
        world = World(limits=replace(LIMITS, changes_per_day=1))
        world.orders.restart(
            world.server.name, "x", world.clock.now(), requested_by="a", reason=Reason.REQUESTED_BY_OPERATOR
        )
        assert world.run()
        world.begin(3)

    def test_a_final_change_and_a_finished_rollout_have_no_next_step(self) -> None:
        world = World()
        world.begin(3)
        assert world.run()
        seen = Seen(status=DriverStatus(state=ServerState.RUNNING))
        terms = Terms(limits=LIMITS, timing=Timing(), goal=tokens(3), undo_to=tokens(2), base_hash="h")
        assert next_step(world.change(), seen, terms, world.clock.now()) is None
        assert next_in_rollout(world.rollout(), world.changes(), world.clock.now()) is None

    def test_checks_say_what_they_cannot_tell(self) -> None:
        world = World(acts=False)
        (managed,) = world.fleet.managed.values()
        decision = world.decision(3)
        assert [c.ok for c in preflight(decision, managed)] == [True, True, True, True, None]
        world.drivers[0].failures["status"] = [ActionError("x", reason="state_file")] * 2
        assert [c.ok for c in preflight(decision, managed)] == [False, True, None, True, None]
        world.server.launcher = replace(world.server.launcher, limit=1, base=("other",))
        assert [c.ok for c in preflight(decision, managed)][:3] == [True, False, False]
        assert preflight(replace(decision, current=tokens(None)), managed)[3].ok is None
        world.server.behaviour.page_broken = True
        assert preflight(decision, managed)[3].ok is False

    def test_a_plan_that_cannot_be_rendered_or_looked_at_is_still_a_plan(self) -> None:
        world = World(limits=replace(LIMITS, cut_after_drain=True))
        world.server.launcher = replace(world.server.launcher, limit=2)
        decision = replace(world.decision(3), servers=(world.server.name, ServerName("s9")))
        world.drivers[0].failures["status"] = [ActionError("x", reason="state_file")]
        with world.store.read() as unit:
            plan = make_plan(unit, decision, world.fleet, world.clock.now())
        assert plan.servers[0].diff == ()
        assert "at most 2 tokens" in plan.refusal
        assert any("are cut" in risk for risk in plan.risks)
        with world.store.read() as unit, pytest.raises(ActionError, match="no group"):
            make_plan(unit, replace(decision, group=GroupName("x")), world.fleet, world.clock.now())

    def test_what_a_restart_costs_is_not_known_before_the_first(self) -> None:
        cost = restart_cost([], 10.0)
        assert (cost.down_seconds, cost.learned_from, cost.lost_tokens) == (None, 0, None)

    def test_balancers_that_nothing_is_told_to(self) -> None:
        balancer = NoBalancer()
        balancer.take_out()
        assert balancer.is_out()
        balancer.put_back()
        assert not balancer.has_control

    def test_a_balancer_that_polls_has_heard_once_it_was_refused_often_enough(self) -> None:
        polls, name = Polls(), World().server.name
        balancer = PolledBalancer(name, polls, needed=2)
        assert balancer.has_control
        polls.refused(name)
        assert not balancer.is_out()
        balancer.take_out()
        for heard in (False, False, True):
            assert balancer.is_out() is heard
            balancer.take_out()
            polls.refused(name)
        balancer.put_back()
        assert not balancer.is_out()
        balancer.take_out()
        assert not balancer.is_out()

    def test_the_open_gate_refuses_nothing(self) -> None:
        world = World()
        world.begin(3)
        assert OpenGate().refusal(world.group, world.change(), world.clock.now()) is None


class TestConfigurationChanges:
    def without(self, world: World, *, group: bool, server: bool) -> None:
        """The daemon is started again with a configuration that lacks the group or the server's driver."""
        fleet = replace(
            world.fleet, groups={} if group else world.fleet.groups, managed={} if server else world.fleet.managed
        )
        world.executor = type(world.executor)(
            world.store, world.clock, fleet, world.judge, holder="host-1", timing=world.timing, on_event=sink
        )

    @pytest.mark.parametrize(("group", "server"), [(True, True), (False, True), (True, False)])
    def test_a_rollout_that_nobody_can_carry_on_is_closed_with_a_page_after_a_while(
        self, group: bool, server: bool
    ) -> None:
        world = World(2)
        world.begin(3)
        assert world.until_state("observing")
        self.without(world, group=group, server=server)
        world.run(600, until=lambda: False)
        assert world.rollout().state is RolloutState.ACTIVE
        assert world.run(2000)
        assert (world.rollout().state, world.rollout().outcome) == (RolloutState.ABANDONED, Outcome.CANCELLED)
        assert all(c.state.is_final for c in world.changes())
        assert [e.kind for e in world.pages()] == [EventKind.MANUAL_ACTION]
        assert "s1 is not managed by any daemon any more" in world.pages()[0].sentence

    def test_a_rollout_that_another_daemon_works_on_is_left_to_it(self) -> None:
        world = World(limits=replace(LIMITS, observe_seconds=7200))
        world.judge.after_seconds = 7000
        world.begin(3)
        owner = world.executor
        assert world.until_state("observing")
        self.without(world, group=True, server=True)
        other = world.executor

        def both() -> bool:
            world.events += owner.tick(world.clock.now())
            assert other.tick(world.clock.now()) == []
            return world.is_quiet()

        for _ in range(2000):
            if both():
                break
            world.clock.advance(5)
        assert world.rollout().state is RolloutState.PROMOTED

    def test_waiting_for_hours_asks_for_few_tokens(self) -> None:
        world = World()
        probe = world.fleet.managed[world.server.name].probe
        plain, asked = probe.generate, []

        def generate() -> Probed | None:
            asked.append(1)
            return plain()

        probe.generate = generate  # type: ignore[method-assign]
        world.begin(3, lives_for=7200)
        world.pause()
        world.run(3600, until=lambda: False)
        assert 30 <= len(asked) <= 70
