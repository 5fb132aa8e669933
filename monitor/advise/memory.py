"""Whether target and draft fit a GPU and how much context is left: what vLLM works out at its start, beforehand.

    KV cache = utilization x memory - weights (target and draft) - logits - activations and graphs

The draft's weights do not fail the start: they quietly shrink the KV cache, so fewer requests fit at a time.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from monitor.advise.shapes import ModelShape, Precision

#: What activations, CUDA graphs and the runtime take on each GPU (bytes). Ours: vLLM measures it at its start; with it
#: an 8B target and a 1B draft leave some 4 GB of KV cache on a 24 GB card, as the practical guides say.
OVERHEAD_BYTES = 1.0e9
#: Bytes of one logit.
_LOGIT_BYTES = 4.0
#: Context that must fit, over what the traffic needs at its peak.
ENOUGH = 1.2
#: Requests that the logits are sized for where the load is not known.
_SEQUENCES = 64.0
_GB = 1e9


class Fit(StrEnum):
    """Whether it fits."""

    FITS = "fits"
    #: It starts, with less context than the traffic needs with some headroom.
    TIGHT = "tight"
    DOES_NOT_FIT = "does_not_fit"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """The GPUs and the load. Unknown parts are None; `gpu_bytes` is the memory of each GPU."""

    gpu_bytes: float | None = None
    #: `--gpu-memory-utilization`; 0.9 was long the default.
    utilization: float = 0.9
    tensor_parallel: int = 1
    #: Bytes of a number in the KV cache: 2, or 1 with an 8-bit cache.
    kv_bytes_each: float = 2.0
    #: Requests at a time, and the tokens of a request (prompt and answer, means).
    concurrency: float | None = None
    prompt_tokens: float | None = None
    output_tokens: float | None = None

    @property
    def needed_tokens(self) -> float | None:
        """Context that the load holds at its peak (tokens); None where it is not known."""
        if self.concurrency is None or self.prompt_tokens is None or self.output_tokens is None:
            return None
        return self.concurrency * (self.prompt_tokens + self.output_tokens)


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """What memory one GPU needs (bytes) and holds (tokens of context); None is not known."""

    fit: Fit
    sentence: str
    budget_bytes: float | None = None
    target_bytes: float | None = None
    draft_bytes: float = 0.0
    other_bytes: float | None = None
    cache_bytes: float | None = None
    bytes_per_token: float | None = None
    capacity_tokens: float | None = None
    needed_tokens: float | None = None


def estimate(
    target: ModelShape, room: Room, tokens: int, draft: ModelShape | None = None, precision: Precision | None = None
) -> Memory:
    """Memory of a target that speculates `tokens` tokens, beside a draft whose weights are at `precision`.

    Both are split over the same GPUs. Unknown where a size is not known, saying which.
    """
    parallel = room.tensor_parallel
    weights, per_token = target.weight_bytes(), _cache(target, room)
    draft_weights = draft.weight_bytes(precision) if draft is not None else 0.0
    draft_cache = _cache(draft, room) if draft is not None else 0.0
    missing = [
        what
        for what, value in (
            ("the memory of the GPU", room.gpu_bytes), (f"the size of {target.name}", weights),
            (f"the KV cache of {target.name}", per_token),
            (f"the size of {draft.name}" if draft else "", draft_weights),
            (f"the KV cache of {draft.name}" if draft else "", draft_cache),
        )
        if value is None
    ]  # fmt: skip
    if missing:
        return Memory(fit=Fit.UNKNOWN, sentence=f"not known: {', '.join(missing)}")
    assert weights is not None and per_token is not None and draft_weights is not None and draft_cache is not None
    assert room.gpu_bytes is not None
    budget = room.utilization * room.gpu_bytes
    sequences = room.concurrency or _SEQUENCES
    logits = (tokens + 1) * sequences * (target.vocabulary or 0) * _LOGIT_BYTES
    others = OVERHEAD_BYTES + logits
    cache = budget - (weights + draft_weights) / parallel - others
    each = per_token + draft_cache
    capacity = max(0.0, cache / each)
    needed = room.needed_tokens
    if needed is not None and room.concurrency is not None:
        needed += room.concurrency * tokens
    fit = _fit(cache, capacity, needed)
    return Memory(
        fit=fit,
        sentence=_words(fit, weights / parallel, draft_weights / parallel, cache, each, capacity, needed, budget),
        budget_bytes=budget,
        target_bytes=weights / parallel,
        draft_bytes=draft_weights / parallel,
        other_bytes=others,
        cache_bytes=cache,
        bytes_per_token=each,
        capacity_tokens=capacity,
        needed_tokens=needed,
    )


def _cache(shape: ModelShape, room: Room) -> float | None:
    return shape.kv_bytes_per_token(bytes_each=room.kv_bytes_each, tensor_parallel=room.tensor_parallel)


def _fit(cache: float, capacity: float, needed: float | None) -> Fit:
    if cache <= 0 or (needed is not None and capacity < needed):
        return Fit.DOES_NOT_FIT
    return Fit.TIGHT if needed is not None and capacity < ENOUGH * needed else Fit.FITS


def _words(
    fit: Fit, target: float, draft: float, cache: float, each: float, capacity: float, needed: float | None,
    budget: float,
) -> str:
    weights = f"weights {target / _GB:.1f} GB" + (f" + {draft / _GB:.1f} GB for the draft" if draft else "")
    if cache <= 0:
        return f"{weights} leave no room for a KV cache within {budget / _GB:.1f} GB"
    left = f"{weights}; {cache / _GB:.1f} GB left for {capacity:,.0f} tokens of context ({each / 1024:.0f} KiB each)"
    if needed is None:
        return left
    return f"{left}, {capacity / needed:.1f} times what this load needs" if needed else left
