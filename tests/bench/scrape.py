"""CPU seconds of one scrape, acceptd beside Prometheus: the same pages from the same server in the same run.

    python -m tests.bench.scrape [--servers 80] [--seconds 10] [--rounds 2] [--profile]

acceptd fetches, reads, takes the difference and stores it in SQLite, as its daemon does. Prometheus (the Debian
package, 2.42) fetches, reads and stores. Both are asked to look at every server once a second, one after the other, and
their CPU time (user and system, all threads) is divided by the pages that the server sent them. Single numbers depend
on the machine and on what else it does; the ratio is the result. The bar is 3, the aim 2.
"""

from __future__ import annotations

import argparse
import cProfile
import os
import pstats
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import requests

from monitor.clock import SystemClock
from monitor.cycle.collect import Collector
from monitor.cycle.history import History
from monitor.cycle.settings import SettingFinder
from monitor.dialects import Dialects
from monitor.model.server import GroupName, Server, ServerName
from monitor.scrape.client import ServerClient
from monitor.scrape.loop import ScrapeLoop
from monitor.store.opening import open_store
from monitor.store.spool import Spool
from monitor.targets.told import Told
from monitor.telemetry import Telemetry
from monitor.watchdog import Watchdog

BAR, AIM = 3.0, 2.0
#: Each server is looked at so often (seconds): dense, so that what a process costs at rest hardly counts.
INTERVAL = 1.0
#: Pages that are not counted at first: both learn the page then.
WARM_UP_SECONDS = 4.0


@dataclass(frozen=True)
class Cost:
    """What so many scrapes cost."""

    scrapes: int
    cpu_seconds: float

    @property
    def milliseconds(self) -> float:
        return 1000 * self.cpu_seconds / self.scrapes


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


@contextmanager
def page_server() -> Iterator[str]:
    """The server of all pages, a process of its own."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    process = subprocess.Popen([sys.executable, "-m", "tests.bench.page_server", str(port)])
    try:
        _wait_for(f"{url}/counts")
        yield url
    finally:
        process.terminate()
        process.wait()


def _wait_for(url: str, seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while True:
        try:
            if requests.get(url, timeout=2).ok:
                return
        except requests.RequestException:
            pass
        if time.monotonic() > deadline:
            raise TimeoutError(f"{url} does not answer")
        time.sleep(0.1)


def sent(url: str, agent: str) -> int:
    """Pages that a client was sent so far."""
    return int(requests.get(f"{url}/counts", timeout=10).json().get(agent, 0))


def cpu_seconds(pid: int) -> float:
    """User and system time of a process, all threads (10 ms steps)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def prometheus(url: str, servers: int, seconds: float) -> Cost:
    """A real Prometheus with an empty database that scrapes every server each second."""
    with tempfile.TemporaryDirectory(prefix="acceptd-bench-") as folder:
        jobs = "".join(
            f"  - job_name: s{number}\n    metrics_path: /p{number}/metrics\n"
            f"    static_configs: [{{targets: ['{url.removeprefix('http://')}']}}]\n"
            for number in range(servers)
        )
        config = Path(folder, "prometheus.yml")
        config.write_text(
            f"global: {{scrape_interval: {INTERVAL:g}s, scrape_timeout: {INTERVAL:g}s}}\nscrape_configs:\n{jobs}"
        )
        port = free_port()
        process = subprocess.Popen(
            [
                "prometheus", f"--config.file={config}", f"--storage.tsdb.path={folder}/data",
                f"--web.listen-address=127.0.0.1:{port}", "--log.level=error",
            ]
        )  # fmt: skip
        try:
            _wait_for(f"http://127.0.0.1:{port}/-/ready")
            return _measured(url, "Prometheus", seconds, lambda: cpu_seconds(process.pid))
        finally:
            process.terminate()
            process.wait()


def _measured(url: str, agent: str, seconds: float, cpu: object) -> Cost:
    assert callable(cpu)
    time.sleep(WARM_UP_SECONDS)
    before, began = sent(url, agent), cpu()
    time.sleep(seconds)
    return Cost(sent(url, agent) - before, cpu() - began)


