"""Rows for the tuner from what servers showed, and the facts that forbid tuning."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from monitor.cycle.experience import evidence, facts, rejected, tune_input
from monitor.model.life import DIFFUSION, Setting
from monitor.model.reading import Flag
from monitor.model.record import Rejection
from monitor.model.server import ActionLimits, GroupName
from monitor.model.signal import Signal, SignalSet
from monitor.signals.build import signals
from monitor.signals.track import Pair, tracks_of
from monitor.tuning import Fact
from monitor.tuning.standdown import is_too_little
from tests.unit.signals.windows import NOON, life, run_of

EAGLE = Setting(method="eagle3", num_speculative_tokens=3)
THREE = life(tokens=3, number=2)


def window(**values: float) -> SignalSet:
    scalars = {name: Signal(name, value, 1.0) for name, value in values.items()}
    return SignalSet(scope="group:g", at=NOON, window_seconds=300.0, scalars=scalars)


class TestWhatTheTunerIsTold:
    def told(self, pairs: list[Pair], seconds: float = 300.0, **more: object) -> object:
        seen = signals(pairs, scope="group:g", at=NOON, window_seconds=seconds)
        given: dict[str, object] = {
            "setting": EAGLE, "limits": ActionLimits(), "rejections": [], "restart_seconds": 60.0, "replicas": 1,
            "known_facts": frozenset(), "now": NOON,
        }
        return tune_input(tracks_of(pairs), seen, **{**given, **more})  # type: ignore[arg-type]

    def test_the_rules_own_window_speaks_for_the_setting_in_force(self) -> None:
        pairs = [
            *run_of(THREE, 100, ends_at=-300.0, per_pos=(800.0, 600.0, 400.0)),
            *run_of(THREE, 20, per_pos=(500.0, 300.0, 100.0)),
        ]
        told = self.told(pairs)
        assert told.observed[3].length == pytest.approx(1.9)  # type: ignore[attr-defined]
        assert told.observed[3].num_drafts == 20_000.0  # type: ignore[attr-defined]

    def test_one_with_too_few_drafts_does_not(self) -> None:
        few = 5000.0 / 20 - 1
        pairs = [
            *run_of(THREE, 100, ends_at=-300.0, per_pos=(800.0, 600.0, 400.0)),
            *run_of(THREE, 20, drafts=few, per_pos=(0.5 * few, 0.3 * few, 0.1 * few)),
        ]
        told = self.told(pairs)
        assert told.observed[3].length > 2.6  # type: ignore[attr-defined]

    def test_one_that_is_too_short_does_not_however_many_drafts_it_has(self) -> None:
        # A rule with a window of a minute on a server with 240 drafts a second was told "too little" for ever.
        pairs = run_of(THREE, 40, drafts=3600.0, per_pos=(50.0, 40.0, 30.0))
        told = self.told(pairs, seconds=60.0)
        row = told.observed[3]  # type: ignore[attr-defined]
        assert row.covered_seconds == pytest.approx(600.0)
        assert not is_too_little(row, 3, told)  # type: ignore[arg-type]

    def test_limits_and_the_rest_pass_through(self) -> None:
        limits = ActionLimits(min_speculative_tokens=2, max_speculative_tokens=5, allow_off=True)
        told = self.told(run_of(THREE, 4), limits=limits, replicas=3, known_facts=frozenset({Fact.STUCK}))
        assert (told.limits.minimum, told.limits.maximum, told.limits.allow_off) == (2, 5, True)  # type: ignore[attr-defined]
        assert (told.replicas, told.restart_seconds, told.facts) == (3, 60.0, {Fact.STUCK})  # type: ignore[attr-defined]
        assert told.method == "eagle3"  # type: ignore[attr-defined]

    def test_load_of_more_than_a_day_ago_does_not_weigh(self) -> None:
        pairs = [*run_of(THREE, 4, ends_at=-90_000.0, running=64.0), *run_of(THREE, 4, running=2.0)]
        assert [size for size, _ in self.told(pairs).batches] == pytest.approx([2.0], rel=0.1)  # type: ignore[attr-defined]


class TestFacts:
    @pytest.mark.parametrize(
        ("values", "expected"),
        [
            ({}, set()),
            ({"acceptance_length_drop": 7.9}, set()),
            ({"acceptance_length_drop": 8.0}, {Fact.FELL_SUDDENLY}),
            ({"waiting_share": 0.10}, set()),
            ({"waiting_share": 0.11}, {Fact.SATURATED}),
        ],
    )
    def test_of_the_window(self, values: dict[str, float], expected: set[Fact]) -> None:
        assert facts(window(**values), EAGLE, ()) == expected

    def test_of_what_is_known_beside_it(self) -> None:
        scheduled = replace(EAGLE, schedule=((1, 8, 3),))
        assert facts(window(), scheduled, ()) == {Fact.SCHEDULE}
        assert facts(window(), EAGLE, (), probe_failed=True) == {Fact.STUCK}
        assert facts(window(), EAGLE, (), fell=True) == {Fact.FELL_SUDDENLY}
        assert facts(window(), EAGLE, (), decays=True) == {Fact.DECAYS}
        assert facts(window(), EAGLE, (), adapts=True) == {Fact.ADAPTS_ITSELF}
        diffusion = Setting(method=DIFFUSION)
        assert facts(window(), diffusion, ()) == {Fact.DIFFUSION}

    @pytest.mark.parametrize("flag", list(Flag))
    def test_only_contradicting_counters_are_unreliable(self, flag: Flag) -> None:
        bad = {Flag.IDENTITIES_BROKEN, Flag.ACCEPTANCE_OUT_OF_RANGE, Flag.V0_COUNTERS_UNRELIABLE}
        found = facts(window(), EAGLE, [flag])
        assert (Fact.UNRELIABLE in found) is (flag in bad)


def three(method: str | None) -> Setting:
    return Setting(method=method, num_speculative_tokens=3)


class TestRejected:
    LOST = Rejection(GroupName("g"), 4, "eagle3", NOON, NOON + timedelta(days=1), 1, "it lost", 8.0, 2.5)

    def test_it_holds_at_like_load(self) -> None:
        assert rejected([self.LOST], window(decode_batch=8.5, acceptance_length=2.6), three("eagle3"), NOON) == {4}

    def test_a_move_of_load_or_length_lifts_it(self) -> None:
        assert rejected([self.LOST], window(decode_batch=16.0), three("eagle3"), NOON) == set()
        assert rejected([self.LOST], window(acceptance_length=1.9), three("eagle3"), NOON) == set()

    def test_it_ends(self) -> None:
        assert rejected([self.LOST], window(), three("eagle3"), NOON + timedelta(days=1)) == set()

    def test_lengths_at_another_setting_lift_nothing(self) -> None:
        lost = replace(self.LOST, measured_at=5)
        for tokens, held in ((5, set()), (3, {4}), (None, set())):
            now = Setting(method="eagle3", num_speculative_tokens=tokens)
            assert rejected([lost], window(acceptance_length=1.9), now, NOON) == held

    def test_it_is_about_one_method(self) -> None:
        assert rejected([self.LOST], window(), three("ngram"), NOON) == set()
        assert rejected([self.LOST], window(), three(None), NOON) == {4}
        assert rejected([replace(self.LOST, method=None)], window(), three("ngram"), NOON) == {4}


def test_evidence_holds_the_rules_numbers_and_the_load_that_a_rejection_is_kept_with() -> None:
    found = evidence(window(decode_batch=8.0, acceptance_length=2.5), {"mean_prompt_tokens": 700.0})
    assert (found["batch"], found["acceptance_length"], found["mean_prompt_tokens"]) == (8.0, 2.5, 700.0)
    assert found["goodput"] is None
