"""What one evaluation of a fleet costs: signals, rules, alerts and the tuner for 1,000 servers.

    python -m tests.bench.cycle [--servers 1000] [--group-size 10] [--turns 5] [--profile]

The daemon's own evaluator and decider with the shipped rules, on an embedded store, with as much of the last day at
hand as a daemon of that size keeps. CPU seconds and wall seconds of a turn; the bar is 5 s. Deciding is measured twice:
when nothing is asked, and with the tuner asked in every group (`goodput.yaml`).
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import statistics
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from monitor.actions.fleet import Fleet
from monitor.app.limits import collect_seldom
from monitor.config.rules import load_rules_in_force
from monitor.cycle.decider import Decider
from monitor.cycle.evaluate import Evaluator
from monitor.cycle.history import History
from monitor.cycle.kept import DAY, FINE_SUMS
from monitor.cycle.recall import scraped_seconds
from monitor.model.interval import Interval
from monitor.model.life import LastReading
from monitor.model.reading import Reading, Verdict
from monitor.model.server import Server
from monitor.policy.telling import TellingPolicy
from monitor.store import Store
from monitor.store.opening import open_store
from tests.bench.fleet_history import fleet, intervals_of, life_of

BAR_SECONDS = 5.0
SCRAPE_SECONDS, TURN_SECONDS = 15.0, 60.0
_NOW = datetime(2026, 11, 2, 9, 0, tzinfo=UTC)


class Nobody:
    """A prober that never needs to ask."""

    def look(self, *_: object) -> None: ...
    def look_health(self, *_: object) -> None: ...
    def result(self, *_: object) -> None: ...
    def health(self, *_: object) -> None: ...


class NoCounters:
    """Nobody counts."""

    def decision(self, *_: object) -> None: ...


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--servers", type=int, default=1000)
    parser.add_argument("--group-size", type=int, default=10)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--profile", action="store_true")
    given = parser.parse_args(arguments)
    collect_seldom()
    with tempfile.TemporaryDirectory(prefix="acceptd-bench-") as folder:
        store = open_store(f"sqlite:///{folder}/local.db")
        store.upgrade()
        for tuning in ("guarded", "goodput"):
            turns(store, tuning, given)
        store.close()
    return 0


def turns(store: Store, tuning: str, given: argparse.Namespace) -> None:
    """Print what turns with these tuning rules cost."""
    servers, groups = fleet(given.servers, given.group_size)
    history, coming = remembered(servers, given.turns)
    made = load_rules_in_force({"tuning": tuning})
    evaluator = Evaluator(
        store, history, Nobody(), servers=servers, groups=groups, alert_rules=made.alerts,  # type: ignore[arg-type]
        tuning_rules={group.name: made.tuning[tuning] for group in groups}, host="bench",
        receivers=lambda notice: [],
        telling=TellingPolicy(), watched_since=_NOW - DAY, simulated=False,
        credit_seconds=2.5 * TURN_SECONDS,
    )
    decider = Decider(
        store, history, groups, Fleet(groups={}, managed={}, probes={}), begin=lambda *_: None,
        receivers=lambda notice: [], simulated=False, counters=NoCounters(),
    )
    profiler = cProfile.Profile()
    costs: list[tuple[float, float, float]] = []
    for turn in range(given.turns):
        now = _NOW + timedelta(seconds=TURN_SECONDS * (turn + 1))
        while coming and coming[0][0].end <= now:
            history.add([], coming.pop(0), now)
        answered(store, servers, now)
        if given.profile and turn:
            profiler.enable()
        before = time.process_time(), time.perf_counter()
        seen = evaluator.run(now)
        between = time.perf_counter()
        decider.run(seen)
        costs.append((time.process_time() - before[0], between - before[1], time.perf_counter() - between))
        profiler.disable()
    first, rest = costs[0], costs[1:] or costs
    cpu, evaluate, decide = (statistics.mean(column) for column in zip(*rest, strict=True))
    print(
        f"{len(servers)} servers, {len(groups)} groups, rules {tuning}: a turn takes "
        f"{cpu:.2f} CPU s, {evaluate + decide:.2f} s (evaluate {evaluate:.2f}, decide {decide:.2f}; first turn "
        f"{sum(first[1:]):.2f}); bar {BAR_SECONDS:g} s",
        flush=True,
    )
    if given.profile:
        pstats.Stats(profiler).sort_stats("tottime").print_stats(35)


def remembered(servers: Sequence[Server], turns: int) -> tuple[History, list[list[Interval]]]:
    """A day as a daemon of that size keeps it, and what is scraped during the turns, scrape by scrape."""
    scraped = _NOW - timedelta(seconds=scraped_seconds(len(servers), SCRAPE_SECONDS, 1800.0))
    until = _NOW + timedelta(seconds=TURN_SECONDS * turns)
    lives = [life_of(server.name, _NOW - 2 * DAY) for server in servers]
    parts = [
        (_NOW - DAY, _NOW - FINE_SUMS, 3600.0), (_NOW - FINE_SUMS, scraped, 300.0), (scraped, until, SCRAPE_SECONDS)
    ]
    every = [[i for begin, end, step in parts for i in intervals_of(life, begin, end, step)] for life in lives]
    history = History((_NOW - scraped).total_seconds())
    history.fill(lives, (one for found in every for one in found if one.end <= _NOW))
    later = sorted({one.end for one in every[0] if one.end > _NOW})
    return history, [[one for found in every for one in found[-len(later):] if one.end == end] for end in later]


def answered(store: Store, servers: Sequence[Server], now: datetime) -> None:
    """Every server's newest page was read just now."""
    with store.write(durable=False) as unit:
        for server in servers:
            reading = Reading(server=server.name, scraped_at=now, monotonic=0.0, dialect="vllm_v1",
                              verdict=Verdict.OK, reason="")
            unit.readings.put(LastReading(reading, now))


if __name__ == "__main__":
    raise SystemExit(main())
