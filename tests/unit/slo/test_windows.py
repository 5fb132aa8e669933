from __future__ import annotations

import pytest

from monitor.model.alert import Severity
from monitor.model.slo import Indicator
from monitor.slo.windows import burn_windows, max_burn_rate, unreachable
from tests.unit.slo.slos import slo


def test_thirty_days_give_the_factors_of_the_sre_workbook() -> None:
    table = [(w.severity, w.long_seconds / 3600, w.short_seconds / 60, round(w.factor, 9)) for w in burn_windows(30)]
    assert table == [
        (Severity.PAGE, 1, 5, 14.4),
        (Severity.PAGE, 6, 30, 6.0),
        (Severity.TICKET, 24, 120, 3.0),
        (Severity.TICKET, 72, 360, 1.0),
    ]


@pytest.mark.parametrize(
    ("days", "factors"),
    [(28, (13.44, 5.6, 2.8, 0.9333)), (7, (13.44, 3.5, 1.4, 0.98)), (90, (43.2, 18.0, 9.0, 3.0))],
)
def test_factors_scale_with_the_period(days: float, factors: tuple[float, ...]) -> None:
    assert [w.factor for w in burn_windows(days)] == pytest.approx(factors, rel=1e-3)


@pytest.mark.parametrize("days", [7, 28, 30, 90])
def test_a_factor_spends_its_share_of_the_budget_in_its_long_window(days: float) -> None:
    for window in burn_windows(days):
        assert window.factor * window.long_seconds / (days * 86400) == pytest.approx(window.share)


def test_some_windows_may_be_chosen_and_unknown_ones_are_refused() -> None:
    assert [w.name for w in burn_windows(30, ["ticket_slow", "page_quick"])] == ["page_quick", "ticket_slow"]
    with pytest.raises(ValueError, match="window page_fast: expected some of page_quick, page_slow"):
        burn_windows(30, ["page_fast"])
    with pytest.raises(ValueError, match="at least 7"):
        burn_windows(1)


def test_when_everything_fails_the_burn_rate_is_one_over_the_budget() -> None:
    assert max_burn_rate(0.7) == pytest.approx(1 / 0.3)
    assert max_burn_rate(0.999) == pytest.approx(1000)


def test_windows_that_can_never_fire_are_named_with_the_arithmetic_and_the_ways_out() -> None:
    aim = slo(Indicator.ACCEPTANCE, 0.6, objective=0.70)
    assert unreachable(aim, burn_windows(30)) == (
        "an objective above 0.9306 or `windows: [ticket_quick, ticket_slow]` or `report_only: true`: an objective of "
        "0.7 leaves 0.3 for errors, so the burn rate is never above 1 / 0.3 = 3.333, but page_quick asks for more than "
        "14.4 (0.02 of a 30-day budget in 1h) and page_slow asks for more than 6 (0.05 of a 30-day budget in 6h)"
    )
    assert unreachable(aim, burn_windows(30, ["ticket_quick", "ticket_slow"])) is None
    assert unreachable(slo(objective=0.99), burn_windows(30)) is None


def test_the_objective_it_asks_for_is_enough() -> None:
    for days in (7, 28, 30, 90):
        needed = 1 - 1 / max(w.factor for w in burn_windows(days))
        assert unreachable(slo(objective=needed + 1e-6, period_days=days), burn_windows(days)) is None
        assert unreachable(slo(objective=needed - 1e-6, period_days=days), burn_windows(days)) is not None
