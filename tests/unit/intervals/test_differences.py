"""Differences of counts: what fell, what was not there, what never was."""

from __future__ import annotations

from dataclasses import replace

import pytest

from monitor.intervals.differences import has_lost, subtract
from monitor.model.counts import Counts, Histogram, LatencyCounts, SpeculationCounts, TrafficCounts

INF = float("inf")
OLD = Counts(
    SpeculationCounts(100, 300, 150, (70, 50, 30)),
    TrafficCounts(generation_tokens=260, prompt_tokens=900, finished={"stop": 3}, http_responses={"2xx": 3}),
    LatencyCounts(inter_token=Histogram((0.1, INF), (90, 100), 2.0, 100)),
)
NEW = Counts(
    SpeculationCounts(140, 420, 210, (98, 70, 42)),
    TrafficCounts(
        generation_tokens=362, prompt_tokens=950, finished={"stop": 4, "abort": 1}, http_responses={"2xx": 4}
    ),
    LatencyCounts(inter_token=Histogram((0.1, INF), (125, 140), 2.8, 140)),
)


def test_every_family() -> None:
    difference = subtract(NEW, OLD)
    assert difference.fallen == []
    assert difference.counts.speculation == SpeculationCounts(40, 120, 60, (28, 20, 12))
    traffic = difference.counts.traffic
    assert traffic is not None
    assert (traffic.generation_tokens, traffic.prompt_tokens) == (102, 50)
    assert traffic.finished == {"stop": 1, "abort": 1}
    latency = difference.counts.latency
    assert latency is not None
    assert latency.inter_token is not None
    assert latency.inter_token.cumulative == (35.0, 40.0)
    assert latency.inter_token.total == pytest.approx(0.8)


def test_what_is_unknown_on_either_side_has_no_difference() -> None:
    for new, old in ((NEW, Counts()), (Counts(), OLD)):
        assert subtract(new, old).counts == Counts(None, None, None)
    partly = replace(OLD, speculation=SpeculationCounts(None, 300, 150))
    found = subtract(NEW, partly).counts.speculation
    assert found is not None
    assert (found.num_drafts, found.num_draft_tokens) == (None, 120)


def test_a_number_that_fell_is_named_and_only_its_family_or_number_is_lost() -> None:
    assert OLD.traffic is not None
    assert OLD.speculation is not None
    difference = subtract(NEW, replace(OLD, traffic=replace(OLD.traffic, generation_tokens=400)))
    assert difference.fallen == ["generation_tokens"]
    assert difference.counts.traffic is not None
    assert difference.counts.traffic.generation_tokens is None
    assert difference.counts.traffic.prompt_tokens == 50
    assert difference.counts.speculation is not None
    difference = subtract(NEW, replace(OLD, speculation=replace(OLD.speculation, num_accepted_tokens=999)))
    assert difference.fallen == ["num_accepted_tokens"]
    assert difference.counts.speculation is None
    difference = subtract(NEW, replace(OLD, traffic=replace(OLD.traffic, finished={"stop": 9})))
    assert difference.counts.traffic is not None
    assert difference.counts.traffic.finished == {}


def test_a_label_that_vanished_makes_its_map_unknown() -> None:
    assert OLD.traffic is not None
    old = replace(OLD, traffic=replace(OLD.traffic, finished={"stop": 3, "length": 1}))
    traffic = subtract(NEW, old).counts.traffic
    assert traffic is not None
    assert traffic.finished_requests is None


def test_speculation_that_appears_counts_from_zero_where_it_can_have() -> None:
    fresh = replace(NEW, speculation=SpeculationCounts(40, 120, 60, (28, 20, 12)))
    before = replace(OLD, speculation=None)
    assert subtract(fresh, before, late=True).counts.speculation == fresh.speculation
    assert subtract(fresh, before).counts.speculation is None  # it prints zeros: the page before lost them
    assert subtract(NEW, before, late=True).counts.speculation is None  # 140 drafts, 102 tokens
    more = replace(NEW, speculation=SpeculationCounts(40, 120, 70, (38, 20, 12)))
    assert subtract(more, before, late=True).counts.speculation is None  # 110 tokens from drafts, 102 tokens
    zero = replace(NEW, speculation=SpeculationCounts(0, 0, 0, (0, 0, 0)))
    before = replace(before, traffic=None)
    assert subtract(zero, before, late=True).counts.speculation == zero.speculation


