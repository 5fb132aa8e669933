"""Side rows of intervals: whatever is packed comes back to the last bit, and small."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.model.counts import Histogram, LatencyCounts, SpeculationCounts, TrafficCounts
from monitor.model.interval import Interval
from monitor.model.life import LifeId
from monitor.model.server import ServerName
from monitor.store.packing import Edges, Unpacked, pack

T0 = datetime(2026, 3, 1, tzinfo=UTC)
COUNTS = st.floats(0, 1e18, allow_nan=False) | st.integers(0, 2**53).map(float)
NAMES = st.dictionaries(st.text(max_size=8), COUNTS, max_size=4)
#: vLLM 0.10's edges of time to first token: `v1/metrics/loggers.py`.
TTFT = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0,
        160.0, 640.0, 2560.0, math.inf)  # fmt: skip


@st.composite
def histograms(draw: st.DrawFn) -> Histogram:
    edges = sorted(draw(st.sets(st.floats(allow_nan=False), max_size=12)))
    grown = draw(st.lists(st.just(0.0) | COUNTS, min_size=len(edges), max_size=len(edges)))
    values = sorted(grown) if draw(st.booleans()) else grown
    return Histogram(tuple(edges), tuple(values), draw(st.floats(allow_nan=False)), draw(COUNTS))


ARRAYS = st.none() | st.lists(COUNTS, max_size=8).map(tuple)
SPECULATIONS = st.builds(SpeculationCounts, COUNTS, COUNTS, COUNTS, ARRAYS, ARRAYS)
TRAFFICS = st.builds(
    TrafficCounts,
    generation_tokens=st.none() | COUNTS,
    finished=NAMES,
    http_responses=NAMES,
    prompt_length=st.none() | histograms(),
    output_length=st.none() | histograms(),
)
LATENCIES = st.builds(LatencyCounts, *(st.none() | histograms() for _ in range(5)))


class Numbers:
    """Numbers of edges, as the table gives them."""

    def __init__(self) -> None:
        self.all: list[Edges] = []

    def number(self, edges: Edges) -> int:
        if edges not in self.all:
            self.all.append(edges)
        return self.all.index(edges)

    def edges(self, number: int) -> Edges:
        return self.all[number]


def interval(**families: object) -> Interval:
    return Interval(
        life=LifeId("l"),
        server=ServerName("a"),
        start=T0,
        end=T0 + timedelta(seconds=15),
        elapsed_seconds=15.0,
        **families,  # type: ignore[arg-type]
    )


def bits(value: object) -> str:
    """Equal for equal bits: 0.0 is not -0.0 here."""
    return repr(value)


@given(SPECULATIONS, TRAFFICS, LATENCIES)
def test_what_is_packed_comes_back_to_the_last_bit(
    speculation: SpeculationCounts, traffic: TrafficCounts, latency: LatencyCounts
) -> None:
    numbers = Numbers()
    text = pack(interval(speculation=speculation, traffic=traffic, latency=latency), numbers.number)
    found = Unpacked(text, numbers.edges)
    drafts, draft_tokens, accepted = (
        speculation.num_drafts, speculation.num_draft_tokens, speculation.num_accepted_tokens,
    )  # fmt: skip
    assert bits(found.speculation(drafts, draft_tokens, accepted)) == bits(speculation)
    assert bits(found.traffic(traffic.generation_tokens, *(None,) * 6)) == bits(traffic)
    assert bits(found.latency()) == bits(latency)


def test_nothing_to_hold_makes_no_row() -> None:
    bare = interval(speculation=SpeculationCounts(1.0, 2.0, 3.0), traffic=TrafficCounts(5.0), latency=LatencyCounts())
    assert pack(bare, Numbers().number) is None
    assert Unpacked(None, Numbers().edges).latency() == LatencyCounts()


def test_no_positions_are_not_unknown_positions() -> None:
    text = pack(interval(speculation=SpeculationCounts(0.0, 0.0, 0.0, (), None)), Numbers().number)
    assert Unpacked(text, Numbers().edges).speculation(0.0, 0.0, 0.0).accepted_per_pos == ()


def test_a_histogram_takes_only_the_buckets_where_it_grows() -> None:
    cumulative = (0.0,) * 9 + (4.0, 11.0, 12.0) + (12.0,) * 11
    latency = LatencyCounts(time_to_first_token=Histogram(TTFT, cumulative, 6.25, 12.0))
    assert pack(interval(latency=latency), Numbers().number) == '{"t":[0,6.25,12,9,4,11,12]}'


def test_an_empty_histogram_is_short() -> None:
    latency = LatencyCounts(queue=Histogram(TTFT, (0.0,) * len(TTFT), 0.0, 0.0))
    text = pack(interval(latency=latency), Numbers().number)
    assert text == f'{{"q":[0,0,0,{len(TTFT)}]}}'


def test_edges_are_numbered_once() -> None:
    numbers = Numbers()
    one = Histogram(TTFT, (0.0,) * len(TTFT), 0.0, 0.0)
    pack(interval(latency=LatencyCounts(one, one, one, one, one)), numbers.number)
    assert numbers.all == [TTFT]


def test_a_broken_row_is_an_error() -> None:
    with pytest.raises(ValueError, match="EOF while parsing an object"):
        Unpacked("{", Numbers().edges)
