"""Numbers as people read them: a dash for what is unknown, never a zero."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from monitor.show import figures

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("form", "value", "text"),
    [
        ("share", 0.6149, "61.5%"), ("signed", 0.05, "+5.0%"), ("signed", -0.051, "-5.1%"),
        ("number", 1234.5, "1,234.50"),
        ("count", 143_580.4, "143,580"), ("count", 12_345_678.0, "12.3 M"), ("count", 4.2e9, "4.2 G"),
        ("count", 7.5e12, "7.5 T"), ("time", 0.0123, "12.3 ms"), ("time", 12.5, "12.50 s"), ("rate", 12.34, "12.3"),
        ("rate", 7237.4, "7,237"),
    ],
)  # fmt: skip
def test_each_form(form: str, value: float, text: str) -> None:
    assert figures.figure(value, form) == text


@pytest.mark.parametrize("form", list(figures.FORMS))
def test_what_is_unknown_is_a_dash_and_what_is_nothing_is_not(form: str) -> None:
    assert figures.figure(None, form) == "–"
    assert "0" in figures.figure(0.0, form)


def test_a_gain_has_its_interval_where_that_is_known() -> None:
    assert figures.gain(0.14, 0.12, 0.16) == "+14.0% (+12.0% to +16.0%)"
    assert figures.gain(0.14, None, None) == "+14.0%"
    assert figures.gain(None, None, None) == "–"


@pytest.mark.parametrize(
    ("seconds", "text"), [(-3.0, "0 s"), (90.0, "90 s"), (600.0, "10 min"), (7200.0, "2 h"), (3 * 86_400.0, "3 d")]
)
def test_spans_and_ages_are_in_their_largest_fitting_unit(seconds: float, text: str) -> None:
    assert figures.span(seconds) == text
    assert figures.ago(NOON - timedelta(seconds=seconds), NOON) == f"{text} ago"
    assert figures.ago((NOON - timedelta(seconds=seconds)).isoformat(), NOON) == f"{text} ago"


def test_budgets_and_moments() -> None:
    assert [figures.until_spent(one) for one in (None, 0.0, 3600.0, 15 * 86_400.0)] == ["–", "spent", "1.0 h", "15.0 d"]
    assert (figures.stamp(NOON), figures.stamp("2026-03-02T13:00:00+01:00"), figures.stamp(None)) == (
        "2026-03-02 12:00", "2026-03-02 12:00", "–",
    )  # fmt: skip
    assert (figures.ago(None, NOON), figures.span(None)) == ("never", "–")
