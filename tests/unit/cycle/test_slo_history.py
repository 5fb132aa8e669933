"""Reading a month back: coarser with age, right in sum, and without what we did ourselves."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from monitor.cycle.slo_history import feed_book, feed_server, is_planned, planned_spans
from monitor.model.decision import DecisionId
from monitor.model.interval import Interval
from monitor.model.life import Setting
from monitor.model.record import Checks
from monitor.model.rollout import Change, ChangeId, ChangeState, Rollout, RolloutId
from monitor.model.server import ServerName
from monitor.slo.book import SloBook
from tests.fakes.memory_store import MemoryStore
from tests.unit.cycle.objectives import ACCEPTANCE, CHAT, GROUP, NOON, TTFT, UPTIME, A, at, life, policies, served

TWO, THREE = (Setting(method="ngram", num_speculative_tokens=n) for n in (2, 3))
DAY = 86_400.0


def stored(intervals: Iterable[Interval], *, first_seen: datetime = NOON, born: bool = False) -> MemoryStore:
    store = MemoryStore()
    with store.write() as unit:
        unit.lives.add(life(first_seen=first_seen, born=born))
        unit.intervals.add(intervals)
    return store


def book(store: MemoryStore, now: datetime, *entries: str) -> dict[str, tuple[float, float]]:
    """Good and valid events by SLO, after reading back."""
    made = SloBook(policies(*entries), {CHAT: GROUP.servers})
    with store.read() as unit:
        feed_server(made, unit, A, now, warmup_seconds=120.0)
    return {s.slo.name: (s.attainment.good, s.attainment.valid) for s in made.statuses(now + timedelta(seconds=1))}


def book_of_large_fleet(store: MemoryStore, now: datetime, *entries: str) -> dict[str, tuple[float, float]]:
    """The same where many more servers are read back."""
    made = SloBook(policies(*entries), {CHAT: GROUP.servers})
    feed_book(made, store, [replace(GROUP, servers=(A,))], now, is_large=True)
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
    large, small = (make(store, at(8 * DAY), TTFT, ACCEPTANCE, UPTIME) for make in (book_of_large_fleet, book))
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
    with store.read() as unit:
        feed_server(made, unit, A, at(60), warmup_seconds=120.0)
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
            assert planned_spans(unit, A, NOON, at(3000), 120.0) == [(at(990), at(1500))]

    def test_one_that_never_stopped_the_server_is_none(self) -> None:
        store = stored([])
        change(store, state=ChangeState.ABANDONED)
        with store.read() as unit:
            assert planned_spans(unit, A, NOON, at(3000), 120.0) == []

    def test_a_process_that_was_born_while_we_watched_warms_up(self) -> None:
        store = stored([served(15, slow=9), served(300, slow=1)], born=True)
        assert book(store, at(400), TTFT)["ttft"] == (10.0, 11.0)

    @pytest.mark.parametrize(("end", "planned"), [(1000, False), (1300, True), (1700, True), (1901, False)])
    def test_a_long_stretch_is_left_out_where_most_of_it_is_planned(self, end: float, planned: bool) -> None:
        one = served(end, elapsed=300.0)
        assert is_planned(one, [(at(900), at(1750))]) is planned


def test_only_what_the_objectives_need_is_read() -> None:
    """Slices of acceptance need no histograms over a month: decoding them is most of the work."""
    asked: list[tuple[int | None, bool]] = []
    store = stored([served(15)])

    class Spy:
        def __init__(self, inner: object) -> None:
            self.inner = inner

        def between(self, *args: object, **options: bool) -> object:
            asked.append((None, options.get("details", True)))
            return self.inner.between(*args, **options)  # type: ignore[attr-defined]

        def between_coarse(self, *args: object, **options: bool) -> object:
            asked.append((args[3], options.get("details", True)))  # type: ignore[arg-type]
            return self.inner.between_coarse(*args, **options)  # type: ignore[attr-defined]

    with store.read() as unit:
        unit.intervals = Spy(unit.intervals)  # type: ignore[assignment]
        made = SloBook(policies(ACCEPTANCE), {CHAT: GROUP.servers})
        feed_server(made, unit, A, at(60), warmup_seconds=120.0)
    assert asked == [(300, False), (None, True)]
    assert made.statuses(at(60) + timedelta(minutes=5))[0].attainment.valid == 1.0
