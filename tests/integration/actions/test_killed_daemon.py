"""Real processes, a real store, and a daemon that is killed for good at any moment of a rollout."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from monitor.drivers.procfs import ProcFs
from monitor.drivers.protocol import ServerState
from monitor.model.decision import Action, Decision, DecisionId, Precondition, Reason
from monitor.model.life import Setting
from monitor.model.rollout import Change, Outcome, Rollout, RolloutId, RolloutState
from tests.integration.actions.daemon import CLOCK, GROUP, LIMITS, NAME, Setup

ROOT = Path(__file__).resolve().parents[3]
TWO = Setting(method="ngram", num_speculative_tokens=2)


class Bench:
    """One server, one store, and daemons that come and go."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with socket.socket() as sock:
            sock.bind(("127.0.0.1", 0))
            self.port = int(sock.getsockname()[1])
        self.setup = Setup(folder, self.port).open()
        self.daemon: subprocess.Popen[str] | None = None
        self.rollout: RolloutId | None = None

    def serve(self, *troubles: str) -> None:
        """Start the server with two tokens, as a daemon did long ago, and wait until it serves."""
        self.trouble(*troubles)
        self.setup.driver.start(TWO, "boot")
        self.wait(lambda: bool(self.setup.page().engines))

    def trouble(self, *troubles: str) -> None:
        self.setup.close()
        self.setup = Setup(self.folder, self.port, troubles).open()

    def begin(self, tokens: int) -> None:
        now = CLOCK.now()
        decision = Decision(
            id=DecisionId("d1"), group=GROUP, servers=(NAME,), rule="test", action=Action.RAISE,
            reason=Reason.PREDICTED_GAIN, sentence="try it", current=TWO,
            proposed=replace(TWO, num_speculative_tokens=tokens), precondition=Precondition({}, TWO), made_at=now,
            expires_at=now + timedelta(hours=1),
        )  # fmt: skip
        rollout, _ = self.setup.orders.begin(decision, "test", now)
        self.rollout = rollout.id

    def start_daemon(self) -> None:
        command = [sys.executable, "-m", "tests.integration.actions.daemon", str(self.folder), str(self.port)]
        self.daemon = subprocess.Popen(
            [*command, *self.setup.troubles], cwd=ROOT, stdout=subprocess.PIPE, text=True, start_new_session=True
        )

    def kill_daemon(self) -> None:
        assert self.daemon is not None
        self.daemon.kill()
        self.daemon.wait()
        assert self.daemon.stdout is not None
        self.daemon.stdout.close()
        self.daemon = None

    def finish(self) -> None:
        """A daemon that lives brings it to its end; this process is it, since starting one takes its time."""
        self.wait(self.setup.tick, seconds=120)

    def change(self) -> Change:
        assert self.rollout is not None
        with self.setup.store.read() as unit:
            return unit.changes.of_rollout(self.rollout)[0]

    def result(self) -> Rollout:
        assert self.rollout is not None
        with self.setup.store.read() as unit:
            rollout = unit.rollouts.get(self.rollout)
        assert rollout is not None
        return rollout

    def wait(self, until: Callable[[], bool], seconds: float = 120.0) -> None:
        deadline = CLOCK.monotonic() + seconds
        while not until():
            assert CLOCK.monotonic() < deadline, (self.setup.driver.status(), self.setup.driver.log_tail())
            CLOCK.sleep(0.04)

    def assert_serves(self, tokens: int, *, most_starts: int) -> None:
        status = self.setup.driver.status()
        assert status.state is ServerState.RUNNING, (status, self.setup.driver.log_tail(), self.change().history)
        assert status.setting is not None
        assert status.setting.num_speculative_tokens == tokens
        assert {e.num_speculative_tokens for e in self.setup.page().engines} == {tokens}
        with self.setup.store.read() as unit:
            assert len(unit.restarts.since(NAME, self.result().created_at)) <= most_starts
        # Exactly one server: nothing else carries its mark.
        marked = [
            p for p in ProcFs().processes()
            if p.is_alive and (ProcFs().environ(p.pid) or {}).get("ACCEPTD_HOME", "").startswith(str(self.folder))
        ]  # fmt: skip
        assert [p.pid for p in marked] == [status.pid]

    def close(self) -> None:
        if self.daemon is not None:
            self.kill_daemon()
        self.setup.driver.stop(force=True)
        self.wait(lambda: self.setup.driver.status().is_gone)
        self.setup.close()


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    bench.close()


def test_a_change_is_carried_out_on_a_real_process(bench: Bench) -> None:
    bench.serve()
    before = bench.setup.driver.status().process
    bench.begin(4)
    bench.start_daemon()
    assert bench.daemon is not None
    said, _ = bench.daemon.communicate(timeout=120)
    bench.daemon = None
    assert said.split() == ["up", "quiet"]
    assert (bench.result().state, bench.result().outcome) == (RolloutState.PROMOTED, Outcome.MEASURED_BETTER)
    bench.assert_serves(4, most_starts=1)
    assert bench.setup.driver.status().process != before


