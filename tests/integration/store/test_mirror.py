"""Small tables of one daemon are kept alike in the fleet's database: what changed goes over, what did not stays put."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
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


def test_of_checks_only_the_newest_are_looked_through_and_late_ones_of_a_day_still_go_over(
    stores: tuple[SqlStore, SqlStore],
) -> None:
    local, shared = stores
    day = 86_400.0
    with local.write() as unit:
        unit.checks.add([Checks(A, at(300.0 * n), 20, 0) for n in range(12)])
        unit.checks.add([Checks(B, at(300), 20, 0)])
    mirror = Mirror(local, shared)
    assert mirror.turn([A], [], at(3700)) == 12
    # Two days on nothing old is read any more; the first turn of a server that is new here reads all of it.
    with local.write() as unit:
        unit.checks.add([Checks(A, at(2 * day + 300), 20, 0), Checks(A, at(2 * day - 3000), 0, 20)])
    assert mirror.turn([A], [], at(2 * day)) == 2
    assert mirror.turn([A, B], [], at(2 * day + 400)) == 1
    assert mirror.turn([A, B], [], at(4 * day)) == 0
    assert mirror.turn([A, B], [], at(4 * day + 60)) == 0
    assert mirror._known["checks"] == {}
    with local.read() as unit, shared.read() as there:
        for server in (A, B):
            asked = [server], at(0), at(5 * day)
            assert list(there.checks.between(*asked)) == list(unit.checks.between(*asked))
