"""What only a GPU can show: memory before and after, orphans on the card, a draft that does not fit, CUDA graphs."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from monitor.drivers.failures import FailureKind, judge_exit
from monitor.drivers.protocol import ServerState
from monitor.errors import ActionError
from tests.gpu.server import NGRAM, GpuServer, giant_draft, missing, note

pytestmark = pytest.mark.gpu


@pytest.fixture(autouse=True)
def gpu() -> None:
    why = missing()
    if why:
        # Not an error in CI: nobody promises that it has a GPU.
        print(f"*** SKIPPED: {why} ***", file=sys.stderr)
        pytest.skip(why)


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[..., GpuServer]]:
    made: list[GpuServer] = []

    def build(speculation: Mapping[str, object] = NGRAM, *extra: str) -> GpuServer:
        made.append(GpuServer(tmp_path / str(len(made)), speculation, *extra))
        return made[-1]

    yield build
    for server in made:
        server.driver.stop(force=True)
        server.wait(lambda s: s.is_gone, 120)


def test_a_stopped_server_is_gone_only_when_the_card_has_its_memory_back(make: Callable[..., GpuServer]) -> None:
    server = make()
    before = server.nvml.used_bytes()
    server.start("t")
    running = server.nvml.used_bytes()
    assert running > before + 2**28
    assert server.nvml.holders()
    server.driver.stop()
    server.wait(lambda s: s.is_gone, 180)
    # The driver says gone: whoever starts now finds the card free.
    after = server.nvml.used_bytes()
    note(memory_before=before, memory_running=running, memory_after=after)
    server.used_settles(before)
    again = server.start("u")
    note(second_start_seconds=again)


def test_an_engine_that_is_orphaned_on_the_card_is_seen_blocks_a_start_and_can_be_killed(
    make: Callable[..., GpuServer],
) -> None:
    server = make()
    before = server.nvml.used_bytes()
    server.start("t")
    pid = server.driver.status().pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    status = server.wait(lambda s: s.state is not ServerState.RUNNING, 60)
    assert status.state is ServerState.LEFTOVERS
    held = {holder.pid for holder in server.nvml.holders()}
    note(orphans=list(status.leftovers), holders=sorted(held))
    with pytest.raises(ActionError, match=r"left processes behind|GPU memory") as caught:
        server.driver.start(server.launcher.base_setting, "u")
    assert caught.value.retryable
    server.driver.stop(force=True)
    server.wait(lambda s: s.is_gone, 120)
    server.used_settles(before)


def test_a_draft_that_does_not_fit_ends_as_out_of_memory_and_leaves_none_behind(
    make: Callable[..., GpuServer], tmp_path: Path
) -> None:
    draft = giant_draft(tmp_path / "giant")
    server = make(
        {"method": "draft_model", "model": str(draft), "num_speculative_tokens": 3}, "--load-format", "dummy"
    )
    before = server.nvml.used_bytes()
    server.driver.start(server.launcher.base_setting, "t")
    status = server.wait(lambda s: s.state in (ServerState.EXITED, ServerState.LEFTOVERS))
    failure = judge_exit(status.exit_code, server.driver.log_tail(400))
    note(oom=failure.line)
    assert failure.kind is FailureKind.OUT_OF_MEMORY, server.driver.log_tail(80)
    assert not failure.retryable and failure.blames_setting
    server.driver.stop(force=True)
    server.wait(lambda s: s.is_gone, 120)
    server.used_settles(before)


def test_what_starts_take_with_and_without_cuda_graphs_is_noted(make: Callable[..., GpuServer]) -> None:
    figures = {}
    for name, extra in (("graphs_first", ()), ("graphs_again", ()), ("eager", ("--enforce-eager",))):
        server = make(NGRAM, *extra)
        figures[f"start_seconds_{name}"] = round(server.start(name), 1)
        server.driver.stop()
        server.wait(lambda s: s.is_gone, 180)
    note(**figures)
    # Nothing is said of speed; but a start that takes longer than the defaults allow means that they are wrong.
    assert max(figures.values()) < 900 + 600
