"""Asks the server's own vLLM whether it takes a command line, by building its configuration; starts no engine.

It runs the interpreter that would run the server, with the server's environment, at low priority and offline. That
takes some seconds, so it is asked in a thread and the answer is kept: one for each command line.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from monitor.drivers.protocol import Check, Command
from monitor.launch.program import find_program
from monitor.model.server import Engine

_NAME: Final = "the engine's own check"
#: Longest wait (seconds): importing torch from a cold disk takes its time; one that hangs says nothing.
_TIMEOUT_SECONDS: Final = 180.0
#: Behind the server's own work, yet a quarter of a core beside an engine that spins on all of them: at 15 it got a
#: thirtieth of one, ten seconds' work took more than three minutes, and so nothing was learnt.
_NICENESS: Final = "5"
#: Nothing is downloaded and nobody is told of it; the engine's own log would drown the answer.
_ENVIRON: Final = {
    "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1", "VLLM_LOGGING_LEVEL": "ERROR",
}  # fmt: skip
#: Said of models that are not on this host, also inside errors of the configuration: the server may see others.
_ELSEWHERE: Final = re.compile(r"Hugging ?Face|repository ID|offline|outgoing traffic", re.IGNORECASE)
#: Where the parser of `vllm serve` lies: releases have moved it.
_SCRIPT: Final = """
import importlib, json, sys
argv = json.load(sys.stdin)
def answer(ok, text):
    print("acceptd:" + json.dumps({"ok": ok, "text": text}), flush=True)
    sys.exit(0)
def attribute(name, *modules):
    for module in modules:
        try:
            return getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError):
            pass
    answer(None, "it has no " + name)
try:
    import vllm
except Exception as error:
    answer(None, "vLLM cannot be imported: " + str(error))
parser = attribute("FlexibleArgumentParser", "vllm.utils.argparse_utils", "vllm.utils")
fill = attribute("make_arg_parser", "vllm.entrypoints.launchers.cli_args", "vllm.entrypoints.openai.cli_args")
arguments = attribute("AsyncEngineArgs", "vllm.engine.arg_utils")
try:
    args = fill(parser(prog="vllm serve")).parse_args(argv)
    if getattr(args, "model_tag", None) is not None:
        args.model = args.model_tag
    arguments.from_cli_args(args).create_engine_config()
except SystemExit as end:
    # argparse has told the reason on standard error.
    answer(False if end.code == 2 else None, "")
except Exception as error:
    # How vLLM says no to a configuration; its releases raise the last for what they do not run (yet).
    module = type(error).__module__
    refused = isinstance(error, (ValueError, TypeError, KeyError, AssertionError, NotImplementedError))
    where = module.startswith(("huggingface_hub", "requests", "httpx"))
    answer(False if refused and not where else None, type(error).__name__ + ": " + str(error))
answer(True, "")
"""


class OwnCheck:
    """The checks of one server's vLLM. Safe from any thread; `check` never waits."""

    def __init__(
        self, environ: Mapping[str, str], redact: Callable[[str], str], *, timeout_seconds: float = _TIMEOUT_SECONDS
    ) -> None:
        """`environ` is what the server inherits; what a command adds goes over it."""
        self._environ = dict(environ)
        self._redact = redact
        self._timeout = timeout_seconds
        self._lock = threading.Lock()
        self._answers: dict[tuple[str, ...], Check | None] = {}

    def check(self, command: Command) -> Check | None:
        """What vLLM says of `command`; awaited at first, None where no vLLM of this host's would run it."""
        place = find_program(command.argv, Engine.VLLM)
        environ = {**self._environ, **command.env, **_ENVIRON}
        python = None if place is None else interpreter_of(command.argv[place[0]], environ.get("PATH"))
        if place is None or python is None:
            return None
        with self._lock:
            if command.argv not in self._answers:
                self._answers[command.argv] = None
                arguments = command.argv[place[0] + place[1].length :]
                work = threading.Thread(
                    target=self._ask, args=(command.argv, python, arguments, environ), name="acceptd-check", daemon=True
                )
                work.start()
            found = self._answers[command.argv]
        return found or Check(_NAME, None, "vLLM is asked whether it takes the command line", is_awaited=True)

    def _ask(
        self, key: tuple[str, ...], python: str, arguments: Sequence[str], environ: Mapping[str, str]
    ) -> None:
        found = Check(_NAME, None, "it broke off")
        try:
            found = self._judge(*_run(python, arguments, environ, self._timeout))
        except OSError as error:
            found = Check(_NAME, None, f"{python} cannot be run ({error.strerror})")
        finally:
            with self._lock:
                self._answers[key] = found

    def _judge(self, said: str | None, errors: str) -> Check:
        if said is None:
            return Check(_NAME, None, f"vLLM did not answer within {self._timeout:g} s")
        line = next((text for text in reversed(said.splitlines()) if text.startswith("acceptd:")), None)
        last = self._redact(_last_line(errors))[:300]
        if line is None:
            return Check(_NAME, None, f"vLLM ended without an answer{f' ({last})' if last else ''}")
        answer = json.loads(line.removeprefix("acceptd:"))
        ok, text = answer["ok"], self._redact(_gist(str(answer["text"]))) or last
        if ok is False and _ELSEWHERE.search(text):
            ok = None
        if ok is True:
            return Check(_NAME, True, "vLLM on this host takes the command line")
        return Check(_NAME, ok, f"vLLM on this host refuses it: {text}" if ok is False else f"not told: {text}")


def interpreter_of(program: str, path: str | None) -> str | None:
    """The Python that runs a server's program: itself, or the one in the first line of a script; None for neither."""
    found = shutil.which(program, path=path)
    if found is None:
        return None
    if Path(program).name.startswith(("python", "pypy")):
        return found
    with contextlib.suppress(OSError), open(found, "rb") as script:
        first = script.readline(512)
        if first.startswith(b"#!"):
            words = first[2:].decode(errors="replace").split()
            if len(words) > 1 and Path(words[0]).name == "env":
                words = words[1:]
            if words and Path(words[0]).name.startswith(("python", "pypy")):
                return shutil.which(words[0], path=path)
    return None


def _run(python: str, arguments: Sequence[str], environ: Mapping[str, str], seconds: float) -> tuple[str | None, str]:
    """Standard output (None: not in time) and standard error. Arguments go by standard input: they may hold secrets."""
    nice = shutil.which("nice")
    command = [*([nice, "-n", _NICENESS] if nice else []), python, "-c", _SCRIPT]
    process = subprocess.Popen(
        command, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        errors="replace", start_new_session=True,
    )  # fmt: skip
    try:
        said, errors = process.communicate(json.dumps(list(arguments)), timeout=seconds)
    except subprocess.TimeoutExpired:
        # vLLM inspects models in processes of its own: all of the session, not only the first.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return None, ""
    return said, errors


def _last_line(text: str) -> str:
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")


def _gist(text: str) -> str:
    """An error without what pydantic adds to it."""
    lines = [line.strip() for line in text.splitlines() if line.strip() and "errors.pydantic.dev" not in line]
    return " ".join(lines).partition(" [type=")[0][:300]
