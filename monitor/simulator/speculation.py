"""The `--speculative-config` of a simulated server: what vLLM 0.32 takes, checked as it would check it."""

from __future__ import annotations

import json
from dataclasses import dataclass

from monitor.errors import LaunchError

#: Keys that vLLM 0.32 knows; others are refused there (`extra="forbid"` since 0.16). Only some change a simulation.
KNOWN_KEYS = frozenset(
    """
    method model num_speculative_tokens draft_tensor_parallel_size quantization max_model_len revision code_revision
    prompt_lookup_max prompt_lookup_min enforce_eager disable_padded_drafter_batch parallel_drafting
    rejection_sample_method draft_sample_method synthetic_acceptance_rates synthetic_acceptance_length
    enable_adaptive_verification num_speculative_tokens_per_batch_size use_heterogeneous_vocab
    suffix_decoding_max_tree_depth suffix_decoding_max_cached_requests suffix_decoding_max_spec_factor
    suffix_decoding_min_token_prob
    """.split()
)
METHODS = frozenset(
    """
    ngram ngram_gpu medusa mlp_speculator draft_model suffix eagle eagle3 mtp dflash dspark custom_class
    extract_hidden_states
    """.split()
)
_NEED_NO_MODEL = ("ngram", "ngram_gpu", "suffix", "mtp")


@dataclass(frozen=True, slots=True)
class Speculation:
    """Method, draft and length of one start; `schedule` holds `(first, last, k)` by batch size, inclusive."""

    method: str
    num_speculative_tokens: int
    model: str | None = None
    schedule: tuple[tuple[int, int, int], ...] = ()

    def drafted(self, batch: int) -> int:
        """Draft length at this batch: the schedule's (gaps and tail carry the one before), else the configured one."""
        drafted = self.num_speculative_tokens
        for first, _last, k in self.schedule:
            if batch >= first:
                drafted = min(k, self.num_speculative_tokens)
        return drafted


def parse_speculation(text: str) -> Speculation:
    """Read the JSON of `--speculative-config`.

    Raises:
        LaunchError: not an object, an unknown key or method, no draft length above 0, or a schedule that vLLM refuses.
    """
    try:
        raw = json.loads(text)
    except ValueError as error:
        raise LaunchError(f"--speculative-config: found {text!r}, expected JSON ({error})") from error
    if not isinstance(raw, dict):
        raise LaunchError(f"--speculative-config: found {text!r}, expected a JSON object")
    unknown = sorted(set(raw) - KNOWN_KEYS)
    if unknown:
        raise LaunchError(f"SpeculativeConfig: unexpected keyword argument {unknown[0]!r}")
    k = raw.get("num_speculative_tokens")
    if not isinstance(k, int) or isinstance(k, bool) or k < 1:
        raise LaunchError(f"SpeculativeConfig: num_speculative_tokens must be an integer above zero, found {k!r}")
    model = raw.get("model")
    method = raw.get("method") or (model if model in ("ngram", "ngram_gpu", "suffix") else "draft_model")
    if method != "mtp" and str(method).endswith("_mtp"):
        method = "mtp"
    if method not in METHODS:
        raise LaunchError(f"SpeculativeConfig: unsupported speculative method {method!r}")
    if method not in _NEED_NO_MODEL and not model:
        raise LaunchError(f"SpeculativeConfig: method {method!r} needs a draft model, found none")
    return Speculation(method, k, model, _schedule(raw.get("num_speculative_tokens_per_batch_size")))


def _schedule(raw: object) -> tuple[tuple[int, int, int], ...]:
    if raw is None:
        return ()
    name = "num_speculative_tokens_per_batch_size"
    triples: list[tuple[int, int, int]] = []
    for item in raw if isinstance(raw, list) else [raw]:
        if not isinstance(item, list) or len(item) != 3 or not all(type(part) is int for part in item):
            raise LaunchError(f"SpeculativeConfig: {name} takes [start, end, K] triples, found {item!r}")
        triples.append((item[0], item[1], item[2]))
    starts = [0, *(last for _first, last, _k in triples)]
    if not triples or triples[0][0] != 1 or any(k < 0 or last < first for first, last, k in triples):
        raise LaunchError(f"SpeculativeConfig: {name} must begin at 1 with K of at least 0, found {raw!r}")
    if any(first <= before for (first, _last, _k), before in zip(triples, starts, strict=False)):
        raise LaunchError(f"SpeculativeConfig: {name} has overlapping ranges, found {raw!r}")
    return tuple(triples)
