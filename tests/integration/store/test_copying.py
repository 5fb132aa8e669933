"""Everything a store holds goes to the other database and back, and comes out as it was; twice adds nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from monitor.model.counts import Histogram
from monitor.model.interval import Interval
from monitor.model.record import AuditEntry, Baseline, Rejection, Restart
from monitor.model.rollout import RolloutState
from monitor.model.server import ServerName
from monitor.store import Retention
from monitor.store.opening import open_store
from monitor.store.sql import SqlStore
from monitor.store.tables import Base
from tests.integration.postgres import PostgresServer
from tests.integration.store.values import (
    EAST,
    FINE,
    T0,
    A,
    B,
    alert,
    at,
    decision,
    head,
    interval,
    life,
    notice,
    reading,
    rollout,
    watched,
)

pytestmark = pytest.mark.postgres


def fill(store: SqlStore, server: ServerName = A, name: str = "a") -> None:
    """Rows in every table that is worth keeping."""
    born = life(f"{name}/m/0/1", server)
    with store.write() as unit:
        unit.lives.add(born)
        unit.heads.put([head(born, at(15 * 700))])
        unit.intervals.add([interval(born, 15.0 * n) for n in range(1, 701)])
        unit.readings.put(reading(server))
        unit.servers.put([watched(name)])
        unit.decisions.add(decision(f"d-{name}"))
        unit.rollouts.add(replace(rollout(f"r-{name}"), state=RolloutState.PROMOTED))
        unit.alerts.put([alert(f"Alert-{name}")])
        unit.outbox.queue(notice(f"n-{name}", key=f"k-{name}"), ["console"], T0)
        for line in ("one", "two", "two"):
            unit.audit.add(AuditEntry(T0, "anna", line, "x", f"é {name}"))
        unit.rejections.add(Rejection(EAST, 5, "ngram", at(9), at(99), 2, f"slower {name}", FINE, 2.5))
        unit.restarts.add(Restart(server, T0, "change", "ready"))
        unit.baselines.put(Baseline(server, "ngram/3/0.10", 2.5, 0.5, None, 1e6, T0, 12))
        unit.leases.acquire(f"lease-{name}", "me", 60, T0)
    store.roll_up(at(15 * 700))


@pytest.fixture
def stores(tmp_path: Path, postgres_server: PostgresServer, upgraded: str) -> Iterator[dict[str, SqlStore]]:
    """An empty store of each kind, and a second file."""
    made = {
        "file": open_store(f"sqlite:///{tmp_path}/one/local.db"),
        "server": open_store(postgres_server.url(postgres_server.new_database(template=upgraded))),
        "other": open_store(f"sqlite:///{tmp_path}/two/local.db"),
    }
    for store in made.values():
        store.upgrade()
    yield made
    for store in made.values():
        store.close()


def content(store: SqlStore) -> dict[str, list[tuple[Any, ...]]]:
    """All rows of all tables but leases, without numbers that the database gave."""
    found = {}
    with store._database.reading() as connection:
        for table in Base.metadata.sorted_tables:
            if table.name not in ("leases", "histogram_edges"):
                # Side rows refer to edges by number: they are compared as what they mean.
                left_out = {"number"} if table.name in ("notices", "reports") else {"number", "body"}
                columns = [c for c in table.c if c.name not in left_out]
                found[table.name] = sorted(map(tuple, connection.execute(select(*columns))), key=repr)
    return found


def intervals(store: SqlStore, server: ServerName = A) -> list[Interval]:
    with store.read() as unit:
        return unit.intervals.between([server], T0, at(1e6))


def hours(store: SqlStore, server: ServerName = A) -> list[Interval]:
    with store.read() as unit:
        return unit.intervals.between_coarse([server], T0, at(1e6), 3600)


def test_all_goes_to_postgresql_and_back_as_it_was(stores: dict[str, SqlStore]) -> None:
    file, server, other = stores["file"], stores["server"], stores["other"]
    fill(file)
    told: dict[str, int] = {}
    copied = server.copy_from(file, told.__setitem__)
    assert copied["intervals"] == told["intervals"] == 700
    assert set(copied) == set(content(file)) - {"interval_details"}
    assert other.copy_from(server) == copied
    for store in (server, other):
        assert content(store) == content(file)
        assert intervals(store) == intervals(file)
        assert hours(store) == hours(file) != []
        assert store.faults() == []
        with store.read() as unit:
            assert unit.leases.get("lease-a") is None


def test_copying_again_adds_nothing(stores: dict[str, SqlStore]) -> None:
    file, server = stores["file"], stores["server"]
    fill(file)
    server.copy_from(file)
    before = content(server)
    assert set(server.copy_from(file).values()) == {0}
    assert content(server) == before


def test_two_hosts_come_together_in_one_database_whatever_numbers_their_edges_have(stores: dict[str, SqlStore]) -> None:
    file, server, other = stores["file"], stores["server"], stores["other"]
    fill(file)
    # The same numbers stand for other edges there.
    born = life("z/m/0/1", ServerName("z"))
    edges = Histogram((0.5, 1.5, 2.5), (1.0, 2.0, 3.0), 4.0, 3.0)
    one = interval(born, 15.0)
    assert one.latency is not None
    with other.write() as unit:
        unit.lives.add(born)
        unit.intervals.add([replace(one, latency=replace(one.latency, queue=edges))])
    fill(other, B, "b")
    for source in (other, file):
        server.copy_from(source)
    assert intervals(server, A) == intervals(file, A)
    assert intervals(server, B) == intervals(other, B)
    assert intervals(server, ServerName("z")) == intervals(other, ServerName("z"))
    assert hours(server, B) == hours(other, B)


def test_what_comes_late_corrects_the_rollups_that_are_there(stores: dict[str, SqlStore]) -> None:
    file, other = stores["file"], stores["other"]
    fill(file)
    born = life("a/m/0/1", A)
    with other.write() as unit:
        unit.lives.add(born)
        unit.intervals.add([interval(born, 15.0 * n) for n in range(1, 701) if not 100 < n < 300])
    other.roll_up(at(15 * 700))
    missing = sum(one.speculation.num_drafts or 0 for one in hours(other) if one.speculation)
    other.copy_from(file)
    other.roll_up(at(15 * 700))
    assert sum(one.speculation.num_drafts or 0 for one in hours(other) if one.speculation) > missing
    assert hours(other) == hours(file)


@pytest.mark.parametrize("kind", ["file", "server"])
@pytest.mark.parametrize("pruned", [False, True])
def test_what_is_there_in_one_long_interval_does_not_come_in_short_ones(
    stores: dict[str, SqlStore], kind: str, pruned: bool
) -> None:
    """As when a backup was put back, and the file that it replaced is imported after all."""
    target, replaced = stores[kind], stores["other"]
    born = life("a/m/0/1", A)
    for store, ends in ((target, range(1, 201)), (replaced, range(1, 601))):
        with store.write() as unit:
            unit.lives.add(born)
            unit.intervals.add([interval(born, 15.0 * n) for n in ends])
    with target.write() as unit:
        unit.intervals.add([interval(born, 15.0 * 700, 15.0 * 500), interval(born, 15.0 * 701)])
    # Before and after what both have, the file has more.
    with replaced.write() as unit:
        unit.intervals.add([interval(born, -15.0 * 900), interval(born, 15.0 * 702)])
    for store in (target, replaced):
        store.roll_up(at(2e5))
    if pruned:
        replaced.prune(at(2e5), Retention(raw_hours=1.0))
    copied = target.copy_from(replaced)
    target.roll_up(at(2e5))
    assert copied["intervals"] == (0 if pruned else 2)
    # Since T0; of sums alone the newest shares its bucket with others.
    assert tokens(hours(target)) == (202 if pruned else 203) * tokens([interval(born, 15.0)])
    assert set(target.copy_from(replaced).values()) == {0}


def tokens(found: list[Interval]) -> float:
    return sum(one.speculation.num_draft_tokens or 0.0 for one in found if one.speculation)


def test_ages_and_lags_say_how_the_store_stands(stores: dict[str, SqlStore]) -> None:
    for store in (stores["file"], stores["server"]):
        if store is stores["file"]:
            fill(store)
        else:
            store.copy_from(stores["file"])
        found = {age.table: age for age in store.ages()}
        assert (found["intervals"].oldest, found["intervals"].newest) == (at(15), at(15 * 700))
        assert (found["evidence"].oldest, found["evidence"].newest) == (None, None)
        five, hour = store.lags()
        assert (five.step_seconds, hour.step_seconds, five.server) == (300, 3600, A)
        assert 0 <= (five.newest - five.until).total_seconds() < 600
        assert five.newest == at(15 * 700)
