from __future__ import annotations

import pytest

from monitor.model.slo import Attainment, Indicator, Slo


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"objective": 1.0}, "objective"),
        ({"objective": 0.0}, "objective"),
        ({"threshold": None}, "do not go together"),
        ({"indicator": Indicator.AVAILABILITY}, "do not go together"),
        ({"threshold": 0.0}, "not above 0"),
        ({"indicator": Indicator.ACCEPTANCE, "threshold": 60.0}, "no ratio"),
        ({"period_days": 0.0}, "must not be negative"),
    ],
)
def test_an_impossible_slo_is_refused(fields: dict[str, object], message: str) -> None:
    values: dict[str, object] = {
        "name": "ttft", "indicator": Indicator.TIME_TO_FIRST_TOKEN, "objective": 0.99, "period_days": 30.0,
        "threshold": 2.0,
    }
    with pytest.raises(ValueError, match=message):
        Slo(**(values | fields))  # type: ignore[arg-type]


def test_budget_left_is_a_share_of_the_budget() -> None:
    slo = Slo(name="up", indicator=Indicator.UPTIME, objective=0.99, period_days=30)
    assert Attainment(slo=slo, good=995, valid=1000).error_budget_remaining == pytest.approx(0.5)
    assert Attainment(slo=slo, good=0, valid=0).error_budget_remaining is None
