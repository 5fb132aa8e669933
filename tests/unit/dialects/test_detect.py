"""Whose page is it: by its names first, by `/version` where they do not tell."""

from __future__ import annotations

import pytest

from monitor.dialects.detect import (
    disagreement,
    engines_of,
    generation_by,
    generation_of,
    is_blind,
    is_wanted,
    unknown_names,
)
from monitor.model.server import Engine


@pytest.mark.parametrize(
    ("names", "label", "version", "generation"),
    [
        ({"vllm:num_requests_running"}, True, None, "V1"),
        ({"vllm:num_requests_running"}, False, None, "V0"),
        ({"vllm:num_requests_running"}, False, "0.8.1", "V0"),
        ({"vllm:num_requests_running"}, False, "0.10.0", "V1"),
        ({"vllm:num_requests_running", "vllm:num_requests_swapped"}, False, "0.10.0", "V0"),
        ({"vllm:generation_tokens_total", "vllm:generation_tokens_created"}, False, "0.8.1", "V1"),
        ({"vllm:spec_decode_num_drafts_total"}, False, None, "V1"),
        ({"vllm:spec_decode_efficiency"}, False, None, "V0"),
        ({"vllm:num_requests_swapped"}, True, None, "V1"),
    ],
)
def test_generations(names: set[str], label: bool, version: str | None, generation: str) -> None:
    assert (generation_of(names, label) or generation_by(version)) == generation


def test_the_engine_with_most_names() -> None:
    assert engines_of(["python_info"]) == []
    assert engines_of(["vllm:a", "sglang:b", "sglang:c"]) == [Engine.SGLANG, Engine.VLLM]


@pytest.mark.parametrize(
    ("dialect", "version", "differs"),
    [
        ("vllm_v0", "0.9.2", False),
        ("vllm_v0", "0.12.0", True),
        ("vllm_v1", "0.12.0", False),
        ("vllm_v1", "0.6.3", True),
        ("vllm_v1", None, False),
        ("vllm_v1", "nightly", False),
        ("sglang", "0.5.23", False),
    ],
)
def test_disagreement(dialect: str, version: str | None, differs: bool) -> None:
    assert (disagreement(dialect, version) is not None) is differs


@pytest.mark.parametrize(
    ("dialect", "version", "answer"),
    [
        ("vllm_v0", "0.4.0", False),
        ("vllm_v0", "0.4.1", True),
        ("vllm_v0", "0.5.2", True),
        ("vllm_v0", "0.5.3", False),
        ("vllm_v1", "0.8.2", True),
        ("vllm_v1", "0.8.3", False),
        ("sglang", "0.5.0", False),
        ("vllm_v1", None, False),
    ],
)
def test_blind_releases(dialect: str, version: str | None, answer: bool) -> None:
    assert is_blind(dialect, version) is answer


def test_wanted_names() -> None:
    assert is_wanted("vllm:spec_decode_num_drafts_total")
    assert is_wanted("ray_vllm_spec_decode_num_drafts_total")
    assert is_wanted("process_start_time_seconds")
    assert is_wanted("http_requests_total")
    assert not is_wanted("vllm:lora_requests_info")
    assert not is_wanted("vllm:brand_new_total")
    assert not is_wanted("python_info")


def test_unknown_names_are_those_of_engines_only() -> None:
    names = {
        "vllm:brand_new_total",
        "vllm:prompt_tokens",
        "vllm:current_qps",
        "python_new",
        "sglang:new",
        "vllm_router:x",
    }
    assert unknown_names(names) == {"vllm:brand_new_total"}
