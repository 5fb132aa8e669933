"""Whether there is room for a setting: memory of GPU and host, the engine's sizes for its wider verify step. Pure.

A number of tokens more makes each step verify more: logits grow, and so does what the engine must plan for.
"""

from __future__ import annotations

from monitor.advise.memory import Fit, Memory, Room, estimate
from monitor.advise.shapes import ModelShape
from monitor.drivers.protocol import Check
from monitor.launch import ParsedCommand, target_arguments
from monitor.model.life import Setting
from monitor.targets.gpus import Gpu
from monitor.targets.host_memory import HostMemory, Taken

#: vLLM's default of `--gpu-memory-utilization`, and the requests it plans for where the line limits none.
_UTILIZATION, _SEQUENCES = 0.9, 256.0
#: What a server takes at its start beyond what it held before (share): buffers while weights are read.
_START_SHARE = 0.1
#: Swapped out: from this much on steps wait for the disk (bytes and share of what the server holds).
_SWAPPED_BYTES, _SWAPPED_SHARE = 256.0 * 1024**2, 0.05
_GIB = 1024.0**3


def gpu_memory(
    command: ParsedCommand, current: Setting, proposed: Setting, target: ModelShape | None, draft: ModelShape | None,
    gpu: Gpu | None,
) -> Check:  # fmt: skip
    """Whether the GPU holds weights, draft, logits of the wider step and a KV cache."""
    name = "GPU memory"
    if gpu is None:
        return Check(name, None, "no GPU of this host can be looked at")
    if target is None:
        return Check(name, None, f"the files of {command.model} are not on this host, or say nothing of their size")
    before, after = (_estimated(command, setting, target, draft, gpu) for setting in (current, proposed))
    if after.fit is Fit.UNKNOWN:
        return Check(name, None, after.sentence)
    if before.fit is Fit.DOES_NOT_FIT:
        # It runs: the estimate is too pessimistic here to be held against a change.
        return Check(name, None, f"not told: by the estimate not even what runs would fit ({after.sentence})")
    if after.fit is Fit.DOES_NOT_FIT:
        return Check(name, False, f"it would not fit: {after.sentence}")
    lost = ""
    if before.capacity_tokens and after.capacity_tokens is not None:
        lost = f" ({after.capacity_tokens / before.capacity_tokens - 1.0:+.1%} of context against now)"
    return Check(name, True, after.sentence + lost)


def _estimated(
    command: ParsedCommand, setting: Setting, target: ModelShape, draft: ModelShape | None, gpu: Gpu
) -> Memory:
    given = target_arguments(command.engine, command.base_argv)
    cache = given.get("--kv-cache-dtype", "auto")
    room = Room(
        gpu_bytes=gpu.memory_bytes,
        utilization=_number(given.get("--gpu-memory-utilization")) or _UTILIZATION,
        tensor_parallel=command.tensor_parallel_size,
        kv_bytes_each=1.0 if cache.startswith(("fp8", "int8")) else 2.0,
        # vLLM profiles its logits for as many requests as it takes at once.
        concurrency=float(command.max_num_seqs or _SEQUENCES),
    )
    return estimate(target, room, setting.num_speculative_tokens or 0, None if setting.is_off else draft)


def verify_step(command: ParsedCommand, proposed: Setting) -> Check | None:
    """Whether a step's token budget holds the drafts of all requests; None where the line gives no such budget."""
    budget = _number(target_arguments(command.engine, command.base_argv).get("--max-num-batched-tokens"))
    if budget is None or command.max_num_seqs is None:
        return None
    needed = command.max_num_seqs * (1 + (proposed.num_speculative_tokens or 0))
    sizes = f"{command.max_num_seqs} requests x {1 + (proposed.num_speculative_tokens or 0)} tokens"
    if needed > budget:
        return Check(
            "verify step", None,
            f"{sizes} are {needed}, more than --max-num-batched-tokens {budget:.0f}: with that many requests drafts "
            "are dropped",
        )  # fmt: skip
    return Check("verify step", True, f"{sizes} fit into --max-num-batched-tokens {budget:.0f}")


def host_memory_check(host: HostMemory | None, taken: Taken | None) -> Check:
    """Whether the host can hold the server again once it has ended, and does not swap it."""
    name = "host memory"
    if host is None or taken is None:
        return Check(name, None, "what the server holds of the host's memory cannot be seen")
    held = taken.resident_bytes + taken.swapped_bytes
    free = host.available_bytes + taken.resident_bytes
    if free < held * (1.0 + _START_SHARE):
        return Check(
            name, False,
            f"the server holds {held / _GIB:.1f} GiB, and the host has {free / _GIB:.1f} GiB for it once it has ended:"
            " it might not come up again",
        )  # fmt: skip
    if taken.swapped_bytes > max(_SWAPPED_BYTES, _SWAPPED_SHARE * held):
        return Check(name, None, f"{taken.swapped_bytes / _GIB:.1f} GiB of the server are swapped out: its steps wait")
    return Check(name, True, f"the server holds {held / _GIB:.1f} GiB of {free / _GIB:.1f} GiB")


def draft_place(command: ParsedCommand) -> Check | None:
    """Whether the draft runs where the target does (llama.cpp); None where nothing says that it does not."""
    layers = command.speculation.extra.get("spec_draft_ngl") if command.speculation is not None else None
    if str(layers) != "0":
        return None
    return Check(
        "draft's place", None,
        "the draft's layers run on the CPU (--spec-draft-ngl 0): each further token costs far more than on the GPU",
    )  # fmt: skip


def _number(text: str | None) -> float | None:
    try:
        return float(text) if text else None
    except ValueError:
        return None
