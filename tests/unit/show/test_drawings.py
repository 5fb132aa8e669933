"""Charts: every value is where it belongs, a gap stays one, and nothing in a name becomes markup."""

from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ElementTree
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from monitor.show.axis import time_ticks, value_ticks
from monitor.show.lines import HEIGHT, WIDTH, Chart, Line, Mark, line_chart, summary
from monitor.show.picture import picture
from monitor.show.small import band_svg, bar_svg, spark_svg, spark_text

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
HOSTILE = "<script>&\"'"


def chart(values: list[float | None], **more: object) -> Chart:
    times = [NOON + timedelta(minutes=index + 1) for index in range(len(values))]
    fields: dict[str, object] = {
        "name": HOSTILE, "form": "share", "start": NOON, "end": NOON + timedelta(minutes=max(1, len(values))),
        "times": times, "lines": [Line(HOSTILE, values)],
    }  # fmt: skip
    return Chart(**(fields | more))  # type: ignore[arg-type]


def drawn(svg: str, kind: str) -> list[ElementTree.Element]:
    """Elements of a class, from a drawing that is well-formed."""
    return [one for one in ElementTree.fromstring(svg).iter() if kind in (one.get("class") or "").split()]


def points(svg: str) -> list[list[tuple[float, float]]]:
    """The corners of every line."""
    return [
        [(float(x), float(y)) for x, y in re.findall(r"(-?[\d.]+) (-?[\d.]+)", one.get("d") or "")]
        for one in drawn(svg, "line")
    ]


class TestAxis:
    @given(st.floats(-1e9, 1e9), st.floats(1e-6, 1e9))
    def test_ticks_are_few_and_hold_the_range(self, low: float, length: float) -> None:
        if low + length <= low:
            return
        ticks = value_ticks(low, low + length)
        # Ends that are but a few floats apart are met as well as floats can.
        near = 1e-6 * length + 2.0 * math.ulp(abs(low) + length)
        assert ticks[0] <= low + near and ticks[-1] >= low + length - near
        assert 2 <= len(ticks) <= 7

    def test_ticks_are_round(self) -> None:
        assert value_ticks(0.0, 1.0) == (0.0, 0.25, 0.5, 0.75, 1.0)
        assert value_ticks(0.0, 7237.0) == (0.0, 2000.0, 4000.0, 6000.0, 8000.0)

    @pytest.mark.parametrize("ends", [(1.0, 1.0), (2.0, 1.0), (float("nan"), 1.0), (0.0, float("inf"))])
    def test_a_range_that_is_none_is_refused(self, ends: tuple[float, float]) -> None:
        with pytest.raises(ValueError, match="expected finite numbers"):
            value_ticks(*ends)

    @pytest.mark.parametrize("hours", [0.02, 1, 6, 24, 168, 720, 2160, 9000])
    def test_times_are_round_and_few_whatever_the_span(self, hours: float) -> None:
        start = NOON + timedelta(minutes=7, seconds=13)
        ticks = time_ticks(start, start + timedelta(hours=hours))
        assert 1 <= len(ticks) <= 8
        assert all(start <= moment <= start + timedelta(hours=hours) and moment.second % 10 == 0 for moment, _ in ticks)

    def test_midnight_is_a_date(self) -> None:
        labels = [label for _, label in time_ticks(NOON, NOON + timedelta(days=1))]
        assert "3 Mar" in labels and "18:00" in labels


