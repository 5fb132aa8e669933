"""Whether the servers that remain would carry the busiest minutes of the last day."""

from __future__ import annotations

from datetime import timedelta

import pytest

from monitor.model.interval import Interval
from monitor.signals.capacity import Peak, carrying, peak_of
from tests.unit.signals.windows import NOON, interval, life


def bucket(end: float, *, servers: int = 4, running: float = 6.0, **more: float) -> list[Interval]:
    """Five minutes of a group, in intervals of a minute, ending `end` seconds after noon."""
    return [
        interval(life(f"s{n}"), end - 60.0 * step, seconds=60.0, running=running, **more)  # type: ignore[arg-type]
        for n in range(servers)
        for step in range(5)
    ]


def peak(requests: float = 24.0, kv: float | None = 1.2, *, queued: bool = False) -> Peak:
    return Peak(at=NOON, requests=requests, kv_usage=kv, queued=queued)


class TestPeak:
    def test_it_is_the_five_minutes_with_most_requests_in_the_group(self) -> None:
        found = peak_of([*bucket(-3600), *bucket(-1800, running=9.0, waiting=1.0, kv=0.5), *bucket(0)])
        assert found is not None
        assert (found.at, found.requests, found.kv_usage) == (NOON - timedelta(seconds=1800), 40.0, 2.0)

    def test_a_burst_within_five_minutes_is_averaged(self) -> None:
        calm = bucket(0, servers=1)
        burst = interval(life("s0"), 0.0, seconds=60.0, running=60.0)
        found = peak_of([burst, *calm[1:]])
        assert found is not None and found.requests == pytest.approx(16.8)

    def test_engines_of_a_server_add_their_requests_and_share_its_caches(self) -> None:
        both = [interval(life("a", engine=e), 0.0, seconds=60.0, running=3.0, kv=0.4) for e in "01"]
        found = peak_of(both)
        assert found is not None and (found.requests, found.kv_usage) == (6.0, pytest.approx(0.4))

    def test_lives_that_follow_each_other_are_one_server(self) -> None:
        lives = [interval(life("a", number=n), -60.0 * n, seconds=60.0, running=3.0) for n in range(2)]
        found = peak_of([*lives, *bucket(0, servers=1)])
        assert found is not None and found.requests == pytest.approx((3 * 60 + 3 * 60) / 300 + 6.0)

    def test_a_queue_for_most_of_the_time_is_told(self) -> None:
        for waiting, queued in ((0.5, False), (4.0, True)):
            found = peak_of(bucket(0, running=20.0, waiting=waiting))
            assert found is not None and found.queued is queued

    def test_pages_that_say_nothing_give_none(self) -> None:
        assert peak_of([]) is None
        assert peak_of(bucket(0, running=None)) is None  # type: ignore[arg-type]


class TestCarrying:
    def test_enough_places_and_cache_carry_it_and_the_numbers_are_said(self) -> None:
        found = carrying(peak(), 3, 64)
        assert found.ok is True
        assert found.sentence == (
            "3 remaining servers: 8.0 requests each at the last day's peak (2026-03-04 12:00 UTC), of 64 places, "
            "40% of its KV cache"
        )

    @pytest.mark.parametrize(
        ("given", "survivors", "places", "said"),
        [
            pytest.param(peak(60.0), 1, 64, "more than 90% of the 64 places of a server", id="too few places"),
            pytest.param(peak(kv=1.4), 1, 64, "140% of a server's KV cache", id="too little cache"),
            pytest.param(peak(queued=True), 3, 64, "requests already queued", id="already queued"),
        ],
    )
    def test_too_little_does_not(self, given: Peak, survivors: int, places: int | None, said: str) -> None:
        found = carrying(given, survivors, places)
        assert found.ok is False and said in found.sentence

    def test_either_is_enough_to_predict_from_and_neither_is_not(self) -> None:
        assert carrying(peak(kv=None), 3, 64).ok is True
        assert carrying(peak(), 3, None).ok is True
        assert carrying(peak(kv=None), 3, None).ok is False
        assert carrying(None, 3, 64).ok is None
