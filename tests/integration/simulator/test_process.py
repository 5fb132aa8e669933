"""One simulated server as a process: start, signals, exit status, what it leaves behind."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import requests

from monitor.clock import SystemClock
from monitor.simulator.demo import demo_servers

CLOCK = SystemClock()
PATIENCE = 60


def spec(k: int) -> str:
    return f'{{"method": "eagle3", "model": "head", "num_speculative_tokens": {k}}}'


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Running:
    """A server process and what it printed."""

    def __init__(self, argv: list[str], port: int, log: Path) -> None:
        self.port = port
        self._log = log
        with log.open("w") as out:
            environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
            self.process = subprocess.Popen(argv, stdout=out, stderr=subprocess.STDOUT, env=environment)

    @property
    def log(self) -> str:
        return self._log.read_text()

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    def is_healthy(self) -> bool:
        try:
            return requests.get(self.url("/health"), timeout=5).status_code == 200
        except requests.exceptions.ConnectionError:
            return False

    def wait_ready(self) -> Running:
        deadline = CLOCK.monotonic() + PATIENCE
        while not self.is_healthy():
            assert self.process.poll() is None, self.log
            assert CLOCK.monotonic() < deadline, self.log
            CLOCK.sleep(0.05)
        return self

    def wait_log(self, text: str) -> None:
        deadline = CLOCK.monotonic() + PATIENCE
        while text not in self.log:
            assert CLOCK.monotonic() < deadline, self.log
            CLOCK.sleep(0.02)


@contextmanager
def running(tmp_path: Path, *argv: str, port: int | None = None) -> Iterator[Running]:
    port = port or free_port()
    quick = ["--sim-start-seconds", "0.1", "--sim-stop-seconds", "0"]
    command = [sys.executable, "-m", "monitor.simulator", "--port", str(port), *quick, *argv]
    server = Running(command, port, tmp_path / f"{port}.log")
    try:
        yield server
    finally:
        server.process.kill()
        server.process.wait()


def test_a_server_starts_serves_and_stops_on_sigterm(tmp_path: Path) -> None:
    with running(tmp_path, "-sc", spec(2), "--sim-load", "closed:clients=4", "--dtype", "bfloat16") as server:
        server.wait_ready()
        page = requests.get(server.url("/metrics"), timeout=PATIENCE).text
        assert page.count("spec_decode_num_accepted_tokens_per_pos_total{") == 2
        server.process.terminate()
        assert server.process.wait(PATIENCE) == 0
        assert not server.is_healthy()
        lines = server.log.splitlines()
    assert lines and all("SIMULATED" in line for line in lines)
    assert "--dtype changes nothing here" in server.log and "gsm8k-eagle3" in server.log


def test_it_can_be_restarted_on_its_port_at_once_with_another_setting(tmp_path: Path) -> None:
    port, births = free_port(), []
    for k in (2, 3):
        with running(tmp_path, "-sc", spec(k), "--sim-load", "closed:clients=2", port=port) as server:
            server.wait_ready()
            page = requests.get(server.url("/metrics"), timeout=PATIENCE).text
            assert page.count("spec_decode_num_accepted_tokens_per_pos_total{") == k
            births += [line for line in page.splitlines() if line.startswith("process_start_time_seconds")]
            server.process.terminate()
            assert server.process.wait(PATIENCE) == 0
    assert len(set(births)) == 2


def test_connections_are_refused_until_it_is_ready_though_the_port_is_taken(tmp_path: Path) -> None:
    with running(tmp_path, "--sim-fault", "slow_start=3600") as server:
        server.wait_log("figures:")
        CLOCK.sleep(0.2)
        assert not server.is_healthy()
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind(("127.0.0.1", server.port))
        assert server.process.poll() is None
        server.process.terminate()
        assert server.process.wait(PATIENCE) == 0


def test_a_server_whose_port_is_taken_ends_with_a_message(tmp_path: Path) -> None:
    (tmp_path / "second").mkdir()
    with running(tmp_path) as server:
        server.wait_ready()
        with running(tmp_path / "second", port=server.port) as second:
            assert second.process.wait(PATIENCE) == 1
            assert f"cannot bind 127.0.0.1:{server.port}: " in second.log
        assert server.is_healthy()


class Asked(threading.Thread):
    """A completion that is asked for in the background, and what came of it."""

    def __init__(self, server: Running, tokens: int) -> None:
        super().__init__(daemon=True)
        self.server, self.tokens = server, tokens
        self.answer: requests.Response | None = None
        self.error: Exception | None = None
        self.start()

    def run(self) -> None:
        body = {"prompt": "x", "max_tokens": self.tokens}
        try:
            self.answer = requests.post(self.server.url("/v1/completions"), json=body, timeout=PATIENCE)
        except requests.exceptions.ConnectionError as error:
            self.error = error


def wait_in_flight(server: Running) -> None:
    deadline = CLOCK.monotonic() + PATIENCE
    while requests.get(server.url("/load"), timeout=PATIENCE).json() != {"server_load": 1}:
        assert CLOCK.monotonic() < deadline
        CLOCK.sleep(0.01)


def test_sigterm_cuts_off_what_is_in_flight(tmp_path: Path) -> None:
    with running(tmp_path, "--sim-fault", "stuck") as server:
        asked = Asked(server.wait_ready(), 900)
        wait_in_flight(server)
        server.process.terminate()
        assert server.process.wait(PATIENCE) == 0
        asked.join(PATIENCE)
    assert asked.error is not None and asked.answer is None


def test_a_shutdown_timeout_lets_it_finish_and_answers_new_requests_as_aborted(tmp_path: Path) -> None:
    with running(tmp_path, "--shutdown-timeout", "60") as server:
        asked = Asked(server.wait_ready(), 700)  # about 4 s of simulated time, speculation being off
        wait_in_flight(server)
        server.process.terminate()
        server.wait_log("shutting down")
        assert server.is_healthy()
        late = requests.post(server.url("/v1/completions"), json={"prompt": "x"}, timeout=PATIENCE).json()
        assert late["choices"][0]["finish_reason"] == "abort" and late["usage"]["completion_tokens"] == 0
        assert server.process.wait(PATIENCE) == 0
        asked.join(PATIENCE)
    assert asked.answer is not None and asked.answer.json()["usage"]["completion_tokens"] == 700


@pytest.mark.parametrize(
    ("order", "k", "message"),
    [("start_failure_k=3", 3, "CUDA out of memory"), ("start_failure_k=3:flag", 4, "num_speculative_tokens=4")],
)
def test_a_start_fails_from_the_ordered_k_on(tmp_path: Path, order: str, k: int, message: str) -> None:
    with running(tmp_path, "-sc", spec(k), "--sim-fault", order) as server:
        assert server.process.wait(PATIENCE) == 1
        assert message in server.log
    with running(tmp_path, "-sc", spec(2), "--sim-fault", order) as server:
        server.wait_ready()


def test_a_wrong_speculation_fails_the_start_and_a_wrong_flag_is_usage(tmp_path: Path) -> None:
    with running(tmp_path, "-sc", '{"method": "magic", "num_speculative_tokens": 1}') as server:
        assert server.process.wait(PATIENCE) == 1
        assert "SIMULATED" in server.log and "unsupported speculative method 'magic'" in server.log
    with running(tmp_path, "--no-such-flag") as server:
        assert server.process.wait(PATIENCE) == 2
        assert "unrecognized arguments" in server.log


def test_an_engine_that_dies_on_its_first_request_takes_the_process_with_it(tmp_path: Path) -> None:
    with running(tmp_path, "-sc", spec(3), "--sim-fault", "die_on_first_request_k=3") as server:
        server.wait_ready()
        answer = requests.post(server.url("/v1/completions"), json={"prompt": "x"}, timeout=PATIENCE)
        assert answer.status_code == 500
        assert server.process.wait(PATIENCE) == 1
        assert "EngineCore died" in server.log


def test_a_process_that_ignores_sigterm_must_be_killed(tmp_path: Path) -> None:
    with running(tmp_path, "--sim-fault", "ignore_sigterm") as server:
        server.wait_ready().process.terminate()
        server.wait_log("SIGTERM ignored")
        assert server.is_healthy()
        server.process.kill()
        assert server.process.wait(PATIENCE) == -signal.SIGKILL


def test_an_orphan_outlives_its_server_in_its_own_session(tmp_path: Path) -> None:
    with running(tmp_path, "--sim-fault", "orphan_child=120") as server:
        server.wait_ready()
        (orphan,) = requests.get(server.url("/-/sim/state"), timeout=PATIENCE).json()["orphans"]
        server.process.kill()
        server.process.wait()
    try:
        assert Path(f"/proc/{orphan}/cmdline").read_bytes().startswith(b"VLLM::EngineCore\0")
        assert os.getsid(orphan) == orphan and os.getsid(orphan) != os.getsid(0)
    finally:
        os.kill(orphan, signal.SIGKILL)


def test_a_command_line_of_the_demo_starts_and_serves(tmp_path: Path) -> None:
    port = free_port()
    name, argv, env = demo_servers([port, 0, 0, 0])[0]
    with (tmp_path / "demo.log").open("w") as out:
        process = subprocess.Popen(argv, stdout=out, stderr=subprocess.STDOUT, env={**os.environ, **env})
    try:
        deadline = CLOCK.monotonic() + PATIENCE
        while True:
            assert process.poll() is None and CLOCK.monotonic() < deadline
            try:
                state = requests.get(f"http://127.0.0.1:{port}/-/sim/state", timeout=5).json()
            except requests.exceptions.ConnectionError:
                state = {"num_drafts": 0}
            if state["num_drafts"] > 1000:
                break
            CLOCK.sleep(0.1)
        assert state["model"] == name and state["num_accepted_tokens"] > 0.75 * state["num_draft_tokens"]
    finally:
        process.terminate()
        assert process.wait(PATIENCE) == 0


def test_a_fleet_process_serves_all_its_ports_until_sigterm() -> None:
    base = free_port()
    command = [sys.executable, "-m", "monitor.simulator.fleet", "--count", "3", "--port-base", str(base)]
    command += ["--", "-sc", spec(2), "--sim-load", "open:rate=5", "--sim-start-seconds", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == f"SIMULATED: 3 servers on ports {base} to {base + 2}\n"
            for port in range(base, base + 3):
                assert requests.get(f"http://127.0.0.1:{port}/health", timeout=PATIENCE).status_code == 200
        finally:
            process.terminate()
            assert process.wait(PATIENCE) == 0
