from __future__ import annotations

import pytest

from monitor.model.signal import NoData
from monitor.policy.series import parse_name, parse_values

GAP, OFF = NoData.NO_INTERVALS, NoData.SPECULATION_OFF


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("", ()),
        ("1 2 -3.5", (1.0, 2.0, -3.5)),
        ("1x3", (1.0, 1.0, 1.0, 1.0)),
        ("1+2x3", (1.0, 3.0, 5.0, 7.0)),
        ("1-2x2", (1.0, -1.0, -3.0)),
        ("-2+4x1", (-2.0, 2.0)),
        ("_ _x2 1", (GAP, GAP, GAP, 1.0)),
        ("1 offx2", (1.0, OFF, OFF)),
        ("1x1 stale 9", (1.0, 1.0)),
        ("1e3 .5", (1000.0, 0.5)),
        ("5x0", (5.0,)),
    ],
)
def test_the_notation_is_promtools(text: str, values: tuple[float | NoData, ...]) -> None:
    assert parse_values(text) == pytest.approx(values)


@pytest.mark.parametrize("text", ["a", "1x", "x3", "1+2", "1+2+3x4", "1x99999999999", "__", "1,2", "nan", "1x-3"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"promtool|at most"):
        parse_values(text)


def test_names_with_and_without_labels() -> None:
    assert parse_name("up") == ("up", ())
    assert parse_name('up{server="a",group="b c"}') == ("up", (("group", "b c"), ("server", "a")))
    assert parse_name('error_ratio.samples{ server = "a" , }') == ("error_ratio.samples", (("server", "a"),))
    assert parse_name(r'up{server="a\"b"}') == ("up", (("server", 'a"b'),))


@pytest.mark.parametrize(
    "text", ["", "1up", "up{", "up{server=a}", 'up{server="a" group="b"}', 'up{a="1",a="2"}', "up{}x"]
)
def test_broken_names_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="a series such as"):
        parse_name(text)
