"""acceptd as a service on a real systemd, from `install` to `--uninstall`: one story, told in the order of the tests.

Two servers are managed: one is an instance of the shipped template, the other an operator's own unit that is adopted.
The daemon runs as its own user, and may act on exactly these two units.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from monitor.launch.unit_text import env_line, quote_words, unit_words
from tests.fakes.slack_server import SlackServer
from tests.rigs.processes import free_port
from tests.rigs.systemd.host import Host, positions
from tests.rigs.systemd.machine import PYTHON_ARGV, PYTHON_ENV, Machine

pytestmark = pytest.mark.systemd

BUSY = "closed:clients=16,prompt=160,output=120,hits=0.3"
LIMITS = {"max_speculative_tokens": 2}


def sim(name: str, port: int, *more: str) -> list[str]:
    """The command of a simulated vLLM that is worth speculating with two tokens; without speculation flags."""
    return [
        "/opt/vllm/bin/vllm", "serve", name, "--host", "127.0.0.1", "--port", str(port),
        "--max-num-seqs", "64", "--sim-start-seconds", "0.5", *more,
    ]  # fmt: skip


def speculation(tokens: int) -> list[str]:
    return ["--speculative-config", json.dumps({"method": "mtp", "num_speculative_tokens": tokens})]


class Story(Host):
    """The machine with acceptd on it, and its two servers: the template's `chat`, and `code`, an operator's own."""

    def __init__(self, machine: Machine, slack: SlackServer) -> None:
        super().__init__(machine, slack, "vllm@chat", "my-code")
        self.chat, self.code = free_port(), free_port()
        program = f'#!/bin/sh\nexec {PYTHON_ARGV[0]} -m monitor.simulator "$@"\n'
        machine.write("/opt/vllm/bin/vllm", program, 0o755)
        own = sim("code", self.code, "--served-model-name", "code", "--sim-load", "none", "--api-key", "hunter22")
        environment = " ".join(f"{name}={value}" for name, value in PYTHON_ENV.items())
        machine.write("/etc/systemd/system/my-code.service", (
            f"[Unit]\nDescription=100%% mine\n[Service]\nUser=nobody\nEnvironment={environment}\n"
            f"ExecStart={unit_words([*own, *speculation(1)])}\nKillMode=mixed\n"
        ))  # fmt: skip
        machine.run("systemctl", "daemon-reload")

    def set_up(self) -> None:
        self.configure(
            [
                {"name": "chat", "url": f"http://127.0.0.1:{self.chat}", "limits": LIMITS,
                 "driver": {"kind": "systemd", "unit": "vllm@chat", "engine_version": "0.32.0"}},
                {"name": "code", "url": f"http://127.0.0.1:{self.code}", "limits": LIMITS,
                 "auth": {"bearer_token": "hunter22"},
                 "driver": {"kind": "systemd", "unit": "my-code.service", "engine_version": "0.32.0"}},
            ]
        )  # fmt: skip
        given = {
            "SERVER_COMMAND": quote_words(sim("chat", self.chat, "--sim-load", BUSY)),
            "ACCEPTD_SPECULATION": quote_words(speculation(1)), **PYTHON_ENV,
        }  # fmt: skip
        text = "# chat\n" + "".join(env_line(name, value) for name, value in given.items())
        self.machine.write("/etc/acceptd/servers/chat.env", text, 0o640)


@pytest.fixture(scope="module")
def host(machine: Machine) -> Iterator[Story]:
    with SlackServer() as slack:
        yield Story(machine, slack)
    machine.run("systemctl", "stop", "acceptd", "vllm@chat", "my-code", check=False)


def test_installing_is_shown_first_then_done_then_found_done(host: Story) -> None:
    machine = host.machine
    shown = host.acceptd("install")
    assert "+++ /etc/systemd/system/acceptd.service" in shown.stdout
    assert "run systemd-sysusers /etc/sysusers.d/acceptd.conf" in shown.stdout
    assert "Nothing was changed; --yes does it." in shown.stdout
    assert not machine.path("/etc/systemd/system/acceptd.service").exists()
    assert host.acceptd("install", "--yes").stdout.rstrip().endswith("systemctl enable --now acceptd")
    assert machine.run("id", "-nG", "acceptd").stdout.split() == ["acceptd", "systemd-journal"]
    listed = machine.run("stat", "-c", "%n %a %U %G", "/var/lib/acceptd/launch", "/etc/acceptd/servers").stdout
    assert listed.splitlines() == [
        "/var/lib/acceptd/launch 750 acceptd acceptd", "/etc/acceptd/servers 750 root acceptd",
    ]  # fmt: skip
    host.set_up()
    again = host.acceptd("install", "--yes").stdout
    # Only the leave for the units that the configuration names is new.
    assert [line for line in again.splitlines() if line.startswith("+")] == [
        "+++ /etc/polkit-1/rules.d/50-acceptd.rules", '+    var units = ["my-code.service", "vllm@chat.service"];',
    ]  # fmt: skip
    assert "nothing to do: all is in place" in host.acceptd("install", "--yes").stdout


def test_systemd_takes_the_units_and_finds_little_exposed(host: Story) -> None:
    verified = host.machine.run("systemd-analyze", "verify", "acceptd.service", "vllm@chat.service")
    assert (verified.stdout, verified.stderr) == ("", "")
    said = host.machine.run("systemd-analyze", "--no-pager", "security", "acceptd.service", check=False).stdout
    exposure = re.search(r"exposure level for acceptd.service: ([\d.]+)", said)
    assert exposure is not None and float(exposure[1]) <= 2.5, said


def test_a_unit_is_adopted_by_a_drop_in_that_is_shown_first_while_it_runs_on(host: Story) -> None:
    machine = host.machine
    machine.run("systemctl", "start", "my-code")
    host.wait(lambda: positions(host.code), "the operator's server serves")
    before = machine.show("my-code", "MainPID")
    shown = host.acceptd("adopt", "my-code").stdout
    assert "+++ /etc/systemd/system/my-code.service.d/50-acceptd.conf" in shown
    assert "--api-key <secret> $ACCEPTD_SPECULATION" in shown and "hunter22" not in shown
    assert "kind: systemd, unit: my-code.service" in shown
    assert not machine.path("/etc/systemd/system/my-code.service.d").exists()
    host.acceptd("adopt", "my-code", "--yes")
    assert "nothing to do: my-code.service is adopted" in host.acceptd("adopt", "my-code", "--yes").stdout
    assert machine.show("my-code", "MainPID") == before
    # The same command to the letter, but for where the speculation flags stand.
    argv = host.arguments("my-code")
    machine.run("systemctl", "restart", "my-code")
    host.wait(lambda: positions(host.code), "it serves again")
    assert host.arguments("my-code") == argv


def test_the_service_starts_as_its_own_user_and_says_when_it_is_ready(host: Story) -> None:
    machine = host.machine
    machine.run("systemctl", "start", "vllm@chat")
    before = host.wait(lambda: positions(host.chat), "the server serves") and host.pids()
    assert host.acceptd("check").stdout.startswith("/etc/acceptd/acceptd.yaml: fine (2 servers")
    host.daemon("start")
    shown = machine.show("acceptd", "ActiveState", "StatusText", "Type", "MainPID")
    assert (shown["ActiveState"], shown["Type"]) == ("active", "notify")
    assert shown["StatusText"].startswith("2 servers")
    assert machine.run("ps", "-o", "user=", "-p", shown["MainPID"]).stdout.strip() == "acceptd"
    # Servers that run are taken up as they are, not restarted.
    assert host.pids() == before
    assert "started version=" in host.journal()


def test_a_full_rollout_goes_through_the_launch_file_and_systemd(host: Story) -> None:
    machine = host.machine
    _, code = host.pids()
    host.wait(lambda: positions(host.chat) == 2, "the server comes back with two tokens")
    launch = "/var/lib/acceptd/launch/vllm@chat.service.env"
    assert machine.run("stat", "-c", "%a %U %G", launch).stdout.strip() == "640 acceptd acceptd"
    lines = machine.path(launch).read_text().splitlines()
    assert [line.partition("=")[0] for line in lines if not line.startswith("#")] == ["ACCEPTD_SPECULATION"]
    argv = host.arguments("vllm@chat")
    assert argv[-2] == "--speculative-config"
    assert json.loads(argv[-1]) == {"method": "mtp", "num_speculative_tokens": 2}
    host.wait(lambda: host.state("chat") == "promoted", "the change is kept")
    host.wait(lambda: [m for m in host.slack.messages if "rollout finished" in m.whole()] or None, "Slack is told")
    # The other server was left alone, and the journal tells the story.
    assert host.pids()[1] == code
    journal = host.journal()
    assert "restarting it with" in journal and "is ready with mtp, 2 tokens" in journal
    assert "Traceback" not in journal
    assert "Stopped" in machine.journal("-u", "vllm@chat")


def test_the_user_may_act_on_exactly_its_units(host: Story) -> None:
    machine, before = host.machine, host.pids()
    machine.write("/etc/systemd/system/other.service", "[Service]\nExecStart=/bin/sleep 1000\n")
    machine.run("systemctl", "daemon-reload")
    machine.run("systemctl", "start", "other")

    def may(*words: str) -> bool:
        done = machine.run("systemctl", "--no-ask-password", *words, user="acceptd", check=False)
        assert done.returncode == 0 or re.search(r"[Aa]ccess denied|authentication required", done.stderr), done.stderr
        return done.returncode == 0

    assert may("start", "vllm@chat.service") and may("reset-failed", "my-code.service")
    for verb in ("restart", "stop", "kill", "reset-failed"):
        assert not may(verb, "other.service")
    assert not may("restart", "acceptd.service")
    assert not may("start", "vllm@other.service")
    assert not may("enable", "vllm@chat.service")
    assert not may("daemon-reload")
    assert not may("set-property", "vllm@chat.service", "CPUWeight=1")
    assert machine.run("systemctl", "is-active", "other").stdout.strip() == "active"
    machine.run("systemctl", "stop", "other")
    assert host.pids() == before


def test_a_reload_takes_the_configuration_whole_or_keeps_the_old_one_and_says_so(host: Story) -> None:
    machine, before = host.machine, host.pids()
    good = machine.path("/etc/acceptd/acceptd.yaml").read_text()
    machine.path("/etc/acceptd/acceptd.yaml").write_text(good + "nonsense: 1\n")
    pid = machine.show("acceptd", "MainPID")
    machine.run("systemctl", "reload", "acceptd")
    host.wait(lambda: "configuration not reloaded, the old one stays" in host.journal(), "it is refused, and said so")
    machine.path("/etc/acceptd/acceptd.yaml").write_text(good)
    machine.run("systemctl", "reload", "acceptd")
    host.wait(lambda: "configuration reloaded" in host.journal(), "the new one is taken")
    host.wait(lambda: machine.show("acceptd", "ActiveState")["ActiveState"] == "active", "it is ready")
    assert machine.show("acceptd", "MainPID") == pid
    assert host.pids() == before


@contextmanager
def store_held(machine: Machine) -> Iterator[None]:
    """Let another process hold the database, so that nothing can be written."""
    script = (
        "import sqlite3, sys; c = sqlite3.connect('/var/lib/acceptd/local.db', timeout=60);"
        " c.execute('BEGIN IMMEDIATE'); print('held', flush=True); sys.stdin.read()"
    )
    given = [f"{name}={value}" for name, value in PYTHON_ENV.items()]
    holder = subprocess.Popen(
        [*machine.enter, "env", *given, *PYTHON_ARGV, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    assert holder.stdin is not None and holder.stdout is not None and holder.stdout.readline() == "held\n"
    try:
        yield
    finally:
        holder.communicate("")


def test_a_loop_that_turns_and_cannot_store_says_so_and_is_left_alone(host: Story) -> None:
    machine = host.machine
    pid = machine.show("acceptd", "MainPID")

    def told() -> str:
        return machine.show("acceptd", "StatusText")["StatusText"]

    with store_held(machine):
        host.wait(lambda: told().startswith("the store does not take anything: "), "the status says why")
    host.wait(lambda: told().startswith("2 servers, "), "it goes on")
    assert machine.show("acceptd", "MainPID") == pid


def test_a_stop_ends_the_daemon_in_order_and_no_server(host: Story) -> None:
    machine, before = host.machine, host.pids()
    host.daemon("stop")
    shown = machine.show("acceptd", "ActiveState", "Result", "ExecMainStatus")
    assert shown == {"ActiveState": "inactive", "Result": "success", "ExecMainStatus": "0"}
    assert "stopped; managed servers go on" in host.journal()
    assert host.pids() == before and positions(host.chat) == 2


def test_a_cycle_that_does_not_end_is_noticed_by_the_watchdog(host: Story) -> None:
    machine, before = host.machine, host.pids()
    machine.write("/etc/systemd/system/acceptd.service.d/test.conf", "[Service]\nWatchdogSec=4\nRestartSec=1\n")
    machine.run("systemctl", "daemon-reload")
    host.daemon("start")
    # Somebody else holds the store: each turn of the loop takes longer than that, whatever else of the daemon is well.
    with store_held(machine):
        host.wait(lambda: "Watchdog timeout" in host.journal(), "systemd misses the report")
    host.wait(lambda: host.journal().count("started version=") > 2, "it is started again")
    # Where every thread stood is in the journal, for whoever asks why.
    assert "Fatal Python error: Aborted" in host.journal()
    assert host.pids() == before
    machine.path("/etc/systemd/system/acceptd.service.d/test.conf").unlink()
    machine.run("systemctl", "daemon-reload")
    host.daemon("restart")


def test_an_operators_edit_wins_over_what_acceptd_wrote_with_no_daemon_there(host: Story) -> None:
    machine = host.machine
    host.daemon("stop")
    machine.run("systemctl", "restart", "vllm@chat")
    assert host.wait(lambda: positions(host.chat), "it serves") == 2
    path = machine.path("/etc/acceptd/servers/chat.env")
    path.write_text(path.read_text().replace("--max-num-seqs 64", "--max-num-seqs 32"))
    machine.run("systemctl", "restart", "vllm@chat")
    assert host.wait(lambda: positions(host.chat), "it serves") == 1
    assert machine.path("/var/lib/acceptd/launch/vllm@chat.service.void.env").exists()


def test_an_edited_unit_is_said_to_be_edited_and_adopted_anew(host: Story) -> None:
    machine = host.machine
    unit = machine.path("/etc/systemd/system/my-code.service")
    unit.write_text(unit.read_text().replace("--max-num-seqs 64", "--max-num-seqs 48"))
    machine.run("systemctl", "daemon-reload")
    shown = host.acceptd("adopt", "my-code").stdout
    assert "my-code.service was edited since it was adopted" in shown and "Nothing was changed" in shown
    host.acceptd("adopt", "my-code", "--yes")
    text = machine.path("/etc/systemd/system/my-code.service.d/50-acceptd.conf").read_text()
    assert "--max-num-seqs 48" in text and "--speculative-config" in text


def test_a_unit_is_given_back_as_it_was_and_the_service_goes_without_a_server(host: Story) -> None:
    machine, before = host.machine, host.pids()
    refused = host.acceptd("install", "--uninstall", "--yes", check=False)
    assert refused.returncode == 1 and "`acceptd adopt --release my-code.service` first" in refused.stderr
    host.acceptd("adopt", "--release", "my-code", "--yes")
    assert not machine.path("/etc/systemd/system/my-code.service.d").exists()
    assert "$ACCEPTD_SPECULATION" not in machine.run("systemctl", "cat", "my-code").stdout
    said = host.acceptd("install", "--uninstall", "--yes").stdout
    assert "vllm@.service stays, since vllm@chat.service runs" in said
    for path in ("/etc/systemd/system/acceptd.service", "/etc/polkit-1/rules.d/50-acceptd.rules"):
        assert not machine.path(path).exists()
    assert machine.path("/etc/acceptd/acceptd.yaml").exists()
    assert host.pids() == before
    assert Path(machine.path("/etc/systemd/system/vllm@.service")).exists()
