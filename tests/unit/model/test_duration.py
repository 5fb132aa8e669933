from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monitor.model.duration import format_duration, parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("0", 0.0), ("0s", 0.0), ("30m", 1800.0), ("1h30m", 5400.0), ("90s", 90.0), ("1d", 86400.0), ("250ms", 0.25),
     ("1w", 604800.0), ("1y", 31536000.0)],
)
def test_durations_are_read_as_prometheus_reads_them(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "5", "30 m", "m", "-5m", "30m1h", "1.5h", "5min", "1h1h", "５m5"])
def test_anything_else_is_refused_with_what_is_allowed(text: str) -> None:
    with pytest.raises(ValueError, match="expected a duration such as"):
        parse_duration(text)


def test_texts_are_short() -> None:
    texts = [format_duration(s) for s in (0, 90, 5400, 86400, 0.25, -60)]
    assert texts == ["0s", "1m30s", "1h30m", "1d", "250ms", "-1m"]


@settings(deadline=None)
@given(st.integers(min_value=0, max_value=10**12))
def test_what_is_written_reads_back(milliseconds: int) -> None:
    assert round(parse_duration(format_duration(milliseconds / 1000)) * 1000) == milliseconds
