"""A real vLLM asked whether it takes a command line, without an engine being started."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from monitor.clock import SystemClock
from monitor.drivers.own_check import OwnCheck
from monitor.drivers.protocol import Check, Command
from tests.rigs.processes import free_port
from tests.rigs.vllm.build import is_built, model_folder
from tests.rigs.vllm.server import ngram, vllm_argv, vllm_env

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.skipif(
        not is_built() and not os.environ.get("CI"), reason="not built: python3.11 tests/rigs/vllm/build.py"
    ),
]
CLOCK = SystemClock()


def asked(speculation: dict[str, object]) -> Check:
    own = OwnCheck({**os.environ, **vllm_env()}, str)
    command = Command(tuple(vllm_argv(free_port(), speculation=speculation)))
    deadline = CLOCK.monotonic() + 300
    while (found := own.check(command)) is not None and found.is_awaited:
        assert CLOCK.monotonic() < deadline
        CLOCK.sleep(0.2)
    assert found is not None
    return found


def test_it_takes_what_runs() -> None:
    assert asked(ngram(3)).ok is True
    draft: dict[str, object] = {"method": "draft_model", "model": str(model_folder("draft-good"))}
    assert asked({**draft, "num_speculative_tokens": 3}).ok is True


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"method": "draft_model", "num_speculative_tokens": 3}, "without speculative model"),
        ({**ngram(3), "prompt_lookup_min": 9}, "must be <= prompt_lookup_max"),
        ({**ngram(3), "no_such_key": 1}, "no_such_key"),
    ],
    ids=["no draft", "window", "unknown key"],
)
def test_it_says_why_it_refuses(wrong: dict[str, object], said: str) -> None:
    found = asked(wrong)
    assert found.ok is False and said in found.sentence


def test_a_model_that_is_not_here_is_no_fault_of_the_command_line(tmp_path: Path) -> None:
    found = asked({"method": "draft_model", "model": "org/none", "num_speculative_tokens": 3})
    assert found.ok is None, found
