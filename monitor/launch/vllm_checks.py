"""Whether a vLLM release can run a speculation: each check yields what stops it or what people must know.

Errors the engine would raise itself at start are fatal here, so that they cost no restart.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import dataclass

from monitor.launch import vllm_methods
from monitor.launch.outcome import Finding, Target, fatal
from monitor.launch.speculation import Speculation, canonical_method
from monitor.launch.versions import Version, bound, spans_text
from monitor.launch.vllm_keys import (
    BY_NAME,
    CHOICES,
    IGNORES_UNKNOWN_KEYS,
    MISTAKEN_KEYS,
    SCHEDULE_METHODS,
    SCHEDULES_OFF_WITH_DATA_PARALLEL,
    Key,
)
from monitor.launch.vllm_methods import Draft, Generation, Method


@dataclass(frozen=True, slots=True)
class Case:
    """One question to the checks: this speculation, in this release, on this engine, beside this target."""

    version: Version
    speculation: Speculation
    target: Target
    generation: Generation

    @property
    def method(self) -> Method | None:
        """The row of the method; None when it is not named or not known."""
        return vllm_methods.BY_NAME.get(canonical_method(self.speculation.method) or "")

    @property
    def release(self) -> str:
        """The release in words."""
        return f"vLLM {self.version}"


def check(case: Case) -> Iterator[Finding]:
    """Everything to say of `case`, except of its JSON keys (`check_keys`)."""
    for part in (check_method, check_draft, check_count, check_lookup, check_parallel, check_vocabulary):
        yield from part(case)
    yield from check_schedule(case)
    yield from check_synthetic(case)
    limit = case.speculation.extra.get("disable_by_batch_size")
    if isinstance(limit, int) and limit < 2:
        yield fatal(f"key disable_by_batch_size: found {limit}, expected 2 or more")


def check_method(case: Case) -> Iterator[Finding]:
    """The method exists in this release and on the engine that the release picks."""
    name, method = case.speculation.method, case.method
    if name is None:
        if case.speculation.model is not None and bound("0.10.0") <= case.version.release < bound("0.15.0"):
            yield Finding(f"no method is named: {case.release} detects it, and refuses a plain draft model")
        return
    if method is None:
        close = difflib.get_close_matches(name.lower().replace("-", "_"), vllm_methods.BY_NAME, 1)
        yield fatal(f"method {name!r}: vLLM has none of that name" + (f", did you mean {close[0]!r}?" if close else ""))
        return
    span = method.span(case.generation)
    if span is None or case.version not in span:
        note = f" ({method.note})" if method.note else ""
        where = f"{case.release} does not run it"
        if any(other is not None and case.version in other for other in (method.v0, method.v1)):
            where = f"engine {case.generation} of {case.release} does not run it, VLLM_USE_V1 selects the engine"
        yield fatal(f"method {name}: {where}; it works in {spans_text(method.v0, method.v1)}{note}")
    if name == "suffix":
        yield Finding("method suffix: needs the package arctic-inference beside vLLM")


def check_draft(case: Case) -> Iterator[Finding]:
    """A draft model is there where the method needs one, and only there."""
    name, method, model = case.speculation.method, case.method, case.speculation.model
    if method is not None and method.draft is Draft.NEEDED and model is None:
        yield fatal(f"method {name}: found no model, expected the draft's name or path in the key 'model'")
    if method is not None and method.draft is Draft.NONE and model is not None:
        yield Finding(f"method {name} takes no draft model: {model!r} is left out")
    if name is None and model is None and case.version not in vllm_methods.NAMELESS_MTP:
        yield fatal("found neither method nor model, expected one of them")


def check_count(case: Case) -> Iterator[Finding]:
    """The count of tokens is given where needed and fits the heads of the draft."""
    tokens, method, heads = case.speculation.num_speculative_tokens, case.method, case.target.n_predict
    if tokens is None:
        has_own = method is not None and (
            method.has_own_count or (method.draft is Draft.OPTIONAL and case.speculation.model is not None)
        )
        if not has_own and heads is None:
            yield fatal("found no num_speculative_tokens, expected a whole number of 1 or more (0 is off)")
        return
    # The width of DSpark is its own, whatever heads the checkpoint has.
    if heads is None or heads < 1 or tokens <= heads or case.speculation.method == "dspark":
        return
    if case.version in vllm_methods.AT_MOST_N_PREDICT:
        yield fatal(f"num_speculative_tokens {tokens}: {case.release} allows at most n_predict of the draft ({heads})")
    elif case.version in vllm_methods.MULTIPLES_OF_N_PREDICT and tokens % heads:
        yield fatal(f"num_speculative_tokens {tokens}: expected up to n_predict of the draft ({heads}) or a multiple")


def check_lookup(case: Case) -> Iterator[Finding]:
    """The window of an n-gram lookup is no smaller at its end than at its start."""
    longest, shortest = case.speculation.prompt_lookup_max, case.speculation.prompt_lookup_min
    if longest is not None and shortest is not None and shortest > longest:
        yield fatal(f"prompt_lookup_min {shortest}: expected at most prompt_lookup_max ({longest})")


def check_parallel(case: Case) -> Iterator[Finding]:
    """The draft's tensor parallel size is 1 or the target's; a draft model on V1 needs the target's."""
    size, target = case.speculation.draft_tensor_parallel_size, case.target.tensor_parallel_size or 1
    name = canonical_method(case.speculation.method)
    if size is not None and name == "draft_model" and case.generation is Generation.V1 and size != target:
        yield fatal(
            f"draft_tensor_parallel_size {size}: method draft_model on engine V1 needs the target's ({target}) or none"
        )
    elif size is not None and size not in (1, target):
        yield fatal(f"draft_tensor_parallel_size {size}: expected 1 or the target's tensor parallel size ({target})")
    if name == "eagle" and case.generation is Generation.V0 and (size or target) > 1:
        # Refused by `spec_decode/spec_decode_worker.py` of 0.8.5 and 0.9.2; not given is the target's.
        found = size or f"none beside a target on {target} GPUs"
        yield fatal(f"method eagle on engine V0 needs draft_tensor_parallel_size 1, found {found}")


