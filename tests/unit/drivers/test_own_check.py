"""What vLLM itself says of a command line, asked in the interpreter that would run it; here a small stand-in of it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from monitor.clock import SystemClock
from monitor.drivers.own_check import OwnCheck, interpreter_of
from monitor.drivers.protocol import Check, Command

CLOCK = SystemClock()
#: A package `vllm` with the three names that are asked for, where releases from 0.32 on have them.
VLLM = {
    "vllm/__init__.py": "",
    "vllm/utils/__init__.py": "",
    "vllm/utils/argparse_utils.py": "from argparse import ArgumentParser as FlexibleArgumentParser",
    "vllm/entrypoints/__init__.py": "",
    "vllm/entrypoints/launchers/__init__.py": "",
    "vllm/entrypoints/launchers/cli_args.py": """
def make_arg_parser(parser):
    parser.add_argument("model_tag", nargs="?")
    parser.add_argument("--model")
    parser.add_argument("--tokens", type=int, default=0)
    parser.add_argument("--api-key")
    return parser
""",
    "vllm/engine/__init__.py": "",
    "vllm/engine/arg_utils.py": """
import os, time
class AsyncEngineArgs:
    def __init__(self, args):
        self.args = args
    from_cli_args = classmethod(lambda cls, args: cls(args))
    def create_engine_config(self):
        args = self.args
        assert os.environ["HF_HUB_OFFLINE"] == "1"
        if args.model == "slow":
            time.sleep(60)
        if args.model == "offline":
            raise OSError("not in the cache")
        if args.model == "elsewhere":
            raise ValueError("Invalid repository ID or local directory specified")
        if args.model == "dead":
            os._exit(3)
        if args.tokens > 5:
            raise ValueError(f"{args.tokens} tokens with key {args.api_key} are too many [type=x]\\n https://errors.pydantic.dev/1")
""",
}


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    for name, text in VLLM.items():
        path = tmp_path / "site" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return {**os.environ, "PYTHONPATH": str(tmp_path / "site")}


def answer(environ: dict[str, str], *arguments: str, program: tuple[str, ...] = (), seconds: float = 60.0) -> Check:
    own = OwnCheck(environ, lambda text: text.replace("hunter22", "<secret>"), timeout_seconds=seconds)
    head = program or (sys.executable, "-m", "vllm.entrypoints.openai.api_server")
    return awaited(lambda: own.check(Command((*head, *arguments))))


def awaited(ask: Callable[[], Check | None]) -> Check:
    deadline = CLOCK.monotonic() + 120
    found = ask()
    assert found is not None and found.is_awaited
    while found is not None and found.is_awaited:
        assert CLOCK.monotonic() < deadline
        CLOCK.sleep(0.05)
        found = ask()
    assert found is not None
    return found


class TestAnswers:
    def test_a_command_line_that_is_taken(self, environ: dict[str, str]) -> None:
        assert answer(environ, "--model", "m", "--tokens", "3").ok is True

    def test_one_that_its_configuration_refuses_is_told_without_secrets(self, environ: dict[str, str]) -> None:
        found = answer(environ, "--model", "m", "--tokens", "9", "--api-key", "hunter22")
        assert (found.ok, found.sentence) == (
            False, "vLLM on this host refuses it: ValueError: 9 tokens with key <secret> are too many",
        )

    def test_one_that_its_parser_refuses_is_told_too(self, environ: dict[str, str]) -> None:
        found = answer(environ, "--model", "m", "--no-such-flag")
        assert found.ok is False and "unrecognized arguments: --no-such-flag" in found.sentence

    @pytest.mark.parametrize(
        ("model", "said"),
        [("offline", "OSError: not in the cache"), ("elsewhere", "repository ID"), ("dead", "without an answer")],
    )
    def test_what_says_nothing_of_the_command_line_is_not_told(
        self, environ: dict[str, str], model: str, said: str
    ) -> None:
        found = answer(environ, "--model", model)
        assert found.ok is None and said in found.sentence

    def test_one_that_hangs_is_ended(self, environ: dict[str, str]) -> None:
        found = answer(environ, "--model", "slow", seconds=1.5)
        assert (found.ok, found.sentence) == (None, "vLLM did not answer within 1.5 s")

    def test_where_vllm_cannot_be_imported_nothing_is_told(self, tmp_path: Path) -> None:
        (tmp_path / "vllm.py").write_text("raise ImportError('libcuda.so')")
        found = answer({**os.environ, "PYTHONPATH": str(tmp_path)}, "--model", "m")
        assert (found.ok, found.sentence) == (None, "not told: vLLM cannot be imported: libcuda.so")


class TestInterpreter:
    def test_of_a_script_it_is_the_one_in_its_first_line_and_the_model_may_stand_by_itself(
        self, environ: dict[str, str], tmp_path: Path
    ) -> None:
        script = tmp_path / "vllm"
        script.write_text(f"#!{sys.executable}\n")
        script.chmod(0o755)
        assert answer(environ, "serve", "offline", program=(str(script),)).ok is None
        assert answer(environ, "serve", "m", program=(str(script),)).ok is True

    def test_env_finds_it_on_the_path(self, tmp_path: Path) -> None:
        script = tmp_path / "vllm"
        script.write_text("#!/usr/bin/env python3\n")
        script.chmod(0o755)
        (tmp_path / "python3").symlink_to(sys.executable)
        assert interpreter_of(str(script), str(tmp_path)) == str(tmp_path / "python3")

    def test_what_is_no_vllm_here_is_not_asked(self, tmp_path: Path) -> None:
        binary = tmp_path / "vllm"
        binary.write_bytes(b"\x7fELF")
        binary.chmod(0o755)
        own = OwnCheck(os.environ, str)
        assert own.check(Command((str(binary), "serve", "m"))) is None
        assert own.check(Command(("/no/such/vllm", "serve", "m"))) is None
        assert own.check(Command((sys.executable, "-m", "monitor.simulator"))) is None
