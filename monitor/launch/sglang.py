"""Reading and writing the speculation part of an SGLang command line.

Our count of tokens is SGLang's `num_steps` where it drafts step by step, and the block without its first token
(`num_draft_tokens` − 1) where it proposes a block. Source: `srt/arg_groups/speculative_hook.py` of 0.5.23.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from monitor.errors import LaunchError
from monitor.launch import sglang_flags as flags
from monitor.launch.argv import Found
from monitor.launch.outcome import Finding, SpeculationFlags, Target, fatal
from monitor.launch.speculation import Speculation, canonical_method
from monitor.launch.values import value_of
from monitor.launch.versions import Version
from monitor.launch.writing import write_flags

_METHODS = {algorithm: method for method, algorithm in flags.ALGORITHMS.items()}


def read_speculation(found: Sequence[Found]) -> tuple[Speculation | None, list[str]]:
    """The speculation that these flags ask for (None: off) and the problems in them, as sentences."""
    problems: list[str] = []
    given: dict[str, object] = {}
    for hit in found:
        try:
            given[hit.flag.key] = value_of(hit)
        except LaunchError as error:
            problems.append(str(error))
    algorithm = given.pop(flags.ALGORITHM, None)
    if algorithm is None:
        if given:
            problems.append(f"{', '.join(sorted(given))}: has no effect without --speculative-algorithm")
        return None, problems
    method = method_of(str(algorithm))
    model, quantization = given.pop(flags.MODEL, None), given.pop(flags.QUANTIZATION, None)
    try:
        count = _take_count(method, given)
        known = {"method": method, "model": model, "quantization": quantization, "num_speculative_tokens": count}
        return replace(Speculation.from_json(known), extra=given), problems
    except LaunchError as error:
        return None, [*problems, str(error)]


def method_of(name: str) -> str:
    """Our name of a method that may be given as SGLang's algorithm (in any case); others stay as they are."""
    return _METHODS.get(name.upper(), canonical_method(name) or name)


def _take_count(method: str, given: dict[str, object]) -> int | None:
    """The count of tokens; what only repeats it is taken out of `given`, what adds to it stays."""
    if method not in flags.STEPWISE:
        for key, above in ((flags.DSPARK_BLOCK, 0), (flags.DFLASH_BLOCK, 1), (flags.DRAFT_TOKENS, 1)):
            block = given.pop(key, None)
            if isinstance(block, int):
                given.pop(flags.DRAFT_TOKENS, None)
                return block - above
        return None
    steps = given.pop(flags.STEPS, None)
    if given.get(flags.TOPK, 1) == 1:
        given.pop(flags.TOPK, None)
        drafted = given.pop(flags.DRAFT_TOKENS, None)
        if not isinstance(steps, int) and isinstance(drafted, int):
            return drafted - 1
    return steps if isinstance(steps, int) else None


def write_speculation(version: Version, speculation: Speculation, target: Target) -> SpeculationFlags:
    """The flags for `speculation`, with every finding; nothing is raised here."""
    method = method_of(speculation.method) if speculation.method else None
    findings = _check(method, speculation)
    values: dict[str, object] = {
        flags.ALGORITHM: flags.ALGORITHMS.get(method or "", speculation.method),
        flags.MODEL: None if method in flags.TAKES_NO_MODEL else speculation.model,
        **_count_values(method, speculation),
        flags.QUANTIZATION: speculation.quantization,
    }
    values |= {key: speculation.extra[key] for key in sorted(speculation.extra)}
    argv, more = write_flags("SGLang", version, flags.SPECULATION_FLAGS, values)
    return SpeculationFlags(argv, (*findings, *more))


def _count_values(method: str | None, speculation: Speculation) -> Mapping[str, object]:
    tokens = speculation.num_speculative_tokens
    if tokens is None:
        return {}
    if method == "dspark":
        return {flags.DSPARK_BLOCK: tokens}
    if method not in flags.STEPWISE:
        return {flags.DRAFT_TOKENS: tokens + 1}
    return {flags.STEPS: tokens, flags.TOPK: 1, flags.DRAFT_TOKENS: tokens + 1}


def _check(method: str | None, speculation: Speculation) -> Iterator[Finding]:
    if method is None:
        yield fatal("found no method, SGLang expects one")
    elif method not in flags.ALGORITHMS:
        yield fatal(f"method {speculation.method!r}: SGLang has {', '.join(flags.ALGORITHMS.values())}")
    if method in flags.NEEDS_MODEL and speculation.model is None:
        yield fatal(f"method {method}: found no model, expected the draft's name or path in the key 'model'")
    if method in flags.TAKES_NO_MODEL and speculation.model is not None:
        yield Finding(f"method {method} takes no draft model: {speculation.model!r} is left out")
    if method == "uno" and "uno_lora_path" not in speculation.extra:
        yield fatal("method uno: found no uno_lora_path, expected the path of the draft's LoRA")
    for key in ("draft_tensor_parallel_size", "prompt_lookup_max", "prompt_lookup_min"):
        if getattr(speculation, key) is not None:
            yield fatal(f"key {key}: SGLang has no flag for it")
    if speculation.num_speculative_tokens_per_batch_size:
        yield fatal("num_speculative_tokens_per_batch_size: SGLang has no schedules")
    if speculation.extra.get(flags.ADAPTIVE) is True:
        yield Finding("--speculative-adaptive: SGLang moves the count itself, so it must not be tuned from outside")
    topk = speculation.extra.get(flags.TOPK, 1)
    if topk != 1:
        drafted = speculation.extra.get(flags.DRAFT_TOKENS)
        yield Finding(f"--speculative-eagle-topk {topk}: the tree keeps {drafted} draft tokens whatever its depth")
