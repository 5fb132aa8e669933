"""vLLM's speculation methods as data: which engine generation runs each, in which releases, and what it needs.

Generation V0 ended with 0.9.2 and V1 began with 0.7.1; where both exist, `generation` says which one a release picks.
Source: `SpeculativeConfig`, `_is_v1_supported_oracle` and the proposers of 75 releases.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from monitor.launch.speculation import canonical_method
from monitor.launch.versions import Span, Version, bound


class Generation(StrEnum):
    """The two engines that vLLM had."""

    V0 = "V0"
    V1 = "V1"


class Draft(StrEnum):
    """Whether a method needs a draft model of its own."""

    NEEDED = "needed"
    OPTIONAL = "optional"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Method:
    """One method: its draft, where each generation runs it, and what people must know."""

    name: str
    draft: Draft
    v0: Span | None = None
    v1: Span | None = None
    #: Whether the engine finds a count itself when none is given.
    has_own_count: bool = False
    note: str = ""

    def span(self, generation: Generation) -> Span | None:
        """The releases in which `generation` runs it; None where it never does."""
        return self.v0 if generation is Generation.V0 else self.v1


METHODS: Final = (
    Method(
        "draft_model",
        Draft.NEEDED,
        Span("0.4.1", "0.9.2"),
        Span("0.15.0"),
        note="0.10.0–0.14.1 refuse it",
    ),
    Method("ngram", Draft.NONE, Span("0.4.2", "0.9.2"), Span("0.7.3")),
    Method("ngram_gpu", Draft.NONE, None, Span("0.18.0")),
    Method("medusa", Draft.NEEDED, Span("0.5.2", "0.9.2"), Span("0.9.0", "0.32.0"), note="removed in 0.33.0"),
    Method(
        "mlp_speculator",
        Draft.NEEDED,
        Span("0.5.1", "0.9.2"),
        None,
        has_own_count=True,
        note="named up to 0.32.0, but engine V1 has no proposer for it",
    ),
    Method("eagle", Draft.NEEDED, Span("0.5.5", "0.9.2"), Span("0.8.3")),
    Method("eagle3", Draft.NEEDED, None, Span("0.8.5")),
    Method("mtp", Draft.OPTIONAL, Span("0.7.3", "0.9.2"), Span("0.9.0"), note="V0 runs it for DeepSeek only"),
    Method("suffix", Draft.NONE, None, Span("0.11.1"), has_own_count=True),
    Method("extract_hidden_states", Draft.NONE, None, Span("0.17.0")),
    Method("dflash", Draft.NEEDED, None, Span("0.20.0")),
    Method("custom_class", Draft.NEEDED, None, Span("0.22.0")),
    Method("dspark", Draft.OPTIONAL, None, Span("0.25.0")),
)
BY_NAME: Final = {method.name: method for method in METHODS}

#: The one name for every MTP head. Before it DeepSeek's name stands for all: the engine takes the kind from the
#: target's configuration whatever name is given (`SpeculativeConfig.__post_init__` of 0.8.5, 0.9.2 and 0.10.2).
GENERIC_MTP: Final = Span("0.11.0")
OLD_MTP_NAME: Final = "deepseek_mtp"
#: Here a count alone, without method and model, means the target's own MTP head (DeepSeek).
NAMELESS_MTP: Final = Span("0.7.3", "0.10.2")

#: 0.8.x runs every method on V0 unless VLLM_USE_V1=1; 0.9.x runs these on V1, but only when `method` names them.
BOTH_ENGINES: Final = Span("0.8.0", "0.9.2")
V1_IS_OPT_IN: Final = Span("0.7.1", "0.8.5")
V1_BY_METHOD: Final = Span("0.9.0", "0.9.2")
V1_METHODS: Final = frozenset({"ngram", "medusa", "eagle", "eagle3", "mtp"})

#: A draft with `n_predict` heads (MLP, MTP): at most that many tokens, later multiples of it as well.
AT_MOST_N_PREDICT: Final = Span("0.5.1", "0.7.3")
MULTIPLES_OF_N_PREDICT: Final = Span("0.8.0")


def generation(version: Version, method: str | None, environment: Mapping[str, str]) -> Generation:
    """Which engine a release uses for `method` (None: not named) under `environment` (its VLLM_USE_V1)."""
    if version.release >= bound("0.10.0"):
        return Generation.V1
    chosen = environment.get("VLLM_USE_V1")
    if version in V1_BY_METHOD and chosen != "0":
        return Generation.V1 if chosen == "1" or canonical_method(method) in V1_METHODS else Generation.V0
    return Generation.V1 if version in V1_IS_OPT_IN and chosen == "1" else Generation.V0
