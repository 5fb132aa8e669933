"""The process driver on real processes."""

from __future__ import annotations

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
from monitor.drivers.process import ProcessDriver, ProcessOptions
from monitor.drivers.procfs import ProcFs
from monitor.drivers.protocol import DriverStatus, PortOwner, ServerState
from monitor.drivers.record import StartRecord, StateFile
from monitor.errors import ActionError
from monitor.model.life import Setting
from monitor.model.server import ServerName
from tests.fakes.driver_contract import FOUR, TWO, DriverContract
from tests.fakes.fake_launcher import FakeLauncher

ROOT = Path(__file__).resolve().parents[3]
TINY = ROOT / "tests/fakes/tiny_server.py"
NAME = ServerName("tiny")
CLOCK = SystemClock()


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


class RealBench:
    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self.options = ProcessOptions(
            state_folder=folder / "state", log_folder=folder / "logs", environ=os.environ, port=self.port
        )
        self.trouble()

    def trouble(self, *names: str) -> None:
        base = [sys.executable, str(TINY), "--port", str(self.port), "--api-key", "hunter2"]
        for name in names:
            base += ["--trouble", name]
        self.launcher = FakeLauncher(tuple(base), secrets=("hunter2",))
        self.driver = self.again()

    def again(self) -> ProcessDriver:
        return ProcessDriver(NAME, self.launcher, self.options, CLOCK)

    def kill_main(self) -> None:
        pid = self.driver.status().pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)

    def wait(self, until: Callable[[DriverStatus], bool], seconds: float = 30.0) -> DriverStatus:
        deadline = CLOCK.monotonic() + seconds
        while CLOCK.monotonic() < deadline:
            status = self.driver.status()
            if until(status):
                return status
            CLOCK.sleep(0.02)
        raise AssertionError(f"still {self.driver.status()} after {seconds} s; log: {self.driver.log_tail()}")

    def serving(self) -> DriverStatus:
        # The status is taken before the log is read: the port may have been bound in between.
        return self.wait(
            lambda s: s.state is ServerState.RUNNING
            and s.port_owner is not PortOwner.NOBODY
            and "serving" in self.driver.log_tail()
        )


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[RealBench]:
    bench = RealBench(tmp_path)
    yield bench
    bench.driver.stop(force=True)
    bench.wait(lambda s: s.state not in (ServerState.RUNNING, ServerState.LEFTOVERS))


class TestContract(DriverContract):
    """The process driver keeps the contract of all drivers."""


def test_the_server_runs_in_a_session_of_its_own_with_our_private_variables_removed(tmp_path: Path) -> None:
    environ = {**os.environ, "NOTIFY_SOCKET": "/run/x", "CREDENTIALS_DIRECTORY": "/run/c", "KEPT": "yes"}
    bench = RealBench(tmp_path)
    bench.options = replace(bench.options, environ=environ)
    bench.trouble()
    try:
        bench.driver.start(TWO, "t")
        pid = bench.serving().pid
        assert pid is not None
        process = ProcFs().process(pid)
        assert process is not None
        assert process.session == process.group == pid != os.getsid(0)
        seen = ProcFs().environ(pid) or {}
        assert seen["KEPT"] == "yes"
        assert "NOTIFY_SOCKET" not in seen
        assert "CREDENTIALS_DIRECTORY" not in seen
    finally:
        bench.driver.stop(force=True)
        bench.wait(lambda s: s.is_gone)


def test_a_server_outlives_the_daemon_that_is_killed_and_is_taken_up_by_the_next(bench: RealBench) -> None:
    script = f"""
import os, sys
sys.path.insert(0, {str(ROOT)!r})
from pathlib import Path
from monitor.clock import SystemClock
from monitor.drivers.process import ProcessDriver, ProcessOptions
from monitor.model.life import Setting
from tests.fakes.fake_launcher import FakeLauncher
options = ProcessOptions(state_folder=Path({str(bench.options.state_folder)!r}),
    log_folder=Path({str(bench.options.log_folder)!r}), environ=os.environ, port={bench.port})
driver = ProcessDriver("tiny", FakeLauncher({bench.launcher.base!r}), options, SystemClock())
driver.start(Setting(method="ngram", num_speculative_tokens=4), "first.1")
print(driver.status().process, flush=True)
os.kill(os.getpid(), 9)
"""
    daemon = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert daemon.returncode == -signal.SIGKILL, daemon.stderr
    status = bench.serving()
    assert (status.process, status.token, status.setting) == (daemon.stdout.strip(), "first.1", FOUR)
    assert status.port_owner is PortOwner.OURS
    bench.kill_main()
    after = bench.wait(lambda s: s.state is not ServerState.RUNNING)
    assert after.state is ServerState.EXITED
    assert after.exit_code is None  # not our child: nobody can know


