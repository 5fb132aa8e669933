"""What the files of a draft say: how far it was trained to go, and what it weighs beside the target."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from monitor.launch import parse_command
from monitor.model.server import Engine
from monitor.targets.drafts import DraftFacts, draft_facts


def model(folder: Path, name: str, config: dict[str, object], weight: int | None = None) -> str:
    place = folder / name
    place.mkdir()
    (place / "config.json").write_text(json.dumps(config))
    if weight is not None:
        (place / "model.safetensors").write_bytes(bytes(weight))
    return str(place)


def facts(target: str, method: str | None, draft: str | None) -> DraftFacts:
    given = {"method": method, "model": draft, "num_speculative_tokens": 3}
    config = json.dumps({name: value for name, value in given.items() if value is not None})
    return draft_facts(parse_command(Engine.VLLM, ["vllm", "serve", target, "--speculative-config", config]), {})


@pytest.mark.parametrize(
    ("method", "config", "depth"),
    [
        ("dflash", {"block_size": 8}, 7),
        ("dflash", {"block_size": 1}, None),
        ("dflash", {"block_size": "8"}, None),
        ("medusa", {"medusa_num_heads": 5}, 5),
        ("medusa", {"num_heads": 4}, 4),
        ("mlp_speculator", {"n_predict": 3}, 3),
        # Used again and again: no depth.
        ("mtp", {"num_nextn_predict_layers": 1}, None),
        ("eagle3", {"block_size": 8, "num_hidden_layers": 1}, None),
        ("draft_model", {"num_hidden_layers": 16}, None),
    ],
)
def test_how_far_a_draft_was_trained_to_go(
    tmp_path: Path, method: str, config: dict[str, object], depth: int | None
) -> None:
    found = facts("org/Target", method, model(tmp_path, "draft", config))
    assert (found.method, found.trained_depth) == (method, depth)


def test_what_a_draft_weighs_beside_its_target(tmp_path: Path) -> None:
    target, draft = model(tmp_path, "target", {}, 4000), model(tmp_path, "draft", {}, 500)
    assert facts(target, "draft_model", draft).weight_ratio == 0.125
    assert facts("org/Target", "draft_model", draft).weight_ratio is None


def test_what_no_file_says_is_not_known(tmp_path: Path) -> None:
    broken = tmp_path / "draft"
    broken.mkdir()
    (broken / "config.json").write_text("no json")
    for draft in (str(broken), str(tmp_path / "none"), None):
        assert facts("org/Target", "dflash", draft) == DraftFacts(method="dflash")
    off = parse_command(Engine.VLLM, ["vllm", "serve", "org/Target"])
    assert draft_facts(off, {}) == DraftFacts()


@pytest.mark.parametrize(
    ("config", "has"),
    [({"num_experts": 128}, True), ({"text_config": {"n_routed_experts": 256}}, True),
     ({"num_local_experts": 1}, False), ({}, False)],
)
def test_a_target_that_is_a_mixture_of_experts(tmp_path: Path, config: dict[str, object], has: bool) -> None:
    assert facts(model(tmp_path, "target", config), "ngram", None).has_experts is has
