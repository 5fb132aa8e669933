"""A whole daemon on many servers: processor, memory and punctuality, with some servers that hang.

    python -m tests.bench.servers [--servers 1000] [--groups 50] [--seconds 120] [--hung 5] [--days 0]
                                  [--store sqlite postgresql]

`acceptd run` as it is installed, one scrape of a real 640-line page of each server every 15 s, the shipped rules and
objectives, on the embedded store and with a PostgreSQL for the fleet. With `--days` it is a restart: the embedded store
has a past of so many days. What is printed are the process's own CPU seconds (user and system, all threads), its
resident memory, and its own counts of late and missed scrapes, after it has met every server; of those counts also what
was there by then. The bars: half a core, 300 MB, no scrape later than 1 s. After a restart, whose past is read back
meanwhile and stays in memory, only the last of them is judged.
"""

from __future__ import annotations

import argparse
import math
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import requests
import yaml

from monitor.store.opening import open_store
from monitor.store.sql import SqlStore
from tests.bench.fleet_history import fleet
from tests.bench.history import fill
from tests.bench.scrape import cpu_seconds, page_server
from tests.fakes import reaper
from tests.integration.postgres import PostgresServer, running_server

BAR_CORES, BAR_BYTES = 0.5, 300e6
#: Longest wait for the daemon to meet every server (seconds).
PATIENCE = 600.0


class Daemon:
    """`acceptd run` on that many servers of one page server."""

    def __init__(self, folder: Path, url: str, database: str | None, options: argparse.Namespace) -> None:
        self.folder = folder
        names = [f"s{number}" for number in range(options.servers)]
        settings = {
            "data_dir": str(folder / "data"), "mode": "recommend", "log": {"level": "warning"},
            "servers": [
                {"name": name, "url": f"{url}/{name}", "group": f"g{number % options.groups}",
                 "metrics_url": f"{url}/{'hang' if number < options.hung else name}/metrics?{name}"}
                for number, name in enumerate(names)
            ],
            "web": {"listen": "127.0.0.1:0"},
        }  # fmt: skip
        if database:
            settings["store"] = {"shared": {"url": database}}
        config = folder / "acceptd.yaml"
        config.write_text(yaml.safe_dump(settings))
        self.log = folder / "log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "monitor", "--config", str(config), "run"], stdout=log, stderr=log,
                env={**os.environ, "PYTHONPATH": os.getcwd()},
            )

    def page(self) -> str:
        """Its own metrics."""
        listen = re.search(r"http://(\S+)/", self.log.read_text())
        assert listen is not None, self.log.read_text()[-2000:]
        try:
            return requests.get(f"http://{listen[1]}/metrics", timeout=60).text
        except requests.RequestException as error:
            raise SystemExit(f"the daemon does not answer ({error}):\n{self.log.read_text()[-3000:]}") from None

    def total(self, beginning: str) -> float:
        """The sum of its series that begin so."""
        return sum(float(line.rpartition(" ")[2]) for line in self.page().splitlines() if line.startswith(beginning))

    def wait_until_all_are_met(self, servers: int) -> float:
        """Seconds until every server was asked."""
        began = time.monotonic()
        while time.monotonic() - began < PATIENCE:
            time.sleep(1.0)
            if self.process.poll() is not None:
                raise SystemExit(self.log.read_text()[-3000:])
            if "status page" in self.log.read_text() and self.total("acceptd_scrapes_total{") >= servers:
                return time.monotonic() - began
        raise SystemExit(f"not every server was met within {PATIENCE:g} s")

    def memory(self) -> int:
        """Its resident memory (bytes)."""
        return int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def make_past(data: Path, options: argparse.Namespace) -> None:
    """A store in the daemon's folder that knows these servers for so many days."""
    data.mkdir(mode=0o700)
    now = datetime.now(UTC)
    servers, groups = fleet(options.servers, math.ceil(options.servers / options.groups))
    store = open_store(f"sqlite:///{data}/local.db")
    try:
        store.upgrade()
        assert isinstance(store, SqlStore)
        fill(store, servers, groups, options.days, now)
    finally:
        store.close()


def measure(url: str, database: str | None, options: argparse.Namespace) -> bool:
    """Run it once and print what it took; whether all bars are kept."""
    with tempfile.TemporaryDirectory(prefix="acceptd-bench-") as folder:
        if options.days:
            make_past(Path(folder) / "data", options)
        daemon = Daemon(Path(folder), url, database, options)
        try:
            met = daemon.wait_until_all_are_met(options.servers)
            late, missed = daemon.total("acceptd_scrapes_late_total"), daemon.total("acceptd_scrapes_missed_total")
            early = late + missed
            scrapes, cpu = daemon.total("acceptd_scrapes_total{"), cpu_seconds(daemon.process.pid)
            began = time.monotonic()
            time.sleep(options.seconds)
            seconds = time.monotonic() - began
            cores = (cpu_seconds(daemon.process.pid) - cpu) / seconds
            scrapes = daemon.total("acceptd_scrapes_total{") - scrapes
            late = daemon.total("acceptd_scrapes_late_total") - late
            missed = daemon.total("acceptd_scrapes_missed_total") - missed
            memory = daemon.memory()
        finally:
            daemon.process.terminate()
            daemon.process.wait()
    where = "PostgreSQL" if database else "embedded store"
    past = f", a restart with {options.days} days of past" if options.days else ""
    print(f"{options.servers} servers at 15 s ({options.hung} hang, {options.groups} groups), {where}{past}: all met "
          f"after {met:.0f} s, then {seconds:.0f} s:")
    each = 1000 * cores * seconds / max(1.0, scrapes)
    of_cores, of_memory = ("", "") if options.days else (f"  (bar {BAR_CORES:g})", f"  (bar {BAR_BYTES / 1e6:.0f})")
    print(f"  processor  {cores:.2f} cores{of_cores}   {each:.2f} ms a scrape, rules and all else included; "
          f"{scrapes / seconds:.1f} scrapes a second")
    print(f"  memory     {memory / 1e6:.0f} MB{of_memory}")
    print(f"  punctual   {late:.0f} scrapes late by more than 1 s, {missed:.0f} left out; {early:.0f} by then  (bar 0)",
          flush=True)
    is_small = bool(options.days) or (cores <= BAR_CORES and memory <= BAR_BYTES)
    return is_small and not early and not late and not missed


def main(arguments: Sequence[str] | None = None) -> int:
    """Print it; 1 where a bar is not kept."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--servers", type=int, default=1000)
    parser.add_argument("--groups", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--hung", type=int, default=5)
    parser.add_argument("--days", type=int, default=0, help="what the store knows of the servers already")
    parser.add_argument("--store", nargs="+", choices=("sqlite", "postgresql"), default=("sqlite", "postgresql"))
    options = parser.parse_args(arguments)
    good = True
    with reaper.tidied(), page_server() as url, ExitStack() as stack:
        if "sqlite" in options.store:
            good &= measure(url, None, options)
        if "postgresql" in options.store:
            server = stack.enter_context(running_server())
            if server is None:
                print("PostgreSQL is not installed: NOT MEASURED on it", flush=True)
            else:
                good &= measure(url, new_store(server), options)
    return 0 if good else 1


def new_store(server: PostgresServer) -> str:
    """The address of a new database with our tables."""
    address = f"postgresql://acceptd@/{server.new_database()}?host={server.folder}"
    store = open_store(address)
    try:
        store.upgrade()
    finally:
        store.close()
    return address


if __name__ == "__main__":
    sys.exit(main())