def test_a_process_born_just_before_our_death_is_found_by_its_marker(bench: RealBench) -> None:
    # Given a record without a pid, as a death between writing it and starting the process leaves it
    record = StartRecord(
        token="c-1.1", setting=TWO, command_hash="h", boot_id=ProcFs().boot_id(), asked_at=CLOCK.now()
    )
    StateFile(bench.options.state_folder, NAME).write(record)
    environ = {
        **os.environ,
        "ACCEPTD_SERVER": NAME, "ACCEPTD_HOME": str(bench.options.state_folder.resolve()), "ACCEPTD_START": "c-1.1",
    }  # fmt: skip
    with subprocess.Popen(bench.launcher.render(TWO).argv, env=environ, start_new_session=True) as child:
        # When a new daemon looks
        status = bench.wait(lambda s: s.state is ServerState.RUNNING)
        # Then the process is the server
        assert status.pid == child.pid
        assert bench.again().status().process == status.process
        bench.driver.stop(force=True)
    assert bench.wait(lambda s: s.is_gone).state is ServerState.STOPPED


def test_a_record_whose_process_was_never_born_counts_as_exited(bench: RealBench) -> None:
    record = StartRecord(token="c-1.1", setting=TWO, command_hash="h", boot_id=ProcFs().boot_id(), asked_at=CLOCK.now())
    StateFile(bench.options.state_folder, NAME).write(record)
    status = bench.driver.status()
    assert (status.state, status.token, status.exit_code) == (ServerState.EXITED, "c-1.1", None)


def test_a_reused_pid_is_not_taken_for_the_server_and_never_signalled(bench: RealBench) -> None:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True) as bystander:
        found = ProcFs().process(bystander.pid)
        assert found is not None
        record = StartRecord(
            token="t", setting=TWO, command_hash="h", boot_id=ProcFs().boot_id(), asked_at=CLOCK.now(),
            pid=bystander.pid, start_ticks=found.start_ticks - 1,
        )  # fmt: skip
        StateFile(bench.options.state_folder, NAME).write(record)
        assert bench.driver.status().state is ServerState.EXITED
        bench.driver.stop(force=True)
        assert not ProcFs().send(replace(found, start_ticks=found.start_ticks - 1), signal.SIGKILL)
        assert bystander.poll() is None
        bystander.kill()


def test_a_record_of_another_boot_is_of_a_server_that_is_gone(bench: RealBench) -> None:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True) as bystander:
        found = ProcFs().process(bystander.pid)
        assert found is not None
        record = StartRecord(
            token="t", setting=TWO, command_hash="h", boot_id="another boot", asked_at=CLOCK.now(),
            pid=bystander.pid, start_ticks=found.start_ticks,
        )  # fmt: skip
        StateFile(bench.options.state_folder, NAME).write(record)
        assert bench.driver.status().state is ServerState.EXITED
        bench.driver.stop(force=True)
        assert bystander.poll() is None
        bystander.kill()


def test_a_lost_state_file_does_not_lead_to_a_second_server(bench: RealBench) -> None:
    bench.driver.start(TWO, "t")
    before = bench.serving()
    (bench.options.state_folder / "tiny.json").unlink()
    status = bench.driver.status()
    assert (status.state, status.pid, status.setting) == (ServerState.RUNNING, before.pid, None)
    with pytest.raises(ActionError, match="already runs"):
        bench.driver.start(FOUR, "u")


