from __future__ import annotations

import pytest

from monitor.model.outcome import RuleOutcome, Truth
from monitor.model.slo import Indicator, Slo
from monitor.slo.burn import BURN_ALERT, SloStatus, burn_outcomes, status_of
from monitor.slo.ledger import Ledger
from monitor.slo.windows import burn_windows
from tests.unit.slo.slos import seconds, slo

HOUR = 3600.0
SCOPE = {"group": "chat"}


def measured(
    rates: list[tuple[float, float, float | None]], aim: Slo | None = None, *, each_minute: float = 100.0
) -> SloStatus:
    """The status after stretches of (from hour, to hour, share of bad events; None: nothing measured)."""
    aim = aim or slo(objective=0.99)
    ledger = Ledger(aim.period_days * 86400)
    end = rates[-1][1]
    for first, last, bad in rates:
        for m in range(int(first * 60) + 1, int(last * 60) + 1):
            if bad is not None:
                ledger.add(seconds(m * 60.0), each_minute * (1 - bad), each_minute)
    return status_of(aim, burn_windows(aim.period_days), ledger, SCOPE, seconds(end * HOUR))


def outcomes(status: SloStatus) -> dict[str, RuleOutcome]:
    return {outcome.labels["severity"]: outcome for outcome in burn_outcomes(status)}


class TestBurning:
    @pytest.mark.parametrize(
        ("rates", "page", "ticket"),
        [
            # A quiet day: nothing.
            ([(0, 80, 0.001)], Truth.FALSE, Truth.FALSE),
            # 20 % bad for an hour: burn rate 20, both quick windows exceed 14.4.
            ([(0, 80, 0.0), (80, 81, 0.20)], Truth.TRUE, Truth.FALSE),
            # The same, over since ten minutes: the short window ends it.
            ([(0, 80, 0.0), (80, 81, 0.20), (81, 81.2, 0.0)], Truth.FALSE, Truth.FALSE),
            # A spike of a minute exceeds the short window only.
            ([(0, 80, 0.0), (80, 80.017, 1.0)], Truth.FALSE, Truth.FALSE),
            # 8 % bad for six hours: 8 > 6, a slow page.
            ([(0, 80, 0.0), (80, 86, 0.08)], Truth.TRUE, Truth.FALSE),
            # 4 % bad for a day: 4 > 3, a ticket.
            ([(0, 80, 0.0), (80, 104, 0.04)], Truth.FALSE, Truth.TRUE),
            # 1.5 % bad for three days: a slow ticket; exactly at budget: none.
            ([(0, 80, 0.015)], Truth.FALSE, Truth.TRUE),
            ([(0, 80, 0.01)], Truth.FALSE, Truth.FALSE),
        ],
    )
    def test_both_windows_must_exceed_the_factor(
        self, rates: list[tuple[float, float, float | None]], page: Truth, ticket: Truth
    ) -> None:
        found = outcomes(measured(rates))
        assert (found["page"].truth, found["ticket"].truth) == (page, ticket)

    def test_what_is_said_of_it(self) -> None:
        page = outcomes(measured([(0, 80, 0.0), (80, 81, 0.20)]))["page"]
        assert page.labels == {
            "alertname": BURN_ALERT, "slo": "it", "indicator": "time_to_first_token", "severity": "page",
            "group": "chat",
        }  # fmt: skip
        assert page.annotations["summary"] == "chat: it fails 20.0 times as often as its objective allows"
        assert page.annotations["description"] == (
            "Over 1h 20.00% of the events were bad, 1.00% are allowed; over 5m 20.00%. 97.2% of the budget of 30 days "
            "is left. At this rate it is spent in 1d11h."
        )
        assert page.annotations["runbook"] == "error-budget-burn"
        assert page.evidence["burn_rate_1h"] == pytest.approx(20.0)
        # An hour of the 720 burnt twenty times what it may.
        assert page.evidence["error_budget_remaining"] == pytest.approx(1 - 20 / 720, abs=1e-4)

    def test_a_spent_budget_is_called_so(self) -> None:
        status = measured([(0, 37, 0.20)])
        assert status.exhausted_in_seconds == 0.0
        assert "0.0% of the budget of 30 days is left. It is spent." in (
            outcomes(status)["page"].annotations["description"]
        )


