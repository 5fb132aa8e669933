"""Numbers from lines: adding, taking the largest, histograms that are none."""

from __future__ import annotations

import math

import pytest

from monitor.dialects.bind import bind_engines
from monitor.dialects.cells import bind_sum, take, take_each, take_histogram, take_largest
from monitor.dialects.detect import meaning_of
from monitor.dialects.labels import is_draft_worker
from monitor.exposition import parse
from monitor.model.counts import Histogram
from tests.fakes.pages import histogram


def test_one_line_is_its_own_number() -> None:
    assert bind_sum([[3]]) == 3
    assert take([0.0, 1.0, 2.0, 7.0], 3) == 7


def test_groups_add_their_largest() -> None:
    cell = bind_sum([[0, 1], [2]])
    assert take([1.0, 5.0, 2.0], cell) == 7
    assert take_largest([1.0, 5.0, 2.0], cell) == 5
    assert take([None, 5.0, 2.0], cell) == 7
    assert take([1.0, 5.0, None], cell) is None
    assert take_largest([None, None, None], cell) is None


def test_no_cell_is_no_number() -> None:
    assert take([1.0], None) is None
    assert take_largest([1.0], None) is None
    assert take_each([1.0, None], {"a": 0, "b": 1}) == {"a": 1.0}


EDGES, LABELS = ("0.1", "1", "+Inf"), {"model_name": "m", "engine": "0"}


def read(text: str, name: str = "time_to_first_token") -> Histogram | None:
    page = parse(text)
    [engine] = bind_engines(page.layout, meaning_of)
    return take_histogram(page.values, engine.histograms.get(name))


NAME = "vllm:time_to_first_token_seconds"


def test_a_histogram() -> None:
    assert read(histogram(NAME, LABELS, EDGES, (1, 3, 4), 2.5)) == Histogram((0.1, 1.0, math.inf), (1, 3, 4), 2.5, 4)


def test_parts_with_equal_edges_add_up() -> None:
    parts = [histogram(NAME, {**LABELS, "is_streaming": yes}, EDGES, (1, 3, 4), 2.5) for yes in ("true", "false")]
    assert read("".join(parts)) == Histogram((0.1, 1.0, math.inf), (2, 6, 8), 5.0, 8)


@pytest.mark.parametrize(
    "text",
    [
        histogram(NAME, LABELS, ("0.1", "1"), (1, 3), 2.5),
        histogram(NAME, LABELS, ("0.1", "x", "+Inf"), (1, 3, 4), 2.5),
        histogram(NAME, LABELS, ("0.1", "0.10", "+Inf"), (1, 3, 4), 2.5),
        histogram(NAME, LABELS, EDGES, (1, 5, 4), 2.5),
        histogram(NAME, LABELS, EDGES, (1, 3, 4), 2.5).replace("_count{", "_other{"),
        histogram(NAME, LABELS, EDGES, (1, 3, 4), math.nan),
        histogram(NAME, LABELS, EDGES, (1, 3, 4), 2.5).replace(
            '_count{engine="0",model_name="m"} 4.0', '_count{engine="0",model_name="m"} 9.0'
        ),
        histogram(NAME, {**LABELS, "is_streaming": "true"}, EDGES, (1, 3, 4), 2.5)
        + histogram(NAME, {**LABELS, "is_streaming": "false"}, ("0.5", "1", "+Inf"), (1, 3, 4), 2.5),
    ],
    ids=[
        "no +Inf",
        "an edge is no number",
        "an edge twice",
        "falling",
        "no count",
        "no sum",
        "another count",
        "edges differ",
    ],
)
def test_what_is_no_histogram_is_none(text: str) -> None:
    assert read(text) is None


@pytest.mark.parametrize(
    ("labels", "answer"),
    [
        ({"engine_type": "draft"}, True),
        ({"worker_type": "draft_worker"}, True),
        ({"is_draft": "True"}, True),
        ({"is_draft": "0"}, False),
        ({"engine_type": "unified"}, False),
        ({"spec_role": "Draft"}, True),
        ({"draft": "true"}, True),
        ({"spec_role": "target"}, False),
        ({"model_name": "draft"}, False),
        ({"pod": "draft"}, False),
    ],
)
def test_draft_workers(labels: dict[str, str], answer: bool) -> None:
    assert is_draft_worker(labels) is answer


def test_engines_by_model_engine_and_replica() -> None:
    page = parse(
        'vllm:generation_tokens_total{model_name="a",engine="0"} 1\n'
        'vllm:generation_tokens_total{model_name="a",engine="1"} 2\n'
        'vllm:generation_tokens_total{model_name="b",engine="0"} 3\n'
        'vllm:generation_tokens_total{model_name="c",engine="0",ReplicaId="r1",WorkerId="w1"} 4\n'
        'vllm:generation_tokens_total{model_name="c",engine="0",ReplicaId="r2",WorkerId="w2"} 5\n'
        'vllm:generation_tokens_total{model_name="d",engine="0",pod="x",job="j"} 6\n'
        'vllm:generation_tokens_total{model_name="d",engine="0",pod="y",job="j"} 7\n'
    )
    engines = bind_engines(page.layout, meaning_of)
    assert {(e.model, e.engine): take(page.values, e.numbers["generation_tokens"]) for e in engines} == {
        ("a", "0"): 1,
        ("a", "1"): 2,
        ("b", "0"): 3,
        ("c", "0/r1"): 4,
        ("c", "0/r2"): 5,
        ("d", "0/x"): 6,
        ("d", "0/y"): 7,
    }


def test_numbers_of_a_whole_model_go_to_its_first_engine_once() -> None:
    page = parse(
        'vllm:generation_tokens_total{model_name="a",engine="0"} 1\n'
        'vllm:generation_tokens_total{model_name="a",engine="1"} 2\n'
        'vllm:admission_rejections_total{model_name="a",reason="x"} 3\n'
        'vllm:admission_rejections_total{model_name="a",reason="y"} 4\n'
    )
    first, second = bind_engines(page.layout, meaning_of)
    assert take(page.values, first.numbers.get("rejections")) == 7
    assert take(page.values, second.numbers.get("rejections")) is None
