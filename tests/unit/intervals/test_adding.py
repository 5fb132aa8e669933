"""Adding up: over time counts and seconds, across engines counts; exact, or what is known."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from monitor.intervals.adding import (
    KNOWN,
    add_counts,
    add_histograms,
    add_speculation,
    add_traffic,
    over_time,
    pool_histograms,
    sum_all,
    sum_known,
)
from monitor.model.counts import Counts, Histogram, LatencyCounts, SpeculationCounts, TrafficCounts
from monitor.model.interval import GaugeSpan, Interval
from monitor.model.life import LifeId
from monitor.model.reading import Flag
from tests.fakes.readings import EPOCH, SERVER

INF = float("inf")


def interval(start: float, seconds: float, *, life: str = "a", tokens: float | None = 100, **more: object) -> Interval:
    fields: dict[str, object] = {
        "speculation": SpeculationCounts(40, 120, 60, (28, 20, 12)),
        "speculation_seconds": seconds,
        "traffic": TrafficCounts(generation_tokens=tokens, prompt_tokens=10, finished={"stop": 1}),
        "traffic_seconds": seconds,
        **more,
    }
    return Interval(
        life=LifeId(life),
        server=SERVER,
        start=EPOCH + timedelta(seconds=start),
        end=EPOCH + timedelta(seconds=start + seconds),
        elapsed_seconds=seconds,
        **fields,  # type: ignore[arg-type]
    )


def test_over_time_counts_and_covered_seconds_add() -> None:
    gauges = GaugeSpan(running_mean=2, running_max=3, kv_usage_mean=0.2, kv_usage_max=0.3)
    busy = GaugeSpan(running_mean=6, running_max=8, kv_usage_mean=None, kv_usage_max=None)
    added = over_time(
        [
            interval(15, 30, gauges=busy, gauges_seconds=30, flags=frozenset({Flag.BAD_SAMPLE}), partial=True),
            interval(0, 15, gauges=gauges, gauges_seconds=15),
        ]
    )
    assert (added.start, added.end) == (EPOCH, EPOCH + timedelta(seconds=45))
    assert added.elapsed_seconds == added.speculation_seconds == added.traffic_seconds == 45
    assert added.speculation == SpeculationCounts(80, 240, 120, (56, 40, 24))
    assert added.traffic is not None
    assert added.traffic.generation_tokens == 200
    assert added.traffic.finished == {"stop": 2}
    assert added.gauges.running_mean == pytest.approx((2 * 15 + 6 * 30) / 45)
    assert (added.gauges.running_max, added.gauges.kv_usage_mean, added.gauges.kv_usage_max) == (8, 0.2, 0.3)
    assert added.flags == {Flag.BAD_SAMPLE}
    assert added.partial
    assert not added.is_gap


def test_over_time_a_family_that_one_part_lacks_is_covered_less() -> None:
    added = over_time([interval(0, 15), interval(15, 15, speculation=None, speculation_seconds=0.0)])
    assert (added.speculation_seconds, added.traffic_seconds) == (15, 30)
    assert added.speculation is not None
    assert added.speculation.num_drafts == 40


def test_over_time_refuses_two_lives_and_none() -> None:
    with pytest.raises(ValueError, match="2 lives"):
        over_time([interval(0, 15), interval(15, 15, life="b")])
    with pytest.raises(ValueError, match="0 lives"):
        over_time([])


def test_across_engines_what_is_unknown_in_one_is_unknown_in_an_exact_sum_alone() -> None:
    parts = [TrafficCounts(generation_tokens=100, finished={"stop": 1}), TrafficCounts(finished={"stop": 2})]
    exact, known = add_traffic(parts), add_traffic(parts, KNOWN)
    assert exact is not None
    assert known is not None
    assert (exact.generation_tokens, known.generation_tokens) == (None, 100)
    assert exact.finished == known.finished == {"stop": 3}
    assert (sum_all([]), sum_known([None]), sum_known([None, 2.0]), sum_all([None, 2.0])) == (None, None, 2, None)


def test_positions_of_different_settings() -> None:
    added = add_speculation([SpeculationCounts(10, 30, 9, (5, 3, 1)), SpeculationCounts(10, 10, 5, (5,))])
    assert added == SpeculationCounts(20, 40, 14, (10, 3, 1))
    assert add_speculation([]) is None
    unknown = add_speculation([SpeculationCounts(10, 30, 9, (5, 3, 1)), SpeculationCounts(10, 10, 5, None)])
    assert unknown is not None
    assert unknown.accepted_per_pos is None


def test_histograms_add_only_with_equal_edges() -> None:
    one = Histogram((0.1, INF), (1, 2), 0.5, 2)
    assert add_histograms([one, one]) == Histogram((0.1, INF), (2, 4), 1.0, 4)
    assert add_histograms([one, Histogram((0.2, INF), (1, 2), 0.5, 2)]) is None
    assert add_histograms([one, None]) is None
    assert add_histograms([]) is None
    newer = Histogram((0.2, INF), (1, 2), 0.5, 2)
    assert pool_histograms([one, None, newer, newer]) == Histogram((0.2, INF), (2, 4), 1.0, 4)
    assert pool_histograms([None]) is None
    latency = add_counts([Counts(latency=LatencyCounts(queue=one)), Counts(latency=LatencyCounts(queue=one))]).latency
    assert latency is not None
    assert latency.queue is not None
    assert latency.queue.count == 4


def test_rejections_stand_on_one_engine_only() -> None:
    first = Counts(traffic=TrafficCounts(generation_tokens=1, rejections=3))
    other = Counts(traffic=TrafficCounts(generation_tokens=1))
    traffic = add_counts([first, other]).traffic
    assert traffic is not None
    assert traffic.rejections == 3


def test_splitting_an_interval_changes_no_sum() -> None:
    parts = [interval(15 * n, 15, tokens=10.0 * n) for n in range(6)]
    whole = over_time(parts)
    again = over_time([over_time(parts[:2]), over_time(parts[2:5]), parts[5]])
    assert replace(again, gauges=whole.gauges) == whole
