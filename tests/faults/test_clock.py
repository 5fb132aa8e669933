"""The wall clock jumps, forwards and backwards: counts stay whole, rates true, and nobody is woken."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.daemon import LONG_AGO
from tests.faults.counted import CountedServer, serving
from tests.faults.shifted import ShiftedDaemon

#: Off the machine's clock, one after the other: an hour either way, a month ahead, and right again.
JUMPS = ("+1h", "-1h", "+30d", "+0")


@pytest.fixture
def servers() -> Iterator[list[CountedServer]]:
    found = [CountedServer(f"s{number}") for number in range(3)]
    with serving(*found):
        yield found


def test_jumps_lose_nothing_make_no_rates_up_and_wake_nobody(tmp_path: Path, servers: list[CountedServer]) -> None:
    quick = {"ServerDown.for": "2s", "NoSamples.for": "2s", "EngineStuck.for": "2s"}
    daemon = ShiftedDaemon(tmp_path, *servers, rules={"interval": "500ms", "parameters": quick})

    try:
        daemon.start()
        daemon.read_on(3)
        for server in servers:
            server.restart()
        daemon.read_on(3)
        for jump in JUMPS:
            daemon.shift(jump)
            daemon.read_on(3)
            daemon.cycles(1)
        daemon.comes_out_whole()
        with daemon.store() as store, store.read() as unit:
            found = unit.intervals.between(None, LONG_AGO, LONG_AGO.replace(year=2100))
            told = unit.outbox.recent(100)
            assert told == [], "somebody was woken"
        fastest = max(server.rate for server in servers)
        for interval in found:
            seconds = (interval.end - interval.start).total_seconds()
            # By the machine's own time, whatever the wall clock said: none of hours, none that ends before it begins.
            assert 0 < seconds < 60, interval
            if interval.speculation is not None and interval.speculation.num_drafts:
                # A busy machine may look at its clock a second after the page was made; a made-up rate is of hours.
                assert interval.speculation.num_drafts <= fastest * (seconds + 2.0), interval
        assert "Traceback" not in daemon.said()
        daemon.stop()
    finally:
        daemon.tear_down()


def test_a_jump_a_restart_and_a_death_while_the_store_is_locked_lose_nothing(
    tmp_path: Path, servers: list[CountedServer]
) -> None:
    daemon = ShiftedDaemon(tmp_path, *servers, rules={"interval": "500ms"})

    try:
        daemon.start()
        daemon.read_on(3)
        for server in servers:
            server.restart()
        daemon.read_on(3)
        holder = sqlite3.connect(daemon.data_dir / "local.db", isolation_level=None, timeout=30)
        holder.execute("BEGIN IMMEDIATE")
        daemon.wait(lambda: daemon.metric("acceptd_spool_pages") > 0 or None, "pages wait")
        daemon.shift("+30d")
        daemon.read_on(2)
        servers[0].restart()
        daemon.read_on(2)
        daemon.kill()
        holder.execute("ROLLBACK")
        holder.close()
        daemon.start()
        daemon.read_on(2)
        daemon.comes_out_whole()
        with daemon.store() as store, store.read() as unit:
            found = unit.intervals.between(None, LONG_AGO, LONG_AGO.replace(year=2100))
        # Those that waited are measured by the machine's own time, too.
        assert all(0 < (one.end - one.start).total_seconds() < 60 for one in found)
        assert "Traceback" not in daemon.said()
        daemon.stop()
    finally:
        daemon.tear_down()
