"""Balancer hooks are commands of the operator's: run without a shell, with a limit, and believed by their exit code."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from monitor.actions.balancer import HookBalancer
from monitor.errors import ActionError
from monitor.model.server import ServerName


def hooks(code: str, *, timeout_seconds: float = 20.0) -> HookBalancer:
    argv = [sys.executable, "-c", code]
    return HookBalancer(ServerName("s1"), [*argv, "out"], [*argv, "back"], os.environ, timeout_seconds=timeout_seconds)


def test_each_way_has_its_command_and_both_know_the_server(tmp_path: Path) -> None:
    said = "sys.argv[1] + os.environ['ACCEPTD_DRAIN_SERVER']"
    balancer = hooks(f"import os, sys; open({str(tmp_path / 'said')!r}, 'a').write({said})")
    assert balancer.has_control
    balancer.take_out()
    balancer.put_back()
    assert (tmp_path / "said").read_text() == "outs1backs1"


def test_nothing_on_the_line_is_read_by_a_shell(tmp_path: Path) -> None:
    target = tmp_path / "made"
    balancer = HookBalancer(ServerName("s"), [sys.executable, "-c", "pass", f"; touch {target}"], ["true"], os.environ)
    balancer.take_out()
    assert not target.exists()


def test_another_exit_code_is_a_failure_with_its_last_words() -> None:
    with pytest.raises(ActionError, match=r"s1: .*python.* ended with 3: no such backend") as caught:
        hooks("import sys; print('first'); print('no such backend', file=sys.stderr); sys.exit(3)").put_back()
    assert caught.value.retryable


def test_silence_is_a_failure_too() -> None:
    with pytest.raises(ActionError, match=r"ended with 1$"):
        hooks("raise SystemExit(1)").take_out()


def test_a_hook_that_hangs_is_ended() -> None:
    with pytest.raises(ActionError, match=r"did not end within 0\.5 s"):
        hooks("import time; time.sleep(60)", timeout_seconds=0.5).take_out()


def test_a_program_that_is_not_there_is_named() -> None:
    balancer = HookBalancer(ServerName("s1"), ["/no/such/program"], ["true"], os.environ)
    with pytest.raises(ActionError, match=r"/no/such/program cannot be run \(No such file"):
        balancer.take_out()
