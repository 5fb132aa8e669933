"""Pages read back from a real Prometheus and a real VictoriaMetrics are the pages that the servers printed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest
import requests

from monitor.clock import SystemClock
from monitor.cycle.collect import Collector
from monitor.cycle.feed import Feed
from monitor.cycle.history import History
from monitor.cycle.settings import SettingFinder
from monitor.dialects import Dialects, ServerReader
from monitor.dialects.wanted import name_pattern
from monitor.model.counts import Counts
from monitor.model.life import StartEvidence
from monitor.model.server import GroupName, Server, ServerName
from monitor.scrape.client import ServerClient
from monitor.scrape.prometheus_api import PrometheusApi
from monitor.simulator.fleet import Fleet
from monitor.simulator.options import SimOptions, parse_options
from monitor.store import open_store
from monitor.store.spool import Spool
from monitor.targets.told import Told
from monitor.telemetry import Telemetry
from monitor.watchdog import Watchdog
from tests.integration.metric_stores import PATIENCE, metric_store

CLOCK = SystemClock()
BUSY = "closed:clients=8,prompt=64,output=60"
LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)


def options(load: str, port: int = 0) -> SimOptions:
    speculation = '{"method": "eagle3", "model": "head", "num_speculative_tokens": 3}'
    quick = ["--port", str(port), "--sim-start-seconds", "0", "--sim-stop-seconds", "0", "--sim-load", load]
    return parse_options([*quick, "--speculative-config", speculation])


@pytest.fixture(scope="module")
def fleet() -> Iterator[Fleet]:
    with Fleet([options(BUSY)] * 2, CLOCK, pulse_seconds=0.1) as made:
        yield made


@pytest.fixture(scope="module", params=["prometheus", "victoria-metrics"])
def url(request: pytest.FixtureRequest, fleet: Fleet, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    targets = [f"127.0.0.1:{port}" for port in fleet.ports]
    with metric_store(request.param, tmp_path_factory.mktemp("store") / "data", targets) as made:
        yield made


@pytest.fixture
def watchdog() -> Iterator[Watchdog]:
    made = Watchdog(CLOCK)
    made.start()
    yield made
    made.stop()


class Bench:
    """A collector that is fed from a store, and its database."""

    def __init__(self, folder: Path, url: str, watchdog: Watchdog, ports: tuple[int, ...], *, backfill: float) -> None:
        self.names = {f"127.0.0.1:{port}": ServerName(f"s{port}") for port in ports}
        servers = {
            name: Server(name=name, group=GroupName("g"), base_url=f"http://{at}", metrics_url=f"http://{at}/metrics")
            for at, name in self.names.items()
        }
        self.store = open_store(f"sqlite:///{folder}/local.db")
        self.store.upgrade()
        finder = SettingFinder(
            ask=lambda server, engine: Told(), process=lambda _: None, launched=lambda _: None, configured={}
        )
        self.collector = Collector(
            servers, {}, Spool(self.store, None, CLOCK).keep, History(3600.0), readers=Dialects().reader, tracks={},
            last_ok={}, settings=finder, interval_seconds=1.0, timeout_seconds=1.0, boot_id="boot", clock=CLOCK,
            counters=Telemetry(),
        )  # fmt: skip
        api = PrometheusApi(ServerClient(watchdog, size_limit=1 << 28), url, deadline_seconds=30.0)
        self.feed = Feed(
            api, self.collector, self.names, CLOCK, name="central", pattern=name_pattern(), selector='{job="vllm"}',
            instance_label="instance", interval_seconds=1.0, delay_seconds=0.5, backfill_seconds=backfill,
            step_seconds=2.0,
        )  # fmt: skip

    def counts(self, port: int) -> Counts | None:
        """The newest counts of a server, as stored."""
        with self.store.read() as unit:
            lives = unit.lives.open_of(ServerName(f"s{port}"))
            head = unit.heads.get(lives[-1].id) if lives else None
        return head.counts if head is not None else None


def printed(port: int) -> Counts:
    """The counts that a server's own page shows now."""
    body = requests.get(f"http://127.0.0.1:{port}/metrics", timeout=10).content
    reader: ServerReader = Dialects().reader(ServerName("direct"))
    reading = reader.read(body, scraped_at=CLOCK.now(), monotonic=CLOCK.monotonic())
    (engine,) = reading.engines
    return engine.counts


