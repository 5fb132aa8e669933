from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monitor.model.counts import Histogram
from monitor.model.slo import Indicator
from monitor.slo.events import Events, Share, events_of, share_of
from tests.unit.slo.slos import INF, histogram, interval, slo


@pytest.mark.parametrize(
    ("threshold", "below"),
    [(0.5, 10.0), (1.0, 20.0), (4.0, 60.0), (2.0, 20 + 40 / 3), (0.25, 5.0), (0.0, 0.0), (9.0, 60.0), (0.75, 15.0)],
)
def test_observations_below_a_threshold_are_interpolated_in_their_bucket(threshold: float, below: float) -> None:
    """As PromQL's histogram_fraction x count; beyond the last finite edge nothing is known to be good."""
    assert histogram(10, 20, 60, 64).at_most(threshold) == pytest.approx(below)


@settings(deadline=None)
@given(
    st.lists(st.floats(0, 50), min_size=1, max_size=5), st.floats(0, 10), st.floats(0, 10),
)
def test_more_observations_lie_below_a_higher_threshold(counts: list[float], one: float, other: float) -> None:
    edges = (*(2.0**i for i in range(len(counts) - 1)), INF)
    cumulative = tuple(sum(counts[: i + 1]) for i in range(len(counts)))
    found = Histogram(edges, cumulative, 0.0, cumulative[-1])
    low, high = sorted((one, other))
    assert 0.0 <= found.at_most(low) <= found.at_most(high) + 1e-9 <= cumulative[-1] + 1e-6


class TestLatency:
    def test_events_are_the_observations_of_its_own_histogram(self) -> None:
        one = interval(15, ttft=histogram(10, 20, 60, 64), inter_token=histogram(0, 0, 0, 9))
        assert events_of(slo(threshold=1.0), one) == Events(20.0, 64.0)
        assert events_of(slo(Indicator.INTER_TOKEN, 1.0), one) == Events(0.0, 9.0)

    def test_without_traffic_there_are_no_events_and_it_is_watched(self) -> None:
        assert events_of(slo(), interval(15, ttft=histogram(0, 0, 0, 0))) == Events(0.0, 0.0)

    def test_what_the_page_does_not_have_is_not_known(self) -> None:
        assert events_of(slo(), interval(15)) is None
        assert events_of(slo(Indicator.E2E_REQUEST, 5.0), interval(15, ttft=histogram(1, 1, 1, 1))) is None


class TestAvailability:
    AIM = slo(Indicator.AVAILABILITY, None)

    @pytest.mark.parametrize(
        ("fields", "events"),
        [
            ({"responses": {"2xx": 90.0, "4xx": 6.0, "5xx": 4.0}}, Events(96.0, 100.0)),
            # Rejections are answers already: the larger of both, never the sum.
            ({"responses": {"2xx": 90.0, "5xx": 10.0}, "rejections": 10.0}, Events(90.0, 100.0)),
            ({"responses": {"2xx": 90.0, "4xx": 10.0}, "rejections": 10.0}, Events(90.0, 100.0)),
            ({"responses": {"2xx": 5.0}, "rejections": 50.0}, Events(0.0, 5.0)),
            ({"finished": {"stop": 97.0, "abort": 2.0, "error": 1.0}}, Events(99.0, 100.0)),
            ({"finished": {"stop": 90.0}, "rejections": 10.0}, Events(90.0, 100.0)),
            # Everything is refused and nothing ends.
            ({"rejections": 10.0}, Events(0.0, 10.0)),
            ({}, None),
        ],
    )
    def test_5xx_and_rejections_are_bad(self, fields: dict[str, object], events: Events | None) -> None:
        assert events_of(self.AIM, interval(15, **fields)) == events  # type: ignore[arg-type]


class TestShares:
    def test_acceptance_is_accepted_of_drafted(self) -> None:
        one = interval(15, drafts=100.0, draft_tokens=300.0, accepted=180.0)
        assert share_of(slo(Indicator.ACCEPTANCE, 0.6), one) == Share(180.0, 300.0, 100.0)
        assert share_of(slo(Indicator.ACCEPTANCE, 0.6), interval(15, drafts=0.0)) is None
        assert share_of(slo(Indicator.ACCEPTANCE, 0.6), interval(15)) is None

    def test_efficiency_counts_steps_without_a_draft_where_they_are_known(self) -> None:
        aim = slo(Indicator.EFFICIENCY, 0.5)
        steps = histogram(0, 0, 0, 200)
        survival = (90.0, 60.0, 30.0)
        one = interval(15, drafts=100.0, draft_tokens=300.0, accepted=180.0, per_pos=survival, inter_token=steps)
        assert share_of(aim, one) == Share(380.0, 800.0, 100.0)
        without = interval(15, drafts=100.0, draft_tokens=300.0, accepted=180.0)
        assert share_of(aim, without) == Share(280.0, 400.0, 100.0)

    def test_throughput_counts_only_where_there_is_work(self) -> None:
        aim = slo(Indicator.THROUGHPUT, 50.0)
        assert share_of(aim, interval(15, tokens=900.0, running=2.0)) == Share(900.0, None)
        assert share_of(aim, interval(15, tokens=900.0, running=0.5)) is None
        assert share_of(aim, interval(15, tokens=900.0)) is None
        assert share_of(aim, interval(15, tokens=900.0, running=2.0, is_gap=True)) is None
