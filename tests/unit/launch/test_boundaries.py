"""What each release can do, stated a second time and by hand, against what is rendered at every boundary.

The golden files say what is written; this says where it ends. Ranges are those read in the sources of 75 releases of
vLLM, SGLang 0.5.23 and llama.cpp b9093 to b11434; both ends belong to a range.
"""

from __future__ import annotations

import json

import pytest

from monitor.launch import render_json
from monitor.launch.versions import bound, parse_version
from monitor.model.server import Engine
from tests.unit.launch.golden import BOUNDARIES

EVER = "99"
#: Here vLLM takes any key in the JSON and does nothing with those that it does not know: that is warned of.
IGNORED = ("0.9.1", "0.15.1")
DRAFT = {"method": "draft_model", "model": "d", "num_speculative_tokens": 4}
NGRAM = {"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_max": 4}
EAGLE3 = {"method": "eagle3", "model": "d", "num_speculative_tokens": 4}
DSPARK = {"method": "dspark", "model": "d", "num_speculative_tokens": 4}


def of(method: str, **more: object) -> dict[str, object]:
    return {"method": method, "model": "d", "num_speculative_tokens": 4, **more}


#: What, the speculation, the target's arguments, the ranges in which vLLM takes it.
VLLM = [
    ("a draft model", DRAFT, "", [("0.4.1", "0.9.2"), ("0.15.0", EVER)]),
    ("n-gram lookup", NGRAM, "", [("0.4.2", EVER)]),
    ("n-gram lookup without its longest match", of("ngram", model=None), "", [("0.8.2", EVER)]),
    ("n-gram lookup on the GPU", {**NGRAM, "method": "ngram_gpu"}, "", [("0.18.0", EVER)]),
    ("medusa", of("medusa"), "", [("0.5.2", "0.32.0")]),
    ("an MLP speculator", of("mlp_speculator"), "", [("0.5.1", "0.9.2")]),
    ("EAGLE", of("eagle"), "", [("0.5.5", EVER)]),
    ("EAGLE-3", EAGLE3, "", [("0.8.5", EVER)]),
    ("MTP of DeepSeek", of("deepseek_mtp", model=None), "", [("0.7.3", EVER)]),
    ("MTP of any model", of("mtp", model=None), "", [("0.7.3", EVER)]),
    ("suffix decoding", of("suffix", model=None), "", [("0.11.1", EVER)]),
    ("DFlash", of("dflash"), "", [("0.20.0", EVER)]),
    ("DSpark", DSPARK, "", [("0.25.0", EVER)]),
    ("hidden states", of("extract_hidden_states"), "", [("0.17.0", EVER)]),
    ("a schedule", {**EAGLE3, "num_speculative_tokens_per_batch_size": [[1, 8, 4], [9, 64, 2]]}, "",
     [("0.24.0", EVER)]),
    ("a schedule that goes to zero", {**EAGLE3, "num_speculative_tokens_per_batch_size": [[1, 8, 4], [9, 64, 0]]}, "",
     [("0.24.0", EVER)]),
    ("parallel drafting", of("eagle3", parallel_drafting=True), "", [IGNORED, ("0.16.0", EVER)]),
    ("another draft sampling", of("eagle3", draft_sample_method="greedy"), "", [IGNORED, ("0.21.0", EVER)]),
    ("gumbel sampling", of("eagle3", draft_sample_method="gumbel"), "", [IGNORED, ("0.21.0", "0.21.0")]),
    ("probabilistic drafts", of("eagle3", draft_sample_method="probabilistic"), "", [IGNORED, ("0.22.0", EVER)]),
    ("strict rejection", of("eagle3", rejection_sample_method="strict"), "", [IGNORED, ("0.18.0", "0.20.2")]),
    ("standard rejection", of("eagle3", rejection_sample_method="standard"), "", [IGNORED, ("0.21.0", EVER)]),
    ("block rejection", of("eagle3", rejection_sample_method="block"), "", [IGNORED, ("0.25.0", EVER)]),
    ("fly rejection", of("eagle3", rejection_sample_method="fly"), "", [IGNORED, ("0.33.0", EVER)]),
    ("adaptive verification", {**DSPARK, "enable_adaptive_verification": True}, "", [("0.28.0", EVER)]),
    ("another vocabulary", {**DRAFT, "use_heterogeneous_vocab": True}, "",
     [("0.9.1", "0.9.2"), ("0.15.0", "0.15.1"), ("0.25.0", EVER)]),
    ("a token tree", of("eagle", speculative_token_tree="[(0,)]"), "", [("0.9.0", "0.20.2")]),
    # Accepted up to 0.16.0, and read by V0 alone.
    ("an off switch by batch size", {**NGRAM, "disable_by_batch_size": 8}, "", [("0.4.3", "0.16.0")]),
    ("a quantised draft", {**DRAFT, "quantization": "awq"}, "", [("0.5.5", "0.9.2"), ("0.15.0", EVER)]),
    # V0: one GPU or as many as the target; from 0.15.0 as many as the target.
    ("a draft on one GPU of four", {**DRAFT, "draft_tensor_parallel_size": 1}, "-tp 4", [("0.5.1", "0.9.2")]),
    ("a draft on all four", {**DRAFT, "draft_tensor_parallel_size": 4}, "-tp 4",
     [("0.5.1", "0.9.2"), ("0.15.0", EVER)]),
    ("a draft on two of four", {**DRAFT, "draft_tensor_parallel_size": 2}, "-tp 4", []),
    ("off", None, "--speculative-config {}", [("0.4.0", EVER)]),
]
LLAMACPP = [
    ("a draft model", DRAFT, [("b9093", "b99999")]),
    ("n-gram lookup", {"method": "ngram", "num_speculative_tokens": 4}, [("b9093", "b99999")]),
]


