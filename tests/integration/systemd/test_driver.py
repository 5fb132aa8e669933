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
from monitor.errors import ActionError, LaunchError
from monitor.launch.unit_text import env_line, quote_words
from monitor.model.life import Setting
from monitor.model.server import Engine, ServerName
from tests.fakes.driver_contract import FOUR, OFF, TWO, DriverContract
from tests.rigs.processes import free_port
from tests.rigs.systemd.machine import CODE, PYTHON_ARGV, Machine

pytestmark = pytest.mark.systemd

NAME = ServerName("tiny")
CLOCK = SystemClock()
FOLDER = Path("/var/lib/acceptd-contract")
NUMBERS = count(1)
AS_NOBODY = ("setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups")
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


def own(bench: UnitBench) -> dict[str, object]:
    argv = bench.arguments()
    return dict(json.loads(argv[argv.index("--speculative-config") + 1]))


def restart(bench: UnitBench, setting: Setting, token: str) -> DriverStatus:
    bench.driver.stop()
    bench.wait(lambda s: s.is_gone)
    bench.driver.start(setting, token)
    return bench.wait(lambda s: s.state is ServerState.RUNNING)


def test_a_setting_changes_the_speculation_flags_and_nothing_else(bench: UnitBench) -> None:
    env, last = (bench.machine.path(FOLDER / f"{bench.unit}{ending}") for ending in (".env", ".last.env"))
    # The operator's own setting needs no file.
    bench.driver.start(TWO, "c-1")
    argv = bench.arguments()
    assert own(bench) == {"method": "ngram", "num_speculative_tokens": 2, "prompt_lookup_max": 4}
    assert not env.exists()
    # Another one is one variable, for the daemon's group to read; what is not tuned stays.
    restart(bench, FOUR, "c-2")
    assert own(bench) == {"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_max": 4}
    assert bench.arguments()[:-1] == argv[:-1]
    assert env.stat().st_mode & 0o777 == 0o640
    [line] = [line for line in env.read_text().splitlines() if not line.startswith("#")]
    assert line.startswith("ACCEPTD_SPECULATION=")
    # Off is an empty value, which systemd makes no argument of.
    restart(bench, OFF, "c-3")
    assert bench.arguments() == argv[:-2]
    assert env.read_text().splitlines()[-1] == 'ACCEPTD_SPECULATION=""'
    assert "4" in last.read_text().splitlines()[-1]
    # Going back to what was before keeps that, and not what failed.
    restart(bench, FOUR, "c-4")
    assert env.read_text() == last.read_text() and own(bench)["num_speculative_tokens"] == 4
    restart(bench, TWO, "c-5")
    assert bench.arguments() == argv and not env.exists()


def test_a_run_that_the_operator_began_has_no_token_and_its_setting_is_known(bench: UnitBench) -> None:
    bench.driver.start(FOUR, "c-1")
    first = bench.wait(lambda s: s.state is ServerState.RUNNING)
    bench.machine.run("systemctl", "restart", bench.unit)
    status = bench.wait(lambda s: s.state is ServerState.RUNNING and s.process != first.process)
    # The tiny server is no engine by its name, so what systemd passed it is what is known.
    assert (status.token, status.setting, status.stop_asked) == ("", FOUR, False)
    assert status.command_hash == bench.driver.launcher.base_hash
    # An edit of the command voids what acceptd wrote, and the run is known to have the former one.
    path = bench.machine.path(f"/etc/servers/{bench.unit}.env")
    path.write_text(path.read_text().replace("hunter2", "hunter22"))
    bench.driver.launcher.refresh()
    status = bench.driver.status()
    assert status.command_hash != bench.driver.launcher.base_hash
    assert not bench.machine.path(FOLDER / f"{bench.unit}.env").exists()
    assert bench.machine.path(FOLDER / f"{bench.unit}.void.env").exists()
    bench.machine.run("systemctl", "restart", bench.unit)
    status = bench.wait(lambda s: s.process != status.process and s.state is ServerState.RUNNING)
    assert (status.setting, status.command_hash) == (TWO, bench.driver.launcher.base_hash)


def test_an_end_that_was_asked_for_is_told_from_one_that_was_not(bench: UnitBench) -> None:
    bench.driver.start(TWO, "c-1")
    pid = bench.wait(lambda s: s.state is ServerState.RUNNING and "serving" in bench.driver.log_tail()).pid
    # It ends by itself, with code 0, as a vLLM does whose engine died.
    bench.machine.run("kill", str(pid))
    status = bench.wait(lambda s: s.state is not ServerState.RUNNING)
    assert (status.state, status.exit_code, status.stop_asked) == (ServerState.EXITED, 0, False)
    bench.driver.start(TWO, "c-2")
    bench.wait(lambda s: s.state is ServerState.RUNNING and "serving" in bench.driver.log_tail())
    bench.machine.run("systemctl", "stop", bench.unit)
    assert bench.wait(lambda s: s.state is not ServerState.RUNNING).state is ServerState.STOPPED


