"""What a report reads: sums in coarser steps for more servers, with the same counts, each in its own period."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from monitor.intervals.buckets import STEPS
from monitor.model.interval import Interval
from monitor.model.server import Group, GroupName, ServerName
from monitor.report import reading
from monitor.report.assemble import assemble
from monitor.report.content import WeeklyReport
from monitor.report.reading import read
from monitor.slo.load import load_slos
from tests.fakes.memory_store import MemoryStore
from tests.unit.signals.windows import NOON, interval, life

END = datetime(2026, 3, 9, 9, 0, tzinfo=UTC)
WEEK = timedelta(days=7)
START = END - WEEK
A = ServerName("a")
SLOS = """
slos:
  - {name: acceptance, indicator: acceptance, threshold: 0.5, objective: 0.9, slice: 5m}
  - {name: efficiency, indicator: efficiency, threshold: 0.6, objective: 0.9, slice: 5m, report_only: true}
"""


@pytest.fixture(scope="module")
def store() -> MemoryStore:
    """Three weeks of one server by twenty minutes."""
    made, one = MemoryStore(), replace(life("a"), first_seen=END - timedelta(days=21))
    found: list[Interval] = []
    for minutes in range(20, 21 * 1440 + 1, 20):
        end = END - timedelta(days=21) + timedelta(minutes=minutes)
        found.append(interval(one, (end - NOON).total_seconds(), seconds=1200.0))
    with made.write() as unit:
        unit.lives.add(one)
        unit.intervals.add(found)
    return made


def drafts(found: list[Interval]) -> float:
    return sum(one.speculation.num_drafts or 0.0 for one in found if one.speculation is not None)


@pytest.mark.parametrize(("among", "rows"), [(1, 1008), (20, 1008), (60, 336), (5000, 2 * (15 + 6 + 9))])
def test_more_servers_are_read_in_fewer_rows_with_the_same_counts(store: MemoryStore, among: int, rows: int) -> None:
    with store.read() as unit:
        found = read(unit, [A], START, END, WEEK, among=among)
    intervals = [one for _, one in found.pairs[A]]
    assert len(intervals) == rows
    assert drafts(intervals) == 2 * 504 * 1000.0
    inside = [one for one in intervals if START < one.end <= END]
    assert drafts(inside) == 504 * 1000.0
    assert all(START <= one.start for one in inside)


@pytest.mark.parametrize(("among", "rows"), [(101, 15 + 9 + 6 * 24), (501, 15 + 9 + 2 * 6 + 1)])
def test_of_many_servers_what_moves_with_time_is_read_beside(store: MemoryStore, among: int, rows: int) -> None:
    with store.read() as unit:
        fine = read(unit, [A], START, END, WEEK, among=among).fine[A]
        few = read(unit, [A], START, END, WEEK, among=100)
    assert len(fine) == rows
    assert drafts([one for _, one in fine]) == 504 * 1000.0
    assert few.fine is few.pairs


def test_a_period_within_one_day_is_read_by_the_hour(store: MemoryStore) -> None:
    with store.read() as unit:
        found = read(unit, [A], END - timedelta(hours=5), END, timedelta(hours=3), among=1000)
    assert {one.elapsed_seconds for _, one in found.pairs[A]} == {float(STEPS[1])}
    assert len(found.pairs[A]) == 8


@pytest.mark.parametrize("among", [1, 20, 60, 200, 1000])
def test_what_is_not_rolled_up_yet_is_in_the_report_of_any_fleet(among: int) -> None:
    made, one = MemoryStore(), replace(life("a"), first_seen=END - timedelta(hours=4))
    with made.write() as unit:
        unit.lives.add(one)
        unit.intervals.add(
            interval(one, (END - timedelta(minutes=minutes) - NOON).total_seconds(), seconds=1200.0)
            for minutes in range(0, 240, 20)
        )
    made.roll_up(END - timedelta(hours=1))
    with made.read() as unit:
        found = read(unit, [A], START, END, WEEK, among=among)
    assert max(interval.end for _, interval in found.pairs[A]) == END
    assert drafts([interval for _, interval in found.pairs[A]]) == 12 * 1000.0


def test_few_servers_are_read_as_scraped_for_two_hours(store: MemoryStore) -> None:
    made, one = MemoryStore(), replace(life("a"), first_seen=END - timedelta(hours=4))
    with made.write() as unit:
        unit.lives.add(one)
        unit.intervals.add(
            interval(one, (END - timedelta(minutes=minutes) - NOON).total_seconds(), seconds=60.0)
            for minutes in range(240)
        )
    with made.read() as unit:
        found = read(unit, [A], START, END, WEEK, among=8).pairs[A]
    lengths = [one.elapsed_seconds for _, one in found]
    assert lengths.count(60.0) == 120 and lengths.count(300.0) == 24


LIVES = [replace(life("a", number=number), first_seen=START - WEEK) for number in (1, 2)]


@pytest.fixture(scope="module")
def uneven() -> MemoryStore:
    """Two weeks of a server by twenty minutes: load and acceptance move, the second week is faster, a restart in it."""
    made = MemoryStore()
    with made.write() as unit:
        unit.lives.add(LIVES[0])
        unit.lives.add(LIVES[1])
        for number in range(2 * 504):
            end = START - WEEK + timedelta(minutes=20 * (number + 1))
            running = float(2 + number * 7 % 13)
            speed = 90.0 * running**0.8 * (1.1 if end > START else 1.0)
            unit.intervals.add([
                interval(
                    LIVES[number > 800], (end - NOON).total_seconds(), seconds=1200.0, running=running,
                    generation=round(speed * 1200.0), outputs=1500.0, step_seconds=0.008 + number % 5 / 1000,
                    per_pos=(800.0 + number % 7, 600.0 + number % 3, 400.0 + number % 11),
                )
            ])  # fmt: skip
    return made


def report_among(store: MemoryStore, others: int) -> WeeklyReport:
    servers = (A, *(ServerName(f"o{number}") for number in range(others)))
    with store.read() as unit:
        return assemble(
            unit, [Group(name=GroupName("chat"), servers=servers)], end=END, now=END, key="k", host="h", target=0.6,
            simulated=False, policies=load_slos({"s.yaml": SLOS}),
        )


@pytest.mark.parametrize("others", [30, 200, 600])
def test_the_report_says_the_same_of_a_server_however_many_there_are(uneven: MemoryStore, others: int) -> None:
    small, large = report_among(uneven, 1).groups[0], report_among(uneven, others).groups[0]
    one, same = small.servers[0], large.servers[0]
    assert one.equal_load_change == pytest.approx(0.1, abs=0.01)
    assert same.equal_load_change == one.equal_load_change
    assert (same.generation_tokens, same.setting, same.covered) == (one.generation_tokens, one.setting, 1.0)
    for mine, theirs in ((same.figures, one.figures), (same.before, one.before)):
        assert mine.keys() == theirs.keys() and None not in (mine["acceptance_rate"], mine["step_seconds"])
        for name in mine:
            assert mine[name] == (theirs[name] and pytest.approx(theirs[name], rel=1e-9)), name
    assert same.survival == pytest.approx(one.survival)
    assert [(slo.name, slo.sli) for slo in large.slos] == [(slo.name, slo.sli) for slo in small.slos]
    assert {slo.name: slo.sli for slo in small.slos} == {"acceptance": 1.0, "efficiency": 0.0}
    for slo, other in zip(large.slos, small.slos, strict=True):
        assert slo.valid == pytest.approx(other.valid, rel=0.05)


def days_of(count: int, hours_up: int) -> MemoryStore:
    """A server that began so many days before the end of the week, and answers for so many hours of each."""
    made, one = MemoryStore(), replace(life("a"), first_seen=END - timedelta(days=count))
    found = []
    for day in range(count):
        begun = END - timedelta(days=count - day)
        for number in range(hours_up * 3):
            end = begun + timedelta(minutes=20 * (number + 1))
            away = number == 0 and day > 0 and hours_up < 24
            seconds = 1200.0 + 3600.0 * (24 - hours_up) if away else 1200.0
            found.append(interval(one, (end - NOON).total_seconds(), seconds=seconds, is_gap=away))
    with made.write() as unit:
        unit.lives.add(one)
        unit.intervals.add(found)
    return made


@pytest.mark.parametrize("others", [1, 30, 200, 600])
def test_hours_without_an_answer_are_not_covered_however_many_servers_there_are(others: int) -> None:
    server = report_among(days_of(7, hours_up=14), others).groups[0].servers[0]
    assert server.covered == pytest.approx(14 / 24, abs=0.03)


@pytest.mark.parametrize("others", [1, 30, 200, 600])
@pytest.mark.parametrize("days", [1, 2, 3, 6])
def test_the_curve_of_a_server_that_began_within_the_week_has_no_holes(others: int, days: int) -> None:
    report = report_among(days_of(days, hours_up=24), others)
    for trend in (report.groups[0].servers[0].trend, report.groups[0].trend):
        assert len(trend) >= 2 * days
        assert [point.at for point in trend if point.acceptance_rate is None] == []


@pytest.mark.parametrize(("others", "points"), [(200, 28), (600, 14)])
def test_curves_of_a_large_fleet_are_those_of_a_small_one_with_fewer_points(
    uneven: MemoryStore, others: int, points: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    large = report_among(uneven, others)
    monkeypatch.setattr(reading, "TREND_POINTS", points)
    small = report_among(uneven, 1)
    for mine, theirs in (
        (large.groups[0].servers[0].trend, small.groups[0].servers[0].trend),
        (large.groups[0].trend, small.groups[0].trend),
    ):
        assert len(mine) == len(theirs) == points
        assert len({point.acceptance_rate for point in mine}) > points // 2
        for point, other in zip(mine, theirs, strict=True):
            assert point.at == other.at
            for name in ("acceptance_rate", "acceptance_length", "generation_tokens_per_second", "step_seconds"):
                assert getattr(point, name) == pytest.approx(getattr(other, name), rel=1e-9), (point.at, name)
            assert point.num_speculative_tokens == other.num_speculative_tokens == 3


def test_the_report_says_what_its_sums_are_made_of(uneven: MemoryStore) -> None:
    assert [report_among(uneven, others).notes for others in (1, 30, 200)] == [
        (), ("Made from sums by the hour.",), ("Made from sums by the day.",),
    ]  # fmt: skip
