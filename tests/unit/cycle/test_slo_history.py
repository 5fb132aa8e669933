"""Reading a month back: coarser with age, right in sum, and without what we did ourselves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from monitor.cycle.slo_history import feed_book, is_planned, planned_spans
from monitor.model.decision import DecisionId
from monitor.model.interval import Interval
from monitor.model.life import Setting
from monitor.model.record import Checks
from monitor.model.rollout import Change, ChangeId, ChangeState, Rollout, RolloutId
from monitor.model.server import ServerName
from monitor.slo.book import SloBook
from tests.fakes.memory_store import ChecksRows, Intervals, MemoryStore, MemoryUnit
from tests.unit.cycle.objectives import ACCEPTANCE, CHAT, GROUP, NOON, TTFT, UPTIME, A, B, at, life, policies, served

TWO, THREE = (Setting(method="ngram", num_speculative_tokens=n) for n in (2, 3))
DAY = 86_400.0


def stored(intervals: Iterable[Interval], *, first_seen: datetime = NOON, born: bool = False) -> MemoryStore:
    store = MemoryStore()
    with store.write() as unit:
        unit.lives.add(life(first_seen=first_seen, born=born))
        unit.intervals.add(intervals)
    return store


def book(
    store: MemoryStore, now: datetime, *entries: str, is_large: bool = False
) -> dict[str, tuple[float, float]]:
    """Good and valid events by SLO, after reading back."""
    made = SloBook(policies(*entries), {CHAT: GROUP.servers})
    feed_book(made, store, [replace(GROUP, servers=(A,))], now, is_large=is_large)
    return {s.slo.name: (s.attainment.good, s.attainment.valid) for s in made.statuses(now + timedelta(seconds=1))}


def change(store: MemoryStore, **moments: object) -> None:
    with store.write() as unit:
        unit.rollouts.add(
            Rollout(id=RolloutId("r"), group=CHAT, decision=DecisionId("d"), current=TWO, proposed=THREE,
                    created_at=NOON, requested_by="ann")
        )
        values: dict[str, object] = {"state": ChangeState.PROMOTED, "entered_at": at(3000)} | moments
        unit.changes.add(
            [Change(id=ChangeId("c"), rollout=RolloutId("r"), server=A, position=0, current=TWO, proposed=THREE,
                    **values)]  # type: ignore[arg-type]
        )


def test_of_a_large_fleet_it_adds_up_the_same_and_slices_are_hours_beyond_a_day() -> None:
    every = [served(s, elapsed=600.0, slow=s // 600 % 3, accepted=900 if s <= 4 * DAY else 100)
             for s in range(600, int(8 * DAY) + 1, 600)]
    store = stored(every)
    with store.write() as unit:
        unit.checks.add(Checks(A, at(s), 19, 1) for s in range(300, int(8 * DAY) + 1, 300))
    large, small = (book(store, at(8 * DAY), TTFT, ACCEPTANCE, UPTIME, is_large=is_large) for is_large in (True, False))
    assert large == small
    assert large["up"] == (8 * 288 * 19.0, 8 * 288 * 20.0)


@pytest.mark.parametrize(("servers", "share"), [(100, 0.5), (101, 0.25)])
def test_a_fleet_is_large_from_so_many_servers_on(servers: int, share: float) -> None:
    names = (A, *(ServerName(f"o{number}") for number in range(servers - 1)))
    # Good in the first half of each hour, bad in the other: as hours, beyond a day, all are bad.
    every = [served(s, elapsed=300.0, accepted=950 if 0 < s % 3600 <= 1800 else 10)
             for s in range(300, int(2 * DAY), 300)]
    made = SloBook(policies(ACCEPTANCE), {CHAT: names})
    feed_book(made, stored(every), [replace(GROUP, servers=names)], at(2 * DAY))
    (status,) = made.statuses(at(2 * DAY))
    assert status.attainment.good / status.attainment.valid == pytest.approx(share, abs=0.03)


def test_a_month_adds_up_whatever_the_steps_it_is_read_in() -> None:
    every = [served(s, elapsed=600.0, slow=s // 600 % 3, accepted=900 if s % 1800 else 100)
             for s in range(600, int(8 * DAY) + 1, 600)]
    found = book(stored(every), at(8 * DAY), TTFT, ACCEPTANCE)
    assert found["ttft"] == (10.0 * len(every), 10.0 * len(every) + sum(i % 3 for i in range(1, len(every) + 1)))
    # Every slice is judged by itself, also where events are read by the hour; one of ten minutes stands for two.
    assert found["acc"] == (2 * len(every) * 2 / 3, 2.0 * len(every))


def test_what_is_older_than_the_longest_period_is_not_read() -> None:
    every = [served(day * DAY, elapsed=600.0) for day in range(1, 40)]
    assert book(stored(every), at(39 * DAY), f"{TTFT}, period: 7d")["ttft"][1] == 70.0


@pytest.mark.parametrize(("model", "valid"), [("m", 60.0), ("other", 0.0)])
def test_an_objective_of_a_model_knows_the_lives_that_it_reads(model: str, valid: float) -> None:
    every = [served(s, elapsed=600.0) for s in range(600, 3601, 600)]
    assert book(stored(every), at(7 * 3600), f"{TTFT}, model: {model}")["ttft"] == (valid, valid)


def test_nothing_is_read_without_objectives() -> None:
    store = stored([served(15)])
    made = SloBook((), {CHAT: GROUP.servers})
    feed_book(made, store, [GROUP], at(60), goes_on=lambda server: pytest.fail("asked"))
    assert made.statuses(at(60)) == ()


class TestPlannedWork:
    def test_a_restart_of_ours_and_its_warm_up_do_not_count(self) -> None:
        every = [served(s, slow=1) for s in range(15, 3000, 15)]
        store = stored(every)
        change(store, drained_at=at(990), stop_asked_at=at(1000), ready_at=at(1300), started_at=at(1100))
        spans = [i for i in every if 1000 < (i.end - NOON).total_seconds() - 7.5 <= 1420]
        assert len(spans) == 28
        assert book(store, at(3000), TTFT)["ttft"][1] == 11.0 * (len(every) - 28)

    def test_one_that_never_got_ready_counts_up_to_its_end(self) -> None:
        store = stored([])
        change(store, drained_at=at(990), state=ChangeState.ABANDONED, entered_at=at(1500))
        with store.read() as unit:
            assert planned_spans(unit, A, NOON, [], 120.0) == [(at(990), at(1500))]

    def test_one_that_never_stopped_the_server_is_none(self) -> None:
        store = stored([])
        change(store, state=ChangeState.ABANDONED)
        with store.read() as unit:
            assert planned_spans(unit, A, NOON, [], 120.0) == []

    def test_a_process_that_was_born_while_we_watched_warms_up(self) -> None:
        store = stored([served(15, slow=9), served(300, slow=1)], born=True)
        assert book(store, at(400), TTFT)["ttft"] == (10.0, 11.0)

    @pytest.mark.parametrize(("end", "planned"), [(1000, False), (1300, True), (1700, True), (1901, False)])
    def test_a_long_stretch_is_left_out_where_most_of_it_is_planned(self, end: float, planned: bool) -> None:
        one = served(end, elapsed=300.0)
        assert is_planned(one, [(at(900), at(1750))]) is planned


class Spied(MemoryStore):
    """Notes what is asked of it."""

    def __init__(self) -> None:
        super().__init__()
        #: Step (None: as scraped) and whether with histograms.
        self.asked: list[tuple[int | None, bool]] = []
        #: Servers whose checks were added up.
        self.summed: list[tuple[ServerName, ...]] = []

    @contextmanager
    def read(self) -> Iterator[MemoryUnit]:
        with super().read() as unit:
            unit.intervals, unit.checks = SpiedIntervals(unit.intervals, self), SpiedChecks(unit.checks, self)  # type: ignore[assignment]
            yield unit


class SpiedIntervals:
    def __init__(self, inner: Intervals, spy: Spied) -> None:
        self.inner, self.spy = inner, spy

    def between(self, *args: Any, **options: bool) -> object:
        self.spy.asked.append((None, options.get("details", True)))
        return self.inner.between(*args, **options)

    def between_coarse(self, *args: Any, **options: bool) -> object:
        self.spy.asked.append((args[3], options.get("details", True)))
        return self.inner.between_coarse(*args, **options)


class SpiedChecks:
    def __init__(self, inner: ChecksRows, spy: Spied) -> None:
        self.between, self.inner, self.spy = inner.between, inner, spy

    def sums(self, servers: Sequence[ServerName], since: datetime, until: datetime) -> object:
        self.spy.summed.append(tuple(servers))
        return self.inner.sums(servers, since, until)


def spied(*, first_seen: datetime | None) -> Spied:
    """A store with one interval, of a life that began then; with nothing where that is None."""
    store = Spied()
    if first_seen is not None:
        with store.write() as unit:
            unit.lives.add(life(first_seen=first_seen))
            unit.intervals.add([served(15)])
    return store


def test_slices_of_acceptance_are_read_without_histograms() -> None:
    """Decoding them over a month is most of the work."""
    store = spied(first_seen=at(-30 * DAY))
    made = SloBook(policies(ACCEPTANCE), {CHAT: (A,)})
    feed_book(made, store, [replace(GROUP, servers=(A,))], at(60))
    assert store.asked == [(300, False), (None, True)]
    assert made.statuses(at(60) + timedelta(minutes=5))[0].attainment.valid == 1.0


@pytest.mark.parametrize(
    ("first_seen", "steps"),
    [
        (at(-40 * DAY), [86_400, 3600, 300, 3600, 300, None]),
        # An interval may end up to a day before its life was seen: what is asked may hold it.
        (at(-1.5 * DAY), [3600, 300, 3600, 300, None]),
        (NOON, [300, 300, None]),
        (None, []),
    ],
)
def test_what_is_older_than_a_server_is_not_looked_for(first_seen: datetime | None, steps: list[int | None]) -> None:
    """A new daemon meets a thousand servers at once: looking for a month of each kept it from its first scrapes."""
    store = spied(first_seen=first_seen)
    feed_book(
        SloBook(policies(TTFT, ACCEPTANCE), {CHAT: (A,)}), store, [replace(GROUP, servers=(A,))], at(60), is_large=True
    )
    assert [step for step, _ in store.asked] == steps


def test_days_of_checks_are_added_up_for_a_whole_group_at_once() -> None:
    store = spied(first_seen=None)
    with store.write() as unit:
        unit.checks.add([Checks(name, at(s), 19, 1) for name in (A, B) for s in range(300, int(8 * DAY) + 1, 300)])
    made = SloBook(policies(UPTIME), {CHAT: (A, B)})
    feed_book(made, store, [GROUP], at(8 * DAY), is_large=True)
    assert set(store.summed) == {(A, B)}
    assert len(store.summed) == 27  # of 30 days, beyond three
    (status,) = made.statuses(at(8 * DAY))
    assert (status.attainment.good, status.attainment.valid) == (2 * 8 * 288 * 19.0, 2 * 8 * 288 * 20.0)
