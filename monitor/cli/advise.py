"""The command `advise`: which method and draft for a model, before anything runs. Needs no configuration or daemon."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Annotated

import typer

from monitor.advise.catalog import KINDS, Catalog, DraftEntry, load_catalog
from monitor.advise.document import advised_view
from monitor.advise.issues import KnownIssue, load_issues
from monitor.advise.memory import Room
from monitor.advise.options import Advised, Option, Question
from monitor.advise.options import advise as answer
from monitor.advise.shapes import ModelShape, Precision, shape_of_config
from monitor.advise.vocabulary import tokens_of
from monitor.cli.context import file_text
from monitor.cli.looking import Json
from monitor.cli.output import console, interval, print_json, table
from monitor.errors import ConfigError, LaunchError, Problem
from monitor.launch.vllm_flags import NEWEST
from monitor.launch.vllm_methods import BY_NAME
from monitor.shipped import rules_folder
from monitor.targets.gpus import gpus
from monitor.targets.model_files import ModelFiles, find_model

_UNITS = {"GiB": 1024.0**3, "MiB": 1024.0**2, "GB": 1e9, "MB": 1e6}


def advise(
    target: Annotated[str, typer.Argument(help="The model served: a name or a folder with its config.json.")],
    engine_version: Annotated[str, typer.Option(help="Version of vLLM.")] = NEWEST,
    gpu_memory: Annotated[str, typer.Option(help="Memory of each GPU, e.g. 24GiB; else as nvidia-smi says.")] = "",
    tensor_parallel: Annotated[int, typer.Option(min=1, help="GPUs that one server uses.")] = 1,
    utilization: Annotated[float, typer.Option(help="--gpu-memory-utilization of the server.")] = 0.9,
    concurrency: Annotated[float | None, typer.Option(help="Requests at a time.")] = None,
    prompt_tokens: Annotated[float | None, typer.Option(help="Tokens of a prompt, mean.")] = None,
    output_tokens: Annotated[float | None, typer.Option(help="Tokens of an answer, mean.")] = None,
    kind: Annotated[str, typer.Option(help="Traffic: chat, code, rag or edit.")] = "chat",
    draft: Annotated[list[str] | None, typer.Option(help="A draft of your own: a name or a folder.")] = None,
    method: Annotated[str, typer.Option(help="Method of --draft; by its name if not given.")] = "",
    weights: Annotated[str, typer.Option(help="How the target is stored: bf16, 8bit or 4bit; as it says itself.")] = "",
    target_args: Annotated[str, typer.Option(help="The server's command line, quoted as in a shell.")] = "",
    as_json: Json = False,
) -> None:
    """Which method and draft suit a model, whether they fit, and the command line to begin with."""
    catalog, issues = shipped_knowledge()
    question = Question(
        target=_target(target, catalog, weights),
        version=engine_version,
        room=_room(gpu_memory, tensor_parallel, utilization, concurrency, prompt_tokens, output_tokens),
        argv=_argv(target, target_args, tensor_parallel),
        kind=_one_of("--kind", kind, KINDS),
        drafts=[DraftEntry(method=_method(name, method), model=name) for name in draft or ()],
        shape_of=lambda name: _shape(name, catalog),
        tokens_of=_tokens,
    )
    try:
        advised = answer(question, catalog, issues)
    except LaunchError as error:
        raise ConfigError([Problem("--engine-version", repr(engine_version), str(error))]) from error
    if as_json:
        print_json({"target": target, "engine_version": engine_version, "kind": kind, **advised_view(advised)})
        return
    _print(advised, question)


def shipped_knowledge() -> tuple[Catalog, tuple[KnownIssue, ...]]:
    """The shipped pairs and known issues."""
    pairs, known = rules_folder() / "pairs.yaml", rules_folder() / "known_issues.yaml"
    return load_catalog(file_text(pairs), str(pairs)), load_issues(file_text(known), str(known))


def _one_of(option: str, value: str, allowed: tuple[str, ...]) -> str:
    if value not in allowed:
        raise ConfigError([Problem(option, repr(value), f"one of {', '.join(allowed)}")])
    return value


def _method(name: str, given: str) -> str:
    if given:
        return _one_of("--method", given, tuple(sorted(BY_NAME)))
    words = name.lower()
    return "eagle3" if "eagle3" in words else "eagle" if "eagle" in words else "draft_model"


@cache
def _files(name: str) -> ModelFiles | None:
    try:
        return find_model(name)
    except ValueError as error:
        raise ConfigError([Problem(name, str(error), "a model's config.json")]) from error


def _shape(name: str, catalog: Catalog) -> ModelShape | None:
    """From the files on this host, else from the catalog, which knows the family of both."""
    listed, files = catalog.shape(name), _files(name)
    if files is None:
        return listed
    try:
        shape = shape_of_config(name, files.config, files.stored_bytes)
    except ValueError as error:
        raise ConfigError([Problem(name, str(error), "a model's config.json")]) from error
    return replace(shape, family=listed.family if listed is not None else "")


def _tokens(name: str) -> Mapping[str, int] | None:
    files = _files(name)
    if files is None or files.tokenizer is None:
        return None
    return tokens_of(files.tokenizer.read_bytes(), str(files.tokenizer))


def _target(name: str, catalog: Catalog, weights: str) -> ModelShape:
    shape = _shape(name, catalog) or ModelShape(name=name)
    if not weights:
        return shape
    stored = Precision(_one_of("--weights", weights, tuple(one.value for one in Precision)))
    return shape if stored is shape.precision else replace(shape, precision=stored, stored_bytes=None)


def _room(
    memory: str, tensor_parallel: int, utilization: float, concurrency: float | None, prompt: float | None,
    output: float | None,
) -> Room:
    if not 0 < utilization <= 1:
        raise ConfigError([Problem("--utilization", f"{utilization:g}", "more than 0 and at most 1")])
    for option, value in (("--concurrency", concurrency), ("--prompt-tokens", prompt), ("--output-tokens", output)):
        if value is not None and not 0 < value < 1e9:
            raise ConfigError([Problem(option, f"{value:g}", "a number above 0")])
    size = _bytes(memory) if memory else min((gpu.memory_bytes for gpu in gpus()), default=None)
    return Room(gpu_bytes=size, utilization=utilization, tensor_parallel=tensor_parallel, concurrency=concurrency,
                prompt_tokens=prompt, output_tokens=output)  # fmt: skip


def _bytes(text: str) -> float:
    for unit, size in _UNITS.items():
        number = text.strip().removesuffix(unit).strip()
        if text.strip().endswith(unit):
            try:
                value = float(number) * size
            except ValueError:
                break
            if 0 < value < 1e15:
                return value
    raise ConfigError([Problem("--gpu-memory", repr(text), "a size such as 24GiB or 80GB")])


def _argv(target: str, given: str, tensor_parallel: int) -> list[str]:
    if given:
        try:
            return shlex.split(given)
        except ValueError as error:
            raise ConfigError([Problem("--target-args", repr(given), f"words as for a shell ({error})")]) from error
    parallel = ["--tensor-parallel-size", str(tensor_parallel)] if tensor_parallel > 1 else []
    return ["vllm", "serve", target, *parallel]


def _print(advised: Advised, question: Question) -> None:
    best = advised.best
    load = f"{question.room.concurrency:g} requests" if question.room.concurrency else "8 requests (assumed)"
    if best is None:
        console.print(f"No speculation: nothing that is possible pays at {load} at a time.", style="bold", markup=False)
    else:
        guess = best.forecast
        gain = interval(guess.gain, guess.gain_low, guess.gain_high)
        console.print(f"{_name(best)}, {guess.tokens} tokens: {gain} tokens/s at {load} at a time", style="bold",
                      markup=False)
        console.print(f"  from published figures, not from your traffic: {best.source}", markup=False)
        console.print(f"  memory   {best.memory.sentence}", markup=False)
        if best.vocabulary is not None:
            console.print(f"  tokens   {best.vocabulary.sentence}", markup=False)
        for note in best.notes:
            console.print(f"  note     {note}", style="yellow", markup=False)
        environ = "".join(f"{key}={shlex.quote(value)} " for key, value in best.env.items())
        console.print(f"  {environ}{shlex.join(best.argv)}", style="green", markup=False, soft_wrap=True)
        for issue in best.issues:
            console.print(f"  known    {issue.effect} ({issue.link})", markup=False)
    for note in advised.notes:
        console.print(f"note: {note}", style="yellow", markup=False)
    console.print(table(("method", "draft", "k", "gain", "memory", "possible"),
                        [_row(option) for option in advised.options], right=(2, 3)))
    console.print("The daemon measures what really comes of it and tunes the count (`acceptd run`).", style="dim")


def _name(option: Option) -> str:
    return f"{option.method} with {option.model}" if option.model else option.method


def _row(option: Option) -> list[str]:
    guess = option.forecast
    possible = "yes" if option.is_possible else "; ".join(option.refusals)
    return [option.method, option.model or "–", str(guess.tokens), f"{guess.gain:+.0%}", option.memory.fit.value,
            possible]  # fmt: skip
