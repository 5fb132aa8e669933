"""Folding for memory: whatever an interval holds comes back, and what looking back asks is there without unfolding."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import timedelta

import pytest

from monitor.cycle.folding import Digests, Pairs, fold, numbers_of, unfold
from monitor.model.counts import Histogram, LatencyCounts, SpeculationCounts, TrafficCounts
from monitor.model.interval import GaugeSpan, Interval
from monitor.model.reading import Flag
from monitor.signals.track import Digest, Drafted, digest_of
from tests.unit.signals.windows import NOON, interval, life

EDGES = (0.1, 0.5, 2.0, math.inf)
FULL = interval(life("a"), 0.0)
CASES = {
    "all of a plain interval": FULL,
    "families that a page lacks": replace(FULL, speculation=None, traffic=None, latency=None, gauges=GaugeSpan()),
    "flags, a gap, a part": replace(
        FULL, flags=frozenset({Flag.IDENTITIES_BROKEN, Flag.BAD_SAMPLE}), is_gap=True, partial=True
    ),
    "microseconds": replace(
        FULL, start=NOON - timedelta(seconds=15, microseconds=7), end=NOON + timedelta(microseconds=123_457),
        elapsed_seconds=15.000_000_1,
    ),
    "counts beyond 32 bits, and fractions": replace(
        FULL, speculation=SpeculationCounts(2.0**40, 0.1, -3.0, (7.0, 2.0**31), (math.inf, 0.0))
    ),
    "traffic with maps": replace(
        FULL, traffic=TrafficCounts(generation_tokens=3.0, finished={"stop": 2.0, "length": 0.0},
                                    http_responses={"2xx": 70_000.0, "5xx": 0.5}, preemptions=0.0)
    ),
    "histograms: small, large, empty, falling, fractional, unknown": replace(
        FULL,
        traffic=TrafficCounts(prompt_length=Histogram(EDGES, (0.0, 0.0, 0.0, 0.0), 0.0, 0.0),
                              output_length=Histogram((), (), 1.0, 1.0)),
        latency=LatencyCounts(
            time_to_first_token=Histogram(EDGES, (0.0, 3.0, 3.0, 258.0), 1.5, 258.0),
            inter_token=Histogram(EDGES, (1.0, 257.0, 90_000.0, 90_000.0), 7e9, 90_000.0),
            e2e_request=Histogram(EDGES, (5.0, 4.0, 4.0, 6.0), 2.0, 6.0),
            queue=Histogram(EDGES, (0.25, 0.5, 0.5, 0.5), -2.0, 0.5),
        ),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_what_is_folded_comes_back(case: str) -> None:
    back = unfold(fold(CASES[case]), life("a").id, life("a").server)
    assert back == CASES[case]
    assert isinstance(back, Interval)
    numbers = back.latency.inter_token.cumulative if back.latency and back.latency.inter_token else ()
    assert {type(number) for number in numbers} <= {float}


@pytest.mark.parametrize(
    "odd", [(1, 2, 2, 7), (0.5, 1.0, 2.0, 7.0), (1.0, 2.0, math.inf, math.inf), (3.0, 1.0, 7.0, 7.0)]
)
def test_buckets_of_any_number_come_back(odd: tuple[float, ...]) -> None:
    """Whole numbers without a point, parts of one, none at all, and buckets that fall."""
    latency = replace(FULL.latency, queue=Histogram(EDGES, odd, 1.0, 7.0)) if FULL.latency else None
    back = unfold(fold(replace(FULL, latency=latency)), life("a").id, life("a").server)
    assert back.latency is not None and back.latency.queue is not None
    assert back.latency.queue.cumulative == odd


def test_it_is_of_the_life_as_known_now() -> None:
    known = replace(life("b"), ended=NOON)
    back = unfold(fold(FULL), known.id, known.server)
    assert (back.life, back.server) == (known.id, known.server)


def test_not_a_number_stays_one() -> None:
    odd = replace(FULL, gauges=GaugeSpan(running_mean=math.nan), gauges_seconds=15.0)
    back = unfold(fold(odd), life("a").id, life("a").server).gauges.running_mean
    assert back is not None
    assert math.isnan(back)


def test_pairs_are_unfolded_where_they_are_asked_for() -> None:
    first, second, third = (interval(life("a"), seconds) for seconds in (0.0, 15.0, 30.0))
    one = life("a")
    pairs = Pairs([one] * 3, list(map(fold, (first, second, third))))
    assert list(pairs) == [(one, first), (one, second), (one, third)]
    assert pairs[1:] == [(one, second), (one, third)]
    assert pairs[-1] == (one, third)
    assert pairs[-2] == (one, second)
    assert len(pairs) == 3


def test_digests_are_as_they_were_made() -> None:
    made = [
        digest_of(FULL, life("a").setting),
        Digest(NOON, 15.5, None, None, 12.0),
        Digest(NOON, 60.0, Drafted(10.0, 7.0, None), 1.5, None),
    ]
    found = Digests(numbers_of(made))
    assert list(found) == made
    assert found[1:] == made[1:]
    assert found[-1] == made[-1]
    assert not Digests(numbers_of([]))
    with pytest.raises(IndexError):
        found[3]