def test_a_damaged_state_file_is_named_and_nothing_is_done(bench: RealBench) -> None:
    bench.options.state_folder.mkdir(parents=True)
    (bench.options.state_folder / "tiny.json").write_text('{"token": 3')
    for call in (bench.driver.status, lambda: bench.driver.start(TWO, "t"), bench.driver.stop):
        with pytest.raises(ActionError, match=r"tiny\.json: found .*expected the record of a start"):
            call()
    (bench.options.state_folder / "tiny.json").unlink()


def test_a_foreign_listener_on_the_port_is_seen_and_blocks_the_start(bench: RealBench) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", bench.port))
        other.listen()
        status = bench.driver.status()
        assert (status.state, status.port_owner) == (ServerState.FOREIGN, PortOwner.OTHER)
        with pytest.raises(ActionError, match="its port is held by a process that acceptd did not start") as caught:
            bench.driver.start(TWO, "t")
        assert caught.value.retryable
    bench.driver.start(TWO, "t")
    assert bench.serving().port_owner is PortOwner.OURS


def test_a_server_that_overwrites_its_environment_is_still_known(bench: RealBench) -> None:
    bench.trouble("hide-environ", "engine")
    bench.driver.start(TWO, "t")
    pid = bench.serving().pid
    assert pid is not None
    assert ProcFs().environ(pid) is None
    bench.kill_main()
    assert bench.wait(lambda s: s.state is not ServerState.RUNNING).state is ServerState.LEFTOVERS


def test_a_program_that_does_not_exist_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    options = ProcessOptions(state_folder=tmp_path / "s", log_folder=tmp_path / "l", environ=os.environ)
    driver = ProcessDriver(NAME, FakeLauncher(("/no/such/vllm",)), options, CLOCK)
    with pytest.raises(ActionError, match="'/no/such/vllm' is not an executable program") as caught:
        driver.start(TWO, "t")
    assert (caught.value.reason, caught.value.retryable) == ("missing_program", False)
    assert driver.status().state is ServerState.STOPPED


def test_what_stands_in_the_way_of_a_start_is_said_beforehand(tmp_path: Path) -> None:
    """Given folders that are files, no program and no working directory, each is named and nothing is made."""
    (tmp_path / "s").write_text("")
    options = ProcessOptions(
        state_folder=tmp_path / "s", log_folder=tmp_path / "l/deeper", environ=os.environ, cwd=tmp_path / "none"
    )
    driver = ProcessDriver(NAME, FakeLauncher(("/no/such/vllm",)), options, CLOCK)
    said = {check.name: (check.ok, check.sentence) for check in driver.checks()}
    assert said["launch file"] == (False, f"{tmp_path}/s cannot be written by this user")
    assert said["log folder"][0] is True
    assert said["working directory"] == (False, f"{tmp_path}/none is not a folder")
    assert said["program"][0] is False and "/no/such/vllm" in said["program"][1]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["s"]


def test_a_file_that_is_no_program_ends_as_a_failed_start(tmp_path: Path) -> None:
    script = tmp_path / "vllm"
    script.write_text("not a program")
    script.chmod(0o755)
    options = ProcessOptions(state_folder=tmp_path / "s", log_folder=tmp_path / "l", environ=os.environ)
    driver = ProcessDriver(NAME, FakeLauncher((str(script),)), options, CLOCK)
    with pytest.raises(ActionError, match="cannot be started") as caught:
        driver.start(TWO, "t")
    assert not caught.value.retryable
    assert driver.status().state is ServerState.EXITED


def test_another_process_that_acts_on_the_server_keeps_us_out(bench: RealBench) -> None:
    other = StateFile(bench.options.state_folder, NAME)
    with other.locked(), pytest.raises(ActionError, match="another acceptd process is acting") as caught:
        bench.driver.start(TWO, "t")
    assert (caught.value.reason, caught.value.retryable) == ("locked", True)


def test_setting_with_a_schedule_survives_the_state_file(tmp_path: Path) -> None:
    setting = Setting(method="eagle3", num_speculative_tokens=5, draft_model="d", schedule=((1, 16, 5), (17, 64, 3)))
    record = StartRecord(token="t", setting=setting, command_hash="h", boot_id="b", asked_at=CLOCK.now(), pid=5)
    file = StateFile(tmp_path, NAME)
    file.write(record)
    assert file.read() == record
    assert (tmp_path / "tiny.json").stat().st_mode & 0o777 == 0o600
