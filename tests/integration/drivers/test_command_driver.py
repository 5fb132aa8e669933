"""The command driver on real processes, behind commands as an operator would write them."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from monitor.clock import SystemClock
from monitor.drivers.command import CommandDriver, Commands
from monitor.drivers.protocol import DriverStatus, PortOwner, ServerState
from monitor.errors import ActionError
from monitor.model.server import ServerName
from tests.fakes.driver_contract import FOUR, TWO, DriverContract
from tests.fakes.fake_launcher import FakeLauncher
from tests.rigs.processes import free_port

ROOT = Path(__file__).resolve().parents[3]
TINY, CONTAINER = ROOT / "tests/fakes/tiny_server.py", ROOT / "tests/fakes/container.py"
NAME = ServerName("tiny")
CLOCK = SystemClock()


class CommandBench:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()

        def runtime(*words: str) -> tuple[str, ...]:
            return (sys.executable, str(CONTAINER), str(folder), *words)

        self.commands = Commands(
            start=runtime("start", "{command}"), stop=runtime("stop"), kill=runtime("kill"), status=runtime("status"),
            log=runtime("log"), state_folder=folder / "state", log_folder=folder / "logs", environ=os.environ,
            port=self.port,
        )  # fmt: skip
        self.trouble()

    def trouble(self, *names: str) -> None:
        base = [sys.executable, str(TINY), "--port", str(self.port), "--api-key", "hunter2"]
        for name in names:
            base += ["--trouble", name]
        self.launcher = FakeLauncher(tuple(base), secrets=("hunter2",))
        self.driver = self.again()

    def again(self) -> CommandDriver:
        return CommandDriver(NAME, self.launcher, self.commands, CLOCK)

    def kill_main(self) -> None:
        os.kill(json.loads((self.folder / "container.json").read_text())["pid"], signal.SIGKILL)

    def wait(self, until: Callable[[DriverStatus], bool], seconds: float = 30.0) -> DriverStatus:
        deadline = CLOCK.monotonic() + seconds
        while CLOCK.monotonic() < deadline:
            status = self.driver.status()
            # While the start command itself runs, there is no run to speak of yet.
            if until(status) and status.note != "its start command runs":
                return status
            CLOCK.sleep(0.02)
        raise AssertionError(f"still {self.driver.status()} after {seconds} s; log: {self.driver.log_tail()}")


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[CommandBench]:
    bench = CommandBench(tmp_path)
    yield bench
    subprocess.run([*bench.commands.kill], check=False)


class TestContract(DriverContract):
    """The command driver keeps the contract of all drivers."""


def test_a_run_that_someone_else_began_is_taken_up_without_a_token(bench: CommandBench) -> None:
    argv = bench.launcher.render(FOUR).argv
    subprocess.run([*bench.commands.start[:-1], *argv], check=True)
    status = bench.driver.status()
    assert (status.state, status.token, status.setting, status.command_hash) == (ServerState.RUNNING, "", None, "")
    with pytest.raises(ActionError, match="already runs"):
        bench.driver.start(TWO, "t")
    bench.driver.stop()
    assert bench.wait(lambda s: s.is_gone).state is ServerState.STOPPED


def test_a_start_command_that_fails_is_an_exit_with_its_last_words(bench: CommandBench) -> None:
    broken = (sys.executable, "-c", "import sys; print('no such image: vllm'); sys.exit(125)", "{command}")
    bench.commands = replace(bench.commands, start=broken)
    bench.driver = bench.again()
    bench.driver.start(TWO, "c-1.1")
    status = bench.wait(lambda s: s.state is ServerState.EXITED)
    assert (status.token, status.exit_code) == ("c-1.1", 125)
    assert "its start command failed" in status.describe()
    assert bench.driver.log_tail().endswith("no such image: vllm")
    # It can be tried again at once.
    bench.commands = replace(bench.commands, start=CommandBench(bench.folder).commands.start)
    bench.driver = bench.again()
    bench.driver.start(TWO, "c-1.2")
    assert bench.wait(lambda s: s.state is ServerState.RUNNING and s.process != "").token == "c-1.2"


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("import sys; sys.exit(1)", "ended with 1, expected 0 and the name of the run"),
        ("import sys; sys.stderr.write('daemon away, key hunter2'); sys.exit(9)", "daemon away, key <secret>"),
    ],
)
def test_a_status_that_says_nothing_known_stops_everything(bench: CommandBench, script: str, said: str) -> None:
    bench.commands = replace(bench.commands, status=(sys.executable, "-c", script))
    driver = bench.again()
    for call in (driver.status, lambda: driver.start(TWO, "t"), driver.stop):
        with pytest.raises(ActionError, match=said) as caught:
            call()
        assert (caught.value.reason, caught.value.retryable) == ("status", True)


def test_a_status_that_names_no_run_says_that_none_is_there(bench: CommandBench) -> None:
    # As `docker ps --quiet --filter name=…` does.
    bench.commands = replace(bench.commands, status=(sys.executable, "-c", "pass"))
    status = bench.again().status()
    assert (status.state, status.process) == (ServerState.STOPPED, "")


def test_a_status_that_hangs_is_given_up(bench: CommandBench) -> None:
    hanging = (sys.executable, "-c", "import time; time.sleep(60)")
    bench.commands = replace(bench.commands, status=hanging, wait_seconds=0.3)
    with pytest.raises(ActionError, match=r"did not end within"):
        bench.again().status()


def test_what_listens_while_nothing_runs_is_foreign(bench: CommandBench) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", bench.port))
        other.listen()
        status = bench.driver.status()
        assert (status.state, status.port_owner) == (ServerState.FOREIGN, PortOwner.OTHER)
        with pytest.raises(ActionError, match="its port is held"):
            bench.driver.start(TWO, "t")


def test_a_program_that_is_not_there_fails_its_check_and_its_start(bench: CommandBench) -> None:
    bench.commands = replace(bench.commands, start=("/no/such/docker", "{command}"))
    driver = bench.again()
    assert [check.name for check in driver.checks() if not check.ok] == ["start"]
    with pytest.raises(ActionError, match="'/no/such/docker' cannot be run") as caught:
        driver.start(TWO, "t")
    assert (caught.value.reason, caught.value.retryable) == ("missing_program", False)
