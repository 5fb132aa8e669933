"""What the machine refuses us (files, threads, memory) says nothing about the servers, and nobody is paged for it."""

from __future__ import annotations

import resource
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
import requests

from tests.acceptance.daemon import PATIENCE
from tests.faults.counted import CountedServer, answer, serving
from tests.faults.daemon import FaultyDaemon
from tests.faults.test_hostile import wide_page

MIB = 1024**2


def once(server: CountedServer, handler: BaseHTTPRequestHandler) -> None:
    """A connection for every page."""
    handler.close_connection = True
    answer(handler, server.page())


def test_without_files_servers_are_not_asked_and_not_down_either(watching: Callable[..., FaultyDaemon]) -> None:
    servers = [CountedServer(f"s{number}") for number in range(5)]
    for server in servers:
        server.answer = once
    quick = {"parameters": {"ServerDown.for": "1s", "NoSamples.for": "1s"}}
    with serving(*servers):
        daemon = watching(*servers, rules={"interval": "500ms", **quick})
        daemon.start()
        daemon.wait(lambda: all(len(one.asked) > 2 for one in servers) or None, "all are read")
        for server in servers:
            server.restart()
        assert daemon.process is not None
        before = resource.prlimit(daemon.process.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(daemon.process.pid, resource.RLIMIT_NOFILE, (3, before[1]))
        # One that was late just before has had its line already.
        daemon.wait(
            lambda: all(f"cannot be used server={one.name} " in daemon.said() for one in servers) or None,
            "no page can be used",
        )
        daemon.wait(lambda: "verdict=not_asked" in daemon.said() or None, "they are not asked")
        listen = daemon.running()["listen"]
        with pytest.raises(requests.RequestException):
            requests.get(f"http://{listen}/", timeout=2)
        assert len(daemon.said()) < 20_000, "it fills the disk with complaints"
        resource.prlimit(daemon.process.pid, resource.RLIMIT_NOFILE, before)
        daemon.read_on(4)
        daemon.comes_out_whole()
        assert "page can be read again" in daemon.said()
        daemon.wait(lambda: daemon.page("/-/healthy"), "its own page is back")
        assert "does not answer" not in daemon.said() and "PAGE" not in daemon.said()


def test_without_threads_it_says_so_and_ends(watching: Callable[..., FaultyDaemon]) -> None:
    server = CountedServer("s")
    with serving(server):
        daemon = watching(server, limits={"RLIMIT_AS": (100 * MIB, 100 * MIB)})
        daemon.process = daemon.spawn()
        assert daemon.process.wait(PATIENCE) == 1
        assert "threads for scrapes could be started" in daemon.said() or "does not start" in daemon.said()
        assert "Traceback" not in daemon.said()
        daemon.process = None


def test_without_memory_it_ends_in_order_and_the_next_one_goes_on(watching: Callable[..., FaultyDaemon]) -> None:
    servers = [CountedServer(f"s{number}") for number in range(3)]
    with serving(*servers):
        # Time enough to fetch a large page on a busy machine: it is what takes the memory.
        daemon = watching(*servers, rules={"interval": "500ms"}, scrape={"interval": "2s", "timeout": "2s"})
        daemon.start()
        daemon.wait(lambda: all(len(one.asked) > 2 for one in servers) or None, "all are read")
        for server in servers:
            server.restart()
        assert daemon.process is not None
        # No more than it has now, and a page that needs more: what is resident, unlike addresses, it cannot spare.
        status = Path(f"/proc/{daemon.process.pid}/status").read_text()
        (data,) = (int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmData:"))
        resource.prlimit(daemon.process.pid, resource.RLIMIT_DATA, (data, data))
        servers[0].more = wide_page() * 12
        assert daemon.process.wait(PATIENCE) == 1
        said = daemon.said()
        assert "out of memory in" in said and "the daemon ends, to be started anew" in said
        assert "managed servers go on" in said and "Traceback" not in said
        # As its supervisor does.
        servers[0].more = ""
        daemon.start()
        daemon.comes_out_whole()
        assert "PAGE" not in daemon.said()
