"""Every sample page of the golden folder is read as its JSON file says."""

import json
import pathlib
from typing import Any

import pytest

from tests.fakes.sample_check import complaints, read_sample

GOLDEN = pathlib.Path(__file__).parents[2] / "golden" / "exposition"
SAMPLES = GOLDEN / "samples"
#: Needs a server that redirects, not a page: tested with real HTTP.
NOT_A_PAGE = {"http_307_redirect"}
ALL = sorted(path for path in GOLDEN.glob("*/*.json") if path.stem not in NOT_A_PAGE)


@pytest.mark.parametrize("path", ALL, ids=lambda path: path.stem)
def test_sample(path: pathlib.Path) -> None:
    sample, said = read_sample(path)
    assert list(complaints(sample["expected"], said)) == []


def test_there_are_samples_and_the_comparison_can_fail() -> None:
    assert len(ALL) >= 37
    sample, said = read_sample(SAMPLES / "v1_pair_15s_k5.json")
    wrongs: tuple[dict[str, Any], ...] = (
        {"verdict": "reset_detected"},
        {"state": "idle"},
        {"flags": ["duplicate_series"]},
        {"models": {"other": {}}},
        {"models": {"*": {"running": 2}}},
        {"models": {"*": {"interval": {"num_drafts": None}}}},
        {"models": {"*": {"interval": {"acceptance_rate_per_position": [None] * 5}}}},
    )
    for wrong in wrongs:
        assert list(complaints(wrong, said)), wrong
    assert sample["expected"]["verdict"] == "ok"


def test_the_keys_are_those_of_the_contract() -> None:
    _, said = read_sample(SAMPLES / "v1_pair_15s_k5.json")
    assert list(said) == ["verdict", "reason", "dialect", "state", "flags", "models"]
    [model] = said["models"]
    assert list(model) == [
        "model",
        "engines",
        "num_speculative_tokens",
        "running",
        "waiting",
        "kv_usage_max",
        "lifetime",
        "interval",
        "per_engine",
    ]
    for reading in (model["lifetime"], model["interval"], model["per_engine"]["0"]["interval"]):
        assert list(reading) == [
            "num_drafts",
            "num_draft_tokens",
            "num_accepted_tokens",
            "acceptance_rate",
            "acceptance_length",
            "acceptance_rate_per_position",
            "generation_tokens",
            "generation_tokens_per_second",
            "prompt_tokens",
            "partial",
        ]
    json.dumps(said, allow_nan=False)
