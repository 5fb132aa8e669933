"""Whether a draft speaks the target's tokens: sizes from configurations, every token where tokenizer files are there.

A draft model proposes token ids; with another vocabulary they mean other words. Equal sizes are necessary and not
enough (vLLM `config/speculative.py` compares the sizes alone).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from monitor.advise.shapes import ModelShape

#: Differing tokens that are named.
_SHOWN = 3


class Match(StrEnum):
    """How two vocabularies compare."""

    SAME = "same"
    #: Equal sizes; the tokens were not compared.
    SAME_SIZE = "same_size"
    DIFFERENT = "different"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Comparison:
    """How they compare, in words too."""

    match: Match
    sentence: str


def tokens_of(tokenizer: bytes | str, what: str) -> Mapping[str, int]:
    """Every token of a `tokenizer.json` with its id. Raises ValueError, naming `what`, where it is none."""
    try:
        read = json.loads(tokenizer)
        model = read["model"]["vocab"]
        added = {entry["content"]: entry["id"] for entry in read.get("added_tokens", ())}
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"{what}: no tokenizer.json of Hugging Face ({type(error).__name__}: {error})") from error
    if isinstance(model, Mapping):
        found = {str(token): number for token, number in model.items()}
    elif isinstance(model, list):
        # Unigram models list [token, score]; the place is the id.
        found = {str(entry[0]): place for place, entry in enumerate(model) if isinstance(entry, list) and entry}
    else:
        raise ValueError(f"{what}: the vocabulary is {type(model).__name__}, expected a mapping or a list")
    return found | added


def compare(
    target: ModelShape, draft: ModelShape, target_tokens: Mapping[str, int] | None = None,
    draft_tokens: Mapping[str, int] | None = None,
) -> Comparison:
    """Compare two vocabularies by what is known of them."""
    ours, theirs = target.vocabulary, draft.vocabulary
    if ours is not None and theirs is not None and ours != theirs:
        return Comparison(
            Match.DIFFERENT, f"vocabularies differ: {ours:,} entries in the target, {theirs:,} in the draft"
        )
    if target_tokens is not None and draft_tokens is not None:
        return _compare_tokens(target_tokens, draft_tokens)
    if ours is None or theirs is None:
        missing = "the target's" if ours is None else "the draft's"
        return Comparison(Match.UNKNOWN, f"{missing} vocabulary is not known: no config.json at hand")
    return Comparison(
        Match.SAME_SIZE, f"vocabularies have the same size ({ours:,}); the tokenizer files were not compared"
    )


def _compare_tokens(ours: Mapping[str, int], theirs: Mapping[str, int]) -> Comparison:
    differing = [token for token in ours.keys() | theirs.keys() if ours.get(token) != theirs.get(token)]
    if not differing:
        return Comparison(Match.SAME, f"tokenizers are the same ({len(ours):,} tokens compared)")
    shown = ", ".join(repr(token) for token in sorted(differing)[:_SHOWN])
    return Comparison(
        Match.DIFFERENT, f"tokenizers differ in {len(differing):,} of {len(ours.keys() | theirs.keys()):,} tokens"
        f" ({shown}{', …' if len(differing) > _SHOWN else ''})"
    )  # fmt: skip
