"""Recognising the server's program at the head of a command line, as `/proc` and operators write it.

Children of a server (`VLLM::EngineCore`, `sglang::scheduler`, spawned workers) and wrappers that stay beside it
(`tini`, `docker run`, `uv run`) are no servers: otherwise one server would be found twice.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from monitor.launch.container import image_at
from monitor.model.server import Engine

_PYTHON = re.compile(r"(?:python|pypy)\d*(?:\.\d+)*")
#: Options of the Python interpreter that take the next item.
_PYTHON_TAKES_VALUE = frozenset({"-X", "-W", "--check-hash-based-pycs"})


@dataclass(frozen=True, slots=True)
class Entry:
    """One way to start a server: a module or a program's name, and the subcommands of which one must follow."""

    engine: Engine
    module: str | None = None
    program: str | None = None
    subcommands: tuple[str, ...] = ()
    #: Whether the first item after it may be the model.
    is_model_positional: bool = False


ENTRIES = (
    Entry(Engine.VLLM, module="vllm.entrypoints.openai.api_server"),
    Entry(Engine.VLLM, module="vllm.entrypoints.cli.main", subcommands=("serve",), is_model_positional=True),
    Entry(Engine.VLLM, program="vllm", subcommands=("serve",), is_model_positional=True),
    Entry(Engine.SGLANG, module="sglang.launch_server"),
    Entry(Engine.SGLANG, program="sglang", subcommands=("serve",), is_model_positional=True),
    Entry(Engine.LLAMACPP, program="llama-server"),
    Entry(Engine.LLAMACPP, program="llama", subcommands=("serve", "server")),
)


@dataclass(frozen=True, slots=True)
class Program:
    """A recognised head of a command line: its entry and how many items it takes."""

    entry: Entry
    length: int


def looks_like_server(argv: Sequence[str]) -> Engine | None:
    """The engine whose API server this process is, from its command line; None where it is none."""
    program = program_at(argv)
    return program.entry.engine if program else None


def find_program(argv: Sequence[str], engine: Engine) -> tuple[int, Program] | None:
    """Where in `argv` the server of `engine` begins, behind wrappers such as `numactl`; None where it does not.

    Of a command that starts a container only what stands after the image is looked at.
    """
    image = image_at(argv)
    for start in range(0 if image is None else image + 1, len(argv)):
        program = program_at(argv[start:])
        if program is not None and program.entry.engine is engine:
            return start, program
    return None


def arguments_at(argv: Sequence[str], engine: Engine) -> int:
    """Where the server's arguments begin: after its program, else after a container's image, else at the head."""
    place, image = find_program(argv, engine), image_at(argv)
    if place is not None:
        return place[0] + place[1].length
    return 0 if image is None else image + 1


def program_at(argv: Sequence[str]) -> Program | None:
    """The server's program right at the head of `argv`."""
    if not argv:
        return None
    if _PYTHON.fullmatch(PurePosixPath(argv[0]).name):
        return _by_python(argv)
    return _by_name(argv, 0)


def _by_python(argv: Sequence[str]) -> Program | None:
    position = 1
    while position < len(argv) and argv[position].startswith("-"):
        option = argv[position]
        if option == "-c":
            return None
        if option == "-m":
            return _by_module(argv, position + 1)
        position += 2 if option in _PYTHON_TAKES_VALUE else 1
    return _by_module(argv, position) or _by_name(argv, position)


def _by_module(argv: Sequence[str], position: int) -> Program | None:
    """By a module's name, or by the path of its file."""
    if position >= len(argv):
        return None
    item = argv[position]
    for entry in ENTRIES:
        if entry.module is None:
            continue
        path = f"{entry.module.replace('.', '/')}.py"
        if item == entry.module or item == path or item.endswith(f"/{path}"):
            return _with_subcommand(argv, position + 1, entry)
    return None


def _by_name(argv: Sequence[str], position: int) -> Program | None:
    if position >= len(argv):
        return None
    name = PurePosixPath(argv[position]).name
    for entry in ENTRIES:
        if entry.program == name:
            return _with_subcommand(argv, position + 1, entry)
    return None


def _with_subcommand(argv: Sequence[str], after: int, entry: Entry) -> Program | None:
    if not entry.subcommands:
        return Program(entry, after)
    if after < len(argv) and argv[after] in entry.subcommands:
        return Program(entry, after + 1)
    return None
