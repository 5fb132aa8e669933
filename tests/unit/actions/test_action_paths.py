"""Whole paths of rollouts through the machine, on simulated servers and a clock that stands still between ticks."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from itertools import pairwise

import pytest

from monitor.actions.events import EventKind
from monitor.actions.judge import Judgement, Verdict
from monitor.actions.step import Timing
from monitor.errors import ActionError
from monitor.model.decision import Reason
from monitor.model.record import Rejection
from monitor.model.rollout import ChangeState, Outcome, RolloutState
from tests.fakes.fake_world import GROUP, LIMITS, WORSE, World, measured, tokens


def rejections(world: World) -> list[Rejection]:
    with world.store.read() as unit:
        return unit.rejections.of(GROUP)


def assert_serves(world: World, number: int, *, server: int = 0, starts: int | None = None) -> None:
    fake = world.servers[server]
    assert fake.serves
    assert fake.tokens == number
    assert fake.traffic_allowed
    assert fake.cut_requests == 0
    if starts is not None:
        assert len(fake.starts) == starts
    with world.store.read() as unit:
        assert len(unit.restarts.since(fake.name, world.clock.now() - timedelta(days=30))) == len(fake.starts)


class TestTheWayThere:
    def test_a_better_setting_is_drained_restarted_warmed_measured_and_kept(self) -> None:
        world = World()
        rollout = world.begin(3)
        assert world.run()
        done, change = world.rollout(rollout.id), world.change()
        assert (done.state, done.outcome) == (RolloutState.PROMOTED, Outcome.MEASURED_BETTER)
        assert (change.state, change.attempts) == (ChangeState.PROMOTED, 1)
        assert_serves(world, 3, starts=1)
        assert world.server.starts[0][1] == tokens(3)
        assert world.server.kills == []
        assert change.measured == measured(0.08)
        words = [line.split()[1].rstrip(":") for line in change.history]
        assert words == ["draining", "restarting", "restarting", "warming", "observing", "promoted"]
        assert world.kinds()[0] is EventKind.STARTED
        assert world.kinds()[-2:] == [EventKind.CHANGE_PROMOTED, EventKind.FINISHED]
        assert world.pages() == []
        assert world.sunk() == [(e.kind, e.sentence) for e in world.events]
        with world.store.read() as unit:
            good = unit.last_good.get(world.server.name)
            assert good is not None
            assert good.setting == tokens(3)
            assert unit.leases.get("rollout:g") is None or unit.leases.get("rollout:g").holder == ""  # type: ignore[union-attr]
        assert len(world.audit(change.id)) == 6
        assert len(world.audit(rollout.id)) == 2

    def test_switching_off_is_ready_when_the_page_shows_no_speculation(self) -> None:
        world = World()
        world.begin(0)
        assert world.run()
        assert world.rollout().state is RolloutState.PROMOTED
        assert_serves(world, 0)

    def test_the_server_is_stopped_only_after_it_was_idle_for_a_while(self) -> None:
        world = World(timing=Timing(settle_seconds=5))
        world.begin(3)
        assert world.until_state("draining")
        held_at = world.clock.monotonic()
        assert world.until_state("restarting")
        assert world.server.stops == [pytest.approx(held_at + 8 + 5, abs=2)]

    def test_without_drain_control_two_idle_seconds_are_waited_for(self) -> None:
        world = World(has_control=False)
        start = world.clock.monotonic()
        world.server.quiet = lambda now: 10 <= now - start < 11 or 20 <= now - start < 24
        world.begin(3)
        assert world.run()
        # The work of the last busy moment is counted by the first idle look.
        assert world.server.stops == [start + 23]
        assert_serves(world, 3)

    def test_a_page_that_says_idle_while_work_is_counted_is_not_believed(self) -> None:
        # A real vLLM under constant load shows nothing running in a quarter of all looks; requests were cut.
        world = World(has_control=False)
        world.server.behaviour.page_lags = True
        world.begin(3)
        assert world.run()
        assert (world.rollout().state, world.rollout().outcome) == (RolloutState.ABANDONED, Outcome.DRAIN_TIMED_OUT)
        assert "requests still come and go after" in world.rollout().sentence
        assert (world.server.stops, world.server.cut_requests) == ([], 0)

    def test_requests_that_come_at_the_last_moment_are_seen_and_waited_for(self) -> None:
        world = World(has_control=False)
        start = world.clock.monotonic()
        # Idle at the look that ends the drain, busy again at the look before SIGTERM, then idle for good.
        looks: list[float] = []

        def quiet(now: float) -> bool:
            looks.append(now)
            return now - start >= 20 and len([one for one in looks if one >= start + 20]) != 5

        world.server.quiet = quiet
        world.begin(3)
        assert world.run()
        words = [line.split()[1].rstrip(":") for line in world.change().history]
        assert words[:3] == ["draining", "restarting", "restarting"]
        assert world.server.stops == [start + 27]
        assert_serves(world, 3, starts=1)

    def test_a_pause_between_the_decision_to_stop_and_the_stop_is_heeded(self) -> None:
        world = World()
        world.begin(3)
        world.drivers[0].failures["stop"] = [ActionError("locked", reason="locked", retryable=True)] * 3
        assert world.until_state("restarting")
        world.pause()
        assert world.run()
        assert (world.rollout().state, world.rollout().outcome) == (RolloutState.ABANDONED, Outcome.PAUSED)
        assert world.server.stops == []
        assert_serves(world, 2, starts=0)

    def test_the_server_is_killed_where_it_does_not_end(self) -> None:
        world = World()
        world.server.behaviour.ignores_term = True
        world.begin(3)
        assert world.run()
        assert len(world.server.kills) == 1
        assert world.server.kills[0] - world.server.stops[0] == pytest.approx(LIMITS.stop_seconds, abs=2)
        assert world.rollout().state is RolloutState.PROMOTED
        assert_serves(world, 3)

    def test_orphans_of_the_old_server_are_killed_before_the_new_one_starts(self) -> None:
        world = World()
        world.server.behaviour.orphans = True
        world.begin(3)
        assert world.until_state("restarting")
        world.run(until=lambda: world.server.orphans_left)
        world.run(until=lambda: bool(world.server.starts))
        assert len(world.server.kills) == 1
        assert world.server.starts[0][0] >= world.server.kills[0]
        assert world.run()
        assert_serves(world, 3)

    def test_a_slow_first_start_has_its_allowance(self) -> None:
        world = World()
        world.server.behaviour.start_seconds = LIMITS.start_seconds + 50
        world.begin(3)
        assert world.run()
        assert world.rollout().state is RolloutState.PROMOTED

    def test_a_setting_that_started_before_has_no_allowance(self) -> None:
        world = World()
        world.begin(3)
        assert world.run()
        world.begin(2, current=3)
        assert world.run()
        world.server.behaviour.start_seconds = LIMITS.start_seconds + 50
        world.begin(3)
        assert world.until_state("undoing")
        assert world.change().outcome is Outcome.START_TIMED_OUT

    def test_the_unproved_is_kept_where_it_is_more_likely_better(self) -> None:
        world = World()
        world.judge.default = Judgement(Verdict.WATCH, "spans 0", measured(0.01))
        world.begin(3)
        assert world.run()
        assert (world.rollout().state, world.rollout().outcome) == (RolloutState.PROMOTED, Outcome.NOT_PROVED)
        assert_serves(world, 3)

    @pytest.mark.parametrize(("gain", "outcome"), [(-0.01, Outcome.NOT_PROVED), (None, Outcome.TOO_LITTLE_DATA)])
    def test_the_unproved_is_taken_back_otherwise(self, gain: float | None, outcome: Outcome) -> None:
        world = World()
        world.judge.default = Judgement(Verdict.WATCH, "", None if gain is None else measured(gain))
        world.judge.after_seconds = 0
        world.begin(3)
        assert world.run()
        assert (world.rollout().state, world.rollout().outcome) == (RolloutState.ROLLED_BACK, outcome)
        assert_serves(world, 2, starts=2)

    def test_a_gain_of_less_time_than_the_first_look_asks_for_is_not_kept(self) -> None:
        world = World()
        world.judge.default = Judgement(Verdict.WATCH, "2 of 5 blocks", measured(0.03), is_early=True)
        world.begin(3)
        assert world.run()
        assert (world.rollout().state, world.rollout().outcome) == (RolloutState.ROLLED_BACK, Outcome.TOO_LITTLE_DATA)
        assert "too little was seen within the time allowed: going back" in world.change().sentence
        assert_serves(world, 2, starts=2)

    def test_a_judge_that_breaks_ends_as_not_measured(self) -> None:
        world = World()
        world.judge.breaks = True
        world.begin(3)
        assert world.run()
        assert (world.rollout().state, world.rollout().outcome) == (RolloutState.ROLLED_BACK, Outcome.TOO_LITTLE_DATA)
        assert_serves(world, 2)


class TestTheWayBack:
    def test_a_worse_setting_is_drained_taken_back_and_not_tried_again(self) -> None:
        world = World()
        world.judge.default = WORSE
        rollout = world.begin(3)
        assert world.run()
        done, change = world.rollout(rollout.id), world.change()
        assert (done.state, done.outcome, change.state) == (
            RolloutState.ROLLED_BACK, Outcome.MEASURED_WORSE, ChangeState.ROLLED_BACK,
        )  # fmt: skip
        assert done.measured == measured(-0.12)
        assert_serves(world, 2, starts=2)
        assert world.pages() == []
        (rejection,) = rejections(world)
        assert (rejection.num_speculative_tokens, rejection.times, rejection.batch) == (3, 1, 4.0)
        assert rejection.until - rejection.at == timedelta(days=1)
        with pytest.raises(ActionError, match="not tried again before") as caught:
            world.begin(3)
        assert caught.value.reason == "rejected_before"

    def test_the_second_loss_rests_seven_days_and_the_third_thirty(self) -> None:
        world = World()
        world.judge.default = WORSE
        for _ in range(4):
            world.begin(3, by_operator=True)
            assert world.run()
            world.clock.advance(86400)
        assert [(r.until - r.at).days for r in rejections(world)] == [1, 7, 30, 30]

    def test_a_deterministic_failure_goes_back_at_once_with_one_page_and_the_log(self) -> None:
        world = World()
        world.server.behaviour.crashes_at = frozenset({3})
        world.server.behaviour.crash_log = "torch.OutOfMemoryError: CUDA out of memory"
        world.begin(3)
        assert world.run()
        assert (world.rollout().state, world.rollout().outcome) == (RolloutState.ROLLED_BACK, Outcome.START_FAILED)
        assert_serves(world, 2, starts=2)
        (page,) = world.pages()
        assert page.kind is EventKind.START_FAILED
        assert "it ran out of memory" in page.sentence
        assert "CUDA out of memory" in page.detail
        assert [r.num_speculative_tokens for r in rejections(world)] == [3]

    def test_a_port_in_the_way_does_not_blame_the_setting(self) -> None:
        world = World()
        world.server.behaviour.crashes_at = frozenset({3})
        world.server.behaviour.crash_log = "OSError: [Errno 98] Address already in use"
        world.begin(3)
        assert world.run()
        assert world.rollout().state is RolloutState.ROLLED_BACK
        assert rejections(world) == []

    def test_a_transient_failure_is_tried_once_more(self) -> None:
        world = World()
        world.server.behaviour.failing_starts = 1
        world.server.behaviour.crash_log = "requests: Connection reset by peer"
        world.begin(3)
        assert world.run()
        assert world.rollout().state is RolloutState.PROMOTED
        assert_serves(world, 3, starts=2)

    def test_a_transient_failure_that_lasts_goes_back_after_two_tries(self) -> None:
        world = World()
        world.server.behaviour.failing_starts = 2
        world.server.behaviour.crash_log = "requests: Connection reset by peer"
        world.begin(3)
        assert world.run()
        assert world.rollout().state is RolloutState.ROLLED_BACK
        assert [s.num_speculative_tokens for _, s, _ in world.server.starts] == [3, 3, 2]
        assert_serves(world, 2)

    @pytest.mark.parametrize(
        ("trouble", "outcome"),
        [
            ({"never_ready_at": frozenset({3})}, Outcome.START_TIMED_OUT),
            ({"mute_at": frozenset({3})}, Outcome.NOT_GENERATING),
            ({"shows_instead": {3: 2}}, Outcome.WRONG_SETTING),
            ({"shows_instead": {3: 0}}, Outcome.WRONG_SETTING),
            ({"dies_at": {3: 4.0}}, Outcome.SERVER_DIED),
            ({"dies_at": {3: 100.0}}, Outcome.SERVER_DIED),
        ],
        ids=lambda value: str(value),
    )
    def test_a_server_that_does_not_serve_as_wanted_goes_back_with_one_page(
        self, trouble: dict[str, object], outcome: Outcome
    ) -> None:
        world = World()
        for name, value in trouble.items():
            setattr(world.server.behaviour, name, value)
        world.begin(3)
        assert world.run()
        assert (world.rollout().state, world.rollout().outcome) == (RolloutState.ROLLED_BACK, outcome)
        assert_serves(world, 2, starts=2)
        assert [e.kind for e in world.pages()] == [EventKind.START_FAILED]
        assert [r.num_speculative_tokens for r in rejections(world)] == [3]

    def test_a_model_that_is_gone_after_the_restart_takes_it_back(self) -> None:
        world = World()
        world.server.models = ("tiny", "adapter")
        world.server.behaviour.loses_models = ("adapter",)
        world.begin(3)
        assert world.run()
        assert world.rollout().outcome is Outcome.WRONG_SETTING
        assert "adapter" in world.pages()[0].sentence
        assert_serves(world, 2)

    def test_an_engine_that_dies_behind_its_api_is_taken_back_without_waiting_for_its_requests(self) -> None:
        world = World()
        world.begin(3)
        assert world.until_state("observing")
        world.server.behaviour.health_broken = True
        assert world.until_state("undoing")
        world.server.behaviour.health_broken = False
        assert world.run()
        assert world.rollout().outcome is Outcome.NOT_GENERATING

    def test_a_short_hiccup_of_health_is_forgiven(self) -> None:
        world = World()
        world.begin(3)
        assert world.until_state("observing")
        world.server.behaviour.health_broken = True
        world.run(15, until=lambda: False)
        world.server.behaviour.health_broken = False
        assert world.run()
        assert world.rollout().state is RolloutState.PROMOTED

    def test_a_worse_but_serving_server_that_cannot_be_drained_serves_on_and_is_tried_again(self) -> None:
        world = World()
        world.judge.default = WORSE
        world.begin(3)
        assert world.until_state("observing")
        world.server.behaviour.drain_seconds = 1e9
        assert world.until_state("undoing")
        assert world.run(90, until=lambda: world.server.traffic_allowed)
        assert world.server.stops == world.server.stops[:1]
        world.server.behaviour.drain_seconds = 5
        assert world.run()
        assert_serves(world, 2, starts=2)

    def test_one_that_can_never_be_drained_stays_and_someone_is_told(self) -> None:
        world = World()
        world.judge.default = WORSE
        world.begin(3)
        assert world.until_state("observing")
        world.server.behaviour.drain_seconds = 1e9
        assert world.run(8 * 3600, step=5)
        assert (world.rollout().state, world.change().outcome) == (RolloutState.ABANDONED, Outcome.DRAIN_TIMED_OUT)
        assert [e.kind for e in world.pages()] == [EventKind.MANUAL_ACTION]
        assert_serves(world, 3, starts=1)

    def test_a_failing_way_back_is_tried_with_growing_rests_and_then_given_up_with_a_page(self) -> None:
        world = World()
        world.server.behaviour.crashes_at = frozenset({2, 3})
        world.begin(3)
        assert world.run(4 * 3600)
        assert (world.rollout().state, world.rollout().outcome) == (RolloutState.ABANDONED, Outcome.UNDO_FAILED)
        assert [e.kind for e in world.pages()] == [EventKind.START_FAILED, EventKind.MANUAL_ACTION]
        assert len(world.server.starts) == LIMITS.restarts_per_day
        times = [at for at, _, _ in world.server.starts]
        rests = [b - a for a, b in pairwise(times[1:])]
        assert rests == sorted(rests)
        world.run(3600, until=lambda: False, step=10)
        assert len(world.server.starts) == LIMITS.restarts_per_day

    def test_a_way_back_that_works_at_the_third_try_ends_serving(self) -> None:
        world = World()
        world.server.behaviour.crashes_at = frozenset({3})
        world.begin(3)
        assert world.until_state("undoing")
        world.server.behaviour.failing_starts = 2
        assert world.run()
        assert world.rollout().state is RolloutState.ROLLED_BACK
        assert_serves(world, 2, starts=4)

    def test_a_slow_way_back_is_waited_for_twice_as_long(self) -> None:
        world = World()
        world.server.behaviour.crashes_at = frozenset({3})
        world.begin(3)
        assert world.until_state("undoing")
        world.server.behaviour.start_seconds = 1.5 * (LIMITS.start_seconds + LIMITS.first_start_seconds)
        assert world.run()
        assert world.rollout().state is RolloutState.ROLLED_BACK
        assert world.server.kills == []
        assert_serves(world, 2, starts=2)

    def test_a_process_that_cannot_be_killed_is_not_started_upon(self) -> None:
        world = World()
        world.server.behaviour.ignores_term = world.server.behaviour.unkillable = True
        world.begin(3)
        assert world.run()
        assert world.rollout().state is RolloutState.ABANDONED
        assert world.server.starts == []
        assert world.pages()[-1].kind is EventKind.MANUAL_ACTION
        assert "cannot be ended" in world.pages()[-1].sentence

    def test_an_edited_base_command_voids_the_setting_to_go_back_to(self) -> None:
        world = World()
        world.judge.default = WORSE
        world.begin(3)
        assert world.until_state("observing")
        world.server.launcher = replace(world.server.launcher, base=("vllm", "serve", "other"), setting=tokens(5))
        assert world.run()
        assert_serves(world, 5)

    def test_credentials_that_fail_later_do_not_keep_the_old_setting_from_counting_as_back(self) -> None:
        world = World()
        world.server.behaviour.crashes_at = frozenset({3})
        world.begin(3)
        assert world.until_state("undoing")
        world.server.behaviour.unauthorized = True
        assert world.run()
        assert world.rollout().state is RolloutState.ROLLED_BACK
        assert len(world.server.starts) == 2


class TestNothingIsTouched:
    def test_a_drain_past_its_limit_is_abandoned_and_the_server_put_back(self) -> None:
        world = World()
        world.server.behaviour.drain_seconds = 1e9
        world.begin(3)
        assert world.run()
        assert (world.rollout().state, world.rollout().outcome) == (RolloutState.ABANDONED, Outcome.DRAIN_TIMED_OUT)
        assert world.server.stops == []
        assert_serves(world, 2, starts=0)

    def test_a_lone_server_under_constant_load_is_left_alone(self) -> None:
        world = World(has_control=False)
        world.begin(3)
        assert world.run()
        assert world.rollout().outcome is Outcome.DRAIN_TIMED_OUT
        assert_serves(world, 2, starts=0)

    def test_requests_are_cut_only_where_the_operator_allowed_it_twice(self) -> None:
        world = World(has_control=False, limits=replace(LIMITS, cut_after_drain=True))
        world.begin(3)
        assert world.run()
        assert world.rollout().state is RolloutState.PROMOTED
        assert world.server.cut_requests == 2
        world = World(2, limits=replace(LIMITS, cut_after_drain=True, allow_downtime=False))
        world.server.behaviour.drain_seconds = 1e9
        world.begin(3, servers=world.servers[:1])
        assert world.run()
        assert world.rollout().outcome is Outcome.DRAIN_TIMED_OUT
        assert world.server.cut_requests == 0

    def test_a_page_that_does_not_say_how_many_run_is_not_idle(self) -> None:
        for trouble in ("running_unknown", "page_broken"):
            world = World()
            world.begin(3)
            assert world.until_state("draining")
            setattr(world.server.behaviour, trouble, True)
            assert world.run()
            assert world.rollout().outcome is Outcome.DRAIN_TIMED_OUT
            assert "unknown number" in world.change().sentence
            assert world.server.stops == []

    def test_a_pause_while_draining_puts_the_server_back(self) -> None:
        world = World()
        world.server.behaviour.drain_seconds = 40
        world.begin(3)
        assert world.until_state("draining")
        world.pause()
        assert world.run()
        assert (world.rollout().state, world.rollout().outcome) == (RolloutState.ABANDONED, Outcome.PAUSED)
        assert "paused by ann" in world.rollout().sentence
        assert_serves(world, 2, starts=0)

    @pytest.mark.parametrize("scope", ["*", "group:g", "server:s1"])
    def test_nothing_begins_while_paused(self, scope: str) -> None:
        world = World()
        world.pause(scope)
        with pytest.raises(ActionError, match="paused by ann: incident") as caught:
            world.begin(3)
        assert caught.value.reason == "paused"

    def test_a_planned_change_waits_for_a_pause_to_be_lifted_until_it_expires(self) -> None:
        world = World()
        world.begin(3, lives_for=600)
        world.pause()
        world.run(100, until=lambda: False)
        assert world.change().state is ChangeState.PLANNED
        world.lift()
        assert world.run()
        assert world.rollout().state is RolloutState.PROMOTED
        world = World()
        world.begin(3, lives_for=600)
        world.pause()
        assert world.run(700)
        assert (world.rollout().state, world.rollout().outcome) == (RolloutState.ABANDONED, Outcome.EXPIRED)
        assert "paused by ann" in world.rollout().sentence

    def test_what_a_change_waits_for_is_told_once_and_not_for_a_moment(self) -> None:
        world = World()
        world.begin(3)
        world.gate.reason = "g is saturated: requests queued in 23% of the last 10m"
        assert not world.run(25)
        assert EventKind.HELD not in world.kinds()
        assert not world.run(120)
        assert world.kinds().count(EventKind.HELD) == 1
        assert world.change().sentence == "s1 waits: g is saturated: requests queued in 23% of the last 10m"
        world.gate.reason = "g is saturated: requests queued in 24% of the last 10m"
        assert not world.run(120)
        assert world.kinds().count(EventKind.HELD) == 1
        world.gate.reason = None
        assert world.run()
        assert world.rollout().state is RolloutState.PROMOTED

    def test_a_gate_that_closes_while_draining_puts_the_server_back(self) -> None:
        world = World()
        world.begin(3)
        assert world.until_state("draining")
        world.gate.reason = "the TTFT objective of this group burns"
        assert world.run()
        assert world.rollout().state is RolloutState.ABANDONED
        assert "TTFT objective" in world.rollout().sentence
        assert_serves(world, 2, starts=0)

    def test_no_gate_holds_up_the_way_back_that_someone_asked_for(self) -> None:
        world = World()
        world.begin(3)
        assert world.run()
        assert_serves(world, 3)
        world.gate.reason = "the TTFT objective of this group burns"
        world.orders.roll_back(world.group.name, "ann", world.clock.now())
        assert world.run()
        assert world.rollout().state is RolloutState.PROMOTED
        assert_serves(world, 2, starts=2)

    def test_no_gate_holds_up_a_restart_that_someone_asked_for(self) -> None:
        world = World()
        world.gate.reason = "the TTFT objective of this group burns"
        world.orders.restart(
            world.server.name, "acceptance fell", world.clock.now(), requested_by="ann",
            reason=Reason.REQUESTED_BY_OPERATOR,
        )
        assert world.run()
        assert_serves(world, 2, starts=1)

    def test_a_server_restarted_by_hand_meanwhile_is_left_to_them(self) -> None:
        for state in ("draining", "warming", "observing"):
            world = World()
            world.begin(3)
            assert world.until_state(state)
            stops = len(world.server.stops)
            world.server.restart_by_hand(5)
            assert world.run()
            assert world.rollout().state is RolloutState.ABANDONED, state
            assert world.rollout().outcome is Outcome.PRECONDITION_FAILED
            assert len(world.server.stops) == stops
            assert_serves(world, 5)

    def test_a_server_changed_by_hand_before_is_not_tuned(self) -> None:
        world = World()
        decision = world.decision(3)
        world.server.restart_by_hand(5)
        world.orders.begin(decision, "test", world.clock.now())
        assert world.run()
        assert world.rollout().state is RolloutState.ABANDONED
        assert "changed by someone else" in world.rollout().sentence
        assert_serves(world, 5, starts=0)

    def test_a_server_whose_command_was_edited_since_its_start_is_not_tuned(self) -> None:
        world = World()
        world.server.launcher = replace(world.server.launcher, base=("vllm", "serve", "tiny", "--new"))
        world.begin(3)
        assert world.run()
        assert "base command was edited" in world.rollout().sentence
        assert_serves(world, 2, starts=0)

    @pytest.mark.parametrize("name", ["loaded-later", "tin"])
    def test_adapters_loaded_at_run_time_forbid_a_restart(self, name: str) -> None:
        """Also one whose name is a part of a word of the command line."""
        world = World()
        world.server.models = ("tiny", name)
        world.begin(3)
        assert world.run()
        assert world.rollout().outcome is Outcome.PREFLIGHT_FAILED
        assert f"{name} were loaded" in world.rollout().sentence
        assert_serves(world, 2, starts=0)

    def test_a_server_that_does_not_generate_now_is_not_tuned(self) -> None:
        world = World()
        world.server.behaviour.unauthorized = True
        world.begin(3)
        assert world.run()
        assert world.rollout().state is RolloutState.ABANDONED
        assert world.server.stops == []

    def test_a_hook_that_fails_leaves_everything_as_it_was(self) -> None:
        world = World()
        world.balancers[0].fails_out = 1
        world.begin(3)
        assert world.run()
        assert "could not be taken out of its balancer: the balancer says no" in world.rollout().sentence
        assert_serves(world, 2, starts=0)

    def test_the_dry_run_says_what_it_would_do(self) -> None:
        world = World(acts=False)
        world.begin(3)
        assert world.run()
        assert (world.rollout().state, world.rollout().outcome) == (RolloutState.ABANDONED, Outcome.DRY_RUN)
        assert 'would drain and restart it with ngram, 3 tokens' in world.rollout().sentence
        assert '"num_speculative_tokens": 3' in world.rollout().sentence
        assert_serves(world, 2, starts=0)

    def test_a_server_that_dies_while_it_is_drained_is_brought_back_with_its_setting(self) -> None:
        world = World()
        world.begin(3)
        assert world.until_state("draining")
        world.server.crash()
        assert world.run()
        assert (world.rollout().state, world.rollout().outcome) == (RolloutState.ROLLED_BACK, Outcome.SERVER_DIED)
        assert_serves(world, 2, starts=1)


class TestPutBack:
    def test_a_balancer_that_hesitates_is_asked_again(self) -> None:
        world = World()
        world.balancers[0].fails_back = 3
        world.begin(3)
        assert world.run()
        assert world.rollout().state is RolloutState.PROMOTED
        assert_serves(world, 3)

    def test_a_balancer_that_keeps_refusing_is_left_to_a_person(self) -> None:
        world = World()
        world.balancers[0].fails_back = 1000
        world.begin(3)
        assert world.run()
        assert (world.rollout().state, world.rollout().outcome) == (RolloutState.ABANDONED, Outcome.PUT_BACK_FAILED)
        assert [e.kind for e in world.pages()] == [EventKind.MANUAL_ACTION]
        assert world.change().traffic_held
        assert world.server.serves


class TestPauses:
    def test_a_pause_never_keeps_a_stopped_server_down(self) -> None:
        world = World()
        world.server.behaviour.crashes_at = frozenset({3})
        world.begin(3)
        assert world.until_state("restarting")
        world.pause()
        assert world.run()
        assert world.rollout().state is RolloutState.ROLLED_BACK
        assert_serves(world, 2, starts=2)

    def test_a_worse_server_is_not_stopped_while_paused_and_goes_back_afterwards(self) -> None:
        world = World()
        world.judge.default = WORSE
        world.begin(3)
        assert world.until_state("observing")
        world.pause()
        world.run(1000, until=lambda: False)
        assert world.change().state is ChangeState.OBSERVING
        assert world.kinds().count(EventKind.HELD) == 1
        assert len(world.server.stops) == 1
        world.lift()
        assert world.run()
        assert world.rollout().state is RolloutState.ROLLED_BACK
        assert_serves(world, 2)

    def test_a_pause_while_a_worse_server_is_drained_to_go_back_keeps_it_serving(self) -> None:
        world = World()
        world.judge.default = WORSE
        world.server.behaviour.drain_seconds = 30
        world.begin(3)
        assert world.until_state("undoing")
        world.pause()
        world.run(1000, until=lambda: False)
        assert len(world.server.stops) == 1
        assert world.server.serves
        world.lift()
        assert world.run()
        assert_serves(world, 2, starts=2)

    def test_a_pause_without_end_leaves_the_worse_setting_and_tells_someone(self) -> None:
        world = World()
        world.judge.default = WORSE
        world.begin(3)
        assert world.until_state("observing")
        world.pause()
        assert world.run(26 * 3600, step=30)
        assert (world.rollout().state, world.change().outcome) == (RolloutState.ABANDONED, Outcome.PAUSED)
        assert world.pages()[-1].kind is EventKind.MANUAL_ACTION
        assert_serves(world, 3)


class TestClocks:
    @pytest.mark.parametrize("state", ["draining", "restarting", "warming", "observing"])
    @pytest.mark.parametrize("jump", [3600.0, -3600.0])
    def test_a_clock_that_is_set_ends_no_step_early_or_late(self, jump: float, state: str) -> None:
        def seconds(jump: float) -> float:
            world = World()
            world.begin(3, lives_for=1e6)
            began = world.clock.monotonic()
            assert world.until_state(state)
            world.clock.jump(jump)
            assert world.run()
            assert world.rollout().state is RolloutState.PROMOTED
            assert world.server.kills == []
            assert_serves(world, 3, starts=1)
            return world.clock.monotonic() - began

        assert seconds(jump) == pytest.approx(seconds(0), abs=2)

    def test_a_clock_set_while_the_daemon_was_dead_ends_serving(self) -> None:
        for state in ("draining", "restarting", "warming", "observing"):
            for jump in (1e6, -1e6):
                world = World()
                world.begin(3, lives_for=1e7)
                assert world.until_state(state)
                world.clock.jump(jump)
                world.new_daemon()
                assert world.run(3600), (state, jump)
                assert world.server.serves
                assert world.server.cut_requests == 0
