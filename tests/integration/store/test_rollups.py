"""Intervals added up: the same counts whichever way they are read, whatever was rolled up, pruned or late."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from monitor.errors import StoreError
from monitor.intervals.parts import by_part
from monitor.model.counts import Histogram, LatencyCounts, SpeculationCounts, TrafficCounts
from monitor.model.interval import GaugeSpan, Interval
from monitor.model.life import Life
from monitor.model.reading import Flag
from monitor.store import Retention, Store
from tests.fakes.memory_store import MemoryStore
from tests.integration.store.values import A, B, life

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
EVER = timedelta(days=4000)
KEEP = Retention(raw_hours=1, five_minutes_days=1, hours_days=30)
EDGES = (0.01, 0.1, math.inf)


def after(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def scraped(of: Life, end: float, seconds: float = 15.0, **fields: object) -> Interval:
    """Whole numbers that tell one interval from another, so that a sum shows what it was made of."""
    number = float(end + 1)
    values: dict[str, object] = {
        "speculation": SpeculationCounts(number, 3 * number, 2 * number, (number, 1.0)),
        "speculation_seconds": seconds,
        "traffic": TrafficCounts(generation_tokens=number, finished={"stop": 1.0}),
        "traffic_seconds": seconds,
        "latency": LatencyCounts(inter_token=Histogram(EDGES, (1.0, 2.0, 4.0), number, 4.0)),
        "latency_seconds": seconds,
        "gauges": GaugeSpan(running_mean=2.0, running_max=number),
        "gauges_seconds": seconds,
    }
    return Interval(
        life=of.id,
        server=of.server,
        start=after(end - seconds),
        end=after(end),
        elapsed_seconds=seconds,
        **(values | fields),  # type: ignore[arg-type]
    )


def fill(store: Store, of: Life, begin: float, end: float) -> None:
    with store.write() as unit:
        if unit.lives.get(of.id) is None:
            unit.lives.add(of)
        unit.intervals.add(scraped(of, each) for each in range(int(begin) + 15, int(end) + 1, 15))


def coarse(store: Store, step: int = 300) -> list[Interval]:
    with store.read() as unit:
        return unit.intervals.between_coarse(None, NOON - EVER, NOON + EVER, step)


def drafts(found: list[Interval]) -> float:
    return sum(each.speculation.num_drafts or 0.0 for each in found if each.speculation is not None)


@pytest.mark.parametrize("step", [300, 3600, 86_400])
def test_buckets_are_the_same_before_and_after_rolling_up_and_pruning(store: Store, step: int) -> None:
    one, other = life("one"), life("other", server=B, first_seen=after(-99))
    fill(store, one, 0, 3 * 3600 + 450)
    fill(store, other, 600, 5000)
    before = coarse(store, step)
    assert drafts(before) == sum(float(e + 1) for e in [*range(15, 3 * 3600 + 451, 15), *range(615, 5001, 15)])
    store.roll_up(after(3 * 3600 + 460))
    assert coarse(store, step) == before
    store.prune(after(86400 * 2), replace(KEEP, five_minutes_days=30))
    with store.read() as unit:
        assert unit.intervals.between(None, NOON - EVER, NOON + EVER) == []
    assert coarse(store, step) == before


def test_a_bucket_has_every_family_added_up(store: Store) -> None:
    fill(store, life(), 0, 300)
    store.roll_up(after(300))
    (whole,) = coarse(store)
    ends = range(15, 301, 15)
    total = float(sum(end + 1 for end in ends))
    assert whole == Interval(
        life=life().id, server=A, start=NOON, end=after(300), elapsed_seconds=300.0,
        speculation=SpeculationCounts(total, 3 * total, 2 * total, (total, 20.0)), speculation_seconds=300.0,
        traffic=TrafficCounts(generation_tokens=total, finished={"stop": 20.0}), traffic_seconds=300.0,
        latency=LatencyCounts(inter_token=Histogram(EDGES, (20.0, 40.0, 80.0), total, 80.0)), latency_seconds=300.0,
        gauges=GaugeSpan(running_mean=2.0, running_max=301.0), gauges_seconds=300.0,
    )  # fmt: skip


def test_what_is_newer_than_the_rollups_is_added_while_reading(store: Store) -> None:
    fill(store, life(), 0, 600)
    store.roll_up(after(600))
    fill(store, life(), 600, 750)
    assert [each.end for each in coarse(store)] == [after(300), after(600), after(750)]
    store.roll_up(after(750))
    fill(store, life(), 750, 900)
    assert [(each.end, each.elapsed_seconds) for each in coarse(store)][2:] == [(after(900), 300.0)]


def test_spans_servers_and_details_are_chosen(store: Store) -> None:
    fill(store, life("one"), 0, 900)
    fill(store, life("other", server=B), 0, 900)
    store.roll_up(after(900))
    with store.read() as unit:
        found = unit.intervals.between_coarse([B], after(300), after(900), 300)
        assert [(each.server, each.end) for each in found] == [(B, after(600)), (B, after(900))]
        assert unit.intervals.between_coarse([], after(300), after(900), 300) == []
        (bare,) = unit.intervals.between_coarse([A], after(600), after(900), 300, details=False)
    assert bare.speculation is not None and bare.speculation.accepted_per_pos is None
    assert bare.latency == LatencyCounts()


def test_flagged_intervals_do_not_spoil_their_bucket(store: Store) -> None:
    bad = scraped(life(), 45, flags=frozenset({Flag.IDENTITIES_BROKEN}))
    with store.write() as unit:
        unit.lives.add(life())
        unit.intervals.add([scraped(life(), 15), bad, scraped(life(), 300), scraped(life(), 315)])
    before = coarse(store)
    assert [(each.elapsed_seconds, bool(each.flags)) for each in before] == [(15.0, True), (30.0, False), (15.0, False)]
    store.roll_up(after(86400 * 2))
    assert coarse(store) == before
    assert len(coarse(store, 3600)) == 2


def test_late_intervals_are_rolled_up_again(store: Store) -> None:
    """As when a shared store was away, and is fed from a daemon's own afterwards."""
    fill(store, life(), 0, 300)
    fill(store, life(), 600, 4500)
    store.roll_up(after(4500))
    late = [scraped(life(), end) for end in range(315, 601, 15)]
    with store.write() as unit:
        assert unit.intervals.add(late, skip_known=True) == 20
    expected = sum(float(end + 1) for end in range(15, 4501, 15))
    for step in (300, 3600):
        assert drafts(coarse(store, step)) == expected
    store.roll_up(after(4500))
    for step in (300, 3600):
        assert drafts(coarse(store, step)) == expected
    assert len(coarse(store)) == 15


