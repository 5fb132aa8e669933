"""Nested values as JSON: exact both ways, and readable by versions that know a field more or less."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.model.counts import Histogram
from monitor.model.life import Setting, SettingSource
from monitor.model.reading import Flag
from monitor.model.server import ServerName
from monitor.store.codec import codec, dumps, loads

NUMBERS = st.floats(allow_nan=False, width=64)


@dataclass(frozen=True)
class Older:
    name: str
    settings: tuple[Setting, ...] = ()


@dataclass(frozen=True)
class Newer:
    name: str
    settings: tuple[Setting, ...] = ()
    colour: str = "grey"
    at: datetime | None = None


def test_half_a_character_is_replaced_and_nothing_beside_it() -> None:
    # As others' JSON can hold it; neither a page nor a terminal nor a message can.
    text = "\ud800 \udfff\ud83d🚀\udc00\\\ud800\\\\ud800\n"
    assert loads(str, dumps(str, text)) == "\ufffd \ufffd\ufffd🚀\ufffd\\\ufffd\\\\ud800\n"
    assert loads(Mapping[str, str], dumps(Mapping[str, str], {"\ud800": "x"})) == {"\ufffd": "x"}


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (Setting, Setting(method="ngram", num_speculative_tokens=0, schedule=((1, 8, 5), (9, 64, 2)))),
        (Setting, Setting()),
        (tuple[tuple[str, str], ...], (("a", "b"), ("", "ü\n"))),
        (tuple[()], ()),
        (frozenset[Flag], frozenset({Flag.BAD_SAMPLE, Flag.DUPLICATE_SERIES})),
        (Mapping[ServerName, float | None], {"a": 0.5, "b": None}),
        (Mapping[str, SettingSource], {"method": SettingSource.COMMAND_LINE}),
        (Newer, Newer("n", (Setting(method="eagle"),), "red", datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC))),
        (Histogram, Histogram((0.001, math.inf), (1.0, 2.0), 0.1 + 0.2, 2.0)),
        (str, "zero \x00, whole characters äλ🚀, what looks like half of one \\ud800 \\\\udfff"),
        (bool, True),
        (int, 2**70),
        (float, math.inf),
    ],
    # Not by the members of a set: every process that shares the tests out must give them the same names.
    ids=lambda value: None if isinstance(value, type | frozenset) else repr(value)[:40],
)
def test_a_value_comes_back_as_it_was(kind: object, value: object) -> None:
    text = dumps(kind, value)
    assert loads(kind, text) == value
    assert text.isascii()


@given(NUMBERS)
def test_a_number_comes_back_to_the_last_bit(value: float) -> None:
    found = loads(float, dumps(float, value))
    assert (found, math.copysign(1, found)) == (value, math.copysign(1, value))
    assert type(found) is float


@given(st.integers(0, 2**53))
def test_whole_counts_come_back_to_the_digit(value: int) -> None:
    assert loads(tuple[float, ...], dumps(tuple[float, ...], (float(value),))) == (float(value),)


def test_not_a_number_survives() -> None:
    assert math.isnan(loads(float, dumps(float, math.nan)))


def test_moments_come_back_in_utc() -> None:
    there = datetime(2026, 3, 1, 2, 0, tzinfo=timezone(timedelta(hours=-8)))
    found = loads(datetime, dumps(datetime, there))
    assert found == there
    assert found.tzinfo is UTC


def test_a_moment_without_zone_is_refused() -> None:
    with pytest.raises(ValueError, match="no time zone"):
        dumps(datetime, datetime(2026, 3, 1))  # noqa: DTZ001


def test_a_field_the_reader_does_not_know_is_passed_over() -> None:
    assert loads(Older, dumps(Newer, Newer("n", colour="red"))) == Older("n")


def test_a_field_the_writer_did_not_know_has_its_default() -> None:
    assert loads(Newer, dumps(Older, Older("n"))) == Newer("n", colour="grey", at=None)


def test_a_missing_field_without_default_is_an_error() -> None:
    with pytest.raises(TypeError, match="name"):
        loads(Older, "{}")


@pytest.mark.parametrize("kind", [list[str], object, int | str, complex])
def test_a_type_without_a_form_is_refused(kind: object) -> None:
    with pytest.raises(TypeError, match="no JSON form"):
        codec(kind)


def test_a_broken_text_is_an_error() -> None:
    with pytest.raises(json.JSONDecodeError):
        loads(Setting, "{")
    with pytest.raises(ValueError, match="expected 0"):
        loads(Setting, '{"num_speculative_tokens": -1}')
