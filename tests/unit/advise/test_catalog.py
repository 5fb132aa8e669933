"""The shipped pairs, and mistakes in a file of one's own."""

from __future__ import annotations

import pytest

from monitor.advise.catalog import load_catalog
from monitor.advise.shapes import Precision
from monitor.errors import ConfigError
from tests.unit.advise.models import L1, L8, L70, MISTRAL, QWEN7, catalog

GOOD = """
models:
  - {name: M, matches: ['m-7b'], family: f, parameters: 7, layers: 2, hidden: 8, intermediate: 8, heads: 2, kv_heads: 1,
     head_dim: 4, vocabulary: 100}
pairs:
  - {target: M, drafts: [{method: eagle, model: org/head}]}
methods:
  eagle: {acceptance: [0.7], most: 3, source: x}
"""


@pytest.mark.parametrize(
    ("target", "drafts"),
    [
        (L8, ["eagle3", "eagle", "draft_model", "draft_model"]),
        (L70, ["eagle3", "draft_model", "draft_model"]),
        ("meta-llama/Meta-Llama-3-8B-Instruct", ["eagle3", "eagle", "draft_model", "draft_model"]),
        (QWEN7, ["draft_model", "draft_model"]),
        ("Qwen/Qwen2.5-Coder-32B-Instruct", ["draft_model", "draft_model"]),
        ("Qwen/Qwen3-8B", ["eagle3", "draft_model"]),
        (MISTRAL, []),
        ("deepseek-ai/DeepSeek-V3.1", ["mtp"]),
        ("zai-org/GLM-4.6", ["mtp"]),
        ("Qwen/Qwen3-Next-80B-A3B-Instruct", ["mtp"]),
        ("openai/gpt-oss-120b", ["eagle3"]),
        ("/models/Llama-3.1-8B-Instruct/", ["eagle3", "eagle", "draft_model", "draft_model"]),
    ],
)
def test_targets_and_the_drafts_they_have(target: str, drafts: list[str]) -> None:
    pair = catalog().pair(target)
    assert pair is not None
    assert [draft.method for draft in pair.drafts] == drafts


@pytest.mark.parametrize("name", ["org/Unknown-7B", "", "/", "Llama-3.1-8B-Instruct-finetune-x"])
def test_what_is_not_listed(name: str) -> None:
    assert (catalog().shape(name), catalog().pair(name)) == (None, None)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (L8, Precision.BF16), ("RedHatAI/Meta-Llama-3.1-8B-Instruct-FP8", Precision.EIGHT_BIT),
        ("x/Llama-3.1-8B-Instruct-quantized.w8a8", Precision.EIGHT_BIT),
        ("x/Llama-3.3-70B-Instruct-AWQ", Precision.FOUR_BIT), ("x/llama-3.2-1b-GPTQ-Int4", Precision.FOUR_BIT),
        ("Qwen/Qwen3-8B-FP8-dynamic", Precision.EIGHT_BIT),
    ],
)  # fmt: skip
def test_an_ending_says_how_weights_are_stored(name: str, expected: Precision) -> None:
    found = catalog().shape(name)
    assert found is not None and found.precision is expected


def test_every_listed_draft_is_of_the_targets_family_and_its_method_is_known() -> None:
    known = catalog()
    for pair in known.pairs:
        entry = next((model for model in known.models if model.name == pair.target), None)
        for draft in pair.drafts:
            assert known.methods[draft.method].source
            drafted = known.shape(draft.model or "")
            if entry is not None and draft.method == "draft_model":
                assert drafted is not None, draft.model
                assert drafted.family == entry.family
                assert (drafted.parameters or 0) < entry.parameters * 1e9


def test_families_tell_models_apart_that_look_alike() -> None:
    known = catalog()
    assert known.shape(L1).family == known.shape(L8).family  # type: ignore[union-attr]
    assert known.shape(QWEN7).family != known.shape("Qwen/Qwen3-8B").family  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("['m-7b']", "['m-(7b']", "models[0].matches[0]"),
        ("layers: 2", "layers: 0", "models[0].layers"),
        ("layers: 2", "layer: 2", "did you mean layers?"),
        ("target: M", "target: N", "pairs[0].target: found 'N', expected one of M"),
        ("method: eagle,", "method: eagle4,", "did you mean eagle"),
        ("method: eagle,", "method: medusa,", "pairs[0].drafts[0].method: found 'medusa', expected one of eagle"),
        ("[0.7]", "[1.7]", "methods.eagle.acceptance[0]"),
        ("acceptance: [0.7]", "kinds: {chat: {coverage: 0.5, acceptance: [0.5]}}", "kinds chat, code, rag, edit"),
        ("acceptance: [0.7],", "", "either acceptance or kinds"),
        ("parameters: 7", "parameters: .nan", "models[0].parameters"),
    ],
)
def test_mistakes_are_named(old: str, new: str, message: str) -> None:
    assert load_catalog(GOOD, "p.yaml").pair("x/m-7b") is not None
    with pytest.raises(ConfigError) as error:
        load_catalog(GOOD.replace(old, new), "p.yaml")
    assert any(message in str(problem) for problem in error.value.problems), error.value.problems