def test_what_comes_after_the_rest_of_its_bucket_was_pruned_is_added_to_it(store: Store) -> None:
    """As when a shared store that keeps intervals for two days was away from one host for three."""
    keep = replace(KEEP, five_minutes_days=30)
    fill(store, life(), 0, 150)
    store.prune(after(86400 * 2), keep)
    late = [scraped(life(), end) for end in range(165, 3901, 15)]
    expected = sum(float(end + 1) for end in range(15, 3901, 15))
    for begin, end in ((0, 5), (5, 7), (7, 250), (0, 250)):
        with store.write() as unit:
            unit.intervals.add(late[begin:end], skip_known=True)
        store.roll_up(after(86400 * 2))
    for step in (300, 3600):
        assert drafts(coarse(store, step)) == expected
    # All of it once more, from a file of old: what is there already is not added twice.
    store.prune(after(86400 * 2), keep)
    if not isinstance(store, MemoryStore):
        with store.write() as unit:
            unit.intervals.add([scraped(life(), end) for end in range(90, 3901, 15)], skip_known=True)
        store.roll_up(after(86400 * 2))
    for step in (300, 3600):
        assert drafts(coarse(store, step)) == expected


def test_a_server_that_is_gone_is_rolled_up_to_its_end(store: Store) -> None:
    fill(store, life(), 0, 450)
    before = coarse(store), coarse(store, 3600)
    store.prune(after(86400 * 1.5), KEEP)
    with store.read() as unit:
        assert unit.intervals.between(None, NOON - EVER, NOON + EVER) == []
    assert (coarse(store), coarse(store, 3600)) == (before[0] if isinstance(store, MemoryStore) else [], before[1])


def test_rolling_up_writes_what_is_new_and_nothing_else(store: Store) -> None:
    if isinstance(store, MemoryStore):
        pytest.skip("the fake has no rollups: it adds up while reading")
    assert store.roll_up(NOON) == 0
    fill(store, life(), 0, 3600)
    assert store.roll_up(after(3600)) == 13
    assert store.roll_up(after(3600)) == 0
    fill(store, life(), 3600, 3690)
    assert store.roll_up(after(3690)) == 0
    fill(store, life(), 3690, 3900)
    assert store.roll_up(after(3900)) == 1
    assert {table.name: table.rows for table in store.sizes().tables}["rollups"] == 14


