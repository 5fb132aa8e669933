"""What the tuner is told: rows of every setting a server has been at, limits, and facts that forbid tuning.

It computes nothing. No data is None; a row without a part simply says less.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Drafting(StrEnum):
    """Kinds of drafters that differ in what a further token costs and how acceptance goes on."""

    #: One pass of a small head per token (EAGLE, EAGLE-3, Medusa).
    HEAD = "head"
    #: One pass per token of layers trained with the model, often the same layer again and again (MTP, NextN).
    LAYER = "layer"
    #: One pass of a draft model per token.
    MODEL = "model"
    #: All tokens of a draft in one pass (P-EAGLE, DFlash, DSpark).
    BLOCK = "block"
    #: Lookup in the text so far: no draft cost, long runs or nothing (n-gram, suffix).
    LOOKUP = "lookup"


#: Words in method names, looked for in this order; anything else is a head.
_KINDS: tuple[tuple[str, Drafting], ...] = (
    ("ngram", Drafting.LOOKUP),
    ("suffix", Drafting.LOOKUP),
    ("lookup", Drafting.LOOKUP),
    ("mtp", Drafting.LAYER),
    ("nextn", Drafting.LAYER),
    ("dflash", Drafting.BLOCK),
    ("dspark", Drafting.BLOCK),
    ("peagle", Drafting.BLOCK),
    ("p-eagle", Drafting.BLOCK),
    ("parallel", Drafting.BLOCK),
    ("draft", Drafting.MODEL),
    ("standalone", Drafting.MODEL),
)


def drafting_of(method: str | None) -> Drafting:
    """Kind of drafter that `method` is; heads when it is unknown, since they are the commonest."""
    word = (method or "").lower()
    return next((kind for part, kind in _KINDS if part in word), Drafting.HEAD)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What a server showed at one setting, pooled over a window.

    `survival` [0] is the share of drafts whose first token was accepted. `length` is tokens per draft, bonus token
    included. `step_seconds` is one engine step at `batch` decoding requests.
    """

    survival: tuple[float, ...] | None = None
    length: float | None = None
    num_drafts: float | None = None
    finished_requests: float | None = None
    step_seconds: float | None = None
    batch: float | None = None
    #: Share of decode steps that had a draft (lookup finds none in many); steps without one emit one token.
    coverage: float = 1.0
    prefill_tokens_per_step: float = 0.0
    #: Tokens of context that a decoding request holds; None where lengths of requests are not told.
    decode_context: float | None = None
    covered_seconds: float | None = None
    #: Whether drafts were counted; else they are draft tokens over the setting, wrong where lengths vary.
    counts_drafts: bool = True
    #: Relative standard deviations where they are known; assumed otherwise.
    length_error: float | None = None
    step_error: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What the time of an engine step hangs on: the setting, and the load as of `Row`."""

    num_speculative_tokens: int
    batch: float
    coverage: float = 1.0
    prefill_tokens_per_step: float = 0.0
    decode_context: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CostRow(Step):
    """Step time that another server of the same model and GPU showed, or this one at another time."""

    step_seconds: float
    step_error: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Settings that may be proposed. Off (0) is outside `minimum` and allowed by its own switch."""

    minimum: int = 1
    maximum: int = 8
    allow_off: bool = True
    #: Depth that the drafter was trained for, or its block size: never exceeded.
    trained_depth: int | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.minimum <= self.maximum:
            raise ValueError(f"limits {self.minimum}..{self.maximum}: expected 1 <= min <= max")


class Fact(StrEnum):
    """Something known of the server that makes tuning the wrong answer."""

    ADAPTS_ITSELF = "adapts_itself"
    SCHEDULE = "schedule"
    DIFFUSION = "diffusion"
    STUCK = "stuck"
    UNRELIABLE = "unreliable"
    FELL_SUDDENLY = "fell_suddenly"
    DECAYS = "decays"
    SATURATED = "saturated"


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneInput:
    """Everything that one recommendation rests on.

    `batches` is the load of the last day as (decode batch, weight); empty means the batch of the current row.
    `rejected` settings were tried, or lost, and are not proposed.
    """

    method: str | None
    num_speculative_tokens: int | None
    observed: Mapping[int, Row]
    limits: Limits = Limits()
    rejected: frozenset[int] = frozenset()
    restart_seconds: float = 180.0
    horizon_hours: float = 24.0
    batches: tuple[tuple[float, float], ...] = ()
    costs: tuple[CostRow, ...] = ()
    facts: frozenset[Fact] = field(default_factory=frozenset)
    #: Servers that share the load; a probe of a server that is off needs at least 2. None is unknown.
    replicas: int | None = None
    #: Bytes of the draft's weights over those of the target, for draft models.
    draft_ratio: float | None = None
    need_drafts: float = 5000.0
    need_requests: float = 30.0
    need_seconds: float = 120.0

    @property
    def drafting(self) -> Drafting:
        """Kind of drafter."""
        return drafting_of(self.method)

    @property
    def current(self) -> Row | None:
        """The row of the setting in force."""
        if self.num_speculative_tokens is None:
            return None
        return self.observed.get(self.num_speculative_tokens)
