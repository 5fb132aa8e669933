"""From a base command and a speculation to the command line for one release. It changes speculation, nothing else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from monitor.errors import LaunchError
from monitor.launch import llamacpp, llamacpp_flags, sglang, sglang_flags, vllm_flags, vllm_render
from monitor.launch.argv import without
from monitor.launch.outcome import Finding, Rendered, SpeculationFlags, Target, raise_fatal
from monitor.launch.parse import ParsedCommand, grammar_of, parse_command, scan_arguments
from monitor.launch.speculation import Speculation
from monitor.launch.versions import NAMES, Version, bound, parse_version
from monitor.model.server import Engine


@dataclass(frozen=True, slots=True)
class Dialect:
    """How one engine's speculation is written, and the releases whose flags were read."""

    write: Callable[[Version, Speculation, Target], SpeculationFlags]
    oldest: str
    newest: str
    #: Whether nothing at all is known of older releases.
    refuses_older: bool


DIALECTS: Final = {
    Engine.VLLM: Dialect(vllm_render.write_speculation, vllm_flags.OLDEST, vllm_flags.NEWEST, True),
    Engine.SGLANG: Dialect(sglang.write_speculation, sglang_flags.READ, sglang_flags.READ, False),
    Engine.LLAMACPP: Dialect(llamacpp.write_speculation, llamacpp_flags.OLDEST, llamacpp_flags.NEWEST, True),
}


def render(
    engine: Engine,
    version: str,
    base_argv: Sequence[str],
    speculation: Speculation | None,
    target: Target | None = None,
) -> Rendered:
    """The command line of `engine` in release `version`: `base_argv` in order, then the speculation flags.

    Speculation flags within `base_argv` are replaced; None or a count of 0 is off and leaves none. Raises
    `LaunchError`, naming what was found and where it works, when that release cannot do it.
    """
    grammar_of(engine)
    release = parse_version(engine, version)
    findings = _check_release(engine, release)
    raise_fatal(findings)
    command = parse_command(engine, base_argv)
    argv, more = _base(engine, release, base_argv)
    findings += more
    flags = SpeculationFlags()
    if speculation is not None and speculation.is_off:
        if speculation.num_speculative_tokens_per_batch_size:
            raise LaunchError("num_speculative_tokens 0 is off: expected no num_speculative_tokens_per_batch_size")
        speculation = None
    if speculation is None:
        findings += _check_off(command)
    else:
        flags = DIALECTS[engine].write(release, speculation, _with_sizes(target or Target(), command))
    findings += flags.findings
    raise_fatal(findings)
    needs = tuple(flag for flag in flags.needs if flag not in _spelled(argv))
    warnings = tuple(dict.fromkeys(finding.text for finding in findings))
    return Rendered((*argv, *needs, *flags.argv), dict(flags.env), warnings)


def _check_release(engine: Engine, version: Version) -> list[Finding]:
    dialect, name = DIALECTS[engine], NAMES[engine]
    if version.release < bound(dialect.oldest):
        text = f"{name} {version} is older than {dialect.oldest}, the oldest whose flags are known"
        return [Finding(text, is_fatal=dialect.refuses_older)]
    if version.release[: len(bound(dialect.newest))] > bound(dialect.newest):
        return [Finding(f"{name} {version} is newer than {dialect.newest}, the newest whose flags are known")]
    if version.is_development:
        return [Finding(f"{name} {version} is no release: its flags may differ from those of the release")]
    return []


def _base(engine: Engine, version: Version, argv: Sequence[str]) -> tuple[tuple[str, ...], list[Finding]]:
    """`argv` without speculation flags, and without a flag that this release refuses and no older one needs."""
    found = scan_arguments(engine, argv).found
    dropped = [hit for hit in found if hit.flag.is_speculation]
    findings = []
    v2 = [hit for hit in found if hit.flag.key == "use_v2_block_manager"]
    if v2 and version not in vllm_flags.TAKES_V2_BLOCK_MANAGER:
        dropped += v2
        findings.append(Finding(f"{v2[0].name}: unknown to vLLM {version} and left out; it did nothing since 0.6.4"))
    return without(argv, dropped), findings


def _check_off(command: ParsedCommand) -> list[Finding]:
    if "config" in command.options:
        return [Finding(f"--config {command.options['config']}: may switch speculation on, it is not read")]
    return []


def _with_sizes(target: Target, command: ParsedCommand) -> Target:
    return replace(
        target,
        tensor_parallel_size=target.tensor_parallel_size or command.tensor_parallel_size,
        data_parallel_size=target.data_parallel_size or command.data_parallel_size,
    )


def _spelled(argv: Sequence[str]) -> set[str]:
    """The flags of a line as tables spell them."""
    return {item.partition("=")[0].replace("_", "-") for item in argv if item.startswith("--")}
