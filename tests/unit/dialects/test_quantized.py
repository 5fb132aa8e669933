"""Rounded counters are told by how they are printed."""

from __future__ import annotations

import pytest

from monitor.dialects.detect import is_wanted
from monitor.dialects.plan import make_plan
from monitor.dialects.quantized import rounding_of
from monitor.exposition import PageReader, Vocabulary
from tests.fakes.pages import V1, llamacpp_page, v1_page


def rounding(body: bytes) -> float:
    page = PageReader(Vocabulary(is_wanted)).read(body)
    return rounding_of(make_plan(page.layout), page)


LARGE = V1(2_000_000, (1_400_000, 1_000_000, 600_000), generation=5_010_000, prompt=34_567_503)


@pytest.mark.parametrize(
    ("body", "step"),
    [
        (llamacpp_page(predicted="1.23457e+06", prompt=900), 12.3457),
        (llamacpp_page(predicted="1234570", prompt=900), 0),
        (llamacpp_page(predicted=999_999, prompt=900), 0),
        (llamacpp_page(predicted="1.234567e+06", prompt="2.5e+06"), 0),
        (v1_page(LARGE), 0),
        (v1_page(LARGE, value=lambda number: f"{number:.6g}"), 345.675),
        (v1_page(LARGE, value=lambda number: f"{number:.9g}"), 0),
        (v1_page(V1(2_000_000, (1_400_000,), generation=3_410_000), value=lambda number: f"{number:g}"), 34.1),
        (v1_page(V1(900_000, (700_000,), generation=1_610_000), value=lambda number: f"{number:g}"), 0),
    ],
    ids=[
        "six digits",
        "exact",
        "small",
        "seven digits",
        "exact floats",
        "a rounding proxy",
        "nine digits",
        "three large ones",
        "one large one may be chance",
    ],
)
def test_rounding(body: bytes, step: float) -> None:
    assert rounding(body) == pytest.approx(step, rel=1e-3)
