from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monitor.slo.ledger import Ledger, Total
from tests.unit.slo.slos import seconds

DAY = 86400.0


def filled(events: list[tuple[float, float, float]], period_days: float = 30) -> Ledger:
    ledger = Ledger(period_days * DAY)
    for at, good, valid in events:
        ledger.add(seconds(at), good, valid)
    return ledger


def test_a_window_holds_what_ended_in_it() -> None:
    ledger = filled([(60, 1, 1), (120, 0, 1), (180, 1, 1)])
    assert ledger.total(seconds(180), 120) == Total(1.0, 2.0, True)
    assert ledger.total(seconds(180), 180) == Total(2.0, 3.0, True)
    assert ledger.total(seconds(180), 30 * DAY) == Total(2.0, 3.0, True)


def test_what_is_later_than_now_does_not_count_so_that_the_past_can_be_asked() -> None:
    ledger = filled([(60, 1, 1), (600, 1, 1)])
    assert ledger.total(seconds(60), 60) == Total(1.0, 1.0, True)


def test_watched_and_quiet_differs_from_not_watched() -> None:
    ledger = filled([(60, 0, 0)])
    assert ledger.total(seconds(60), 300) == Total(0.0, 0.0, True)
    assert ledger.total(seconds(3600), 300) == Total(0.0, 0.0, False)
    assert Ledger(30 * DAY).total(seconds(0), 300) == Total(0.0, 0.0, False)


def test_what_is_older_than_the_period_is_forgotten() -> None:
    ledger = filled([(0, 1, 1), (31 * DAY, 1, 1), (0, 1, 1)])
    assert ledger.total(seconds(31 * DAY), 60 * DAY) == Total(1.0, 1.0, True)


def test_a_long_silence_leaves_nothing_of_the_past_in_the_ring() -> None:
    ledger = filled([(i * 60.0, 0, 1) for i in range(500)] + [(90 * DAY, 1, 1)])
    for window in (300, 3600, 6 * 3600, DAY, 3 * DAY, 30 * DAY):
        assert ledger.total(seconds(90 * DAY), window) == Total(1.0, 1.0, True)


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 3 * 1440), st.integers(0, 5), st.integers(0, 5)), max_size=60),
    st.sampled_from([300.0, 1800.0, 3600.0, 6 * 3600.0]),
    st.integers(0, 3 * 1440),
)
def test_on_whole_minutes_it_equals_adding_by_hand(
    minutes: list[tuple[int, int, int]], window: float, now: int
) -> None:
    ledger = filled([(m * 60.0, g, g + b) for m, g, b in minutes])
    newest = max((m for m, _, _ in minutes), default=0)
    now = max(now, newest)
    kept = [(g, g + b) for m, g, b in minutes if now * 60 - window < m * 60 <= now * 60]
    total = ledger.total(seconds(now * 60.0), window)
    assert (total.good, total.valid) == (sum(g for g, _ in kept), sum(v for _, v in kept))
    assert total.is_watched == bool(kept)


@pytest.mark.parametrize("window", [300.0, 3600.0, 6 * 3600.0, DAY, 3 * DAY, 30 * DAY])
def test_any_order_gives_the_same(window: float) -> None:
    events = [(i * 977.0, float(i % 3), 3.0) for i in range(3000)]
    end = seconds(3000 * 977.0)
    shuffled = [events[(i * 1237) % 3000] for i in range(3000)]
    # The newest first, so that every ring has its place from the beginning.
    assert filled([events[-1], *events[:-1]]).total(end, window) == filled([events[-1], *(
        e for e in shuffled if e != events[-1]
    )]).total(end, window)
