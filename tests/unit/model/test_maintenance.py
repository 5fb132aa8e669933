"""Maintenance windows open when a person with a calendar would say so, also in the nights when clocks are set."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.model.maintenance import Window, open_until, opens_next

BERLIN = "Europe/Berlin"


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("opens", "lasts", "zone", "now", "closes"),
    [
        pytest.param("0 2 * * *", 3600, "UTC", "2026-11-29T02:00", "2026-11-29T03:00", id="open from its first moment"),
        pytest.param("0 2 * * *", 3600, "UTC", "2026-11-29T03:00", None, id="closed at its last"),
        pytest.param("0 2 * * *", 3600, BERLIN, "2026-11-29T01:30", "2026-11-29T02:00", id="winter time"),
        pytest.param("0 2 * * *", 3600, BERLIN, "2026-07-01T00:30", "2026-07-01T01:00", id="summer time"),
        pytest.param("0 23 * * fri", 21600, "UTC", "2026-11-28T04:00", "2026-11-28T05:00", id="over midnight"),
        pytest.param("0 23 * * fri", 21600, "UTC", "2026-11-29T04:00", None, id="not of the night after"),
        pytest.param("0 1 1 * mon", 3600, "UTC", "2026-12-01T01:10", "2026-12-01T02:00", id="either day: the first"),
        pytest.param("0 1 1 * mon", 3600, "UTC", "2026-11-30T01:10", "2026-11-30T02:00", id="either day: a Monday"),
        pytest.param("0 1 * * 7", 3600, "UTC", "2026-11-29T01:10", "2026-11-29T02:00", id="Sunday is 7 too"),
        pytest.param("*/20 * * * *", 600, "UTC", "2026-11-29T02:45", "2026-11-29T02:50", id="steps"),
        pytest.param("0 0-6/3,22 * jan-mar,dec *", 60, "UTC", "2026-12-05T06:00", "2026-12-05T06:01", id="lists"),
        pytest.param("0 0 * * sat", 172800, "UTC", "2026-11-29T23:59", "2026-11-30T00:00", id="a weekend"),
        # Clocks go forward at 01:00 UTC: 02:30 does not exist.
        pytest.param("30 2 * * *", 3600, BERLIN, "2026-03-29T01:45", "2026-03-29T02:30", id="an hour that is skipped"),
        pytest.param("30 2 * * *", 3600, BERLIN, "2026-03-29T01:15", None, id="not before its time"),
        # Clocks go back at 01:00 UTC: 02:30 comes at 00:30 and at 01:30 UTC.
        pytest.param("30 2 * * *", 1800, BERLIN, "2026-10-25T00:45", "2026-10-25T01:00", id="the first of two"),
        pytest.param("30 2 * * *", 1800, BERLIN, "2026-10-25T01:45", None, id="not the second too"),
        pytest.param("0 1 * * *", 14400, BERLIN, "2026-10-25T02:59", "2026-10-25T03:00", id="lasts real hours"),
    ],
)
def test_a_window_is_open(opens: str, lasts: float, zone: str, now: str, closes: str | None) -> None:
    found = Window(opens, lasts, zone).closes(utc(now))
    assert found == (utc(closes) if closes else None)


def test_the_next_opening_is_told_and_leap_days_come() -> None:
    assert Window("0 2 * * mon", 3600, BERLIN).next_opening(utc("2026-11-29T12:00")) == utc("2026-11-30T01:00")
    assert Window("0 0 29 2 *", 3600).next_opening(utc("2026-11-29T12:00")) == utc("2028-02-29T00:00")
    windows = [Window("0 2 * * *", 3600), Window("0 1 * * *", 7200)]
    assert opens_next(windows, utc("2026-11-29T01:30")) == utc("2026-11-29T02:00")
    assert open_until(windows, utc("2026-11-29T01:30")) == utc("2026-11-29T03:00")
    assert open_until(windows, utc("2026-11-29T12:00")) is None


@pytest.mark.parametrize(
    ("opens", "lasts", "zone", "said"),
    [
        ("0 2 * *", 3600, "UTC", "found 4 fields, expected five"),
        ("60 2 * * *", 3600, "UTC", "minute '60': expected 0 to 59"),
        ("0 24 * * *", 3600, "UTC", "hour '24'"),
        ("0 2 0 * *", 3600, "UTC", "day of month '0'"),
        ("0 2 * 13 *", 3600, "UTC", "month '13'"),
        ("0 2 * * funday", 3600, "UTC", "day of week 'funday': expected 0 to 7 or sun to sat"),
        ("0 5-2 * * *", 3600, "UTC", "hour '5-2'"),
        ("*/0 2 * * *", 3600, "UTC", "minute '\\*/0'"),
        ("0 2 30 2 *", 3600, "UTC", "no such day ever comes"),
        ("0 2 * * *", 59, "UTC", "expected one minute to seven days"),
        ("0 2 * * *", 8 * 86400, "UTC", "expected one minute to seven days"),
        ("0 2 * * *", 3600, "Europe/Atlantis", "Atlantis"),
    ],
)
def test_a_mistake_is_named(opens: str, lasts: float, zone: str, said: str) -> None:
    with pytest.raises((ValueError, KeyError), match=said):
        Window(opens, lasts, zone)


@given(
    minutes=st.integers(0, 2 * 365 * 24 * 60),
    hour=st.integers(0, 23), minute=st.integers(0, 59), lasts=st.integers(60, 86_400),
    zone=st.sampled_from([BERLIN, "America/New_York", "Australia/Lord_Howe", "UTC", "Asia/Kolkata"]),
)  # fmt: skip
def test_it_opens_once_a_day_and_is_open_until_it_closes(
    minutes: int, hour: int, minute: int, lasts: int, zone: str
) -> None:
    window = Window(f"{minute} {hour} * * *", float(lasts), zone)
    at = window.next_opening(utc("2026-01-01T00:00") + timedelta(minutes=minutes))
    following = window.next_opening(at)
    assert timedelta(hours=23) <= following - at <= timedelta(hours=25)
    assert window.closes(at) == at + timedelta(seconds=lasts)
    last = window.closes(at + timedelta(seconds=lasts - 1))
    assert last is not None and last >= at + timedelta(seconds=lasts)
