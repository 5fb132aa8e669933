"""Rows for the tuner from what servers showed, and the facts that forbid tuning."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from monitor.cycle.experience import ENOUGH_DRAFTS, batches, evidence, facts, rejected, rows, tune_input
from monitor.model.life import Setting
from monitor.model.reading import Flag
from monitor.model.record import Rejection
from monitor.model.server import ActionLimits, GroupName
from monitor.model.signal import Signal, SignalSet
from monitor.signals.build import signals
from monitor.signals.window import Pair
from monitor.tuning import Fact
from tests.unit.signals.windows import NOON, interval, life, run_of

EAGLE = Setting(method="eagle3", num_speculative_tokens=3)
THREE = life(tokens=3, number=2)


def window(**values: float) -> SignalSet:
    scalars = {name: Signal(name, value, 1.0) for name, value in values.items()}
    return SignalSet(scope="group:g", at=NOON, window_seconds=300.0, scalars=scalars)


class TestRows:
    def test_one_for_every_setting_it_was_at(self) -> None:
        two, off = life(tokens=2, number=1), life(tokens=0, method="eagle3", number=0)
        pairs = [
            *run_of(off, 40, ends_at=-7200.0, has_speculation=False, step_seconds=0.008),
            *run_of(two, 40, ends_at=-3600.0, per_pos=(800.0, 600.0), step_seconds=0.010),
            *run_of(THREE, 40, per_pos=(800.0, 600.0, 400.0), step_seconds=0.011),
        ]
        found = rows(pairs, NOON, EAGLE)
        assert set(found) == {0, 2, 3}
        assert found[3].survival == pytest.approx((0.8, 0.6, 0.4))
        assert found[3].length == pytest.approx(2.8)
        assert found[3].num_drafts == 40_000.0
        assert found[3].finished_requests == 400.0
        assert [found[k].step_seconds for k in (0, 2, 3)] == pytest.approx([0.008, 0.010, 0.011])
        assert found[3].batch == pytest.approx(2.0)

    def test_another_method_or_draft_is_another_experience(self) -> None:
        ngram, other = life(tokens=4, method="ngram", number=0), life(tokens=5, number=1)
        other = replace(other, setting=replace(other.setting, draft_model="org/other"))
        pairs = [*run_of(ngram, 4), *run_of(other, 4), *run_of(THREE, 4)]
        assert set(rows(pairs, NOON, EAGLE)) == {3}

    def test_a_method_that_is_not_known_yet_does_not_part_them(self) -> None:
        unknown = life(tokens=2, number=1)
        unknown = replace(unknown, setting=replace(unknown.setting, method=None))
        assert set(rows([*run_of(unknown, 4, per_pos=(700.0, 500.0)), *run_of(THREE, 4)], NOON, EAGLE)) == {2, 3}
        assert set(rows(run_of(THREE, 4), NOON, Setting(num_speculative_tokens=3))) == {3}

    def test_a_setting_without_a_number_gives_no_row(self) -> None:
        assert rows(run_of(life(tokens=None), 4), NOON, EAGLE) == {}

    def test_what_shows_neither_length_nor_step_time_gives_no_row(self) -> None:
        nothing = run_of(THREE, 4, has_speculation=False, has_latency=False, generation=None, steps=None)
        assert rows(nothing, NOON, EAGLE) == {}

    def test_old_traffic_at_a_setting_does_not_speak_for_its_newest(self) -> None:
        pairs = [
            *run_of(THREE, 40, ends_at=-10_000.0, per_pos=(100.0, 50.0, 20.0)),
            *run_of(THREE, 40, per_pos=(800.0, 600.0, 400.0)),
        ]
        assert rows(pairs, NOON, EAGLE)[3].length == pytest.approx(2.8)

    def test_replicas_at_one_setting_are_one_experience(self) -> None:
        other = life("b", tokens=3)
        pairs = [*run_of(THREE, 4, per_pos=(900.0, 700.0, 500.0)), *run_of(other, 4, per_pos=(700.0, 500.0, 300.0))]
        found = rows(pairs, NOON, EAGLE)[3]
        assert found.survival == pytest.approx((0.8, 0.6, 0.4))
        assert found.num_drafts == 8000.0


class TestWhatTheTunerIsTold:
    def told(self, pairs: list[Pair], seconds: float = 300.0, **more: object) -> object:
        seen = signals(pairs, scope="group:g", at=NOON, window_seconds=seconds)
        given: dict[str, object] = {
            "setting": EAGLE, "limits": ActionLimits(), "rejections": [], "restart_seconds": 60.0, "replicas": 1,
            "known_facts": frozenset(), "now": NOON,
        }
        return tune_input(pairs, seen, **{**given, **more})  # type: ignore[arg-type]

    def test_the_rules_own_window_speaks_for_the_setting_in_force(self) -> None:
        pairs = [
            *run_of(THREE, 100, ends_at=-300.0, per_pos=(800.0, 600.0, 400.0)),
            *run_of(THREE, 20, per_pos=(500.0, 300.0, 100.0)),
        ]
        told = self.told(pairs)
        assert told.observed[3].length == pytest.approx(1.9)  # type: ignore[attr-defined]
        assert told.observed[3].num_drafts == 20_000.0  # type: ignore[attr-defined]

    def test_one_with_too_few_drafts_does_not(self) -> None:
        few = ENOUGH_DRAFTS / 20 - 1
        pairs = [
            *run_of(THREE, 100, ends_at=-300.0, per_pos=(800.0, 600.0, 400.0)),
            *run_of(THREE, 20, drafts=few, per_pos=(0.5 * few, 0.3 * few, 0.1 * few)),
        ]
        told = self.told(pairs)
        assert told.observed[3].length > 2.6  # type: ignore[attr-defined]

    def test_limits_and_the_rest_pass_through(self) -> None:
        limits = ActionLimits(min_speculative_tokens=2, max_speculative_tokens=5, allow_off=True)
        told = self.told(run_of(THREE, 4), limits=limits, replicas=3, known_facts=frozenset({Fact.STUCK}))
        assert (told.limits.minimum, told.limits.maximum, told.limits.allow_off) == (2, 5, True)  # type: ignore[attr-defined]
        assert (told.replicas, told.restart_seconds, told.facts) == (3, 60.0, {Fact.STUCK})  # type: ignore[attr-defined]
        assert told.method == "eagle3"  # type: ignore[attr-defined]

    def test_load_of_more_than_a_day_ago_does_not_weigh(self) -> None:
        pairs = [*run_of(THREE, 4, ends_at=-90_000.0, running=64.0), *run_of(THREE, 4, running=2.0)]
        assert [size for size, _ in self.told(pairs).batches] == pytest.approx([2.0], rel=0.1)  # type: ignore[attr-defined]


class TestBatches:
    def test_time_is_weighed_by_load_and_sizes_are_few(self) -> None:
        pairs = [
            (THREE, interval(THREE, 15.0 * n, running=running)) for n, running in enumerate((1.0, 1.1, 4.0, 4.3, 30.0))
        ]
        found = batches(pairs)
        assert [weight for _, weight in found] == [30.0, 30.0, 15.0]
        for (size, _), running in zip(found, (1.0, 4.0, 30.0), strict=True):
            assert size == pytest.approx(running, rel=0.2)

    def test_idle_time_gaps_and_unknown_load_say_nothing(self) -> None:
        pairs = [
            (THREE, interval(THREE, 15.0, running=0.2)), (THREE, interval(THREE, 30.0, running=None)),
            (THREE, interval(THREE, 45.0, running=8.0, is_gap=True)),
        ]  # fmt: skip
        assert batches(pairs) == ()


class TestFacts:
    @pytest.mark.parametrize(
        ("values", "expected"),
        [
            ({}, set()),
            ({"acceptance_length_drop": 7.9}, set()),
            ({"acceptance_length_drop": 8.0}, {Fact.FELL_SUDDENLY}),
            ({"acceptance_length_since_start": 0.75}, set()),
            ({"acceptance_length_since_start": 0.74}, {Fact.DECAYS}),
            ({"waiting_share": 0.10}, set()),
            ({"waiting_share": 0.11}, {Fact.SATURATED}),
        ],
    )
    def test_of_the_window(self, values: dict[str, float], expected: set[Fact]) -> None:
        assert facts(window(**values), EAGLE, (), probe_failed=False, fell=False) == expected

    def test_of_what_is_known_beside_it(self) -> None:
        scheduled = replace(EAGLE, schedule=((1, 8, 3),))
        assert facts(window(), scheduled, (), probe_failed=False, fell=False) == {Fact.SCHEDULE}
        assert facts(window(), EAGLE, (), probe_failed=True, fell=False) == {Fact.STUCK}
        assert facts(window(), EAGLE, (), probe_failed=False, fell=True) == {Fact.FELL_SUDDENLY}

    @pytest.mark.parametrize("flag", list(Flag))
    def test_only_contradicting_counters_are_unreliable(self, flag: Flag) -> None:
        bad = {Flag.IDENTITIES_BROKEN, Flag.ACCEPTANCE_OUT_OF_RANGE, Flag.V0_COUNTERS_UNRELIABLE}
        found = facts(window(), EAGLE, [flag], probe_failed=False, fell=False)
        assert (Fact.UNRELIABLE in found) is (flag in bad)


class TestRejected:
    LOST = Rejection(GroupName("g"), 4, "eagle3", NOON, NOON + timedelta(days=1), 1, "it lost", 8.0, 2.5)

    def test_it_holds_at_like_load(self) -> None:
        assert rejected([self.LOST], window(decode_batch=8.5, acceptance_length=2.6), "eagle3", NOON) == {4}

    def test_a_move_of_load_or_length_lifts_it(self) -> None:
        assert rejected([self.LOST], window(decode_batch=16.0), "eagle3", NOON) == set()
        assert rejected([self.LOST], window(acceptance_length=1.9), "eagle3", NOON) == set()

    def test_it_ends(self) -> None:
        assert rejected([self.LOST], window(), "eagle3", NOON + timedelta(days=1)) == set()

    def test_it_is_about_one_method(self) -> None:
        assert rejected([self.LOST], window(), "ngram", NOON) == set()
        assert rejected([self.LOST], window(), None, NOON) == {4}
        assert rejected([replace(self.LOST, method=None)], window(), "ngram", NOON) == {4}


def test_evidence_holds_the_rules_numbers_and_the_load_that_a_rejection_is_kept_with() -> None:
    found = evidence(window(decode_batch=8.0, acceptance_length=2.5), {"mean_prompt_tokens": 700.0})
    assert (found["batch"], found["acceptance_length"], found["mean_prompt_tokens"]) == (8.0, 2.5, 700.0)
    assert found["goodput"] is None
