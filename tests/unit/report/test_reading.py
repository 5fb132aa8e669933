"""What a report reads: sums in coarser steps for more servers, with the same counts, each in its own period."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from monitor.intervals.buckets import STEPS
from monitor.model.interval import Interval
from monitor.model.server import Group, GroupName, ServerName
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


def test_of_many_servers_hours_of_the_period_are_read_beside(store: MemoryStore) -> None:
    with store.read() as unit:
        assert read(unit, [A], START, END, WEEK, among=100).hours is None
        hours = read(unit, [A], START, END, WEEK, among=101).hours
    assert hours is not None
    assert len(hours[A]) == 168
    assert drafts([one for _, one in hours[A]]) == 504 * 1000.0


def test_a_period_within_one_day_is_read_by_the_hour(store: MemoryStore) -> None:
    with store.read() as unit:
        found = read(unit, [A], END - timedelta(hours=5), END, timedelta(hours=3), among=1000)
    assert {one.elapsed_seconds for _, one in found.pairs[A]} == {float(STEPS[1])}
    assert len(found.pairs[A]) == 8


def test_what_is_not_rolled_up_is_left_out_of_a_large_report_unless_nothing_is() -> None:
    made, one = MemoryStore(), replace(life("a"), first_seen=END - timedelta(hours=4))
    with made.write() as unit:
        unit.lives.add(one)
        unit.intervals.add(
            interval(one, (END - timedelta(minutes=minutes) - NOON).total_seconds(), seconds=1200.0)
            for minutes in range(0, 240, 20)
        )
    with made.read() as unit:
        first = read(unit, [A], START, END, WEEK, among=1000)
    made.roll_up(END - timedelta(hours=1))
    with made.read() as unit:
        later = read(unit, [A], START, END, WEEK, among=1000)
        small = read(unit, [A], START, END, WEEK, among=20)
    newest = [max(one.end for _, one in found.pairs[A]) for found in (first, later, small)]
    assert newest == [END, END - timedelta(hours=1), END]


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


def report_among(store: MemoryStore, others: int) -> WeeklyReport:
    servers = (A, *(ServerName(f"o{number}") for number in range(others)))
    with store.read() as unit:
        return assemble(
            unit, [Group(name=GroupName("chat"), servers=servers)], end=END, now=END, key="k", host="h", target=0.6,
            simulated=False, policies=load_slos({"s.yaml": SLOS}),
        )


def test_the_report_says_the_same_of_a_server_however_many_there_are(store: MemoryStore) -> None:
    small, large = report_among(store, 1).groups[0], report_among(store, 200).groups[0]
    one, same = small.servers[0], large.servers[0]
    assert same.generation_tokens == one.generation_tokens
    for name in ("acceptance_rate", "acceptance_length", "num_drafts", "time_to_first_token_seconds_p95"):
        assert same.figures[name] == pytest.approx(one.figures[name])
        assert same.before[name] == pytest.approx(one.before[name])
    assert same.covered == one.covered == 1.0
    assert [slo.sli for slo in large.slos] == [slo.sli for slo in small.slos] == [1.0]
    assert large.slos[0].valid == pytest.approx(small.slos[0].valid, rel=0.05)
    assert len(large.trend) == 28
    assert {point.acceptance_rate for point in large.trend} == {one.figures["acceptance_rate"]}
    assert report_among(store, 1).notes == ()
    assert report_among(store, 200).notes == ("Made from sums by the day, up to the last hour that was rolled up.",)
    assert same.trend == ()
    assert same.equal_load_change is None


def test_of_very_many_servers_what_moves_over_time_is_read_by_the_day(store: MemoryStore) -> None:
    small, huge = report_among(store, 1).groups[0], report_among(store, 600).groups[0]
    one, same = small.servers[0], huge.servers[0]
    assert same.generation_tokens == one.generation_tokens and same.covered == 1.0
    assert same.figures["acceptance_rate"] == pytest.approx(one.figures["acceptance_rate"])
    assert [slo.sli for slo in huge.slos] == [slo.sli for slo in small.slos] == [1.0]
    assert huge.slos[0].valid == pytest.approx(small.slos[0].valid, rel=0.05)
    assert len(huge.trend) == 7 and same.trend == ()
    assert {point.acceptance_rate for point in huge.trend} == {one.figures["acceptance_rate"]}