class TestNewObjective:
    """What lies before its first event was not watched: a window is judged by the share of the budget that is gone."""

    @pytest.mark.parametrize(
        ("rates", "page", "ticket"),
        [
            # A lost minute of three hours is 0.56 % of them, and 0.02 % of three days.
            ([(0, 2, 0.0), (2, 2 + 1 / 60, 1.0), (2 + 1 / 60, 3, 0.0)], Truth.FALSE, Truth.FALSE),
            # Ten minutes in which nothing works: 10 / 60 of an hour at a burn rate of 200.
            ([(0, 10 / 60, 1.0)], Truth.TRUE, Truth.FALSE),
            ([(0, 4 / 60, 1.0)], Truth.FALSE, Truth.FALSE),
            # Five hours at nine times the rate are 45 of the 36 rate-hours that a slow page asks for.
            ([(0, 5, 0.045)], Truth.TRUE, Truth.FALSE),
            ([(0, 3.9, 0.045)], Truth.FALSE, Truth.FALSE),
        ],
    )
    def test_it_burns_when_the_share_of_the_window_is_gone(
        self, rates: list[tuple[float, float, float | None]], page: Truth, ticket: Truth
    ) -> None:
        found = outcomes(measured(rates, slo(objective=0.995)))
        assert (found["page"].truth, found["ticket"].truth) == (page, ticket)

    def test_its_budget_is_that_of_the_whole_period(self) -> None:
        """A minute of the 216 that 99.5 % leaves in 30 days."""
        status = measured([(0, 2, 0.0), (2, 2 + 1 / 60, 1.0), (2 + 1 / 60, 3, 0.0)], slo(objective=0.995))
        assert status.attainment.error_budget_remaining == pytest.approx(1 - 1 / 216, abs=1e-4)
        assert status.attainment.sli == pytest.approx(179 / 180)


class TestNoData:
    def test_no_traffic_is_not_bad(self) -> None:
        status = measured([(0, 1, 0.2), (1, 80, 0.0)], each_minute=0.0)
        assert {o.truth for o in burn_outcomes(status)} == {Truth.FALSE}
        assert (status.attainment.sli, status.burn_rate, status.exhausted_in_seconds) == (None, None, None)

    def test_nothing_measured_is_not_known(self) -> None:
        found = outcomes(measured([(0, 80, 0.2), (80, 81.5, None)]))
        assert found["page"].truth is Truth.NO_DATA
        assert found["page"].reason == "nothing measured in 1h; nothing measured in 30m"

    def test_a_gap_does_not_end_what_burns_over_the_windows_that_are_known(self) -> None:
        assert outcomes(measured([(0, 80, 0.2), (80, 80.2, None)]))["page"].truth is Truth.TRUE

    def test_few_events_accuse_nobody(self) -> None:
        aim = slo(objective=0.99, minimum_events=100.0)
        found = outcomes(measured([(0, 1, 0.33)], aim, each_minute=3 / 60))
        assert found["page"].truth is Truth.FALSE
        assert "3 of the 100 events needed in 1h" in found["page"].reason

    def test_an_slo_that_is_only_reported_has_no_alerts(self) -> None:
        assert burn_outcomes(measured([(0, 10, 0.9)], slo(objective=0.9, report_only=True))) == ()


def test_exhaustion_is_what_is_left_at_the_rate_of_the_last_hour() -> None:
    status = measured([(0, 72, 0.0), (72, 73, 0.02)])
    left = status.attainment.error_budget_remaining
    assert left is not None
    assert status.burn_rate == pytest.approx(2.0)
    assert status.exhausted_in_seconds == pytest.approx(left * 30 * 86400 / 2.0)


def test_a_sliced_slo_looks_at_two_slices_at_least() -> None:
    """A window of one slice would hold none most of the time, since a slice counts only once it is over."""
    aim = slo(Indicator.THROUGHPUT, 50.0, objective=0.99)
    ledger = Ledger(30 * 86400)
    for i in range(1, 13):
        ledger.add(seconds(i * 300.0), 0.0, 1.0)
    for late in range(0, 300, 20):
        status = status_of(aim, burn_windows(30), ledger, SCOPE, seconds(3600.0 + late))
        assert outcomes(status)["page"].truth is Truth.TRUE
