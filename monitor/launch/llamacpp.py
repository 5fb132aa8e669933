"""Reading and writing the speculation part of a llama-server command line.

Our count of tokens is the longest draft: `--spec-draft-n-max`, or the length flag of an n-gram kind.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from monitor.errors import LaunchError
from monitor.launch import llamacpp_flags as flags
from monitor.launch.argv import Found
from monitor.launch.outcome import Finding, SpeculationFlags, Target, fatal
from monitor.launch.speculation import Speculation, canonical_method
from monitor.launch.values import value_of
from monitor.launch.versions import Span, Version, bound
from monitor.launch.writing import write_flags

_BY_TYPE = {row.name: row for row in flags.TYPES}
_BY_METHOD = {row.method: row for row in flags.TYPES}


def read_speculation(found: Sequence[Found]) -> tuple[Speculation | None, list[str]]:
    """The speculation that these flags ask for (None: off) and the problems in them, as sentences."""
    problems: list[str] = []
    given: dict[str, object] = {}
    types: list[str] = []
    for hit in found:
        try:
            value = value_of(hit)
        except LaunchError as error:
            problems.append(str(error))
            continue
        if hit.flag in flags.REMOVED_FLAGS:
            problems.append(f"{hit.name}: llama-server refuses it as removed, and does not start")
        if hit.flag.key == flags.TYPE:
            types += [name.strip() for name in str(value).split(",")]
        elif hit.flag.key == flags.DEFAULT:
            types.append(str(flags.SPEC_DEFAULT[flags.TYPE]))
            given |= {key: value for key, value in flags.SPEC_DEFAULT.items() if key != flags.TYPE}
        else:
            given[hit.flag.key] = value
    wanted = [name for name in types if name != "none"]
    if not wanted and (types or not (flags.MODEL in given or flags.MODEL_REPO in given)):
        if given:
            problems.append(f"{', '.join(sorted(given))}: has no effect without a type or a draft model")
        return None, problems
    try:
        return _speculation(wanted, given), problems
    except LaunchError as error:
        return None, [*problems, str(error)]


def _speculation(types: Sequence[str], given: dict[str, object]) -> Speculation:
    row = _BY_TYPE.get(types[0]) if types else None
    count = flags.DRAFT_COUNT if row is None else row.count
    known = {
        "method": (row.method if row else types[0]) if types else None,
        "model": given.pop(flags.MODEL, None),
        "num_speculative_tokens": given.pop(count, None) if count else None,
        "prompt_lookup_max": given.pop(row.lookup, None) if row and row.lookup else None,
    }
    if len(types) > 1:
        given[flags.TYPE] = ",".join(types)
    return replace(Speculation.from_json(known), extra=given)


def method_of(name: str) -> str:
    """Our name of a method that may be given as a `--spec-type`; others stay as they are."""
    row = _BY_TYPE.get(name)
    return row.method if row else canonical_method(name) or name


def write_speculation(version: Version, speculation: Speculation, target: Target) -> SpeculationFlags:
    """The flags for `speculation` in build `version`, with every finding; nothing is raised here."""
    row = _BY_METHOD.get(method_of(speculation.method)) if speculation.method else None
    extra = dict(speculation.extra)
    listed = str(extra.pop(flags.TYPE, "")).split(",")
    findings = list(_check(version, speculation, row, target))
    values: dict[str, object] = {}
    # Before the list form a plain draft model was used because it was there: its type was no value of the flag.
    if row is not None and (version in flags.LISTS_TYPES or row.name != "draft-simple"):
        values[flags.TYPE] = ",".join(listed) if listed[0] == row.name else row.name
    values[flags.MODEL] = speculation.model
    count = flags.DRAFT_COUNT if row is None else row.count
    if count is not None:
        values[count] = speculation.num_speculative_tokens
    if row is not None and row.lookup is not None:
        values[row.lookup] = speculation.prompt_lookup_max
    if row is not None and row.name == "ngram-mod":
        findings += _lower_least(extra, speculation.num_speculative_tokens)
    values |= {key: extra[key] for key in sorted(extra)}
    argv, more = write_flags(f"llama-server {version}", version, flags.SPECULATION_FLAGS, values)
    return SpeculationFlags(argv, (*findings, *more))


def _lower_least(extra: dict[str, object], tokens: int | None) -> Iterator[Finding]:
    """Keep the shortest draft of ngram-mod within the longest, or every draft would be thrown away."""
    least = extra.get(flags.MOD_LEAST, flags.MOD_LEAST_DEFAULT)
    if tokens is not None and isinstance(least, int) and tokens < least:
        extra[flags.MOD_LEAST] = tokens
        yield Finding(f"--spec-ngram-mod-n-min: lowered from {least} to {tokens}, shorter drafts are thrown away")


def _check(
    version: Version, speculation: Speculation, row: flags.Type | None, target: Target
) -> Iterator[Finding]:
    tokens = speculation.num_speculative_tokens
    has_draft = speculation.model is not None or flags.MODEL_REPO in speculation.extra
    if speculation.method is not None and row is None:
        known = ", ".join(one.name for one in flags.TYPES)
        yield fatal(f"method {speculation.method!r}: llama-server has {known}")
    if row is None and not has_draft:
        yield fatal("found neither method nor model, expected one of them")
    if row is not None:
        yield from _check_build(version, row)
        if row.needs_model and not has_draft:
            yield fatal(f"method {row.name}: found no model, expected the draft's GGUF in the key 'model'")
        if row.name == "ngram-cache" and tokens not in (None, flags.CACHE_COUNT):
            yield fatal(f"method ngram-cache: drafts {flags.CACHE_COUNT} tokens at most, no flag changes that")
        if row.lookup is not None and tokens is not None and tokens > flags.NGRAM_COUNT_LIMIT:
            yield fatal(f"num_speculative_tokens {tokens}: expected at most {flags.NGRAM_COUNT_LIMIT}")
        if row.method == "mtp" and (tokens or 0) > (target.n_predict or tokens or 0):
            yield Finding(f"num_speculative_tokens {tokens}: llama-server cuts it to the {target.n_predict} MTP layers")
    for key in ("draft_tensor_parallel_size", "quantization"):
        if getattr(speculation, key) is not None:
            yield fatal(f"key {key}: llama-server has no flag for it")
    if speculation.num_speculative_tokens_per_batch_size:
        yield fatal("num_speculative_tokens_per_batch_size: llama-server has no schedules")
    if (row is None or row.lookup is None) and speculation.prompt_lookup_max is not None:
        yield fatal("key prompt_lookup_max: only the n-gram kinds of llama-server look up")
    if speculation.prompt_lookup_min not in (None, speculation.prompt_lookup_max):
        yield Finding("key prompt_lookup_min: llama-server looks up one length, prompt_lookup_max; it is left out")


def _check_build(version: Version, row: flags.Type) -> Iterator[Finding]:
    if row.absent is None or version in Span(row.seen):
        return
    if version.release > bound(row.absent):
        yield Finding(f"method {row.name}: {row.absent} lacks it, {row.seen} has it, builds between were not read")
    elif row.name != "draft-simple":
        yield fatal(f"method {row.name}: build {version} does not have it; builds from {row.seen} do")