class TestLines:
    def test_a_value_is_where_the_axis_says(self) -> None:
        svg = line_chart(chart([0.0, 0.5, 1.0], floor=0.0, ceiling=1.0))
        ((first, middle, last),) = points(svg)
        assert middle[1] == pytest.approx((first[1] + last[1]) / 2, abs=0.1)
        assert first[1] > last[1] and last[0] == pytest.approx(WIDTH - 8, abs=0.1)
        assert all(0 <= x <= WIDTH and 0 <= y <= HEIGHT for x, y in (first, middle, last))

    def test_a_gap_breaks_the_line_and_a_lonely_point_is_a_dot(self) -> None:
        svg = line_chart(chart([0.1, 0.2, None, 0.3, None, 0.4, 0.5]))
        assert [len(line) for line in points(svg)] == [2, 2]
        assert len(drawn(svg, "dot")) == 1

    @given(st.lists(st.none() | st.floats(-1e12, 1e12), max_size=30))
    @example([5e-324])
    @example([1e-310, 3e-310])
    def test_any_values_give_a_drawing_within_its_bounds(self, values: list[float | None]) -> None:
        svg = line_chart(chart(values, form="number"))
        for line in points(svg):
            assert all(0 <= x <= WIDTH and 0 <= y <= HEIGHT for x, y in line)
        assert len(drawn(svg, "hit")) == sum(value is not None for value in values)

    def test_names_become_no_markup(self) -> None:
        mark = Mark(NOON + timedelta(seconds=30), HOSTILE, "kept")
        svg = line_chart(chart([0.5], marks=[mark]))
        assert "<script" not in svg and "style" not in svg
        assert len(drawn(svg, "mark")) == 1

    def test_marks_outside_are_left_out_and_labels_never_cover_each_other(self) -> None:
        marks = [Mark(NOON + timedelta(seconds=seconds), "3 tokens", "kept") for seconds in (-5, 10, 12, 14, 40, 999)]
        svg = line_chart(chart([0.5], marks=marks))
        shown = [one.find("{*}text") for one in drawn(svg, "mark")]
        assert len(shown) == 4 and sum(text is not None for text in shown) == 2

    def test_it_says_in_words_what_it_shows(self) -> None:
        assert summary(chart([0.2, None, 0.6])) == "last 60.0%, from 20.0% to 60.0%"
        two = chart([0.2], lines=[Line("running", [0.2]), Line("waiting", [None])])
        assert summary(two) == "running last 20.0%, from 20.0% to 20.0%; waiting no data"
        label = ElementTree.fromstring(line_chart(chart([0.2]))).get("aria-label")
        assert label == f"{HOSTILE}: last 20.0%, from 20.0% to 20.0%"


class TestSmall:
    def test_a_sparkline_has_its_gaps_and_its_range(self) -> None:
        svg = spark_svg(HOSTILE, [0.0, 0.5, None, 1.0], "share", low=0.0, high=1.0)
        (line,) = drawn(svg, "line")
        assert (line.get("d") or "").count("M") == 2
        assert ElementTree.fromstring(svg).get("aria-label") == f"{HOSTILE}: from 0.0% to 100.0%, last 100.0%"
        assert drawn(spark_svg("x", [None], "share"), "line") == []

    def test_text_that_shows_a_history(self) -> None:
        assert spark_text([0.0, None, 0.5, 1.0]) == "▁ ▅█"
        assert spark_text([10.0, 20.0], low=10.0, high=20.0) == "▁█"
        assert spark_text([3.0], low=3.0, high=3.0) == "▁"

    def test_a_bar_is_as_long_as_its_share(self) -> None:
        widths = [drawn(bar_svg("x", value), "full")[0].get("width") for value in (0.25, -1.0, 7.0)]
        assert widths == ["25.0", "0.0", "100.0"]
        assert bar_svg("x", None) == ""

    def test_a_band_shows_which_setting_was_in_force(self) -> None:
        hour = timedelta(hours=1)
        segments = [(NOON - hour, NOON + hour, "mtp, 2 tokens"), (NOON + hour, NOON + 2 * hour, HOSTILE)]
        svg = band_svg("Setting", NOON, NOON + 2 * hour, segments)
        first, second = (float(one.get("width") or 0) for one in ElementTree.fromstring(svg).iter("rect"))
        assert first == pytest.approx(second, abs=0.2)
        assert "mtp, 2 tokens" in svg and "<script" not in svg


def test_a_picture_holds_every_chart() -> None:
    first = chart([0.1, None, 0.5], target=0.6, marks=[Mark(NOON, "$3$ tokens", "undone")])
    assert picture("a $week$ of <x>", [first, chart([1.0], form="number")]).startswith(b"\x89PNG")
