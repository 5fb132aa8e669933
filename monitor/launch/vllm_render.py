"""Writing the speculation part of a vLLM command line for one release."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from monitor.launch import vllm_checks, vllm_methods
from monitor.launch.outcome import Finding, SpeculationFlags, Target, fatal
from monitor.launch.speculation import Speculation, canonical_method, compact
from monitor.launch.versions import Version, bound
from monitor.launch.vllm_checks import Case
from monitor.launch.vllm_flags import FIRST_WITH_SPECULATION, NEEDS_V2_BLOCK_MANAGER, OLD_FLAGS, USES_OLD_FLAGS
from monitor.launch.vllm_methods import Draft, Generation
from monitor.launch.writing import write_flags

_CONFIG_FLAG = "--speculative-config"
_V2_FLAG = "--use-v2-block-manager"


def write_speculation(version: Version, speculation: Speculation, target: Target) -> SpeculationFlags:
    """The flags for `speculation` in release `version`, with every finding; nothing is raised here."""
    if version.release < bound(FIRST_WITH_SPECULATION):
        text = f"vLLM {version} has no speculation; it begins with {FIRST_WITH_SPECULATION}"
        return SpeculationFlags(findings=(fatal(text),))
    env, generation = _engine(version, speculation, target.environment)
    case = Case(version, speculation, target, generation)
    findings = [*vllm_checks.check(case), *_engine_findings(case, env)]
    if version in USES_OLD_FLAGS:
        argv, more = _old_flags(case)
    else:
        findings += vllm_checks.check_keys(case)
        argv, more = _config_flag(case)
    needs = (_V2_FLAG,) if version in NEEDS_V2_BLOCK_MANAGER else ()
    return SpeculationFlags(argv, (*findings, *more), env, needs)


def _engine(
    version: Version, speculation: Speculation, environment: Mapping[str, str]
) -> tuple[dict[str, str], Generation]:
    """The engine that will run it and the variable that selects it, where the release would pick the other one."""
    chosen = vllm_methods.generation(version, speculation.method, environment)
    method = vllm_methods.BY_NAME.get(canonical_method(speculation.method) or "")
    if (
        method is not None
        and chosen is Generation.V0
        and version in vllm_methods.BOTH_ENGINES
        and "VLLM_USE_V1" not in environment
        and (method.v0 is None or version not in method.v0)
        and method.v1 is not None
        and version in method.v1
    ):
        return {"VLLM_USE_V1": "1"}, Generation.V1
    return {}, chosen


def _engine_findings(case: Case, env: Mapping[str, str]) -> Iterator[Finding]:
    if case.version not in vllm_methods.BOTH_ENGINES:
        return
    if env:
        yield Finding(f"method {case.speculation.method}: VLLM_USE_V1=1 selects engine V1, which {case.release} needs")
    elif case.generation is Generation.V0:
        unless = "" if "VLLM_USE_V1" in case.target.environment else "; VLLM_USE_V1=1 must not be set"
        yield Finding(f"{case.release} runs this on engine V0{unless}")
        if case.version in vllm_methods.V1_BY_METHOD and case.speculation.method is None:
            yield Finding(f"{case.release} picks engine V1 only for a speculation whose method is named")


def _old_flags(case: Case) -> tuple[tuple[str, ...], list[Finding]]:
    """`--speculative-model` and its kin: the method is not said, the draft's configuration tells it."""
    given = _without_needless_model(case).to_json()
    findings: list[Finding] = []
    if given.pop("method", None) == "ngram":
        given["model"] = "[ngram]"
        if "prompt_lookup_max" not in given:
            findings.append(fatal(f"method ngram: {case.release} needs prompt_lookup_max"))
    # In the order of the table, so that model and count stand first.
    keys = [flag.key for flag in OLD_FLAGS]
    ordered = {key: given[key] for key in sorted(given, key=lambda key: keys.index(key) if key in keys else len(keys))}
    argv, more = write_flags(case.release, case.version, OLD_FLAGS, ordered)
    return argv, [*findings, *more]


def _config_flag(case: Case) -> tuple[tuple[str, ...], list[Finding]]:
    """One `--speculative-config` with all keys in a stable order."""
    speculation, findings = _without_needless_model(case), []
    name = speculation.method
    if canonical_method(name) == "mtp":
        written = "mtp" if case.version in vllm_methods.GENERIC_MTP else vllm_methods.OLD_MTP_NAME
        if written != name:
            findings.append(Finding(f"method {name}: {case.release} calls it {written}"))
        speculation = replace(speculation, method=written)
    return (_CONFIG_FLAG, compact(speculation.to_json())), findings


def _without_needless_model(case: Case) -> Speculation:
    method = case.method
    return replace(case.speculation, model=None) if method and method.draft is Draft.NONE else case.speculation
