from __future__ import annotations

import json

import pytest

from monitor.errors import LaunchError
from monitor.simulator.speculation import Speculation, parse_speculation


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (
            {"method": "eagle3", "model": "org/head", "num_speculative_tokens": 3},
            Speculation("eagle3", 3, "org/head"),
        ),
        ({"model": "org/small", "num_speculative_tokens": 5}, Speculation("draft_model", 5, "org/small")),
        (
            {"method": "ngram", "num_speculative_tokens": 2, "prompt_lookup_max": 4, "prompt_lookup_min": 2},
            Speculation("ngram", 2),
        ),
        ({"model": "ngram", "num_speculative_tokens": 2}, Speculation("ngram", 2, "ngram")),
        ({"method": "deepseek_mtp", "num_speculative_tokens": 1}, Speculation("mtp", 1)),
    ],
)
def test_a_configuration_is_read(value: dict[str, object], expected: Speculation) -> None:
    assert parse_speculation(json.dumps(value)) == expected


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("{", "expected JSON"),
        ("[]", "JSON object"),
        ('{"method": "ngram"}', "num_speculative_tokens must be an integer above zero, found None"),
        ('{"method": "ngram", "num_speculative_tokens": 0}', "found 0"),
        ('{"method": "ngram", "num_speculative_tokens": true}', "found True"),
        ('{"method": "magic", "num_speculative_tokens": 1}', "unsupported speculative method 'magic'"),
        ('{"method": "eagle3", "num_speculative_tokens": 1}', "needs a draft model"),
        ('{"method": "ngram", "num_speculative_tokens": 1, "ngram_max": 4}', "unexpected keyword argument 'ngram_max'"),
    ],
)
def test_what_vllm_refuses_is_refused(text: str, named: str) -> None:
    with pytest.raises(LaunchError) as caught:
        parse_speculation(text)
    assert named in str(caught.value)


def scheduled(raw: object) -> Speculation:
    value = {"method": "ngram", "num_speculative_tokens": 4, "num_speculative_tokens_per_batch_size": raw}
    return parse_speculation(json.dumps(value))


def test_a_schedule_sets_the_length_by_batch_with_gaps_and_tail_carried() -> None:
    one = scheduled([[1, 4, 9], [8, 16, 2], [17, 32, 0]])
    assert [one.drafted(batch) for batch in (1, 4, 6, 8, 16, 17, 500)] == [4, 4, 4, 2, 2, 0, 0]


@pytest.mark.parametrize(
    ("raw", "named"),
    [
        ({"1": 3}, "triples"),
        ([], "begin at 1"),
        ([[1, 4]], "triples"),
        ([[2, 4, 1]], "begin at 1"),
        ([[1, 4, -1]], "K of at least 0"),
        ([[1, 4, 3], [4, 8, 2]], "overlapping"),
    ],
)
def test_a_schedule_that_vllm_refuses_is_refused(raw: object, named: str) -> None:
    with pytest.raises(LaunchError) as caught:
        scheduled(raw)
    assert named in str(caught.value)
