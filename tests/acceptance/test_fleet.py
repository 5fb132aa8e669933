"""Three daemons, one PostgreSQL, one Prometheus that has the pages of half of the servers: one history, whoever dies.

`ACCEPTD_TEST_FLEET=200` sets the number of servers (`make soak`).
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

import pytest
import requests

from monitor.app.membership import preferred
from monitor.model.alert import AlertState
from monitor.model.server import ServerName
from monitor.simulator.fleet import Fleet
from monitor.simulator.options import parse_options
from monitor.store.opening import open_store
from monitor.store.sql import SqlStore
from tests.acceptance.daemon import CLOCK, LONG_AGO, Daemon, until
from tests.integration.metric_stores import metric_store
from tests.integration.postgres import PostgresServer

pytestmark = pytest.mark.postgres

SERVERS = int(os.environ.get("ACCEPTD_TEST_FLEET", "12"))
SPECULATION = '{"method": "eagle3", "model": "head", "num_speculative_tokens": 3}'
#: Two hundred servers share one thread with their load: they are asked less often, and busy for fewer clients.
SECONDS = max(2, SERVERS // 20)
BUSY = f"closed:clients={8 if SERVERS <= 20 else 1},prompt=64,output=60"
HOSTS = ("h1", "h2", "h3")
Found = TypeVar("Found")


class Bench:
    """The fleet, its database and its daemons."""

    def __init__(self, fleet: Fleet, store: SqlStore, daemons: Mapping[str, Daemon]) -> None:
        self.fleet = fleet
        self.store = store
        self.daemons = daemons
        self.names = {ServerName(f"127.0.0.1-{port}"): port for port in fleet.ports}

    def owners(self) -> dict[ServerName, str]:
        """Who watches each server, by leases in force."""
        with self.store.read() as unit:
            found = unit.leases.standing("watch:", CLOCK.now())
        return {ServerName(lease.name.removeprefix("watch:")): lease.holder for lease, in_force in found if in_force}

    def counted(self) -> dict[ServerName, tuple[float, float]]:
        """Drafts of each server as the newest head says, and as its intervals add up to."""
        found = {}
        with self.store.read() as unit:
            for name in self.names:
                lives = unit.lives.of(name, LONG_AGO, CLOCK.now())
                heads = [head for life in lives if (head := unit.heads.get(life.id)) is not None]
                if len(lives) == len(heads) == 1 and heads[0].counts.speculation is not None:
                    totals = unit.intervals.totals(lives[0].id)
                    found[name] = (heads[0].counts.speculation.num_drafts or 0.0, totals.num_drafts or 0.0)
        return found

    def heads(self) -> dict[ServerName, float]:
        return {name: head for name, (head, _) in self.counted().items()}

    def load(self, load: str) -> None:
        for port in self.fleet.ports:
            assert requests.post(f"http://127.0.0.1:{port}/-/sim/load", json={"load": load}, timeout=30).ok

    def drafts(self) -> dict[ServerName, float] | None:
        """What the servers themselves have counted; None until all are idle."""
        states = {
            name: requests.get(f"http://127.0.0.1:{port}/-/sim/state", timeout=30).json()
            for name, port in self.names.items()
        }
        busy = any(state["running"] or state["waiting"] for state in states.values())
        return None if busy else {name: float(state["num_drafts"]) for name, state in states.items()}

    def is_whole(self, base: Mapping[ServerName, float]) -> dict[ServerName, float]:
        """Let the servers rest until the database has every count of each, once; their counts before the first page."""
        self.load("none")
        drafts = self.wait(self.drafts, "all servers are idle")
        self.wait(lambda: self.heads() == drafts, f"heads are what servers count: {drafts}")
        before = {name: head - total for name, (head, total) in self.counted().items()}
        for name, count in base.items():
            assert before[name] == count, f"{name}: counted twice or lost"
        self.load(BUSY)
        return before

    def wait(self, look: Callable[[], Found | None], what: str) -> Found:
        return until(look, what, tell=self.tell)

    def tell(self) -> str:
        state = f"counted {self.counted()}\nowners {self.owners()}"
        return state + "\n".join(f"=== {host}\n{daemon.tell()[-3000:]}" for host, daemon in self.daemons.items())


@pytest.fixture
def fleet() -> Iterator[Fleet]:
    quick = ["--port", "0", "--sim-start-seconds", "0", "--sim-load", BUSY, "--speculative-config", SPECULATION]
    with Fleet([parse_options(quick)] * SERVERS, CLOCK) as made:
        yield made


@pytest.fixture
def bench(
    fleet: Fleet, postgres_server: PostgresServer, tmp_path: Path, make_daemon: Callable[..., Daemon]
) -> Iterator[Bench]:
    addresses = [f"127.0.0.1:{port}" for port in fleet.ports]
    listed, scraped = addresses[: SERVERS // 2], addresses[SERVERS // 2 :]
    (tmp_path / "listed.json").write_text(json.dumps([{"targets": listed}]))
    database = postgres_server.new_database()
    url = f"postgresql://acceptd@/{database}?host={postgres_server.folder}"
    with metric_store("prometheus", tmp_path / "prometheus", scraped, interval=f"{SECONDS}s") as prometheus:
        daemons = {}
        for host in HOSTS:
            often = {"interval": f"{SECONDS}s", "timeout": f"{SECONDS}s"}
            daemon = daemons[host] = make_daemon(mode="observe", scrape=often)
            daemon.settings |= {
                "host": host,
                "store": {"shared": {"url": url, "lease": f"{max(10, 4 * SECONDS)}s"}, "spool_size": "1MiB"},
                "sources": [
                    {"name": "listed", "file_sd": {"files": [str(tmp_path / "listed.json")]}, "group": "listed"},
                    {"name": "central", "group": "scraped", "refresh": "5s",
                     "prometheus": {"url": prometheus, "selector": '{job="vllm"}', "delay": "1s", "backfill": "0s"}},
                ],
            }  # fmt: skip
            daemon.write()
        done = daemons["h1"].command("db", "upgrade", "--shared")
        assert done.returncode == 0, done.stderr
        store = open_store(url)
        yield Bench(fleet, store, daemons)
        store.close()


def is_divided(bench: Bench, *hosts: str) -> bool:
    """Whether just those of the hosts watch something that a server of ours, by its address, goes to."""
    return set(bench.owners().values()) == {preferred(hosts, name) for name in bench.names}


def start(bench: Bench) -> dict[ServerName, float]:
    """Start all three and wait until they have divided the servers; what each had counted before its first page."""
    for daemon in bench.daemons.values():
        daemon.process = daemon.spawn()
    bench.wait(lambda: bench.owners().keys() == bench.names.keys() or None, "every server has an owner")
    bench.wait(lambda: is_divided(bench, *HOSTS) or None, "each host has its share")
    bench.wait(lambda: bench.counted().keys() == bench.names.keys() or None, "every server's counts are there")
    bench.wait(lambda: all(total > 0 for _, total in bench.counted().values()) or None, "and intervals")
    return bench.is_whole({})


def test_one_dies_and_the_others_go_on_with_its_servers(bench: Bench) -> None:
    base = start(bench)
    bench.daemons["h1"].kill()
    bench.wait(lambda: is_divided(bench, "h2", "h3") or None, "h1's servers are taken over")
    bench.wait(lambda: bench.owners().keys() == bench.names.keys() or None, "all of them")
    bench.is_whole(base)
    told = bench.wait(lambda: [host for host in silent_alerts(bench) if host == "h1"] or None, "someone pages for h1")
    assert told == ["h1"]  # one of the two, not both
    # One report on all, from any of them.
    page = bench.wait(lambda: bench.daemons["h3"].page("/report"), "the report")
    assert [name for name in bench.names if name not in page] == []
    rates = [acceptance(bench, group) for group in ("listed", "scraped")]
    # The same engines under the same load, read in two ways.
    assert abs(rates[0] - rates[1]) < 0.05, rates


@pytest.mark.skipif("ACCEPTD_TEST_FLEET" not in os.environ, reason="takes minutes: make soak")
def test_one_sleeps_and_the_database_goes_away(bench: Bench, postgres_server: PostgresServer) -> None:
    base = start(bench)
    # It sleeps through the end of its leases and wakes up: nothing of it counts twice.
    sleeper = bench.daemons["h2"].process
    assert sleeper is not None
    sleeper.send_signal(signal.SIGSTOP)
    bench.wait(lambda: is_divided(bench, "h1", "h3") or None, "the others have all")
    sleeper.send_signal(signal.SIGCONT)
    bench.wait(lambda: is_divided(bench, *HOSTS) or None, "it gets its share back")
    bench.is_whole(base)
    # Everyone goes on alone, and brings over what it saw.
    postgres_server.stop()
    bench.wait(lambda: all("goes on alone" in daemon.said() for daemon in bench.daemons.values()) or None, "alone")
    postgres_server.start()
    bench.is_whole(base)


def silent_alerts(bench: Bench) -> list[str]:
    """Hosts that somebody pages for."""
    found = []
    for host, daemon in bench.daemons.items():
        if host == "h1":
            continue
        with daemon.store() as store, store.read() as unit:
            found += [
                alert.labels["host"] for alert in unit.alerts.all()
                if alert.name == "HostSilent" and alert.state is AlertState.FIRING
            ]
    return found


def acceptance(bench: Bench, group: str) -> float:
    """Accepted of draft tokens of a group, over all that the database has."""
    with bench.store.read() as unit:
        names = [one.server for one in unit.servers.all(LONG_AGO) if one.group == group]
        found = [i.speculation for i in unit.intervals.between(names, LONG_AGO, CLOCK.now()) if i.speculation]
    assert len(names) == SERVERS // 2
    return sum(s.num_accepted_tokens or 0 for s in found) / sum(s.num_draft_tokens or 0 for s in found)
