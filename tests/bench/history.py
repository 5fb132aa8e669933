"""What people wait for in a fleet with a past: the weekly report and the status page, on both databases.

    python -m tests.bench.history [--servers 1000] [--group-size 50] [--days 90] [--store sqlite postgresql] [--profile]

The store holds sums by the hour and by the day of all days, by five minutes of the last two, intervals of the last
hour, of which four minutes are in no sum yet, and checks of the last week, all with the histograms of a vLLM page. One
server's past is made and copied by the database. CPU seconds are those of this process; wall seconds have the
database's share. The bars: 10 s for the report (reading, adding up, writing its files), 1 s for the status page. Beside
them what has no bar: the charts of one group.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from sqlalchemy import Connection, inspect, text

from monitor.app.desk import DaemonDesk
from monitor.app.heart import Heart
from monitor.app.limits import collect_seldom
from monitor.app.reports import write_report
from monitor.app.view import DaemonView
from monitor.app.watched import note_watched
from monitor.cycle.slo_history import MANY, feed_book
from monitor.intervals.buckets import STEPS, by_bucket, complete_until
from monitor.model.life import LastReading
from monitor.model.reading import Reading, Verdict
from monitor.model.record import CHECKS_SECONDS, Checks
from monitor.model.server import Group, Server
from monitor.report.assemble import assemble
from monitor.report.overview import WINDOW_SECONDS, read_known
from monitor.shipped import rules_folder
from monitor.slo.book import SloBook
from monitor.slo.load import load_slos
from monitor.store.opening import open_store
from monitor.store.repositories.rollups import SqlRollups
from monitor.store.sql import SqlStore
from monitor.telemetry import Telemetry
from monitor.web.pages import make_app
from tests.bench.fleet_history import fleet, intervals_of, life_of
from tests.fakes import reaper
from tests.fakes.fake_clock import FakeClock
from tests.integration.postgres import running_server

BAR_REPORT, BAR_PAGE = 10.0, 1.0
#: A Monday morning, which is no end of a day or an hour in UTC.
_NOW = datetime(2026, 11, 2, 9, 29, tzinfo=UTC)
#: Servers whose objectives are counted again: a start does it for all, one after the other.
COUNTED = 20
#: What is copied from the first server to all others, what others refer to first.
_COPIED = ("lives", "intervals", "interval_details", "rollups", "rollup_progress", "checks")


def fill(store: SqlStore, servers: Sequence[Server], groups: Sequence[Group], days: int, now: datetime) -> None:
    """The past of the fleet."""
    name, begin = servers[0].name, now - timedelta(days=days)
    # Rollups end just before the next turn.
    rolled_up = {step: complete_until(now - timedelta(minutes=4), step) for step in STEPS}
    life = life_of(name, begin)
    note_watched(store, servers, groups, "bench", begin)
    hours = list(intervals_of(life, complete_until(begin, 3600), rolled_up[3600], 3600.0))
    fine = intervals_of(life, rolled_up[300] - timedelta(days=2), rolled_up[300], 300.0)
    with store.write() as unit:
        unit.lives.add(life)
        unit.intervals.add(list(intervals_of(life, now - timedelta(hours=1), now, 15.0)))
        ends = [now - timedelta(seconds=CHECKS_SECONDS * number) for number in range(7 * 288)]
        unit.checks.add([Checks(name, end, 20, 0) for end in ends])
        rollups = SqlRollups(unit.connection, unit.edges)
        for step, intervals in zip(STEPS, (fine, hours, hours), strict=True):
            rollups.put(step, by_bucket(intervals, step))
            rollups.set_progress(step, name, rolled_up[step])
        for one in servers:
            page = Reading(server=one.name, scraped_at=now, monotonic=0.0, dialect="vllm_v1", verdict=Verdict.OK,
                           reason="")
            unit.readings.put(LastReading(page, now))
    with store.write() as unit:
        for table in _COPIED:
            copy(unit.connection, table, str(name), len(servers))


def copy(connection: Connection, table: str, name: str, count: int) -> None:
    """Rows of the first server for each of the others."""
    columns = [column["name"] for column in inspect(connection).get_columns(table)]
    own = {"server": "'s' || n", "life": "'s' || n || '-1'", "id": "'s' || n || '-1'"}
    chosen = ", ".join(own.get(column, column) for column in columns)
    connection.execute(
        text(
            f"INSERT INTO {table} ({', '.join(columns)}) "
            "WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < :last) "
            f"SELECT {chosen} FROM numbers CROSS JOIN {table} WHERE {table}.server = :name"
        ),
        {"last": count - 1, "name": name},
    )


@contextmanager
def timed(what: str, bar: float | None, found: list[bool], profile: bool) -> Iterator[None]:
    """Print what the block took, and note whether its bar is kept."""
    profiler = cProfile.Profile()
    if profile:
        profiler.enable()
    began = time.perf_counter(), time.process_time()
    yield
    wall, cpu = time.perf_counter() - began[0], time.process_time() - began[1]
    profiler.disable()
    shown = f"(bar {bar:g} s)" if bar is not None else ""
    print(f"  {what:<34} {cpu:6.2f} CPU s, {wall:6.2f} s  {shown}", flush=True)
    if bar is not None:
        found.append(wall <= bar)
    if profile:
        pstats.Stats(profiler).sort_stats("tottime").print_stats(30)


def measure(url: str, where: str, options: argparse.Namespace) -> bool:
    """Print what it takes on one database; whether the bars are kept."""
    servers, groups = fleet(options.servers, options.group_size)
    store = open_store(url)
    kept: list[bool] = []

    def take(what: str, bar: float | None = None) -> AbstractContextManager[None]:
        return timed(what, bar, kept, options.profile)

    try:
        store.upgrade()
        began = time.perf_counter()
        assert isinstance(store, SqlStore)
        fill(store, servers, groups, options.days, _NOW)
        print(f"{options.servers} servers, {options.days} days, {len(groups)} groups, {where} (filled in "
              f"{time.perf_counter() - began:.0f} s):", flush=True)
        policies = load_slos({"slo.yaml": (rules_folder() / "slo.yaml").read_text()})
        with take("weekly report", BAR_REPORT), tempfile.TemporaryDirectory() as folder, store.read() as unit:
            write_report(
                assemble(unit, groups, end=_NOW, now=_NOW, key="2026-W44", host="bench", target=0.6, simulated=False,
                         policies=policies),
                Path(folder),
            )
        some = [replace(groups[0], servers=groups[0].servers[:COUNTED])]
        book = SloBook(policies, {group.name: group.servers for group in some})
        with take(f"objectives of {len(some[0].servers)} servers at a start"):
            feed_book(book, store, some, _NOW, is_large=len(servers) > MANY)
        with store.read() as unit:
            known = read_known(unit, servers, _NOW, WINDOW_SECONDS)
        clock = FakeClock(_NOW)
        view = DaemonView(
            store, Telemetry(), groups, servers, clock, Heart(clock, 1e9), tried_all=lambda: True,
            report_file=lambda key, ending: None, live_report=str, slos=tuple, known=lambda: known,
        )
        client = make_app(
            view, DaemonDesk(store, [], clock, groups), token=None, hosts=frozenset({"localhost"}), simulated=False,
            target=0.6,
        ).test_client()
        for what, path, bar in (
            ("status page, first", "/", None),
            ("status page", "/", BAR_PAGE),
            ("as JSON", "/api/v1/status", BAR_PAGE),
            (f"charts of {options.group_size} servers, 7 days", "/groups/g0?span=7d", None),
            (f"charts of {options.group_size} servers, 90 days", "/groups/g0?span=90d", None),
        ):
            with take(what, bar):
                answer = client.get(path)
            assert answer.status_code == 200, (path, answer.status_code, answer.text[:500])
    finally:
        store.close()
    return all(kept)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print it; 1 where a bar is not kept."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--servers", type=int, default=1000)
    parser.add_argument("--group-size", type=int, default=50)
    parser.add_argument("--days", type=int, default=90)
    parser.add_argument("--store", nargs="+", choices=("sqlite", "postgresql"), default=("sqlite", "postgresql"))
    parser.add_argument("--profile", action="store_true")
    options = parser.parse_args(arguments)
    good = True
    # As the daemon does at its start, and the command `report`.
    collect_seldom()
    with reaper.tidied(), ExitStack() as stack:
        if "sqlite" in options.store:
            with tempfile.TemporaryDirectory(prefix="acceptd-bench-") as folder:
                good &= measure(f"sqlite:///{folder}/local.db", "SQLite", options)
        if "postgresql" in options.store:
            server = stack.enter_context(running_server())
            if server is None:
                print("PostgreSQL is not installed: NOT MEASURED on it", flush=True)
            else:
                good &= measure(server.url(server.new_database()), "PostgreSQL", options)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