MOMENTS: dict[str, Callable[[Change], bool]] = {
    "draining": lambda c: c.state == "draining",
    "stopping": lambda c: c.stop_asked_at is not None,
    "stopped": lambda c: c.stopped_at is not None,
    "started": lambda c: c.started_at is not None,
    "warming": lambda c: c.state == "warming",
    "observing": lambda c: c.state == "observing",
}


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_daemon_that_is_killed_is_followed_by_one_that_finishes(bench: Bench, moment: str) -> None:
    slow = ("slow-start=0.5",) if moment == "started" else ()
    bench.serve(*slow)
    bench.begin(4)
    bench.start_daemon()
    bench.wait(lambda: MOMENTS[moment](bench.change()))
    bench.kill_daemon()
    bench.finish()
    assert bench.result().state is RolloutState.PROMOTED, bench.change().history
    bench.assert_serves(4, most_starts=1)


@pytest.mark.parametrize(
    ("troubles", "outcome"),
    [
        (("crash-from=3",), Outcome.START_FAILED),
        (("oom-from=3",), Outcome.START_FAILED),
        (("crash-from=3", "ignore-term"), Outcome.START_FAILED),
        (("crash-from=3", "engine"), Outcome.START_FAILED),
        (("crash-from=3", "orphan"), Outcome.START_FAILED),
    ],
    ids=lambda value: "+".join(value) if isinstance(value, tuple) else "",
)
def test_a_setting_that_does_not_start_ends_on_the_old_one_after_exactly_one_way_back(
    bench: Bench, troubles: tuple[str, ...], outcome: Outcome
) -> None:
    bench.serve(*troubles)
    bench.begin(4)
    bench.finish()
    assert (bench.result().state, bench.result().outcome) == (RolloutState.ROLLED_BACK, outcome), bench.change().history
    status = bench.setup.driver.status()
    assert status.state is ServerState.RUNNING
    assert status.setting == TWO
    with bench.setup.store.read() as unit:
        assert len(unit.restarts.since(NAME, bench.result().created_at)) == 2
        (rejection,) = unit.rejections.of(GROUP)
    assert rejection.num_speculative_tokens == 4


@pytest.mark.parametrize("trouble", ["mute-from=3", "die-on-request-from=3"])
def test_a_server_that_is_healthy_and_does_not_generate_is_taken_back(bench: Bench, trouble: str) -> None:
    bench.serve(trouble)
    bench.begin(4)
    bench.finish()
    assert bench.result().state is RolloutState.ROLLED_BACK, bench.change().history
    assert bench.result().outcome in (Outcome.NOT_GENERATING, Outcome.START_FAILED)
    bench.assert_serves(2, most_starts=2)


def test_a_daemon_killed_on_the_way_back_is_followed_by_one_that_brings_the_server_back(bench: Bench) -> None:
    bench.serve("crash-from=3", "slow-start=0.3")
    bench.begin(4)
    bench.start_daemon()
    bench.wait(lambda: bench.change().state == "undoing")
    bench.kill_daemon()
    bench.finish()
    assert bench.result().state is RolloutState.ROLLED_BACK
    bench.assert_serves(2, most_starts=2)


def test_a_daemon_killed_again_and_again_still_ends_serving(bench: Bench) -> None:
    bench.serve("slow-start=0.3")
    bench.begin(4)
    for wait in (0.8, 0.9, 1.0, 1.2):
        bench.start_daemon()
        CLOCK.sleep(wait)
        bench.kill_daemon()
    bench.finish()
    assert bench.result().state is RolloutState.PROMOTED, bench.change().history
    bench.assert_serves(4, most_starts=1)


def test_requests_in_flight_are_waited_for_and_then_left_alone(bench: Bench) -> None:
    bench.serve("running=2")
    pid = bench.setup.driver.status().pid
    bench.begin(4)
    bench.finish()
    assert (bench.result().state, bench.result().outcome) == (RolloutState.ABANDONED, Outcome.DRAIN_TIMED_OUT)
    assert bench.setup.driver.status().pid == pid
    bench.assert_serves(2, most_starts=0)


def test_health_of_another_process_on_the_port_does_not_count(bench: Bench) -> None:
    """Given a foreign server on the port, nothing is begun that would end on it."""
    other = subprocess.Popen(
        [sys.executable, str(ROOT / "tests/fakes/tiny_server.py"), "--port", str(bench.port)],
        env={k: v for k, v in os.environ.items() if not k.startswith("ACCEPTD")},
    )
    try:
        bench.wait(lambda: bench.setup.driver.status().state is ServerState.FOREIGN)
        bench.begin(4)
        bench.finish()
        assert bench.result().outcome is Outcome.PRECONDITION_FAILED
        assert "did not start" in bench.result().sentence
        assert other.poll() is None
    finally:
        other.send_signal(signal.SIGKILL)
        other.wait()


def test_limits_are_what_the_tests_say() -> None:
    assert LIMITS.restarts_per_day == 6
