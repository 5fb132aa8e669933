"""How long `acceptd rules replay --since 7d` takes over a fleet: the command itself, on an embedded store.

    python -m tests.bench.replay [--servers 100] [--days 7] [--group-size 10] [--jobs 0]

The store holds what a daemon keeps of older days, sums over five minutes. Writing them takes longer than the replay and
is not counted. The bar is 60 s for 100 servers and 7 days.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from monitor.config.running import Running, write_running
from monitor.model.life import Life, LifeId
from monitor.model.server import Server
from monitor.store.opening import open_store
from tests.bench.fleet_history import fleet, intervals_of, life_of

BAR_SECONDS = 60.0
SUM_SECONDS = 300.0


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--servers", type=int, default=100)
    parser.add_argument("--group-size", type=int, default=10)
    parser.add_argument("--days", type=float, default=7.0)
    parser.add_argument("--jobs", type=int, default=0, help="processes; 0 for as many as the command takes by itself")
    parser.add_argument("--folder", type=Path, help="keep the store here, and use it if it is there already")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="acceptd-bench-") as temporary:
        folder = given.folder or Path(temporary)
        if not (folder / "running.json").exists():
            began = time.perf_counter()
            written = write_past(folder, given)
            print(f"{written} sums over 5 minutes written in {time.perf_counter() - began:.0f} s", flush=True)
        replay(folder, given)
    return 0


def replay(folder: Path, given: argparse.Namespace) -> None:
    """Run the command and print what it took."""
    words = ["rules", "replay", "--since", f"{round(given.days * 86_400)}s", "--jobs", str(given.jobs), "--json"]
    command = [sys.executable, "-m", "monitor", "--data-dir", str(folder), *words]
    began = time.perf_counter()
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    took, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    found = json.loads(done.stdout)
    print(
        f"{given.servers} servers x {given.days:g} days: {took:.1f} s, {cpu:.1f} CPU s on {os.cpu_count()} CPUs; "
        f"{len(found['events'])} events; bar {BAR_SECONDS:g} s",
        flush=True,
    )


def write_past(folder: Path, given: argparse.Namespace) -> int:
    """A store with the past of the fleet, and what its daemon left beside it; the number of sums."""
    folder.mkdir(parents=True, exist_ok=True)
    until = datetime.now(UTC)
    begin = until - timedelta(days=given.days + 1.2)
    servers, groups = fleet(given.servers, given.group_size)
    store = open_store(f"sqlite:///{folder}/local.db")
    store.upgrade()
    written = 0
    for server in servers:
        with store.write(durable=False) as unit:
            for life, since, end in _lives(server, given.group_size, begin, until):
                unit.lives.add(life)
                written += unit.intervals.add(list(intervals_of(life, since, end, SUM_SECONDS)))
    store.roll_up(until)
    store.close()
    write_running(
        folder,
        Running(
            pid=os.getpid(), version="bench", started_at=begin, host="bench", listen="", simulated=False,
            servers=tuple(servers), groups=tuple(groups), rules={group.name: "guarded" for group in groups},
        ),
    )
    return written


def _lives(server: Server, group_size: int, begin: datetime, until: datetime) -> list[tuple[Life, datetime, datetime]]:
    """Two lives at two settings, the change somewhere in the span.

    A group's servers are at one setting: of others nothing is concluded, and the tuner would not be asked at all.
    """
    number = int(server.name[1:]) // group_size
    change = begin + (until - begin) * (0.3 + 0.4 * (number % 10) / 10)
    first, second = life_of(server.name, begin, 3 + number % 3, 1), life_of(server.name, change, 2 + number % 3, 2)
    assert first.id != LifeId(second.id)
    return [(first, begin, change), (second, change, until)]


if __name__ == "__main__":
    raise SystemExit(main())
