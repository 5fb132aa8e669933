"""Two vocabularies: by size, by every token, and when nothing is known."""

from __future__ import annotations

import json

import pytest

from monitor.advise.shapes import ModelShape
from monitor.advise.vocabulary import Match, compare, tokens_of
from tests.unit.advise.models import L1, L8, QWEN05, QWEN7, shape


def tokenizer(vocabulary: object, added: object = ()) -> bytes:
    return json.dumps({"model": {"type": "BPE", "vocab": vocabulary}, "added_tokens": added}).encode()


def test_one_family_has_one_size() -> None:
    found = compare(shape(L8), shape(L1))
    assert found.match is Match.SAME_SIZE
    assert "128,256" in found.sentence and "not compared" in found.sentence


def test_the_trap_of_qwen2_5() -> None:
    found = compare(shape(QWEN7), shape(QWEN05))
    assert found.match is Match.DIFFERENT
    assert found.sentence == "vocabularies differ: 152,064 entries in the target, 151,936 in the draft"


def test_every_token_is_compared_where_the_files_are_there() -> None:
    model = ModelShape(name="x", vocabulary=3)
    same = tokens_of(tokenizer({"a": 0, "b": 1}, [{"id": 2, "content": "<s>"}]), "x")
    assert same == {"a": 0, "b": 1, "<s>": 2}
    assert compare(model, model, same, dict(same)).match is Match.SAME
    found = compare(model, model, same, {"a": 1, "b": 0, "<s>": 2})
    assert found.match is Match.DIFFERENT
    assert found.sentence == "tokenizers differ in 2 of 3 tokens ('a', 'b')"
    many = compare(model, model, {str(n): n for n in range(9)}, {str(n): n + 1 for n in range(9)})
    assert "('0', '1', '2', …)" in many.sentence


def test_a_unigram_model_lists_its_tokens() -> None:
    assert tokens_of(tokenizer([["a", -1.0], ["b", -2.0]]), "x") == {"a": 0, "b": 1}


def test_without_a_size_nothing_is_known() -> None:
    found = compare(ModelShape(name="x", vocabulary=5), ModelShape(name="y"))
    assert (found.match, found.sentence) == (
        Match.UNKNOWN, "the draft's vocabulary is not known: no config.json at hand"
    )  # fmt: skip
    assert "the target's" in compare(ModelShape(name="x"), ModelShape(name="y")).sentence


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b'{"model": {"vocab": 3}}', b"[" * 100_000, b"\xff"])
def test_what_is_no_tokenizer_is_named(content: bytes) -> None:
    with pytest.raises(ValueError, match=r"tok\.json: "):
        tokens_of(content, "tok.json")
