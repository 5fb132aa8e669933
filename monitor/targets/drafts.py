"""What the files of a server's draft on this host say for tuning: how far it was trained to go, and what it weighs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from monitor.launch import ParsedCommand
from monitor.launch.speculation import canonical_method
from monitor.model.server import Engine
from monitor.targets.model_files import count_in, find_readable

#: How configurations name the heads that propose one position each: past the last there is nothing.
_HEADS = {"medusa": ("medusa_num_heads", "num_heads"), "mlp_speculator": ("n_predict",)}
#: How configurations of mixtures of experts name how many there are (Mixtral, Qwen, DeepSeek).
_EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts")


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftFacts:
    """What is known of a draft; `method` is what its server's command names. None is not known.

    `weight_ratio`: bytes of its weights on disk over those of the target. `has_experts`: the target is a mixture.
    """

    method: str | None = None
    trained_depth: int | None = None
    weight_ratio: float | None = None
    has_experts: bool = False


def draft_facts(command: ParsedCommand, environ: Mapping[str, str]) -> DraftFacts:
    """Depth and weight of the draft of a vLLM command line; nothing for what no file here says.

    A DFlash block is one anchor and `block_size` - 1 drafted positions (speculators#456); Medusa and MLP heads propose
    one position each. The layers of an MTP head are no depth: the engine uses them again and again, and one layer was
    measured to pay up to 8 tokens (Qwen3.5). EAGLE heads and draft models have none.

    `environ` is the server's environment: it says where models are kept. Files that cannot be read say nothing.
    """
    speculation = command.speculation
    method = canonical_method(speculation.method) if speculation is not None else None
    if command.engine is not Engine.VLLM or speculation is None or method is None:
        return DraftFacts(method=method)
    target, draft = find_readable(command.model, environ), find_readable(speculation.model, environ)
    ratio = None
    if target is not None and draft is not None and draft.stored_bytes and target.stored_bytes:
        ratio = draft.stored_bytes / target.stored_bytes
    return DraftFacts(
        method=method, trained_depth=_depth(method, draft.config) if draft is not None else None, weight_ratio=ratio,
        has_experts=target is not None and _has_experts(target.text_config),
    )


def _has_experts(config: Mapping[str, object]) -> bool:
    return any((count_in(config, name) or 0) > 1 for name in _EXPERTS)


def _depth(method: str, config: Mapping[str, object]) -> int | None:
    if method == "dflash":
        block = count_in(config, "block_size")
        return block - 1 if block is not None and block > 1 else None
    return next((count for name in _HEADS.get(method, ()) if (count := count_in(config, name))), None)