def acceptd(url: str, servers: int, seconds: float, *, profile: bool = False) -> Cost:
    """acceptd's own collector, loop and embedded store, as the daemon has them."""
    clock = SystemClock()
    with tempfile.TemporaryDirectory(prefix="acceptd-bench-") as folder, ExitStack() as stack:
        store = open_store(f"sqlite:///{folder}/local.db")
        store.upgrade()
        stack.callback(store.close)
        watchdog = Watchdog(clock)
        watchdog.start()
        stack.callback(watchdog.stop)
        names = [ServerName(f"s{number}") for number in range(servers)]
        watched = {
            name: Server(name=name, group=GroupName("g"), base_url=url, metrics_url=f"{url}/{name}/metrics")
            for name in names
        }
        clients = {name: ServerClient(watchdog, size_limit=16 << 20) for name in names}
        telemetry = Telemetry()
        finder = SettingFinder(
            ask=lambda server, engine: Told("0.32.0"), process=lambda _: None, launched=lambda _: None, configured={}
        )
        collector = Collector(
            watched, clients, Spool(store, None, clock).keep, History(3600.0), readers=Dialects().reader, tracks={},
            last_ok={}, settings=finder, interval_seconds=INTERVAL, timeout_seconds=INTERVAL, boot_id="bench",
            clock=clock, counters=telemetry,
        )  # fmt: skip
        profiler = Profiler() if profile else None
        scrape = profiler.around(collector.scrape) if profiler else collector.scrape
        loop = ScrapeLoop(scrape, interval=INTERVAL, workers=32, clock=clock, counters=telemetry)
        loop.set_servers(names)
        loop.start()
        try:
            cost = _measured(url, "acceptd", seconds, time.process_time)
        finally:
            loop.stop()
        with store.read() as unit:
            assert unit.readings.all(), "nothing was stored"
        if profiler:
            profiler.show()
        return cost


class Profiler:
    """Where the time of all scraping threads goes."""

    def __init__(self) -> None:
        self._profiles: list[cProfile.Profile] = []
        self._local = threading.local()

    def around(self, call: object) -> object:
        assert callable(call)

        def profiled(name: object) -> None:
            mine = getattr(self._local, "profile", None)
            if mine is None:
                mine = self._local.profile = cProfile.Profile(time.thread_time)
                self._profiles.append(mine)
            mine.enable()
            try:
                call(name)
            finally:
                mine.disable()

        return profiled

    def show(self) -> None:
        stats = pstats.Stats(*self._profiles)
        stats.sort_stats("cumulative").print_stats(45)
        stats.sort_stats("tottime").print_stats(25)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--servers", type=int, default=80)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--profile", action="store_true", help="acceptd alone, with where its time goes")
    options = parser.parse_args(arguments)
    if options.profile:
        with page_server() as url:
            print(f"acceptd {acceptd(url, options.servers, options.seconds, profile=True).milliseconds:.2f} ms")
        return 0
    if shutil.which("prometheus") is None:
        print("no prometheus command: apt-get install prometheus", file=sys.stderr)
        return 1
    best: dict[str, float] = {}
    with page_server() as url:
        for _ in range(options.rounds):
            for name, run in (("Prometheus", prometheus), ("acceptd", acceptd)):
                cost = run(url, options.servers, options.seconds)
                best[name] = min(cost.milliseconds, best.get(name, cost.milliseconds))
                print(f"{name:10}  {cost.milliseconds:.2f} ms CPU a scrape  ({cost.scrapes} scrapes)", flush=True)
    ratio = best["acceptd"] / best["Prometheus"]
    print(f"one scrape: acceptd {best['acceptd']:.2f} ms, Prometheus {best['Prometheus']:.2f} ms, ratio {ratio:.2f}"
          f" (bar {BAR:g}, aim {AIM:g})")
    return 0 if ratio <= BAR else 1


if __name__ == "__main__":
    sys.exit(main())