def test_lazy_engines_print_from_the_first_observation() -> None:
    difference = subtract(NEW, Counts(), lazy=True)
    assert difference.counts.traffic == NEW.traffic
    assert difference.counts.latency == NEW.latency
    assert NEW.traffic is not None
    assert OLD.traffic is not None
    preempted = replace(NEW, traffic=replace(NEW.traffic, preemptions=4))
    half = replace(OLD, traffic=replace(OLD.traffic, prompt_tokens=None))
    for lazy, preemptions in ((True, 4), (False, None)):
        traffic = subtract(preempted, half, lazy=lazy).counts.traffic
        assert traffic is not None
        assert traffic.preemptions == preemptions
        assert traffic.prompt_tokens is None  # they come with the generated ones, so the page before had lost them


def test_a_lifes_worth_is_not_new() -> None:
    assert subtract(NEW, Counts(), lazy=True, most=361).counts.traffic is None
    latency = subtract(NEW, Counts(), lazy=True, most=139).counts.latency
    assert latency is not None
    assert latency.inter_token is None
    assert NEW.traffic is not None
    assert OLD.traffic is not None
    lost = replace(OLD, traffic=replace(OLD.traffic, generation_tokens=None, finished={}))
    found = subtract(NEW, lost, lazy=True, most=3).counts.traffic
    assert found is not None
    assert found.generation_tokens is None
    assert found.finished == {}


@pytest.mark.parametrize(
    ("new", "old", "answer"),
    [
        (NEW, OLD, False),
        (replace(NEW, speculation=None), OLD, True),
        (replace(NEW, speculation=SpeculationCounts(140, 420, None, (98, 70, 42))), OLD, True),
        (replace(NEW, speculation=SpeculationCounts(140, 420, 210)), OLD, True),
        (replace(NEW, traffic=None), OLD, True),
        (replace(NEW, latency=None), OLD, False),
        (NEW, Counts(), False),
        (replace(NEW, speculation=None), replace(OLD, speculation=None), False),
    ],
)
def test_lost_counters(new: Counts, old: Counts, answer: bool) -> None:
    assert has_lost(new, old) is answer


def test_estimates_come_and_go() -> None:
    assert not has_lost(replace(NEW, speculation=None), OLD, estimated=True)


@pytest.mark.parametrize(
    ("before", "accepted", "expected"),
    [
        ((70, 50, 30), 150, (28, 20, 12)),
        ((70, 50), 120, (28, 20, 42)),
        ((70, 50), 150, None),
        (None, 0, (98, 70, 42)),
        (None, 150, None),
        ((70, 50, 30, 0), 150, None),
    ],
    ids=[
        "all there",
        "a new one was 0",
        "the old ones are not all",
        "none yet",
        "none though accepted",
        "one vanished",
    ],
)
def test_positions(before: tuple[float, ...] | None, accepted: float, expected: tuple[float, ...] | None) -> None:
    found = subtract(NEW, replace(OLD, speculation=SpeculationCounts(100, 300, accepted, before))).counts.speculation
    assert found is not None
    assert found.accepted_per_pos == expected


def histogram_difference(new: Histogram, old: Histogram) -> tuple[Histogram | None, list[str]]:
    difference = subtract(Counts(latency=LatencyCounts(queue=new)), Counts(latency=LatencyCounts(queue=old)))
    assert difference.counts.latency is not None
    return difference.counts.latency.queue, difference.fallen


def test_histograms() -> None:
    old = Histogram((0.1, INF), (90, 100), 2.0, 100)
    assert histogram_difference(Histogram((0.2, INF), (99, 110), 2.2, 110), old) == (None, [])
    assert histogram_difference(Histogram((0.1, INF), (80, 110), 2.2, 110), old) == (None, ["queue"])
    assert histogram_difference(Histogram((0.1, INF), (99, 100), 2.0, 100), old) == (None, [])
    same = histogram_difference(Histogram((0.1, INF), (90, 100), 1.9999, 100), old)[0]
    assert same == Histogram((0.1, INF), (0, 0), 0.0, 0)
