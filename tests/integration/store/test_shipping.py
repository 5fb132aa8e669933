"""What happens while much is brought over to a real PostgreSQL: leases are prolonged, and may be lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from monitor.model.life import LifeId
from monitor.model.server import ServerName
from monitor.store import open_store
from monitor.store.api import Unit, Unshipped
from monitor.store.naming import Naming, name_lease
from monitor.store.shipping import Shipped, ship, watch_lease
from monitor.store.sql import SqlStore
from tests.integration.postgres import PostgresServer
from tests.integration.store.values import T0, at, head, interval, life

pytestmark = pytest.mark.postgres
SERVER = ServerName("a")
LIFE = life(LifeId("a/m/0/1"), SERVER)


class Meanwhile:
    """A unit of which intervals are read: something else happens then."""

    def __init__(self, unit: Unit, happens: Callable[[], None]) -> None:
        self._unit, self._happens = unit, happens
        self.intervals = self

    def of_keys(self, keys: Any) -> Any:
        self._happens()
        return self._unit.intervals.of_keys(keys)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._unit, name)


class Host:
    """A daemon's local store with three intervals to bring over, and its leases."""

    def __init__(self, folder: Path, shared: SqlStore, happens: Callable[[], None]) -> None:
        self.local = open_store(f"sqlite:///{folder}/local.db")
        self.local.upgrade()
        self.shared, self.happens = shared, happens
        naming = Naming("h1", "folder", 60.0)
        with self.local.write() as unit:
            unit.lives.add(LIFE)
            unit.heads.put([head(LIFE, at(45.0))])
            unit.intervals.add(interval(LIFE, 15.0 * number) for number in (1, 2, 3))
            unit.unshipped.add(Unshipped(0, SERVER, LIFE.id, at(15.0 * number)) for number in (1, 2, 3))
        with shared.write() as unit:
            self.right = naming.claim(unit, T0)
            (self.lease,) = unit.leases.hold([watch_lease(SERVER)], "h1", 60.0, T0).values()

    @contextmanager
    def read(self) -> Iterator[Any]:
        with self.local.read() as unit:
            yield Meanwhile(unit, self.happens)

    def write(self, *, durable: bool = True) -> Any:
        return self.local.write(durable=durable)

    def ship(self) -> Shipped:
        return ship(self, self.shared, self.right, "h1", {SERVER: self.lease}, at(10.0))  # type: ignore[arg-type]


@pytest.fixture
def stores(postgres_server: PostgresServer, upgraded: str) -> Iterator[tuple[SqlStore, SqlStore]]:
    """Two daemons' ways to one database, whose leases go by the test's clock."""
    url = postgres_server.url(postgres_server.new_database(template=upgraded))
    one, two = (open_store(url, database_time=False) for _ in range(2))
    yield one, two
    one.close()
    two.close()


def test_leases_are_prolonged_while_rows_go_over(stores: tuple[SqlStore, SqlStore], tmp_path: Path) -> None:
    shared, beats = stores
    names = [watch_lease(SERVER), name_lease("h1")]

    def prolong() -> None:
        # A lock that is held would end this by the limit of locks, which the error names.
        with beats.write() as unit:
            assert unit.leases.hold(names[:1], "h1", 60.0, at(10.0)).keys() == {names[0]}
            assert unit.leases.hold(names[1:], host.right.holder, 60.0, at(10.0)).keys() == {names[1]}

    host = Host(tmp_path, shared, prolong)
    assert host.ship() == Shipped(3, 0, False)
    host.local.close()


def test_a_server_that_is_taken_while_its_rows_go_over_is_given_up(
    stores: tuple[SqlStore, SqlStore], tmp_path: Path
) -> None:
    shared, other = stores

    def take() -> None:
        with other.write() as unit:
            unit.leases.hold([watch_lease(SERVER)], "h2", 60.0, at(61.0))

    host = Host(tmp_path, shared, take)
    assert host.ship() == Shipped(0, 3, False)
    with shared.read() as unit:
        assert unit.intervals.between([SERVER], T0, T0 + timedelta(days=1)) == []
        assert unit.heads.get(LIFE.id) is None
    host.local.close()
