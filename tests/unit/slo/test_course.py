"""How an objective fared: the budget as it was spent ends at the objective's own figure, whatever the steps."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monitor.slo.burn import status_of
from monitor.slo.course import course_of
from monitor.slo.ledger import Ledger
from tests.unit.slo.slos import seconds, slo

DAY = 86400.0
SLO = slo(objective=0.99, period_days=7.0)


def test_the_budget_falls_where_it_was_spent_and_the_burn_rate_says_how_fast() -> None:
    ledger = Ledger(7 * DAY)
    for minute in range(1, 121):
        bad = 5.0 if minute == 60 else 0.0
        ledger.add(seconds(minute * 60.0), 10.0 - bad, 10.0)
    found = course_of(SLO, ledger, {"group": "g"}, seconds(7200))
    # Two hours are known, so steps are of a minute each.
    assert (found.step_seconds, len(found.times)) == (60.0, 120)
    assert found.times[0] == seconds(60) and found.times[-1] == seconds(7200)
    # 100,800 events of seven days would allow 1,008 bad ones; five were.
    assert found.error_budget_remaining[58] == 1.0
    assert found.error_budget_remaining[59] == pytest.approx(1 - 5 / 1008, abs=1e-4)
    assert found.error_budget_remaining[59] == found.error_budget_remaining[-1]
    assert found.burn_rate[59] == pytest.approx(50.0) and found.burn_rate[60] == 0.0


def test_nothing_counted_gives_no_course_and_quiet_time_no_burn_rate() -> None:
    assert course_of(SLO, Ledger(7 * DAY), {}, seconds(60)).times == ()
    quiet = Ledger(7 * DAY)
    quiet.add(seconds(60), 0.0, 0.0)
    found = course_of(SLO, quiet, {}, seconds(120))
    assert set(found.error_budget_remaining) == set(found.burn_rate) == {None}


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 9 * 1440), st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=60),
    st.integers(0, 1440),
)
def test_it_ends_at_the_objectives_own_figure_in_at_most_so_many_steps(
    events: list[tuple[int, int, int]], later: int
) -> None:
    ledger = Ledger(7 * DAY)
    for minute, good, bad in sorted(events):
        ledger.add(seconds(minute * 60.0), good, good + bad)
    now = seconds((max(minute for minute, _, _ in events) + later) * 60.0)
    found = course_of(SLO, ledger, {}, now)
    assert len(found.times) <= 180 and list(found.times) == sorted(found.times)
    left = status_of(SLO, (), ledger, {}, now).attainment.error_budget_remaining
    last = found.error_budget_remaining[-1] if found.times else None
    assert last is None or left is None or last == pytest.approx(left)
