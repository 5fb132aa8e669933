"""The process driver on a real vLLM: its orphans, and why it does not start."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
import requests

from monitor.clock import SystemClock
from monitor.drivers.failures import FailureKind, judge_exit
from monitor.drivers.launcher import CommandLauncher
from monitor.drivers.process import ProcessDriver, ProcessOptions
from monitor.drivers.protocol import DriverStatus, PortOwner, ServerState
from monitor.errors import ActionError
from monitor.model.life import Setting
from monitor.model.server import Engine, ServerName
from tests.rigs.processes import free_port
from tests.rigs.vllm.build import is_built
from tests.rigs.vllm.server import ngram, vllm_argv, vllm_env

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.skipif(
        not is_built() and not os.environ.get("CI"), reason="not built: python3.11 tests/rigs/vllm/build.py"
    ),
]
CLOCK = SystemClock()
TWO = Setting(method="ngram", num_speculative_tokens=2)


class Bench:
    """A vLLM that the process driver starts."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.use(vllm_argv(self.port, speculation=ngram(2)))

    def use(self, argv: Sequence[str]) -> None:
        self.launcher = CommandLauncher(Engine.VLLM, argv, version=lambda: "0.32.0", environ=vllm_env())
        options = ProcessOptions(
            state_folder=self.folder / "state", log_folder=self.folder / "logs", environ=os.environ, port=self.port
        )
        self.driver = ProcessDriver(ServerName("vllm"), self.launcher, options, CLOCK)

    def wait(self, until: Callable[[DriverStatus], bool], seconds: float = 240.0) -> DriverStatus:
        deadline = CLOCK.monotonic() + seconds
        while True:
            status = self.driver.status()
            if until(status):
                return status
            assert CLOCK.monotonic() < deadline, (status, self.driver.log_tail())
            CLOCK.sleep(0.2)

    def is_healthy(self, status: DriverStatus) -> bool:
        assert status.state is ServerState.RUNNING, self.driver.log_tail()
        try:
            return requests.get(f"http://127.0.0.1:{self.port}/health", timeout=5).status_code == 200
        except requests.RequestException:
            return False

    def positions(self) -> int:
        page = requests.get(f"http://127.0.0.1:{self.port}/metrics", timeout=10).text
        return page.count("vllm:spec_decode_num_accepted_tokens_per_pos_total{")


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    bench.driver.stop(force=True)
    bench.wait(lambda s: s.is_gone)


def test_orphaned_engines_are_known_block_a_start_and_are_killed(bench: Bench) -> None:
    bench.driver.start(TWO, "first")
    status = bench.wait(bench.is_healthy)
    assert status.port_owner is PortOwner.OURS
    assert bench.positions() == 2
    assert status.pid is not None
    os.kill(status.pid, signal.SIGKILL)
    status = bench.wait(lambda s: s.state is not ServerState.RUNNING)
    assert status.state is ServerState.LEFTOVERS
    assert any("VLLM::" in name for name in status.leftovers), status.leftovers
    # The port is free long before the memory is; only the very last moments of the dead process still hold it.
    bench.wait(lambda s: s.port_owner is PortOwner.NOBODY)
    assert bench.driver.status().state is ServerState.LEFTOVERS
    with pytest.raises(ActionError, match="left processes behind"):
        bench.driver.start(TWO, "second")
    bench.driver.stop(force=True)
    # A start with another setting after that is tested with a unit.
    assert bench.wait(lambda s: s.is_gone).state is ServerState.STOPPED


@pytest.mark.parametrize(
    ("extra", "speculation", "kind"),
    [
        (["--no-such-flag", "1"], ngram(2), FailureKind.BAD_ARGUMENT),
        ([], {**ngram(2), "no_such_key": 1}, FailureKind.BAD_ARGUMENT),
        ([], {**ngram(2), "num_speculative_tokens": 0}, FailureKind.BAD_CONFIGURATION),
        ([], {"method": "draft_model", "model": "/no/such/draft", "num_speculative_tokens": 2},
         FailureKind.MISSING_MODEL),
    ],
    ids=["flag", "key", "zero tokens", "draft"],
)  # fmt: skip
def test_what_vllm_says_when_it_does_not_start_is_understood(
    bench: Bench, extra: list[str], speculation: dict[str, object], kind: FailureKind
) -> None:
    argv = [*vllm_argv(bench.port, extra=extra), "--speculative-config", json.dumps(speculation)]
    bench.use(argv)
    bench.driver.start(bench.launcher.base_setting, "t")
    status = bench.wait(lambda s: s.state is not ServerState.RUNNING)
    failure = judge_exit(status.exit_code, bench.driver.log_tail(200))
    assert failure.kind is kind, bench.driver.log_tail(60)
    assert not failure.retryable
