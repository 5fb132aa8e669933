"""Small tables of one daemon are kept alike in the fleet's database: what changed goes over, what did not stays put."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest

from monitor.model.decision import DecisionState
from monitor.model.record import Baseline, Checks
from monitor.model.server import ServerName
from monitor.store.mirror import Mirror
from monitor.store.opening import open_store
from monitor.store.sql import SqlStore
from tests.integration.store.values import EAST, T0, A, B, alert, at, decision, reading


@pytest.fixture
def stores(tmp_path: Path) -> Iterator[tuple[SqlStore, SqlStore]]:
    made = open_store(f"sqlite:///{tmp_path}/local/local.db"), open_store(f"sqlite:///{tmp_path}/shared/local.db")
    for store in made:
        store.upgrade()
    yield made
    for store in made:
        store.close()


def test_what_changed_goes_over_and_only_that(stores: tuple[SqlStore, SqlStore]) -> None:
    local, shared = stores
    with local.write() as unit:
        unit.readings.put(reading(A))
        unit.readings.put(reading(ServerName("elsewhere")))
        unit.decisions.add(decision("d-1"))
        unit.alerts.put([alert("Cliff")])
        unit.baselines.put(Baseline(A, "ngram/3", 2.5, 0.5, None, 1e6, T0, 12))
    mirror = Mirror(local, shared)
    assert mirror.turn([A, B], [EAST], at(60)) == 4
    assert mirror.turn([A, B], [EAST], at(120)) == 0
    with shared.read() as unit:
        assert unit.readings.get(A) == reading(A)
        assert unit.readings.get(ServerName("elsewhere")) is None  # another daemon's server
        assert unit.decisions.get(decision("d-1").id) == decision("d-1")
        assert unit.alerts.all() == [alert("Cliff")]
    changed = replace(decision("d-1"), state=DecisionState.EXPIRED)
    with local.write() as unit:
        unit.decisions.update(changed)
    assert mirror.turn([A, B], [EAST], at(180)) == 1
    with shared.read() as unit:
        assert unit.decisions.get(changed.id) == changed
    # A daemon that starts anew compares once and changes nothing.
    assert Mirror(local, shared).turn([A, B], [EAST], at(240)) == 4


def test_who_takes_a_server_over_learns_what_is_normal_for_it(stores: tuple[SqlStore, SqlStore]) -> None:
    local, shared = stores
    normal = Baseline(A, "ngram/3", 2.5, 0.5, None, 1e6, T0, 12)
    with shared.write() as unit:
        unit.baselines.put(normal)
        unit.baselines.put(replace(normal, server=B))
    with local.write() as unit:
        unit.baselines.put(replace(normal, acceptance_length=9.0))
    Mirror(local, shared).bring_back([A])
    with local.read() as unit:
        assert unit.baselines.of_servers([A, B]) == [normal]


class TestChecks:
    """Many rows that only grow at their end: ten thousand a server, read again whole at each start, were gigabytes."""

    DAY = 86_400.0

    def test_what_is_over_is_not_looked_at_again(self, stores: tuple[SqlStore, SqlStore]) -> None:
        local, shared = stores
        with local.write() as unit:
            unit.checks.add([Checks(A, at(300.0 * n), 20, 0) for n in range(1, 289)])
            unit.checks.add([Checks(B, at(300), 20, 0)])
        mirror = Mirror(local, shared)
        assert mirror.turn([A], [], at(self.DAY + 10)) == 288
        assert mirror.turn([A], [], at(self.DAY + 20)) == 0
        with local.write() as unit:
            # The bucket of now grows, and a store of pages brings one of half an hour ago.
            unit.checks.add([Checks(A, at(self.DAY + 300), 1, 0), Checks(A, at(self.DAY), 0, 1)])
            unit.checks.add([Checks(A, at(self.DAY - 1800), 0, 20)])
        assert mirror.turn([A], [], at(self.DAY + 70)) == 3
        # Of a server that is new here all goes over.
        assert mirror.turn([A, B], [], at(self.DAY + 400)) == 1
        assert mirror.turn([A, B], [], at(self.DAY + 460)) == 0
        same(local, shared, at(2 * self.DAY))
        assert min(mirror._checks._growing[A]) > at(self.DAY - 3600)

    def test_a_daemon_that_starts_goes_on_from_what_is_there(self, stores: tuple[SqlStore, SqlStore]) -> None:
        local, shared = stores
        with local.write() as unit:
            unit.checks.add([Checks(A, at(300.0 * n), 20, 0) for n in range(1, 289)])
        assert Mirror(local, shared).turn([A], [], at(self.DAY)) == 288
        with local.write() as unit:
            unit.checks.add([Checks(A, at(self.DAY + 300.0 * n), 20, 0) for n in range(1, 25)])
        # A day without the database would come the same way.
        assert Mirror(local, shared).turn([A], [], at(self.DAY + 7200)) == 24 + 12
        same(local, shared, at(2 * self.DAY))

    def test_a_clock_that_was_ahead_or_is_set_back_leaves_nothing_out(self, stores: tuple[SqlStore, SqlStore]) -> None:
        local, shared = stores
        with local.write() as unit:
            unit.checks.add([Checks(A, at(end), 20, 0) for end in (300.0, 600.0, 30 * self.DAY)])
        mirror = Mirror(local, shared)
        assert mirror.turn([A], [], at(30 * self.DAY)) == 3
        with local.write() as unit:
            unit.checks.add([Checks(A, at(900), 7, 0)])
        for one in (mirror, Mirror(local, shared)):
            assert one.turn([A], [], at(900)) > 0
            same(local, shared, at(40 * self.DAY))

    def test_what_another_host_has_counted_since_stays(self, stores: tuple[SqlStore, SqlStore]) -> None:
        local, shared = stores
        with local.write() as unit:
            unit.checks.add([Checks(A, at(300.0 * n), 0, 20) for n in range(1, 10)])
        with shared.write() as unit:
            unit.checks.add([Checks(A, at(300.0 * n), 20, 0) for n in range(5, 289)])
        assert Mirror(local, shared).turn([A], [], at(self.DAY)) == 0


def same(local: SqlStore, shared: SqlStore, until: datetime) -> None:
    with local.read() as unit, shared.read() as there:
        for server in (A, B):
            asked = [server], at(0), until
            assert list(there.checks.between(*asked)) == list(unit.checks.between(*asked))
