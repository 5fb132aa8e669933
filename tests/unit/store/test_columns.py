"""Column types without a database: what a driver is given, and what comes of what it gives."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Dialect
from sqlalchemy.dialects.postgresql import psycopg
from sqlalchemy.dialects.sqlite import pysqlite

from monitor.errors import StoreError
from monitor.model.life import Setting
from monitor.model.rollout import ChangeState
from monitor.store.columns import Moment, Nested, PlainText, Word

SQLITE: Dialect = pysqlite.dialect()
POSTGRES: Dialect = psycopg.dialect()  # type: ignore[no-untyped-call]


@given(st.datetimes(min_value=datetime(1900, 1, 1), timezones=st.timezones()))  # noqa: DTZ001
def test_a_moment_keeps_its_microsecond_on_sqlite(moment: datetime) -> None:
    stored = Moment().process_bind_param(moment, SQLITE)
    found = Moment().process_result_value(stored, SQLITE)
    assert isinstance(stored, int)
    assert found is not None
    assert (found.tzinfo, found) == (UTC, moment.astimezone(UTC))


@given(st.lists(st.datetimes(min_value=datetime(1900, 1, 1), timezones=st.just(UTC)), min_size=2))  # noqa: DTZ001
def test_stored_moments_sort_as_moments_do(moments: list[datetime]) -> None:
    stored = [Moment().process_bind_param(moment, SQLITE) for moment in sorted(moments)]
    assert stored == sorted(stored)


def test_a_moment_of_a_session_in_another_zone_comes_back_in_utc() -> None:
    there = datetime(2026, 3, 1, 14, 0, tzinfo=timezone(timedelta(hours=2)))
    found = Moment().process_result_value(there, POSTGRES)
    assert found == there
    assert found is not None and found.tzinfo is UTC


@pytest.mark.parametrize("dialect", [SQLITE, POSTGRES], ids=["sqlite", "postgresql"])
def test_a_moment_without_zone_is_refused(dialect: Dialect) -> None:
    with pytest.raises(StoreError, match=r"2026-03-01T00:00:00 has no time zone"):
        Moment().process_bind_param(datetime(2026, 3, 1), dialect)  # noqa: DTZ001


def test_a_word_of_a_newer_version_is_named() -> None:
    assert Word(ChangeState).process_result_value("planned", SQLITE) is ChangeState.PLANNED
    with pytest.raises(StoreError, match=r"ChangeState 'paused'.*planned, draining.*newer version"):
        Word(ChangeState).process_result_value("paused", SQLITE)


def test_a_word_is_given_to_the_driver_as_plain_text() -> None:
    assert type(Word(ChangeState).process_bind_param(ChangeState.PLANNED, POSTGRES)) is str


@pytest.mark.parametrize("text", ["{", "7", '{"num_speculative_tokens": -1}', '{"schedule": [[1]]}'])
def test_a_nested_value_that_does_not_fit_is_shown(text: str) -> None:
    with pytest.raises(StoreError, match="Setting"):
        Nested(Setting).process_result_value(text, SQLITE)


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        ("plain", "plain"),
        ("", ""),
        ("äλ🚀", "äλ🚀"),
        ("a\0b", "a\ufffdb"),
        ("a\0ä", "a\ufffdä"),
        ("half \udcff", "half \ufffd"),
        ("\ud83d", "\ufffd"),
    ],
)
def test_text_that_a_database_refuses_is_replaced(text: str, stored: str) -> None:
    assert PlainText().process_bind_param(text, POSTGRES) == stored
    stored.encode()


def test_nothing_stays_nothing() -> None:
    for kind in (Moment(), Word(ChangeState), Nested(Setting), PlainText()):
        assert kind.process_bind_param(None, SQLITE) is None
    for kind in (Moment(), Word(ChangeState), Nested(Setting)):
        assert kind.process_result_value(None, SQLITE) is None