def test_only_kept_steps_can_be_asked_for(store: Store) -> None:
    with pytest.raises(StoreError, match="60 s"), store.read() as unit:
        unit.intervals.between_coarse(None, NOON, after(60), 60)


def test_a_gap_of_days_is_passed_over(store: Store) -> None:
    fill(store, life(), 0, 300)
    with store.write() as unit:
        gap = scraped(life(), 86400 * 9, seconds=86400 * 9 - 300.0, is_gap=True)
        unit.intervals.add([gap])
    store.roll_up(after(86400 * 9 + 99))
    found = coarse(store)
    assert [(each.end, each.is_gap) for each in found] == [(after(300), False), (after(86400 * 9), True)]
    assert found[1] == replace(gap)


def test_the_first_are_given_where_few_are_wanted(store: Store) -> None:
    fill(store, life(), 0, 300)
    with store.read() as unit:
        assert [each.end for each in unit.intervals.between(None, NOON, after(300), limit=2)] == [after(15), after(30)]


#: The last is longer than all that is asked for.
LENGTHS = [timedelta(hours=2), timedelta(hours=6), timedelta(minutes=100), timedelta(hours=12)]


def ragged(store: Store) -> None:
    """Two servers with everything that a sum must keep apart: gaps, flags, a restart, numbers that a page lacks."""
    one, other, again = life("one"), life("other", server=B), life("again", first_seen=after(5 * 3600))
    fill(store, one, 0, 5 * 3600)
    fill(store, again, 5 * 3600, 9 * 3600 + 450)
    histogram = LatencyCounts(inter_token=Histogram(EDGES, (1.0, 2.0, 4.0), 0.5, 4.0))
    with store.write() as unit:
        unit.lives.add(other)
        unit.intervals.add([
            scraped(other, 600, 60.0, speculation=None, speculation_seconds=0.0, gauges=GaugeSpan(running_mean=0.25)),
            scraped(other, 1200, 600.0, is_gap=True, gauges=GaugeSpan(running_mean=9.0, running_max=11.0)),
            scraped(other, 7200, 6000.0, is_gap=True, latency=None, latency_seconds=0.0),
            scraped(other, 7260, 60.0, partial=True),
            scraped(other, 7320, 60.0, flags=frozenset({Flag.IDENTITIES_BROKEN}), latency=histogram),
            scraped(other, 7380, 60.0, traffic=TrafficCounts(generation_tokens=None, rejections=3.0)),
            scraped(other, 11_000, 60.0, latency=LatencyCounts()),
            scraped(other, 11_060, 60.0, gauges=GaugeSpan(), gauges_seconds=0.0),
        ])  # fmt: skip


def test_the_database_adds_hours_up_as_they_are_added_up_here(store: Store) -> None:
    memory = MemoryStore()
    ragged(store)
    ragged(memory)
    since, until, edges = NOON + timedelta(hours=1), NOON + timedelta(hours=10), (0.5, 1.0, 8.0)
    for rolled in (None, 4 * 3600.0, 9 * 3600.0 + 460):
        if rolled is not None:
            store.roll_up(after(rolled))
        with store.read() as unit, memory.read() as other:
            for length in LENGTHS:
                found = unit.intervals.in_parts([A, B], since, until, NOON, length)
                expected = other.intervals.in_parts([A, B], since, until, NOON, length)
                # What is rolled up and what is not yet may be two rows of one part: their sum is compared.
                added = [sorted(by_part(one, NOON, length), key=repr) for one in (found, expected)]
                assert added[0] == added[1], (rolled, length)
            loads = unit.intervals.by_load([A, B], since, until, edges)
            assert loads == other.intervals.by_load([A, B], since, until, edges)
            assert unit.intervals.in_parts([B], since, since, since, LENGTHS[0]) == []
    assert set(loads) == {A, B} and sum(seconds for _, seconds in loads[A].values()) == 8 * 3600 + 450


def test_what_is_newer_than_a_step_is_taken_from_finer_rollups_first(store: Store) -> None:
    one = life("one")
    fill(store, one, 0, 2 * 3600 + 1800)
    before = coarse(store, 86_400)
    store.roll_up(after(2 * 3600 + 1810))
    store.prune(after(7200 + 1800), replace(KEEP, raw_hours=0.2, five_minutes_days=30))
    assert coarse(store, 86_400) == before
