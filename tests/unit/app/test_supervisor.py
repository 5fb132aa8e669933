"""What systemd is told, on a real socket of a stand-in."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from monitor.app.supervisor import Supervisor


class Manager:
    def __init__(self, path: Path) -> None:
        self.channel = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.channel.bind(str(path))
        self.channel.settimeout(5)
        self.environ = {"NOTIFY_SOCKET": str(path), "WATCHDOG_USEC": "4000000", "WATCHDOG_PID": str(os.getpid())}

    def heard(self) -> list[str]:
        return self.channel.recv(4096).decode().splitlines()


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[Manager]:
    one = Manager(tmp_path / "notify")
    yield one
    one.channel.close()


def test_states_are_told_as_the_protocol_has_them(manager: Manager) -> None:
    supervisor = Supervisor(manager.environ)
    supervisor.ready("2 servers", turn_seconds=1.0)
    assert manager.heard() == ["READY=1", "STATUS=2 servers"]
    supervisor.alive("fine")
    assert manager.heard() == ["WATCHDOG=1", "STATUS=fine"]
    before = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
    supervisor.reloading()
    word, moment = manager.heard()
    assert word == "RELOADING=1"
    # systemd's own clock: it takes no reload as answered that was told before it was asked for.
    assert before <= int(moment.removeprefix("MONOTONIC_USEC=")) <= time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
    supervisor.stopping()
    assert manager.heard() == ["STOPPING=1"]


def test_a_watchdog_too_short_for_the_loop_is_made_longer(manager: Manager) -> None:
    Supervisor(manager.environ).ready("up", turn_seconds=60.0)
    assert manager.heard() == ["READY=1", "STATUS=up", "WATCHDOG_USEC=180000000"]


def test_a_status_is_one_line(manager: Manager) -> None:
    Supervisor(manager.environ).alive("disk\nREADY=1\n full")
    assert manager.heard() == ["WATCHDOG=1", "STATUS=disk READY=1 full"]


def test_a_watchdog_of_another_process_and_a_manager_that_is_gone_do_nothing(manager: Manager) -> None:
    assert Supervisor({**manager.environ, "WATCHDOG_PID": "1"}).watchdog_seconds is None
    assert Supervisor(manager.environ).watchdog_seconds == 4.0
    manager.channel.close()
    Supervisor(manager.environ).alive("x")
    Supervisor({}).alive("x")
