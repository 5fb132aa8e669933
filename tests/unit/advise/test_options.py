"""The whole advice: for the pairs people start with, in the versions they run, on the cards they have."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

from monitor.advise.catalog import DraftEntry
from monitor.advise.document import advised_view
from monitor.advise.memory import Fit
from monitor.advise.options import Advised, Option, Question, advise
from monitor.advise.shapes import ModelShape
from monitor.advise.vocabulary import Match
from monitor.errors import LaunchError
from tests.unit.advise.models import GIB, L1, L3, L8, L70, MISTRAL, QWEN05, QWEN7, catalog, issues, room, shape


def ask(
    target: str | ModelShape = L8, version: str = "0.32.0", *, gpu: float = 24 * GIB, concurrency: float = 8.0,
    kind: str = "chat", drafts: tuple[DraftEntry, ...] = (), argv: tuple[str, ...] = ("vllm", "serve", "T"),
    tokens: Mapping[str, Mapping[str, int]] | None = None, prompt: float = 800.0, tensor_parallel: int = 1,
) -> Advised:
    known = catalog()
    return advise(
        Question(
            target=shape(target) if isinstance(target, str) else target, version=version, argv=argv, kind=kind,
            room=room(gpu, concurrency=concurrency, prompt=prompt, tensor_parallel=tensor_parallel), drafts=drafts,
            shape_of=known.shape, tokens_of=lambda name: (tokens or {}).get(name),
        ),
        known, issues(),
    )  # fmt: skip


def option(found: Advised, method: str, model: str | None = None) -> Option:
    return next(one for one in found.options if one.method == method and (model is None or one.model == model))


def config(found: Option) -> dict[str, object]:
    read: dict[str, object] = json.loads(found.argv[found.argv.index("--speculative-config") + 1])
    return read


def test_a_trained_head_is_best_for_chat_on_a_llama() -> None:
    best = ask().best
    assert best is not None
    assert (best.method, best.model) == ("eagle3", "yuhuili/EAGLE3-LLaMA3.1-Instruct-8B")
    assert best.argv[:3] == ("vllm", "serve", "T")
    assert config(best) == {"method": "eagle3", "model": best.model, "num_speculative_tokens": 3}
    assert best.memory.fit is Fit.FITS


def test_lookup_is_best_for_edits() -> None:
    best = ask(kind="edit").best
    assert best is not None and best.method in ("ngram", "suffix")
    ngram = option(ask(kind="edit"), "ngram")
    assert config(ngram) == {
        "method": "ngram", "num_speculative_tokens": 5, "prompt_lookup_max": 4, "prompt_lookup_min": 2
    }  # fmt: skip


def test_mistral_has_none_of_its_family() -> None:
    found = ask(MISTRAL)
    assert {one.method for one in found.options} == {"ngram", "suffix"}
    assert found.notes == ("none of its family is small enough to draft for it",)


def test_at_high_concurrency_none_pays() -> None:
    assert ask(gpu=80 * GIB, concurrency=512.0).best is None


class TestVersions:
    @pytest.mark.parametrize(
        ("version", "possible"),
        [
            ("0.6.0", {"draft_model", "eagle", "ngram"}),
            ("0.12.0", {"eagle3", "eagle", "ngram", "suffix"}),
            ("0.32.0", {"eagle3", "eagle", "draft_model", "ngram", "suffix"}),
        ],
    )
    def test_what_a_release_can_do(self, version: str, possible: set[str]) -> None:
        assert {one.method for one in ask(version=version).options if one.is_possible} == possible

    def test_what_it_cannot_do_is_refused_with_where_it_works(self) -> None:
        refused = option(ask(version="0.12.0"), "draft_model", L1)
        assert any("0.15.0 or newer" in text for text in refused.refusals)
        assert refused.argv == ()
        assert "no-plain-draft" in {one.id for one in refused.issues}

    def test_old_releases_get_their_old_flags(self) -> None:
        found = option(ask(version="0.6.0"), "draft_model", L1)
        assert "--speculative-model" in found.argv and "--use-v2-block-manager" in found.argv

    def test_a_version_that_is_none(self) -> None:
        with pytest.raises(LaunchError, match="version 'new'"):
            ask(version="new")


class TestVocabularies:
    def test_the_small_qwens_need_translation(self) -> None:
        found = option(ask(QWEN7), "draft_model", QWEN05)
        assert found.is_possible
        assert config(found)["use_heterogeneous_vocab"] is True
        assert any("greedy drafting only" in note for note in found.notes)

    def test_and_do_not_start_where_there_is_none(self) -> None:
        found = option(ask(QWEN7, "0.20.0"), "draft_model", QWEN05)
        assert found.refusals == (
            "vocabularies differ: 152,064 entries in the target, 151,936 in the draft",
        )

    def test_tokenizers_are_compared_where_they_are_there(self) -> None:
        same, other = {"a": 0, "b": 1}, {"a": 1, "b": 0}
        found = option(ask(tokens={L8: same, L1: same}), "draft_model", L1)
        assert found.vocabulary is not None and found.vocabulary.match is Match.SAME
        refused = option(ask(tokens={L8: same, L1: other}), "draft_model", L1)
        assert refused.refusals == ("tokenizers differ in 2 of 2 tokens ('a', 'b')",)

    def test_a_tokenizer_that_cannot_be_read_leaves_the_sizes(self) -> None:
        def broken(name: str) -> Mapping[str, int]:
            raise ValueError(f"{name}: no tokenizer")

        known = catalog()
        found = advise(
            Question(target=shape(L8), version="0.32.0", argv=("vllm", "serve", "T"), room=room(),
                     shape_of=known.shape, tokens_of=broken),
            known, issues(),
        )  # fmt: skip
        compared = option(found, "draft_model", L1).vocabulary
        assert compared is not None and compared.match is Match.SAME_SIZE
        assert f"{L8}: no tokenizer" in compared.sentence

    def test_a_draft_of_another_family_is_warned_of(self) -> None:
        found = option(ask(drafts=(DraftEntry(method="draft_model", model=QWEN05),)), "draft_model", QWEN05)
        assert any("another family" in note and "30 %" in note for note in found.notes)


class TestMemory:
    def test_a_draft_that_fits_at_8_bit_alone_is_quantized(self) -> None:
        found = option(ask(gpu=23.2 * GIB, concurrency=1.0, prompt=4000.0), "draft_model", L3)
        assert found.quantization == "fp8"
        assert config(found)["quantization"] == "fp8"
        assert any("8 bit" in note for note in found.notes)

    def test_what_does_not_fit_is_refused(self) -> None:
        found = ask(gpu=20 * GIB)
        assert option(found, "draft_model", L3).refusals
        assert option(found, "ngram").is_possible

    def test_a_target_that_does_not_fit_by_itself(self) -> None:
        found = ask(L70, gpu=80 * GIB)
        assert found.best is None
        assert found.without.fit is Fit.DOES_NOT_FIT
        assert any("the target does not fit by itself" in note for note in found.notes)

    def test_a_head_for_a_target_is_about_one_of_its_layers(self) -> None:
        assert option(ask(), "eagle3").memory.draft_bytes == pytest.approx(0.8e9, rel=0.02)

    def test_a_model_that_nothing_is_known_of_is_advised_without(self) -> None:
        found = ask(ModelShape(name="org/New-7B"))
        assert {one.method for one in found.options} == {"ngram", "suffix"}
        assert all(one.memory.fit is Fit.UNKNOWN and one.is_possible for one in found.options)
        assert found.notes == ("no drafts are listed for org/New-7B: name one with --draft",)


class TestOwnHeads:
    def test_a_model_with_a_head_of_its_own(self) -> None:
        target = ModelShape(name="deepseek-ai/DeepSeek-V3.1", own_heads=1, layers=61, latent=576, stored_bytes=690e9,
                            vocabulary=129280)
        found = option(ask(target, gpu=140 * GIB, tensor_parallel=8), "mtp")
        assert found.is_possible and config(found) == {"method": "mtp", "num_speculative_tokens": 3}
        assert found.memory.draft_bytes == 0.0
        assert found.memory.bytes_per_token == 576 * 62 * 2

    def test_one_that_no_list_has(self) -> None:
        assert option(ask(ModelShape(name="org/New", own_heads=2)), "mtp").forecast.tokens == 2


class TestKnownIssues:
    def test_those_of_the_load_and_the_command_line(self) -> None:
        argv = ("vllm", "serve", "T", "--enable-lora", "--pipeline-parallel-size=2")
        found = {one.id for one in option(ask(argv=argv, prompt=9000.0, gpu=80 * GIB), "ngram").issues}
        assert {"lora-ngram", "pipeline-parallel"} <= found
        eagle = {one.id for one in option(ask(prompt=9000.0, gpu=80 * GIB), "eagle3").issues}
        assert "eagle-long-context" in eagle and "pipeline-parallel" not in eagle


def test_a_draft_of_ones_own_comes_once() -> None:
    found = ask(drafts=(DraftEntry(method="draft_model", model=L1),))
    assert [one.model for one in found.options].count(L1) == 1


def test_options_that_are_possible_come_first_each_kind_by_its_worth() -> None:
    found = ask(version="0.12.0").options
    assert [one.is_possible for one in found] == sorted((one.is_possible for one in found), reverse=True)
    gains = [one.forecast.gain for one in found if one.is_possible]
    assert gains == sorted(gains, reverse=True)


def test_as_json() -> None:
    view = advised_view(ask())
    assert json.loads(json.dumps(view, allow_nan=False)) == view
    assert view["best"] == {"method": "eagle3", "model": "yuhuili/EAGLE3-LLaMA3.1-Instruct-8B"}
    assert advised_view(ask(gpu=80 * GIB, concurrency=512.0))["best"] is None
