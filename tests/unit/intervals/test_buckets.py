"""Adding intervals up by buckets: where each belongs, and what is kept apart."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.intervals.buckets import STEPS, bucket_end, by_bucket, complete_until
from monitor.model.counts import SpeculationCounts
from monitor.model.interval import Interval
from monitor.model.life import LifeId
from monitor.model.reading import Flag
from monitor.model.server import ServerName

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
MOMENTS = st.datetimes(datetime(1999, 1, 1), datetime(2099, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001


def interval(end: float, seconds: float = 15.0, life: str = "l", **fields: object) -> Interval:
    return Interval(
        life=LifeId(life),
        server=ServerName("a"),
        start=NOON + timedelta(seconds=end - seconds),
        end=NOON + timedelta(seconds=end),
        elapsed_seconds=seconds,
        speculation=SpeculationCounts(10.0, 30.0, 20.0),
        speculation_seconds=seconds,
        **fields,  # type: ignore[arg-type]
    )


@given(MOMENTS, st.sampled_from(STEPS))
def test_a_bucket_holds_its_end_and_not_its_beginning(moment: datetime, step: int) -> None:
    end = bucket_end(moment, step)
    assert end - timedelta(seconds=step) < moment <= end
    assert bucket_end(end, step) == end == complete_until(end, step)
    assert complete_until(moment, step) <= moment < complete_until(moment, step) + timedelta(seconds=step)
    assert end.timestamp() % step == 0


def test_steps_nest() -> None:
    assert all(longer % shorter == 0 for shorter, longer in pairwise(STEPS))


@pytest.mark.parametrize(
    ("ends", "buckets"),
    [
        ([15, 300], {300: 20.0}),
        ([300, 301], {300: 10.0, 600: 10.0}),
        ([0, 600.000001], {0: 10.0, 900: 10.0}),
        ([], {}),
    ],
)
def test_counts_lie_in_the_bucket_of_their_end(ends: list[float], buckets: dict[float, float]) -> None:
    found = by_bucket([interval(end) for end in ends], 300)
    drafts = {
        (end - NOON).total_seconds(): whole.speculation.num_drafts
        for (_, end, _), whole in found.items()
        if whole.speculation is not None
    }
    assert drafts == buckets


def test_a_whole_spans_from_the_first_start_to_the_last_end() -> None:
    (whole,) = by_bucket([interval(45), interval(15), interval(30)], 300).values()
    assert (whole.start, whole.end) == (NOON, NOON + timedelta(seconds=45))
    assert (whole.elapsed_seconds, whole.speculation_seconds) == (45.0, 45.0)


def test_lives_flags_and_partial_ones_stay_apart() -> None:
    bad = frozenset({Flag.IDENTITIES_BROKEN})
    parts = [
        interval(15), interval(30), interval(45, flags=bad), interval(60, flags=bad), interval(75, partial=True),
        interval(15, life="m"),
    ]  # fmt: skip
    found = by_bucket(parts, 300)
    kinds = {(life, kind): whole.elapsed_seconds for (life, _, kind), whole in found.items()}
    assert kinds == {("l", ""): 30.0, ("l", "identities_broken"): 30.0, ("l", "partial"): 15.0, ("m", ""): 15.0}
    assert [whole.flags for (_, _, kind), whole in found.items() if kind == "identities_broken"] == [bad]


def test_a_gap_is_none_in_a_bucket_that_is_as_long() -> None:
    short, long_ = interval(299, 120.0, is_gap=True), interval(599, 301.0, is_gap=True)
    found = by_bucket([short, long_], 300)
    assert {kind: whole.is_gap for (_, _, kind), whole in found.items()} == {"": False, "gap": True}
    assert [whole.is_gap for whole in by_bucket(found.values(), 3600).values()] == [False]