def takes(engine: str, version: str, speculation: object, target: str = "") -> bool:
    code, answer = render_json(engine, version, json.dumps(speculation), target)
    assert code in (0, 2) and (code == 0) is ("argv" in answer)
    return code == 0


def ranges(engine: str, speculation: object, target: str = "") -> str:
    """The boundaries at which it is taken, as text."""
    return " ".join(version for version in BOUNDARIES[engine] if takes(engine, version, speculation, target))


def expected(engine: Engine, spans: list[tuple[str, str]]) -> str:
    """The boundaries within the ranges, as text."""
    known = {version: parse_version(engine, version).release for version in BOUNDARIES[engine.value]}
    return " ".join(
        version for version, release in known.items()
        if any(bound(first) <= release and release[: len(bound(last))] <= bound(last) for first, last in spans)
    )  # fmt: skip


@pytest.mark.parametrize(("what", "speculation", "target", "spans"), VLLM, ids=[row[0] for row in VLLM])
def test_vllm_takes_it_exactly_there(
    what: str, speculation: dict[str, object] | None, target: str, spans: list[tuple[str, str]]
) -> None:
    given = {key: value for key, value in speculation.items() if value is not None} if speculation else None
    assert ranges("vllm", given, f"m {target}") == expected(Engine.VLLM, spans)


@pytest.mark.parametrize(("key", "value", "version"), [
    ("parallel_drafting", True, "0.15.1"), ("rejection_sample_method", "strict", "0.11.0"),
    ("disable_by_batch_size", 8, "0.10.0"), ("disable_by_batch_size", 8, "0.16.0"),
])  # fmt: skip
def test_what_is_taken_and_has_no_effect_is_warned_of(key: str, value: object, version: str) -> None:
    code, answer = render_json("vllm", version, json.dumps({**EAGLE3, key: value}), "m")
    assert code == 0
    assert any(key in text for text in answer["warnings"]), answer  # type: ignore[attr-defined]


@pytest.mark.parametrize(("build", "kind"), [("b9093", False), ("b9296", False), ("b9297", True), ("b11434", True)])
def test_llama_server_is_told_that_a_draft_is_a_plain_one_where_it_can_be(build: str, kind: bool) -> None:
    _, answer = render_json("llamacpp", build, json.dumps(DRAFT), "-m x.gguf")
    assert ("draft-simple" in answer["argv"]) is kind  # type: ignore[operator]


@pytest.mark.parametrize(("what", "speculation", "spans"), LLAMACPP, ids=[row[0] for row in LLAMACPP])
def test_llama_server_takes_it_exactly_there(
    what: str, speculation: dict[str, object], spans: list[tuple[str, str]]
) -> None:
    assert ranges("llamacpp", speculation, "-m x.gguf") == expected(Engine.LLAMACPP, spans)


@pytest.mark.parametrize(
    ("version", "flag"),
    [("0.4.1", True), ("0.6.2", True), ("0.6.3", False), ("0.8.1", False), ("0.9.2", False)],
)
def test_the_old_block_manager_is_switched_where_speculation_needs_the_new_one(version: str, flag: bool) -> None:
    _, answer = render_json("vllm", version, json.dumps(DRAFT), "m")
    assert ("--use-v2-block-manager" in answer["argv"]) is flag  # type: ignore[operator]


@pytest.mark.parametrize(("version", "kept"), [("0.4.0", True), ("0.9.2", True), ("0.10.0", False), ("0.33.0", False)])
def test_a_switch_that_became_unknown_is_left_out(version: str, kept: bool) -> None:
    _, answer = render_json("vllm", version, "null", "m --use-v2-block-manager")
    assert ("--use-v2-block-manager" in answer["argv"]) is kept  # type: ignore[operator]
    assert bool(answer["warnings"]) is not kept


@pytest.mark.parametrize(
    ("version", "flag"), [("0.4.1", "--speculative-model"), ("0.8.1", "--speculative-model"),
                          ("0.8.2", "--speculative-config"), ("0.33.0", "--speculative-config")],
)  # fmt: skip
def test_old_flags_end_where_the_json_begins(version: str, flag: str) -> None:
    speculation = NGRAM if version != "0.4.1" else {key: DRAFT[key] for key in ("model", "num_speculative_tokens")}
    _, answer = render_json("vllm", version, json.dumps(speculation), "m")
    assert flag in answer["argv"]  # type: ignore[operator]


@pytest.mark.parametrize(
    ("version", "speculation", "env"),
    [
        ("0.8.5", EAGLE3, {"VLLM_USE_V1": "1"}), ("0.8.5", NGRAM, {}), ("0.8.5", of("eagle"), {}),
        ("0.9.0", EAGLE3, {}), ("0.33.0", EAGLE3, {}),
    ],
)  # fmt: skip
def test_the_newer_engine_is_chosen_where_only_it_has_the_method(
    version: str, speculation: dict[str, object], env: dict[str, str]
) -> None:
    _, answer = render_json("vllm", version, json.dumps(speculation), "m")
    assert answer["env"] == env
