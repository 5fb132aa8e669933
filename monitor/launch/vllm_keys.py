"""Keys of vLLM's `--speculative-config` as data, each with the releases that take it. Source: `SpeculativeConfig`.

Read in 75 releases from 0.4.0 to 0.33.0; the fields were compared once more in 0.8.5, 0.9.2, 0.10.2, 0.11.0, 0.15.1,
0.18.1, 0.21.0, 0.25.0, 0.28.0 and 0.32.0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from monitor.launch.speculation import canonical_method
from monitor.launch.versions import Span, Version


@dataclass(frozen=True, slots=True)
class Key:
    """One JSON key: the releases that accept it, and where it has an effect."""

    name: str
    accepted: Span
    #: The method it belongs to; with another one it has no effect.
    method: str | None = None
    #: Whether only engine V0 (gone in 0.10.0) reads it; V1 accepts and ignores it.
    is_v0_only: bool = False
    #: The last release read without it, where the first with it is not known: between the two it may be refused.
    absent: str | None = None


@dataclass(frozen=True, slots=True)
class Choice:
    """The values one key may have in a range of releases."""

    key: str
    span: Span
    values: tuple[str, ...]


_ALWAYS = (
    "method",
    "model",
    "num_speculative_tokens",
    "draft_tensor_parallel_size",
    "quantization",
    "max_model_len",
    "revision",
    "code_revision",
    "prompt_lookup_max",
    "prompt_lookup_min",
)
_V0_ONLY = ("acceptance_method", "posterior_threshold", "posterior_alpha", "disable_mqa_scorer")
_SUFFIX = ("max_tree_depth", "max_cached_requests", "max_spec_factor", "min_token_prob")
KEYS: Final = (
    *(Key(name, Span("0.8.2")) for name in _ALWAYS),
    *(Key(name, Span("0.8.2", "0.9.2"), is_v0_only=True) for name in _V0_ONLY),
    # Last read in 0.11.0, gone in 0.15.1; up to there a release without it ignores it anyway.
    Key("disable_logprobs", Span("0.8.2", "0.15.1"), is_v0_only=True),
    # No module of engine V1 reads it, in any release: accepted and ignored up to 0.16.0, refused after.
    Key("disable_by_batch_size", Span("0.8.2", "0.16.0"), is_v0_only=True),
    Key("speculative_token_tree", Span("0.9.0", "0.20.2")),
    Key("enforce_eager", Span("0.11.0")),
    Key("disable_padded_drafter_batch", Span("0.11.0")),
    *(Key(f"suffix_decoding_{name}", Span("0.11.1"), method="suffix") for name in _SUFFIX),
    Key("parallel_drafting", Span("0.16.0")),
    Key("rejection_sample_method", Span("0.18.0")),
    Key("synthetic_acceptance_rate", Span("0.19.0", "0.19.1")),
    Key("synthetic_acceptance_rates", Span("0.20.0")),
    Key("synthetic_acceptance_length", Span("0.20.0")),
    Key("draft_sample_method", Span("0.21.0")),
    Key("num_speculative_tokens_per_batch_size", Span("0.24.0")),
    Key("use_heterogeneous_vocab", Span("0.25.0"), method="draft_model"),
    Key("enable_adaptive_verification", Span("0.28.0"), method="dspark"),
    # Not dated to the release: the last one read without the key stands as `absent`.
    Key("use_local_argmax_reduction", Span("0.18.1"), absent="0.15.1"),
    Key("draft_load_config", Span("0.18.1"), absent="0.15.1"),
    Key("moe_backend", Span("0.21.0"), absent="0.18.1"),
    Key("attention_backend", Span("0.21.0"), absent="0.18.1"),
    Key("kv_cache_dtype", Span("0.28.0"), absent="0.25.0"),
    Key("dspark_draft_topk", Span("0.28.0"), method="dspark", absent="0.25.0"),
    Key("index_share_for_mtp_iteration", Span("0.32.0"), method="mtp", absent="0.28.0"),
    Key("disable_eagle_block_drop", Span("0.32.0"), absent="0.28.0"),
)
BY_NAME: Final = {key.name: key for key in KEYS}

CHOICES: Final = (
    Choice("rejection_sample_method", Span("0.18.0", "0.18.1"), ("strict", "probabilistic")),
    Choice("rejection_sample_method", Span("0.19.0", "0.20.2"), ("strict", "probabilistic", "synthetic")),
    Choice("rejection_sample_method", Span("0.21.0", "0.24.0"), ("standard", "synthetic")),
    Choice("rejection_sample_method", Span("0.25.0", "0.32.0"), ("standard", "synthetic", "block")),
    Choice("rejection_sample_method", Span("0.33.0"), ("standard", "synthetic", "block", "fly")),
    Choice("draft_sample_method", Span("0.21.0", "0.21.0"), ("greedy", "gumbel")),
    Choice("draft_sample_method", Span("0.22.0"), ("greedy", "probabilistic")),
)

#: What a release does with a key it does not have: a TypeError of the dataclass, nothing at all, a validation error.
IGNORES_UNKNOWN_KEYS: Final = Span("0.9.1", "0.15.1")

#: Keys that only say "you meant another one": vLLM raises on the first, the second is the name of the old flag.
MISTAKEN_KEYS: Final = {
    "tensor_parallel_size": "draft_tensor_parallel_size",
    "ngram_prompt_lookup_max": "prompt_lookup_max",
    "ngram_prompt_lookup_min": "prompt_lookup_min",
}

#: With data parallelism ranks may draft different counts and wait for each other for ever; from here on (0.25.0 does
#: not, 0.28.0 does) the engine turns schedules off with a warning.
SCHEDULES_OFF_WITH_DATA_PARALLEL: Final = Span("0.28.0")
#: Methods whose count may follow a schedule on model runner V1; with others it is turned off with a warning.
SCHEDULE_METHODS: Final = {
    "ngram": Span("0.24.0"),
    "eagle": Span("0.24.0"),
    "eagle3": Span("0.24.0"),
    "mtp": Span("0.24.0"),
    "draft_model": Span("0.24.0"),
    "dflash": Span("0.26.0"),
}


def takes_schedule(version: Version, method: str | None) -> bool:
    """Whether a release follows a schedule with `method` on either model runner; False where the method is unknown."""
    works = SCHEDULE_METHODS.get(canonical_method(method) or "")
    key = BY_NAME["num_speculative_tokens_per_batch_size"]
    return works is not None and version in key.accepted and version in works