RESTARTING = UNIT.replace("KillMode=process", "KillMode=mixed\nRestart=always\nRestartSec=300ms") + (
    "\n[Unit]\nStartLimitIntervalSec=1h\nStartLimitBurst=3\n"
)


@pytest.fixture
def restarting(machine: Machine) -> Iterator[UnitBench]:
    bench = UnitBench(machine, RESTARTING)
    yield bench
    bench.tear_down()


def test_starts_by_systemd_itself_are_counted_and_given_up_and_forgotten_at_our_next_start(
    restarting: UnitBench,
) -> None:
    bench = restarting
    bench.trouble("crash-from=4")
    bench.driver.start(FOUR, "c-1")
    status = bench.wait(lambda s: s.state is ServerState.EXITED and "restarted 3 times by systemd" in s.describe())
    bench.wait(lambda s: bench.systemctl.state(bench.unit).active == "failed")
    assert (status.token, status.exit_code) == ("c-1", 1)
    assert "something broke" in bench.driver.log_tail()
    # What systemd gave up is started all the same: acceptd has a budget of its own.
    bench.driver.start(TWO, "c-2")
    first = bench.wait(lambda s: s.state is ServerState.RUNNING and "serving" in bench.driver.log_tail())
    # One that crashes later is started again by systemd: the same start, another process, counted.
    bench.machine.run("kill", "-9", str(first.pid))
    again = bench.wait(lambda s: s.state is ServerState.RUNNING and s.pid not in (None, first.pid))
    assert (again.token, again.setting) == ("c-2", TWO)
    assert again.process != first.process
    assert "restarted 1 times by systemd" in again.describe()


def test_an_engine_leaves_nothing_behind_where_the_unit_kills_all(restarting: UnitBench) -> None:
    bench = restarting
    bench.trouble("engine", "orphan")
    bench.driver.start(TWO, "c-1")
    bench.wait(lambda s: s.state is ServerState.RUNNING and "serving" in bench.driver.log_tail())
    bench.driver.stop()
    assert bench.wait(lambda s: s.state is not ServerState.RUNNING).state is ServerState.STOPPED


def test_a_stop_that_polkit_refuses_is_not_taken_for_one_that_was_asked_for(bench: UnitBench) -> None:
    bench.driver.start(TWO, "c-1.1")
    bench.wait(lambda s: s.state is ServerState.RUNNING)
    bench.systemctl = Systemctl((*bench.machine.enter, *AS_NOBODY))
    with pytest.raises(ActionError, match="polkit") as caught:
        bench.again().stop()
    assert caught.value.reason == "not_permitted"
    assert not bench.driver.status().stop_asked
    # What ends now has ended by itself, and is known to have.
    bench.kill_main()
    assert bench.wait(lambda s: s.state is not ServerState.RUNNING).state is ServerState.EXITED


def test_a_unit_that_is_not_there_or_passes_nothing_on_is_refused_with_what_to_do(machine: Machine) -> None:
    bench = UnitBench(machine, UNIT.replace(" $ACCEPTD_SPECULATION", ""))
    refused = [check for check in bench.driver.checks() if check.ok is False]
    assert [check.name for check in refused] == ["command line"]
    assert f"`acceptd adopt {bench.unit}` shows how" in refused[0].sentence
    with pytest.raises(LaunchError, match="no speculation"):
        bench.driver.start(FOUR, "c-1")
    machine.path(f"/etc/systemd/system/{bench.unit}").unlink()
    machine.run("systemctl", "daemon-reload")
    for call in (bench.driver.status, bench.driver.stop, lambda: bench.driver.start(TWO, "c-1")):
        with pytest.raises(ActionError, match=r"no usable unit tiny-\d+\.service \(not-found\)") as caught:
            call()
        assert (caught.value.reason, caught.value.retryable) == ("no_unit", False)


def test_a_systemd_that_does_not_answer_is_waited_for_so_long_and_no_longer(machine: Machine) -> None:
    slow = Systemctl((*machine.enter, "sh", "-c", "sleep 60"), wait_seconds=0.3)
    with pytest.raises(ActionError, match=r"`systemctl` did not answer within 0.3 s") as caught:
        slow.state("x.service")
    assert caught.value.retryable
