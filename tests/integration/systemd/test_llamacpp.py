"""A real llama-server as an operator's unit: adopted, lowered by the daemon through systemd, and never left orphaned.

It is skipped where that rig is not built; `make test-llamacpp` builds it first.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from monitor.launch.unit_text import unit_words
from tests.fakes.slack_server import SlackServer
from tests.rigs.cache import cache_root
from tests.rigs.llamacpp.build import is_built
from tests.rigs.llamacpp.server import draft_simple, llamacpp_argv
from tests.rigs.load import Load
from tests.rigs.processes import free_port
from tests.rigs.running import is_healthy
from tests.rigs.systemd.host import Host
from tests.rigs.systemd.machine import CACHE, Machine

pytestmark = [
    pytest.mark.systemd,
    pytest.mark.llamacpp,
    pytest.mark.skipif(not is_built(), reason="llama-server is not built: python3.11 tests/rigs/llamacpp/build.py"),
]


def test_a_draft_that_does_not_fit_is_lowered_through_systemd(machine: Machine) -> None:
    port = free_port()
    argv = [item.replace(str(cache_root()), CACHE) for item in llamacpp_argv(port)]
    flags = [item.replace(str(cache_root()), CACHE) for item in draft_simple(4, "draft-bad")]
    machine.write(
        "/etc/systemd/system/llama.service", f"[Service]\nUser=nobody\nExecStart={unit_words([*argv, *flags])}\n"
    )
    machine.run("systemctl", "daemon-reload")
    machine.run("chmod", "a+rx", CACHE)
    url = f"http://127.0.0.1:{port}"
    with SlackServer() as slack:
        host = Host(machine, slack, "llama")
        host.acceptd("install", "--yes")
        try:
            host.acceptd("adopt", "llama", "--yes")
            host.configure(
                [{"name": "llama", "url": url, "engine": "llamacpp", "limits": {"observe": "10s"},
                  "driver": {"kind": "systemd", "unit": "llama", "engine_version": "b11434"}}],
                # Its page counts no finished requests, which the shipped rules want to see.
                rules=host.decide_at_once("acceptance_rate < 0.9", "-1"),
            )  # fmt: skip
            machine.run("systemctl", "start", "llama")
            host.wait(lambda: is_healthy(url), "llama-server serves")
            before = host.arguments("llama")
            assert before[-6:] == flags
            host.daemon("start")
            with Load(url, clients=2, max_tokens=60):
                host.wait(lambda: host.state("llama") in ("promoted", "rolled_back"), "a change has ended")
            # Whatever was measured: nothing but the number of tokens ever changed on its command line.
            assert host.arguments("llama")[:-1] == before[:-1]
            assert host.arguments("llama")[-1] == ("3" if host.state("llama") == "promoted" else "4")
            host.wait(lambda: is_healthy(url), "it serves at the end")
            assert "restarting it with" in host.journal() and "Traceback" not in host.journal()
            # Stopping acceptd stops no server; stopping the server leaves nothing of it.
            pid = host.pids()
            host.daemon("stop")
            assert host.pids() == pid and is_healthy(url)
            machine.run("systemctl", "stop", "llama")
            assert not Path(machine.path(f"/proc/{pid[0]}")).exists()
        finally:
            machine.run("systemctl", "stop", "acceptd", "llama", check=False)
            host.acceptd("adopt", "--release", "llama", "--yes", check=False)
            host.acceptd("install", "--uninstall", "--yes", check=False)
            machine.run("rm", "-rf", "/var/lib/acceptd", "/etc/acceptd")
