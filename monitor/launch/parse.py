"""From a command line to what acceptd must know of a server: its speculation, its address, its size."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from monitor.errors import LaunchError
from monitor.launch import llamacpp, llamacpp_flags, sglang, sglang_flags, vllm_flags, vllm_read
from monitor.launch.argv import Flag, Found, Habits, Scan, is_flag, scan, without
from monitor.launch.container import is_container_start
from monitor.launch.membership import part_of
from monitor.launch.program import arguments_at, find_program
from monitor.launch.redact import redact_text
from monitor.launch.speculation import Speculation
from monitor.launch.values import value_of
from monitor.model.server import Engine


@dataclass(frozen=True, slots=True)
class Grammar:
    """How the command line of one engine is read."""

    flags: Sequence[Flag]
    habits: Habits
    read: Callable[[Sequence[Found]], tuple[Speculation | None, list[str]]]
    port: int
    #: Beginnings of flags that concern speculation, known to us or not.
    prefixes: tuple[str, ...]


GRAMMARS: Final = {
    Engine.VLLM: Grammar(
        vllm_flags.FLAGS, vllm_flags.HABITS, vllm_read.read_speculation, 8000, ("--speculative-", "--spec-")
    ),
    Engine.SGLANG: Grammar(
        sglang_flags.FLAGS, sglang_flags.HABITS, sglang.read_speculation, 30000, ("--speculative-",)
    ),
    Engine.LLAMACPP: Grammar(
        llamacpp_flags.FLAGS, llamacpp_flags.HABITS, llamacpp.read_speculation, 8080, ("--spec-", "--draft")
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedCommand:
    """What a command line says. `base_argv` is the line without speculation flags, in its order.

    `speculation` None means that the line asks for none; where `problems` is not empty the engine may read the line
    otherwise than acceptd does, or refuse it, so nothing should be decided on it. Sizes not given are 1, the port is
    the engine's default; `options` holds every other known flag by the name of what it sets.
    """

    engine: Engine
    base_argv: tuple[str, ...]
    speculation: Speculation | None = None
    model: str | None = None
    port: int = 0
    host: str | None = None
    served_model_names: tuple[str, ...] = ()
    tensor_parallel_size: int = 1
    pipeline_parallel_size: int = 1
    data_parallel_size: int = 1
    #: Seconds a stopping vLLM (0.18.0 and newer) gives requests in flight; None is not given (0: they are cut).
    shutdown_timeout_seconds: float | None = None
    #: Most requests at once, where the line limits them.
    max_num_seqs: int | None = None
    #: Why the server is part of a larger engine, and so is not restarted alone; None where it stands alone.
    part_of: str | None = None
    options: Mapping[str, object] = field(default_factory=dict, hash=False)
    problems: tuple[str, ...] = ()

    @property
    def served_model_name(self) -> str | None:
        """The name clients use: the first one given, else the model where the engine serves it under that name."""
        if self.served_model_names:
            return self.served_model_names[0]
        return None if self.engine is Engine.LLAMACPP else self.model


def grammar_of(engine: Engine) -> Grammar:
    """The grammar of `engine`; raises `LaunchError` for one that acceptd cannot start."""
    if engine not in GRAMMARS:
        raise LaunchError(f"engine {engine.value!r}: expected one of {', '.join(known.value for known in GRAMMARS)}")
    return GRAMMARS[engine]


def parse_command(engine: Engine, argv: Sequence[str]) -> ParsedCommand:
    """Read a whole command line, or only the arguments of the server; what cannot be read goes to `problems`."""
    grammar = grammar_of(engine)
    found = scan_arguments(engine, argv)
    spec = [hit for hit in found.found if hit.flag.is_speculation]
    speculation, problems = grammar.read(spec)
    options, more = _options([hit for hit in found.found if not hit.flag.is_speculation])
    base = without(argv, spec)
    problems = [*found.problems, *problems, *more, *_unknown(base, grammar, found)]
    if "config" in options and not spec:
        problems.append(f"--config {options['config']}: speculation may be set in that file, which is not read")
    return ParsedCommand(
        engine=engine,
        base_argv=base,
        speculation=speculation,
        model=_model(engine, argv, options),
        port=_whole(options, "port") or grammar.port,
        host=_text(options, "host"),
        served_model_names=_served_names(engine, options.get("served_model_name")),
        tensor_parallel_size=_whole(options, "tensor_parallel_size") or 1,
        pipeline_parallel_size=_whole(options, "pipeline_parallel_size") or 1,
        data_parallel_size=_whole(options, "data_parallel_size") or 1,
        shutdown_timeout_seconds=_number(options, "shutdown_timeout"),
        max_num_seqs=_whole(options, "max_num_seqs"),
        part_of=part_of(options),
        options=options,
        problems=tuple(redact_text(problem) for problem in problems),
    )


def scan_arguments(engine: Engine, argv: Sequence[str]) -> Scan:
    """The known flags of `argv`; items of the program before its arguments (`python -m …`) are not read as flags."""
    grammar = grammar_of(engine)
    skipped = arguments_at(argv, engine)
    result = scan(argv[skipped:], grammar.flags, grammar.habits)
    moved = tuple(
        Found(hit.flag, hit.name, hit.values, hit.start + skipped, hit.stop + skipped, hit.path) for hit in result.found
    )
    return Scan(moved, result.problems)


def _options(found: Sequence[Found]) -> tuple[dict[str, object], list[str]]:
    options: dict[str, object] = {}
    problems = []
    for hit in found:
        try:
            options[hit.flag.key] = value_of(hit)
        except LaunchError as error:
            problems.append(str(error))
    return options, problems


def _unknown(base: Sequence[str], grammar: Grammar, found: Scan) -> list[str]:
    """Speculation flags that our tables do not hold, and that so stay on the line."""
    known = {name for flag in grammar.flags for name in flag.names}
    said = " ".join(found.problems)
    items = (item for item in base if item.startswith("--"))
    names = [_name(item) if grammar.habits.equals else item for item in items]
    return [
        f"{name}: acceptd does not know this flag and leaves it as it is"
        for name in names
        if name.startswith(grammar.prefixes) and name not in known and name not in said
    ]


def _name(item: str) -> str:
    return item.partition("=")[0].partition(".")[0].replace("_", "-")


def _model(engine: Engine, argv: Sequence[str], options: Mapping[str, object]) -> str | None:
    given = _text(options, "model") or _text(options, "hf_repo")
    place, first = find_program(argv, engine), arguments_at(argv, engine)
    # The entry point of a container's image is taken to be the program that takes its model so (`vllm serve`).
    takes_one = place[1].entry.is_model_positional if place else is_container_start(argv)
    if given is None and takes_one and first < len(argv) and not is_flag(argv[first]):
        return argv[first]
    return given


def _served_names(engine: Engine, given: object) -> tuple[str, ...]:
    if isinstance(given, list):
        return tuple(given)
    if not isinstance(given, str):
        return ()
    parts = given.split(",") if engine is Engine.LLAMACPP else [given]
    return tuple(part.strip() for part in parts if part.strip())


def _text(options: Mapping[str, object], key: str) -> str | None:
    value = options.get(key)
    return value if isinstance(value, str) else None


def _whole(options: Mapping[str, object], key: str) -> int | None:
    value = options.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _number(options: Mapping[str, object], key: str) -> float | None:
    value = options.get(key)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
