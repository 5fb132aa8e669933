"""Judging from stored intervals: which time counts as before and after, who is a control, blocks long enough."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta

import pytest

from monitor.actions.judge import Judgement, Verdict
from monitor.cycle.judge import StoredJudge, before_span, block_seconds
from monitor.model.decision import DecisionId
from monitor.model.life import Setting
from monitor.model.rollout import Change, ChangeId, ChangeState, Outcome, Rollout, RolloutId
from monitor.model.server import ActionLimits, Group, GroupName, Mode, ServerName
from tests.fakes.memory_store import MemoryStore
from tests.unit.signals.windows import NOON, interval, life

OBSERVE = 2700.0
TWO, THREE = (Setting(method="eagle3", num_speculative_tokens=n) for n in (2, 3))


class Bench:
    """Server `a` is changed at noon: drained at -120 s, ready at -60 s, observed from noon; `b` and `c` are peers."""

    def __init__(self, *peers: str, observe: float = OBSERVE) -> None:
        self.store = MemoryStore()
        self.names = ["a", *peers]
        self.group = Group(
            name=GroupName("g"), servers=tuple(ServerName(n) for n in self.names),
            limits=ActionLimits(observe_seconds=observe), mode=Mode.AUTO,
        )
        rollout = Rollout(
            id=RolloutId("r"), group=GroupName("g"), decision=DecisionId("d"), current=TWO, proposed=THREE,
            created_at=NOON, requested_by="ann",
        )
        self.change = Change(
            id=ChangeId("c-a"), rollout=rollout.id, server=ServerName("a"), position=0, state=ChangeState.OBSERVING,
            current=TWO, proposed=THREE, entered_at=NOON, drained_at=NOON - timedelta(seconds=120),
            stop_asked_at=NOON - timedelta(seconds=110), started_at=NOON - timedelta(seconds=100),
            ready_at=NOON - timedelta(seconds=60),
        )
        with self.store.write() as unit:
            unit.rollouts.add(rollout)
            unit.changes.add([self.change])
        self.judge = StoredJudge(
            self.store, lambda server: self.group if server in self.group.servers else None, scrape_seconds=15.0
        )

    def also_change(self, name: str) -> None:
        """Another server of the rollout that was restarted too."""
        with self.store.write() as unit:
            unit.changes.add(
                [replace(self.change, id=ChangeId(f"c-{name}"), server=ServerName(name), position=1)]
            )

    def serve(self, name: str, since: float, until: float, step_seconds: float, **more: object) -> None:
        of = life(name, tokens=2 if until <= 0 else 3, number=1 if until <= 0 else 2)
        count = int((until - since) / 15.0)
        made = [
            interval(of, since + 15.0 * (n + 1), step_seconds=step_seconds * (1 + 0.01 * (n % 3)),
                     per_pos=(700.0, 500.0), generation=2200.0, **more)  # type: ignore[arg-type]
            for n in range(count)
        ]
        with self.store.write() as unit:
            if unit.lives.get(of.id) is None:
                unit.lives.add(of)
            unit.intervals.add(made)

    def judged(self, seconds: float) -> Judgement:
        return self.judge.judge(self.change, NOON + timedelta(seconds=seconds))


class TestReleases:
    def bench(self, before: str, after: str) -> Bench:
        """A server that is plainly faster afterwards, of these releases."""
        bench = Bench()
        with bench.store.write() as unit:
            for number, version, at in ((1, before, -7200.0), (2, after, -70.0)):
                of = life("a", tokens=number + 1, number=number, version=version)
                unit.lives.add(replace(of, first_seen=NOON + timedelta(seconds=at)))
        bench.serve("a", -4000, -130, 0.012)
        bench.serve("a", 0, 900, 0.008)
        return bench

    def test_another_release_after_the_restart_is_not_laid_to_the_setting(self) -> None:
        judged = self.bench("0.31.0", "0.32.0").judged(900)
        assert (judged.verdict, judged.measured) == (Verdict.WATCH, None)
        assert "came up as release 0.32.0, before it was 0.31.0" in judged.sentence

    def test_the_same_release_is_judged(self) -> None:
        assert self.bench("0.32.0", "0.32.0").judged(900).verdict is Verdict.PROMOTE


class TestVerdicts:
    def test_faster_is_kept_and_slower_taken_back(self) -> None:
        for after, verdict, outcome in (
            (0.016, Verdict.PROMOTE, Outcome.MEASURED_BETTER), (0.024, Verdict.ROLL_BACK, Outcome.MEASURED_WORSE),
        ):  # fmt: skip
            bench = Bench()
            bench.serve("a", -4200.0, -120.0, 0.020)
            bench.serve("a", 0.0, 2700.0, after)
            said = bench.judged(2700.0)
            assert (said.verdict, said.outcome) == (verdict, outcome)
            assert said.measured is not None and said.measured.gain is not None
            assert said.measured.gain == pytest.approx(0.020 / after - 1.0, abs=0.02)

    def test_before_the_first_look_it_is_watched(self) -> None:
        bench = Bench()
        bench.serve("a", -4200.0, -120.0, 0.010)
        bench.serve("a", 0.0, 120.0, 0.005)
        said = bench.judged(120.0)
        assert (said.verdict, said.is_early) == (Verdict.WATCH, True)
        assert said.measured is not None and said.measured.gain is not None and said.measured.gain > 0.5

    def test_what_a_look_does_not_prove_is_told_with_its_bounds(self) -> None:
        bench = Bench()
        bench.serve("a", -4200.0, -120.0, 0.010)
        bench.serve("a", 0.0, 2700.0, 0.010)
        said = bench.judged(2700.0)
        assert (said.verdict, said.is_early) == (Verdict.WATCH, False)
        assert re.search(r"between -\d\.\d% and \+\d\.\d%: not proved either way", said.sentence)

    def test_without_a_single_interval_nothing_is_concluded(self) -> None:
        said = Bench().judged(2700.0)
        assert said.verdict is Verdict.WATCH
        assert said.measured is None or said.measured.gain is None


class TestControls:
    def test_what_happens_to_all_is_not_the_changes_doing(self) -> None:
        """Everything gets 30 % slower at noon; with peers that were left alone the change is seen to have helped."""
        bench = Bench("b", "c")
        bench.serve("a", -4200.0, -120.0, 0.0100)
        bench.serve("a", 0.0, 2700.0, 0.0117)
        for peer in ("b", "c"):
            bench.serve(peer, -4200.0, 0.0, 0.0100)
            bench.serve(peer, 0.0, 2700.0, 0.0130)
        said = bench.judged(2700.0)
        assert said.verdict is Verdict.PROMOTE
        assert said.measured is not None and said.measured.gain == pytest.approx(0.11, abs=0.03)

    def test_a_peer_that_was_restarted_in_the_same_rollout_is_no_control(self) -> None:
        bench = Bench("b")
        bench.also_change("b")
        bench.serve("a", -4200.0, -120.0, 0.0100)
        bench.serve("a", 0.0, 2700.0, 0.0117)
        bench.serve("b", -4200.0, 0.0, 0.0100)
        bench.serve("b", 0.0, 2700.0, 0.0130)
        said = bench.judged(2700.0)
        assert said.measured is not None and said.measured.gain == pytest.approx(-0.15, abs=0.03)
        assert said.verdict is Verdict.ROLL_BACK


class TestTime:
    def test_emptying_and_restarting_are_neither_before_nor_after(self) -> None:
        bench = Bench()
        bench.serve("a", -4200.0, -120.0, 0.010)
        # While it empties and warms up it looks terrible.
        bench.serve("a", -120.0, 0.0, 0.090)
        bench.serve("a", 0.0, 2700.0, 0.010)
        said = bench.judged(2700.0)
        assert said.measured is not None and said.measured.gain == pytest.approx(0.0, abs=0.01)

    def test_what_counts_as_before_ends_where_it_was_taken_out_of_the_traffic(self) -> None:
        change = Bench().change
        assert before_span(change, OBSERVE) == (NOON - timedelta(seconds=120 + 1.5 * OBSERVE),
                                                NOON - timedelta(seconds=120))
        early = replace(change, drained_at=None)
        assert before_span(early, OBSERVE)[1] == change.stop_asked_at
        bare = replace(early, stop_asked_at=None, started_at=None, stopped_at=None)
        assert before_span(bare, OBSERVE)[1] == NOON

    @pytest.mark.parametrize(
        ("observe", "scrape", "expected"),
        [(2700.0, 15.0, 60.0), (86_400.0, 15.0, 60.0), (45.0, 1.0, 2.0), (45.0, 0.2, 1.0)],
    )
    def test_blocks_are_a_minute_or_shorter_but_hold_two_scrapes(
        self, observe: float, scrape: float, expected: float
    ) -> None:
        assert block_seconds(observe, scrape) == expected


def test_a_server_of_no_group_is_compared_with_itself() -> None:
    bench = Bench()
    bench.judge = StoredJudge(bench.store, lambda server: None, scrape_seconds=15.0)
    bench.serve("a", -4200.0, -120.0, 0.010)
    bench.serve("a", 0.0, 2700.0, 0.008)
    assert bench.judged(2700.0).verdict is Verdict.PROMOTE
