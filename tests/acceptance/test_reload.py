"""SIGHUP swaps the configuration whole or not at all; one data folder has one daemon; a signal ends it."""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable
from pathlib import Path

from monitor.targets.listeners import command_line
from tests.acceptance.daemon import PATIENCE, Daemon, Simulated

CALM = "closed:clients=2,prompt=64,output=200"


def pids_on(port: int) -> set[int]:
    """Processes of simulated servers on this port."""
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            words = command_line(int(entry.name))
            if "monitor.simulator" in words and str(port) in words:
                found.add(int(entry.name))
    return found


def test_a_wrong_configuration_changes_nothing_and_a_right_one_swaps_all(make_daemon: Callable[..., Daemon]) -> None:
    first, second = (Simulated(name, tokens=2, load=CALM) for name in ("one", "two"))
    daemon = make_daemon(first, second, mode="observe")
    both = list(daemon.settings["servers"])
    daemon.settings["servers"], daemon.settings["groups"] = both[:1], daemon.settings["groups"][:1]
    daemon.write()
    daemon.start()
    daemon.wait(first.generates, "the server that is managed serves")
    before = pids_on(first.port)
    listen = daemon.running()["listen"]

    daemon.config.write_text("servers: [{name: 'a b', url: 'ftp://x'}]\nnonsense: 1\n")
    daemon.hang_up()
    daemon.wait(lambda: "configuration not reloaded, the old one stays" in daemon.said(), "the refusal is logged")
    assert "nonsense: found an unknown key" in daemon.said() and "servers[0].url" in daemon.said()
    assert daemon.page("/-/healthy") is not None
    assert [server["name"] for server in daemon.running()["servers"]] == ["one"]

    # Right by itself, and its address is taken: the old one comes back.
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        daemon.settings["web"] = {"listen": f"127.0.0.1:{taken.getsockname()[1]}"}
        daemon.write()
        daemon.hang_up()
        daemon.wait(lambda: "going back to the old one" in daemon.said(), "the new one does not start")
        daemon.wait(lambda: daemon.page("/-/healthy"), "the old one serves again")

    daemon.settings["servers"] = both
    daemon.settings["web"] = {"listen": listen}
    daemon.write()
    daemon.hang_up()
    daemon.wait(lambda: "configuration reloaded" in daemon.said(), "the reload is logged")
    assert [server["name"] for server in daemon.running()["servers"]] == ["one", "two"]
    daemon.wait(lambda: daemon.page("/-/ready"), "every server was read")
    up = 'acceptd_server_up{server="two"} 1.0'
    daemon.wait(lambda: up in (daemon.page("/metrics") or ""), "the new server is read")
    assert pids_on(first.port) == before

    daemon.settings["servers"], daemon.settings["groups"] = both[1:], []
    daemon.write()
    daemon.hang_up()
    daemon.wait(
        lambda: [server["name"] for server in daemon.running()["servers"]] == ["two"] or None, "a server is left out"
    )
    metrics = daemon.wait(lambda: daemon.page("/metrics"), "its own metrics")
    assert 'server="one"' not in metrics
    daemon.stop()
    # Managed servers outlive the daemon, and the configuration.
    assert pids_on(first.port) == before and pids_on(second.port)
    daemon.settings["servers"] = both


def test_a_second_daemon_on_the_same_folder_is_refused_by_a_sentence(make_daemon: Callable[..., Daemon]) -> None:
    daemon = make_daemon(Simulated("one", tokens=2, load="none"), mode="observe", managed=False)
    daemon.start()
    second = daemon.spawn()
    assert second.wait(timeout=PATIENCE) == 1
    (line,) = [line for line in daemon.said().splitlines() if "another acceptd" in line]
    assert line == f"another acceptd already runs on {daemon.data_dir}"
    assert "Traceback" not in daemon.said()
    assert daemon.page("/-/healthy") is not None
    daemon.kill()
    # A lock of the dead is no lock.
    daemon.start()
    daemon.stop()


def test_each_signal_to_end_ends_it_in_order(make_daemon: Callable[..., Daemon]) -> None:
    daemon = make_daemon(Simulated("one", tokens=2, load="none"), mode="observe", managed=False)
    for number in (signal.SIGTERM, signal.SIGINT):
        daemon.start()
        assert daemon.process is not None
        daemon.process.send_signal(number)
        assert daemon.process.wait(timeout=PATIENCE) == 0
        assert daemon.said().rstrip().endswith("stopped; managed servers go on")
        daemon.process = None
