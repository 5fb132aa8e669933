"""The systemd driver on a real systemd: the contract of all drivers, and what only a unit can do."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from monitor.clock import SystemClock
from monitor.drivers.procfs import ProcFs
from monitor.drivers.protocol import DriverStatus, ServerState
from monitor.drivers.systemctl import Systemctl
from monitor.drivers.systemd import SystemdDriver
from monitor.drivers.unit_command import UnitOptions, UnitReader
from monitor.drivers.unit_launcher import UnitLauncher
from monitor.launch.unit_text import env_line, quote_words
from monitor.model.server import Engine, ServerName
from tests.fakes.driver_contract import DriverContract
from tests.rigs.processes import free_port
from tests.rigs.systemd.machine import CODE, PYTHON_ARGV, Machine

pytestmark = pytest.mark.systemd

NAME = ServerName("tiny")
CLOCK = SystemClock()
FOLDER = Path("/var/lib/acceptd-contract")
NUMBERS = count(1)
#: As an operator might have written it: engines outlive their API server, and systemd starts nothing by itself.
UNIT = """
[Service]
Type=exec
EnvironmentFile=/etc/servers/%n.env
EnvironmentFile=-{folder}/%n.env
ExecStart={python} {code}/tests/fakes/tiny_server.py --port ${{PORT}} --api-key ${{KEY}} $TROUBLE $ACCEPTD_SPECULATION
KillMode=process
TimeoutStopSec=infinity
"""


class InnerProc(ProcFs):
    """The machine's /proc; control groups are read from inside, since pids are translated for whoever reads them."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine.path("/proc"))
        self._machine = machine

    def group_members(self, group: str, mounted: Path = Path("/sys/fs/cgroup")) -> tuple[int, ...]:
        text = self._machine.run("sh", "-c", f"cat {mounted}{group}/cgroup.procs", check=False).stdout
        return tuple(int(line) for line in text.split())


class UnitBench:
    """A unit on the machine, and the driver for it outside."""

    def __init__(self, machine: Machine, unit: str = UNIT) -> None:
        self.machine = machine
        self.unit = f"tiny-{next(NUMBERS)}.service"
        self.port = free_port()
        self.systemctl = Systemctl(machine.enter)
        self.options = UnitOptions(unit=self.unit, folder=FOLDER, port=self.port, root=machine.root)
        text = unit.format(folder=FOLDER, python=PYTHON_ARGV[0], code=CODE)
        self.trouble()
        machine.write(f"/etc/systemd/system/{self.unit}", text)
        machine.run("systemctl", "daemon-reload")
        machine.path(FOLDER / "tiny.json").unlink(missing_ok=True)
        self.driver = self.again()

    def trouble(self, *names: str) -> None:
        own = {"method": "ngram", "num_speculative_tokens": 2, "prompt_lookup_max": 4}
        words = [word for name in names for word in ("--trouble", name)]
        given = {
            "PORT": str(self.port), "KEY": "hunter2", "TROUBLE": quote_words(words),
            "ACCEPTD_SPECULATION": quote_words(["--speculative-config", json.dumps(own)]),
        }  # fmt: skip
        text = "".join(env_line(name, value) for name, value in given.items())
        self.machine.write(f"/etc/servers/{self.unit}.env", text)
        self.driver = self.again()

    def again(self) -> SystemdDriver:
        launcher = UnitLauncher(
            Engine.VLLM, UnitReader(self.options, self.systemctl), version=lambda: "0.32.0", clock=CLOCK
        )
        return SystemdDriver(NAME, Engine.VLLM, launcher, self.options, CLOCK, self.systemctl, InnerProc(self.machine))

    def kill_main(self) -> None:
        pid = self.driver.status().pid
        assert pid is not None
        self.machine.run("kill", "-9", str(pid))

    def wait(self, until: Callable[[DriverStatus], bool], seconds: float = 30.0) -> DriverStatus:
        deadline = CLOCK.monotonic() + seconds
        while CLOCK.monotonic() < deadline:
            status = self.driver.status()
            if until(status):
                return status
            CLOCK.sleep(0.02)
        raise AssertionError(f"still {self.driver.status()} after {seconds} s; log: {self.driver.log_tail()}")

    def arguments(self) -> tuple[str, ...]:
        """The command line of the running server."""
        pid = self.wait(lambda s: s.state is ServerState.RUNNING).pid
        raw = self.machine.path(f"/proc/{pid}/cmdline").read_bytes()
        return tuple(raw.decode().rstrip("\0").split("\0"))

    def tear_down(self) -> None:
        self.driver.stop(force=True)
        self.wait(lambda s: s.state not in (ServerState.RUNNING, ServerState.LEFTOVERS))


@pytest.fixture
def bench(machine: Machine) -> Iterator[UnitBench]:
    bench = UnitBench(machine)
    yield bench
    bench.tear_down()


class TestContract(DriverContract):
    """The systemd driver keeps the contract of all drivers."""