def check_vocabulary(case: Case) -> Iterator[Finding]:
    """A draft model on V1 has the target's vocabulary, unless the release can map between two."""
    ours, drafts = case.target.vocab_size, case.target.draft_vocab_size
    if (
        None not in (ours, drafts)
        and ours != drafts
        and case.generation is Generation.V1
        and case.speculation.method == "draft_model"
        and not case.speculation.extra.get("use_heterogeneous_vocab")
    ):
        yield fatal(
            f"the draft's vocabulary has {drafts} entries and the target's {ours}: expected the same"
            f" (use_heterogeneous_vocab lifts it in {BY_NAME['use_heterogeneous_vocab'].accepted})"
        )


def check_schedule(case: Case) -> Iterator[Finding]:
    """The release takes a schedule, and nothing else turns it off."""
    schedule = case.speculation.num_speculative_tokens_per_batch_size
    if not schedule:
        return
    key = BY_NAME["num_speculative_tokens_per_batch_size"]
    if case.version not in key.accepted:
        yield fatal(f"{key.name}: {case.release} has no schedules; they work in {key.accepted}")
        return
    tokens = case.speculation.num_speculative_tokens
    if tokens is None:
        yield fatal(f"{key.name}: found no num_speculative_tokens, expected it beside a schedule")
    elif max(count for _, _, count in schedule) > tokens:
        yield Finding(f"{key.name}: counts above num_speculative_tokens ({tokens}) are cut to it")
    if (case.target.data_parallel_size or 1) > 1:
        if case.version in SCHEDULES_OFF_WITH_DATA_PARALLEL:
            yield Finding(f"{key.name}: {case.release} turns schedules off with data parallelism")
        else:
            yield Finding(f"{key.name}: with data parallelism the ranks of {case.release} may deadlock")
    method = canonical_method(case.speculation.method)
    works = SCHEDULE_METHODS.get(method or "")
    if method is not None and (works is None or case.version not in works):
        yield Finding(f"{key.name}: model runner V1 turns schedules off with method {method}")
    yield Finding(f"{key.name}: model runner V1 falls back to piecewise CUDA graphs, which may cost step time")


def check_synthetic(case: Case) -> Iterator[Finding]:
    """Synthetic acceptance (for tests of a fleet) is complete and fits the count."""
    extra, tokens = case.speculation.extra, case.speculation.num_speculative_tokens
    rates, length = extra.get("synthetic_acceptance_rates"), extra.get("synthetic_acceptance_length")
    given = rates is not None or length is not None
    if extra.get("rejection_sample_method") != "synthetic":
        if given:
            yield fatal("synthetic_acceptance_*: expected rejection_sample_method 'synthetic' beside it")
        return
    yield Finding("rejection_sample_method 'synthetic': acceptance is made up, for tests only")
    if case.version.release >= bound("0.20.0") and (rates is None) == (length is None):
        yield fatal("rejection_sample_method 'synthetic': expected one of synthetic_acceptance_rates and _length")
    if isinstance(rates, list) and tokens is not None and len(rates) != tokens:
        yield fatal(f"synthetic_acceptance_rates: found {len(rates)} rates, expected {tokens}, one a token")
    if isinstance(length, int | float) and tokens is not None and not 1 <= length <= tokens + 1:
        yield fatal(f"synthetic_acceptance_length {length}: expected 1 to {tokens + 1}")


def check_keys(case: Case) -> Iterator[Finding]:
    """The release takes each further JSON key and the value given for it, and does something with it."""
    for name, value in case.speculation.extra.items():
        if name in MISTAKEN_KEYS:
            yield fatal(f"key {name}: expected {MISTAKEN_KEYS[name]}")
            continue
        key = BY_NAME.get(name)
        if key is None:
            yield Finding(f"key {name}: acceptd does not know it and passes it on as it is")
            continue
        yield from _check_key(case, key)
        for choice in CHOICES:
            if choice.key == name and case.version in choice.span and value not in choice.values:
                yield fatal(f"key {name}: found {value!r}, {case.release} expects one of {', '.join(choice.values)}")


def _check_key(case: Case, key: Key) -> Iterator[Finding]:
    if case.version not in key.accepted:
        where = "only engine V0 (up to 0.9.2) honoured it" if key.is_v0_only else f"it works in {key.accepted}"
        if key.absent is not None and case.version.release > bound(key.absent):
            yield Finding(f"key {key.name}: {key.absent} lacks it, {key.accepted.first} has it, between is not known")
        elif case.version in IGNORES_UNKNOWN_KEYS:
            yield Finding(f"key {key.name}: {case.release} ignores it; {where}")
        else:
            yield fatal(f"key {key.name}: {case.release} refuses it; {where}")
    elif key.is_v0_only and case.generation is Generation.V1:
        yield Finding(f"key {key.name}: {case.release} ignores it; only engine V0 (up to 0.9.2) honours it")
    elif key.method is not None and canonical_method(case.speculation.method) != key.method:
        yield Finding(f"key {key.name}: has no effect without method {key.method}")