def exact(counts: Counts | None) -> object:
    """What every store keeps to the digit: VictoriaMetrics keeps decimals, so sums of seconds end at their 15th."""
    if counts is None or counts.latency is None:
        return None
    first = counts.latency.time_to_first_token
    assert first is not None
    return counts.speculation, counts.traffic, first.cumulative, round(first.total, 6)


def until(look: Callable[[], bool], what: str) -> None:
    """Look again and again until it is so."""
    deadline = CLOCK.monotonic() + PATIENCE
    while not look():
        assert CLOCK.monotonic() < deadline, f"not within {PATIENCE:g} s: {what}"
        CLOCK.sleep(0.3)


def has_seconds(url: str, seconds: int) -> bool:
    """Whether the store has a scrape a second of every target, over so long."""
    query = f'min(timestamp(up{{job="vllm"}}) - timestamp(up{{job="vllm"}} offset {seconds}s))'
    answer = requests.get(f"{url}/api/v1/query", params={"query": query}, timeout=5)
    return bool(answer.json()["data"]["result"])


def test_what_is_stored_is_what_the_servers_count_across_a_restart(
    url: str, fleet: Fleet, watchdog: Watchdog, tmp_path: Path
) -> None:
    first, second = fleet.ports
    bench = Bench(tmp_path, url, watchdog, fleet.ports, backfill=0.0)
    bench.feed.poll()
    assert bench.feed.trouble == ""
    fleet.restart(second, options(BUSY))
    CLOCK.sleep(2.5)
    for port in (first, second):
        answer = requests.post(f"http://127.0.0.1:{port}/-/sim/load", json={"load": "none"}, timeout=10)
        assert answer.ok
    deadline = CLOCK.monotonic() + PATIENCE
    while any(exact(bench.counts(port)) != exact(printed(port)) for port in (first, second)):
        assert CLOCK.monotonic() < deadline, (bench.feed.trouble, exact(bench.counts(first)), exact(printed(first)))
        CLOCK.sleep(0.5)
        bench.feed.poll()
    with bench.store.read() as unit:
        old, new = unit.lives.of(ServerName(f"s{second}"), LONG_AGO, CLOCK.now() + timedelta(days=1))
        totals = unit.intervals.totals(new.id)
        intervals = unit.intervals.between([ServerName(f"s{first}")], LONG_AGO, CLOCK.now())
    # The restart shows by the start time on the page, so that the new life counts from 0, to the digit.
    assert (old.ended is not None, new.evidence) == (True, StartEvidence.PROCESS_START)
    spoken = printed(second)
    assert spoken.speculation is not None and spoken.traffic is not None
    assert (totals.num_drafts, totals.generation_tokens) == (
        spoken.speculation.num_drafts, spoken.traffic.generation_tokens,
    )  # fmt: skip
    # Every scrape of the store ends one interval and begins the next; how long they are is the store's business.
    assert len(intervals) >= 3
    assert all(one.end == two.start for one, two in pairwise(intervals))
    for port in (first, second):
        requests.post(f"http://127.0.0.1:{port}/-/sim/load", json={"load": BUSY}, timeout=10)


def test_a_server_met_for_the_first_time_brings_its_past_and_goes_on_from_there(
    url: str, fleet: Fleet, watchdog: Watchdog, tmp_path: Path
) -> None:
    bench = Bench(tmp_path, url, watchdog, fleet.ports, backfill=6.0)
    until(lambda: has_seconds(url, 6), "the store has more than that")
    bench.feed.poll()
    name = ServerName(f"s{fleet.ports[0]}")
    with bench.store.read() as unit:
        past = unit.intervals.between([name], LONG_AGO, CLOCK.now())
        (life,) = unit.lives.of(name, LONG_AGO, CLOCK.now())
    assert len(past) >= 2
    assert life.first_seen < CLOCK.now() - timedelta(seconds=3)

    def more() -> bool:
        bench.feed.poll()
        with bench.store.read() as unit:
            return len(unit.intervals.between([name], LONG_AGO, CLOCK.now())) > len(past)

    until(more, "newer pages come in")
    with bench.store.read() as unit:
        found = unit.intervals.between([name], LONG_AGO, CLOCK.now())
        (same,) = unit.lives.of(name, LONG_AGO, CLOCK.now())
    assert same.id == life.id and len(found) > len(past)
    assert found[: len(past)] == past
    # Not a second is missing or twice there.
    assert all(one.end == two.start for one, two in pairwise(found))
