"""What every driver must do, whatever it drives: the suite that fake and real ones pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import pytest

from monitor.drivers.protocol import Driver, DriverStatus, ServerState
from monitor.errors import ActionError, LaunchError
from monitor.model.life import Setting

TWO = Setting(method="ngram", num_speculative_tokens=2)
FOUR = Setting(method="ngram", num_speculative_tokens=4)
OFF = Setting(num_speculative_tokens=0)


class Bench(Protocol):
    """One server under test: its driver, a way to let time pass, and troubles to order."""

    driver: Driver

    def again(self) -> Driver:
        """Another driver over the same server, as after our own restart."""
        ...

    def trouble(self, *names: str) -> None:
        """Make the next start behave badly."""
        ...

    def kill_main(self) -> None:
        """End the main process from outside."""
        ...

    def wait(self, until: Callable[[DriverStatus], bool]) -> DriverStatus:
        """Let time pass until the status satisfies `until`; fail if it never does."""
        ...


class EveryDriverContract:
    """What holds for one that only says what it would do (`acts` is False), too. Inherit, and provide `bench`."""

    def test_what_a_start_needs_is_there_and_said(self, bench: Bench) -> None:
        found = bench.driver.checks()
        assert not [check for check in found if check.ok is not True or not check.sentence]

    def test_what_cannot_be_rendered_touches_nothing(self, bench: Bench) -> None:
        before = bench.driver.status()
        with pytest.raises(LaunchError):
            bench.driver.start(Setting(method="medusa", num_speculative_tokens=1000), "c-1.1")
        assert bench.driver.status() == before
        assert before.token == ""

    def test_a_server_that_runs_has_the_operators_command_and_may_be_asked_twice_to_stop(self, bench: Bench) -> None:
        bench.driver.start(TWO, "c-1.1")
        status = bench.wait(lambda s: s.state is ServerState.RUNNING)
        assert (status.setting, status.command_hash) == (TWO, bench.driver.launcher.base_hash)
        bench.driver.stop()
        bench.driver.stop()
        assert "hunter2" not in bench.driver.log_tail()


class DriverContract(EveryDriverContract):
    """What holds for those that act: it is about processes that come, run and go."""

    def test_nothing_is_there_before_the_first_start(self, bench: Bench) -> None:
        status = bench.driver.status()
        assert status.state is ServerState.STOPPED
        assert status.is_gone
        assert status.process == ""
        assert bench.driver.log_tail() == ""

    def test_a_started_server_runs_under_the_token_and_setting_of_its_start(self, bench: Bench) -> None:
        bench.driver.start(TWO, "c-1.1")
        status = bench.wait(lambda s: s.state is ServerState.RUNNING)
        assert (status.token, status.setting) == ("c-1.1", TWO)
        assert status.command_hash == bench.driver.launcher.base_hash
        assert status.process and status.started_at
        assert not status.is_gone

    def test_a_second_start_is_refused_while_the_first_runs(self, bench: Bench) -> None:
        bench.driver.start(TWO, "c-1.1")
        before = bench.wait(lambda s: s.state is ServerState.RUNNING)
        with pytest.raises(ActionError, match="already runs") as caught:
            bench.driver.start(FOUR, "c-2.1")
        assert caught.value.retryable
        assert bench.driver.status().process == before.process

    def test_a_stopped_server_is_gone_and_known_to_be_stopped_on_request(self, bench: Bench) -> None:
        bench.driver.start(TWO, "c-1.1")
        bench.wait(lambda s: s.state is ServerState.RUNNING)
        bench.driver.stop()
        status = bench.wait(lambda s: s.is_gone)
        assert status.state is ServerState.STOPPED
        assert status.stop_asked
        # Nor is it an error to ask again when it is gone.
        bench.driver.stop()

    def test_a_restart_is_another_process(self, bench: Bench) -> None:
        bench.driver.start(TWO, "c-1.1")
        first = bench.wait(lambda s: s.state is ServerState.RUNNING)
        bench.driver.stop()
        bench.wait(lambda s: s.is_gone)
        bench.driver.start(FOUR, "c-2.1")
        second = bench.wait(lambda s: s.state is ServerState.RUNNING)
        assert second.process != first.process
        assert (second.token, second.setting, second.stop_asked) == ("c-2.1", FOUR, False)

    def test_a_server_that_ends_at_start_tells_exit_code_and_last_words(self, bench: Bench) -> None:
        bench.trouble("oom-from=4")
        bench.driver.start(FOUR, "c-1.1")
        status = bench.wait(lambda s: s.state is ServerState.EXITED)
        assert status.exit_code == 1
        assert "out of memory" in bench.driver.log_tail()

    def test_a_server_that_ignores_the_request_lives_until_forced(self, bench: Bench) -> None:
        bench.trouble("ignore-term")
        bench.driver.start(TWO, "c-1.1")
        bench.wait(lambda s: s.state is ServerState.RUNNING and "serving" in bench.driver.log_tail())
        bench.driver.stop()
        assert bench.driver.status().state is ServerState.RUNNING
        bench.driver.stop(force=True)
        bench.wait(lambda s: s.is_gone)

    def test_a_new_driver_takes_the_running_server_up_again(self, bench: Bench) -> None:
        bench.driver.start(FOUR, "c-1.1")
        before = bench.wait(lambda s: s.state is ServerState.RUNNING)
        status = bench.again().status()
        assert (status.state, status.process, status.token, status.setting) == (
            ServerState.RUNNING, before.process, "c-1.1", FOUR,
        )  # fmt: skip

    @pytest.mark.parametrize("trouble", ["engine", "orphan"])
    def test_an_orphan_of_a_dead_server_is_seen_blocks_a_start_and_can_be_killed(
        self, bench: Bench, trouble: str
    ) -> None:
        bench.trouble(trouble)
        bench.driver.start(TWO, "c-1.1")
        bench.wait(lambda s: s.state is ServerState.RUNNING and "serving" in bench.driver.log_tail())
        bench.kill_main()
        status = bench.wait(lambda s: s.state is not ServerState.RUNNING)
        assert status.state is ServerState.LEFTOVERS
        assert status.leftovers
        with pytest.raises(ActionError, match="left processes behind") as caught:
            bench.driver.start(FOUR, "c-2.1")
        assert caught.value.retryable
        bench.driver.stop(force=True)
        bench.wait(lambda s: s.is_gone)
        bench.trouble()
        bench.driver.start(FOUR, "c-2.2")
        bench.wait(lambda s: s.state is ServerState.RUNNING)

    def test_secrets_do_not_leave_with_the_log(self, bench: Bench) -> None:
        bench.driver.start(TWO, "c-1.1")
        bench.wait(lambda _: "key" in bench.driver.log_tail())
        assert "hunter2" not in bench.driver.log_tail()
        assert "<secret>" in bench.driver.log_tail()
