"""How a process began and what its steps take when off: only from what was seen."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from monitor.cycle.contexts import FIRST_HOURS, Beginnings, birth, off_step_seconds
from monitor.model.interval import Interval
from monitor.model.life import Life
from monitor.model.server import ServerName
from monitor.signals.track import Track
from tests.fakes.memory_store import MemoryStore
from tests.unit.signals.windows import NOON, interval, life, run_of

A = ServerName("a")
BORN = NOON.timestamp()
HOURS = FIRST_HOURS.total_seconds()
LATELY = timedelta(seconds=300)
LATER = NOON + FIRST_HOURS + timedelta(hours=40)


def stored(*made: Interval, lives: tuple[Life, ...]) -> MemoryStore:
    store = MemoryStore()
    with store.write() as unit:
        for one in lives:
            unit.lives.add(one)
        unit.intervals.add(made)
    return store


def hours(of: Life, per_pos: tuple[float, ...], since: float, until: float) -> list[Interval]:
    """Intervals of ten minutes."""
    count = int((until - since) / 600)
    return [interval(of, since + 600.0 * (n + 1), seconds=600.0, per_pos=per_pos) for n in range(count)]


class TestBeginnings:
    ONE = life("a", process_start=BORN)

    def begun(self, of: Life | None = None) -> MemoryStore:
        """Six good hours, and worse ones after them."""
        one = of or self.ONE
        first = hours(one, (800.0, 600.0, 400.0), 0.0, HOURS)
        return stored(*first, *hours(one, (300.0, 100.0, 50.0), HOURS, 3 * HOURS), lives=(one,))

    def test_it_is_the_length_of_the_first_hours_however_long_ago(self) -> None:
        assert Beginnings(self.begun()).length(A, (self.ONE,), LATER) == pytest.approx(2.8)

    def test_not_while_they_last(self) -> None:
        begun = Beginnings(self.begun())
        assert begun.length(A, (self.ONE,), NOON + FIRST_HOURS - timedelta(seconds=1)) is None
        assert begun.length(A, (self.ONE,), NOON + FIRST_HOURS) == pytest.approx(2.8)

    def test_a_process_that_was_met_late_did_not_begin_before_our_eyes(self) -> None:
        late = replace(self.ONE, first_seen=NOON + timedelta(minutes=61))
        assert Beginnings(self.begun(late)).length(A, (late,), LATER) is None

    def test_too_few_drafts_say_nothing(self) -> None:
        few = [interval(self.ONE, 600.0, seconds=600.0)]
        assert Beginnings(stored(*few, lives=(self.ONE,))).length(A, (self.ONE,), LATER) is None

    def test_it_is_read_once_a_process(self) -> None:
        store = self.begun()
        begun = Beginnings(store)
        begun.length(A, (self.ONE,), LATER)
        store.tables.intervals.rows.clear()
        assert begun.length(A, (self.ONE,), LATER) == pytest.approx(2.8)
        next_one = life("a", number=2, process_start=BORN + 3600.0)
        assert begun.length(A, (next_one,), LATER) is None

    def test_engines_of_one_process_are_one_beginning(self) -> None:
        two = life("a", engine="1", process_start=BORN + 5.0)
        made = [*hours(self.ONE, (900.0, 700.0, 500.0), 0.0, HOURS), *hours(two, (700.0, 500.0, 300.0), 0.0, HOURS)]
        found = Beginnings(stored(*made, lives=(self.ONE, two))).length(A, (self.ONE, two), LATER)
        assert found == pytest.approx(2.8)

    def test_nothing_is_known_of_a_server_without_a_life_or_a_birth(self) -> None:
        begun = Beginnings(self.begun())
        assert begun.length(A, (), LATER) is None
        assert begun.length(A, (life("a"),), LATER) is None


class TestBirth:
    def test_the_process_knows_best_then_its_counters_then_we(self) -> None:
        bare = replace(life("a"), first_seen=NOON + timedelta(seconds=7))
        assert birth(bare) is None
        assert birth(replace(bare, counts_from_zero=True)) == NOON + timedelta(seconds=7)
        assert birth(replace(bare, created=BORN + 2.0)) == NOON + timedelta(seconds=2)
        assert birth(replace(bare, created=BORN + 2.0, process_start=BORN)) == NOON


class TestStepsWhenOff:
    OFF, ON = life("a", tokens=0, number=1), life("a", number=2)

    def seconds(self, *, off_batch: float, batch: float) -> float | None:
        off = run_of(self.OFF, 8, ends_at=-3600.0, step_seconds=0.008, outputs=500.0 * off_batch)
        recent = run_of(self.ON, 8, outputs=500.0 * batch)
        return off_step_seconds(Track.of([*off, *recent]), NOON, LATELY)

    @pytest.mark.parametrize(("off_batch", "batch"), [(4.0, 4.0), (4.0, 3.3), (4.0, 5.0)])
    def test_it_is_known_at_about_the_same_batch(self, off_batch: float, batch: float) -> None:
        assert self.seconds(off_batch=off_batch, batch=batch) == pytest.approx(0.008)

    @pytest.mark.parametrize(("off_batch", "batch"), [(4.0, 3.0), (4.0, 6.0), (1.0, 16.0)])
    def test_and_not_at_another(self, off_batch: float, batch: float) -> None:
        assert self.seconds(off_batch=off_batch, batch=batch) is None

    def test_never_off_is_not_known(self) -> None:
        recent = run_of(self.ON, 8)
        assert off_step_seconds(Track.of(recent), NOON, LATELY) is None

    def test_no_load_now_is_not_known(self) -> None:
        assert off_step_seconds(Track.of(run_of(self.OFF, 8, ends_at=-3600.0)), NOON, LATELY) is None

    def test_a_gap_draws_no_rate(self) -> None:
        off = run_of(self.OFF, 8, ends_at=-3600.0, is_gap=True, step_seconds=0.008)
        recent = run_of(self.ON, 8)
        assert off_step_seconds(Track.of([*off, *recent]), NOON, LATELY) is None
