"""Answers of systemd's programs as values, and their refusals as errors of ours."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from monitor.drivers.systemctl import Systemctl, default_group, object_path, read_command_line, read_state
from monitor.errors import ActionError

SHOWN = {
    "LoadState": "loaded", "ActiveState": "active", "SubState": "running", "Result": "success", "MainPID": "42",
    "ExecMainCode": "0", "ExecMainStatus": "0", "ExecMainStartTimestamp": "Sun 2026-11-29 22:52:01 UTC",
    "NRestarts": "2", "InvocationID": "ab" * 16, "ControlGroup": "/system.slice/x.service", "Job": "",
    "FragmentPath": "/etc/systemd/system/x.service", "DropInPaths": "/a/1.conf /a/2.conf", "NeedDaemonReload": "no",
    "KillMode": "mixed",
}  # fmt: skip


def test_a_running_unit() -> None:
    unit = read_state(SHOWN)
    assert (unit.active, unit.pid, unit.exit_code, unit.restarts) == ("active", 42, None, 2)
    assert unit.started_at == datetime(2026, 11, 29, 22, 52, 1, tzinfo=UTC)
    assert unit.drop_ins == ("/a/1.conf", "/a/2.conf")
    assert not (unit.has_job or unit.needs_reload or unit.waits_to_restart)


@pytest.mark.parametrize(
    ("code", "status", "expected"), [("1", "3", 3), ("2", "9", -9), ("3", "6", -6), ("0", "0", None)]
)
def test_how_the_last_process_ended(code: str, status: str, expected: int | None) -> None:
    unit = read_state(SHOWN | {"MainPID": "0", "ExecMainCode": code, "ExecMainStatus": status})
    assert unit.exit_code == expected


def test_a_unit_that_systemd_knows_nothing_of() -> None:
    unit = read_state({"LoadState": "not-found", "ActiveState": "inactive"})
    assert (unit.pid, unit.started_at, unit.invocation, unit.exit_code) == (None, None, "", None)


def test_a_unit_that_waits_to_be_started_again() -> None:
    assert read_state(SHOWN | {"ActiveState": "activating", "SubState": "auto-restart"}).waits_to_restart


def test_the_command_as_the_bus_gives_it() -> None:
    command = ["/usr/bin/vllm", ["vllm", "serve", "a b", "$X"], ["ignore-failure"], 0, 0, 0, 0, 0, 0, 0]
    answers = [
        {"type": "a(sasasttttuii)", "data": [command]}, {"type": "as", "data": ["A=1", "B=x y"]},
        {"type": "a(sb)", "data": [["/etc/x.env", True]]},
    ]  # fmt: skip
    line = read_command_line("\n".join(json.dumps(answer) for answer in answers))
    assert (line.program, line.items, line.prefixes) == (
        "/usr/bin/vllm", ("vllm", "serve", "a b", "$X"), ("ignore-failure",),
    )  # fmt: skip
    assert (line.environment, line.files, line.count) == (("A=1", "B=x y"), (("/etc/x.env", True),), 1)


def test_a_unit_without_a_command() -> None:
    line = read_command_line("\n".join(json.dumps({"data": []}) for _ in range(3)))
    assert (line.items, line.count) == ((), 0)


def test_places_on_the_bus_and_in_the_control_groups() -> None:
    assert object_path("vllm@chat-1.service") == "/org/freedesktop/systemd1/unit/vllm_40chat_2d1_2eservice"
    assert object_path("1é.service").endswith("/_31_c3_a9_2eservice")
    assert default_group("x.service") == "/system.slice/x.service"
    assert default_group("my-llm@a.service") == "/system.slice/system-my\\x2dllm.slice/my-llm@a.service"


@pytest.mark.parametrize(
    ("said", "reason", "retryable"),
    [
        ("Failed to stop x.service: Access denied", "not_permitted", False),
        ("Failed to start x.service: Interactive authentication required.", "not_permitted", False),
        ("Failed to start x.service: Unit x.service not found.", "no_unit", False),
        ("Failed to reset failed state of unit x.service: Unit x.service not loaded.", "no_unit", False),
        ("Failed to start x.service: Unit x.service is masked.", "no_unit", False),
        ("Failed to get D-Bus connection: Connection timed out", "systemd", True),
    ],
)
def test_what_systemctl_refuses(said: str, reason: str, retryable: bool) -> None:
    refusing = Systemctl(("sh", "-c", f"echo '{said}' >&2; exit 1"))
    with pytest.raises(ActionError) as caught:
        refusing.act("stop", "x.service")
    assert (caught.value.reason, caught.value.retryable) == (reason, retryable)
    assert said in str(caught.value) and "systemctl stop x.service" in str(caught.value)


def test_a_journal_that_may_not_be_read_is_empty() -> None:
    assert Systemctl(("sh", "-c", "exit 1")).journal("--lines=1") == ""


def test_a_host_without_systemd_says_so() -> None:
    with pytest.raises(ActionError, match=r"systemctl cannot be run \(No such file") as caught:
        Systemctl(("/no/such/program",)).state("x.service")
    assert not caught.value.retryable
