"""A real vLLM as an instance of the shipped unit: raised by the daemon through systemd, and never left orphaned."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from monitor.drivers.systemctl import default_group
from monitor.launch.unit_text import env_line, quote_words
from tests.fakes.slack_server import SlackServer
from tests.rigs.cache import cache_root
from tests.rigs.load import Load
from tests.rigs.processes import free_port
from tests.rigs.running import is_healthy
from tests.rigs.systemd.host import Host, positions
from tests.rigs.systemd.machine import CACHE, Machine, machine
from tests.rigs.vllm.build import is_built, model_folder, rig_python
from tests.rigs.vllm.server import ngram, vllm_argv, vllm_env

__all__ = ["machine"]

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.systemd,
    pytest.mark.skipif(
        not is_built() and not os.environ.get("CI"), reason="not built: python3.11 tests/rigs/vllm/build.py"
    ),
]
#: A start takes 15 s on a quiet machine.
START = 300.0


def members(machine: Machine) -> list[str]:
    """Names of the processes in the unit's control group."""
    group = f"/sys/fs/cgroup{default_group('vllm@rig.service')}/cgroup.procs"
    script = 'test -e "$1" && for pid in $(cat "$1"); do cat "/proc/$pid/comm"; done'
    return machine.run("sh", "-c", script, "sh", group, check=False).stdout.split("\n")[:-1]


def test_a_raise_goes_through_the_unit_and_a_death_leaves_no_engine(machine: Machine) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with SlackServer() as slack:
        host = Host(machine, slack, "vllm@rig")
        host.acceptd("install", "--yes")
        # The rig's interpreter lies where its environment was made, below folders that may be closed to others.
        for folder in [*Path(os.path.realpath(rig_python())).parents][:-1]:
            machine.run("chmod", "a+x", str(folder))
        machine.run("chmod", "a+rx", CACHE)
        machine.run("chmod", "-R", "a+rX", f"{CACHE}/{model_folder('target').relative_to(cache_root())}")
        given = {
            "SERVER_COMMAND": quote_words([item.replace(str(cache_root()), CACHE) for item in vllm_argv(port)]),
            "ACCEPTD_SPECULATION": quote_words(["--speculative-config", json.dumps(ngram(2))]), **vllm_env(),
        }  # fmt: skip
        text = "".join(env_line(name, value) for name, value in given.items())
        machine.write("/etc/acceptd/servers/rig.env", text, 0o640)
        host.configure(
            [{"name": "rig", "url": url, "driver": {"kind": "systemd", "unit": "vllm@rig"},
              "limits": {"max_speculative_tokens": 3, "observe": "8s"}}],
            scrape={"interval": "2s", "timeout": "2s"}, rules=host.decide_at_once("acceptance_rate > 0.5", "+1"),
        )  # fmt: skip
        host.acceptd("install", "--yes")
        machine.run("systemctl", "start", "vllm@rig")
        host.wait(lambda: is_healthy(url), "vLLM serves", START)
        assert positions(port) == 2
        before = host.arguments("vllm@rig")
        host.daemon("start")
        with Load(url, clients=2):
            host.wait(lambda: positions(port) == 3, "vLLM comes back with three tokens", START)
            host.wait(lambda: host.state("rig") in ("promoted", "rolled_back") or None, "the change is judged", START)
        after = host.arguments("vllm@rig")
        assert after[:-1] == before[:-1]
        tokens = 3 if host.state("rig") == "promoted" else 2
        assert json.loads(after[-1]) == {**ngram(2), "num_speculative_tokens": tokens}
        host.wait(lambda: positions(port) == tokens, "it serves at the end", START)
        # Its processes are the unit's; when the API server dies, systemd leaves no engine behind.
        machine.run("systemctl", "stop", "acceptd")
        # The kernel keeps 15 letters of a name.
        assert "VLLM::EngineCor" in members(machine), members(machine)
        machine.write("/etc/systemd/system/vllm@rig.service.d/test.conf", "[Service]\nRestart=no\n")
        machine.run("systemctl", "daemon-reload")
        machine.run("kill", "-9", host.pids()[0])
        host.wait(lambda: machine.show("vllm@rig", "ActiveState")["ActiveState"] == "failed", "the unit has failed")
        assert members(machine) == []
