"""Where the demo's servers listen."""

from __future__ import annotations

import socket

import pytest

from monitor.cli import running


def test_ports_that_are_taken_are_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    free = running._free_ports(3)
    assert len(set(free)) == 3
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", free[0]))
        taken.listen()
        assert free[0] not in running._free_ports(3)


def test_two_demos_that_start_at_once_look_at_other_ports(monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for pid in (4000, 4001):
        monkeypatch.setattr(running.os, "getpid", lambda pid=pid: pid)
        found.append(set(running._free_ports(4)))
    assert not found[0] & found[1]
