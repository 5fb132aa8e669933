"""The dry run says everything and does nothing; the fake driver of other tests keeps the contract of real ones."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from monitor.drivers.dry_run import DryRunDriver
from monitor.drivers.gpu_guard import GpuGuard
from monitor.drivers.nvml import Holder
from monitor.drivers.procfs import ProcFs
from monitor.drivers.protocol import DriverStatus, ServerState
from monitor.errors import LaunchError
from monitor.model.life import Setting
from monitor.model.server import ServerName
from tests.fakes.driver_contract import FOUR, TWO, DriverContract, EveryDriverContract
from tests.fakes.fake_clock import FakeClock
from tests.fakes.fake_launcher import FakeLauncher
from tests.fakes.fake_server import Behaviour, FakeDriver, FakeServer


def test_it_records_what_it_would_do() -> None:
    driver = DryRunDriver(ServerName("s"), FakeLauncher(("vllm",)))
    assert not driver.acts
    assert driver.status().state is ServerState.RUNNING
    driver.stop()
    driver.stop(force=True)
    driver.start(FOUR, "t")
    driver.start(TWO, "t")
    assert driver.said[:2] == ("would stop s", "would kill s")
    assert driver.said[2].startswith("would start s with ngram, 4 tokens (- --speculative-config")
    assert driver.said[3].endswith("(no difference)")
    assert driver.status().setting == TWO
    assert driver.log_tail() == ""


def test_what_cannot_be_rendered_is_refused_as_it_would_be() -> None:
    driver = DryRunDriver(ServerName("s"), FakeLauncher(("vllm",), limit=3))
    with pytest.raises(LaunchError):
        driver.start(Setting(num_speculative_tokens=9), "t")
    assert driver.said == ()


class DryBench:
    """A dry run of a server that somebody else runs: no time need pass, and there is no process to trouble."""

    def __init__(self) -> None:
        self.driver = self.again()

    def again(self) -> DryRunDriver:
        return DryRunDriver(ServerName("s"), FakeLauncher(("vllm",), secrets=("hunter2",)))

    def trouble(self, *names: str) -> None:
        raise AssertionError(f"a dry run starts nothing that could have {names}")

    def kill_main(self) -> None:
        raise AssertionError("a dry run has no process")

    def wait(self, until: Callable[[DriverStatus], bool]) -> DriverStatus:
        status = self.driver.status()
        assert until(status), status
        return status


class TestDryRunKeepsWhatItCan(EveryDriverContract):
    """Not the rest of the contract, which is about processes that come and go."""

    @pytest.fixture
    def bench(self) -> DryBench:
        return DryBench()


class FakeBench:
    """The fake driver under the contract of real ones."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.server = FakeServer(self.clock, behaviour=Behaviour(start_seconds=1, stop_seconds=1))
        self.driver = FakeDriver(self.server)

    def again(self) -> FakeDriver:
        return FakeDriver(self.server)

    def trouble(self, *names: str) -> None:
        behaviour = Behaviour(start_seconds=1, stop_seconds=1)
        for name in names:
            if name.startswith("oom-from="):
                behaviour.crashes_at = frozenset({4})
                behaviour.crash_log = "CUDA out of memory"
            elif name == "ignore-term":
                behaviour.ignores_term = True
            elif name in ("engine", "orphan"):
                behaviour.orphans = True
        self.server.behaviour = behaviour

    def kill_main(self) -> None:
        self.server.crash()

    def wait(self, until: Callable[[DriverStatus], bool]) -> DriverStatus:
        for _ in range(100):
            status = self.driver.status()
            if until(status):
                return status
            self.clock.advance(1)
        raise AssertionError(f"still {status}")


class TestFakeKeepsTheContract(DriverContract):
    """What the action machine is tested with behaves as what it runs with."""

    @pytest.fixture
    def bench(self) -> FakeBench:
        return FakeBench()


class GuardedBench(FakeBench):
    """The same behind the look at the GPUs, on which a stranger has memory."""

    def __init__(self) -> None:
        super().__init__()
        self.driver = self.again()  # type: ignore[assignment]

    def again(self) -> GpuGuard:  # type: ignore[override]
        return GpuGuard(FakeDriver(self.server), lambda: (Holder(999_999_999, "GPU-1", 1),), ProcFs(), self.clock)


class TestGuardedDriversKeepTheContract(DriverContract):
    """Looking at GPUs changes nothing where none holds anything of the server."""

    @pytest.fixture
    def bench(self) -> GuardedBench:
        return GuardedBench()
