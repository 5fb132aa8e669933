"""Daemons of several hosts, each with a store of its own, change one group at a time, and so many in the fleet."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from monitor.actions.orders import Orders
from monitor.actions.rights import FleetRights
from monitor.errors import ActionError, StoreError
from monitor.model.decision import Reason
from monitor.store import Store, open_store
from tests.fakes.fake_clock import FakeClock
from tests.fakes.fake_world import World, sink
from tests.integration.postgres import PostgresServer


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def shared(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    url = f"sqlite:///{tmp_path}/fleet.db"
    if request.param == "postgresql":
        server: PostgresServer = request.getfixturevalue("postgres_server")
        url = server.url(server.new_database())
    store = open_store(url)
    store.upgrade()
    yield store
    store.close()


def host(shared: Store, name: str, clock: FakeClock | None = None, *, most: int = 1) -> World:
    """A daemon with a store and a server of its own, in a fleet."""
    world = World()
    world.clock = clock or world.clock
    rights = FleetRights(shared, name, world.clock, max_concurrent=most)
    world.executor._rights = rights
    world.orders = Orders(
        world.store, world.fleet, holder=name, timing=world.timing, on_event=sink, make_id=world._id, rights=rights
    )
    return world


def refused(world: World) -> str:
    with pytest.raises(ActionError) as caught:
        world.begin(3)
    assert caught.value.retryable
    return f"{caught.value.reason}: {caught.value}"


def test_one_host_changes_a_group_and_the_other_may_when_it_is_over(shared: Store) -> None:
    first, second = host(shared, "host-1"), host(shared, "host-2")
    first.begin(3)
    assert refused(second) == "not_coordinator: group g is being changed by host-1"
    assert second.is_quiet()
    assert first.run()
    # It is given back at one of the next turns.
    first.run(seconds=200, until=lambda: False)
    second.begin(3)
    assert second.run()
    assert second.server.tokens == 3


def test_a_host_that_may_not_begin_keeps_no_other_from_it(shared: Store) -> None:
    first, second = host(shared, "host-1"), host(shared, "host-2")
    first.pause()
    with pytest.raises(ActionError) as caught:
        first.begin(3)
    assert caught.value.reason == "paused"
    second.begin(3)
    assert second.run()


def test_so_many_groups_at_once_in_the_whole_fleet(shared: Store) -> None:
    clock = FakeClock()
    rights = [FleetRights(shared, f"host-{n}", clock, max_concurrent=2) for n in range(3)]
    for n in range(2):
        rights[n].take(f"group-{n}", clock.now())  # type: ignore[arg-type]
    with pytest.raises(ActionError, match="2 of 2 rollouts at once are under way in the fleet"):
        rights[2].take("group-2", clock.now())  # type: ignore[arg-type]
    clock.advance(200)
    rights[0].keep((), clock.now())
    rights[2].take("group-2", clock.now())  # type: ignore[arg-type]


def test_a_right_is_prolonged_while_its_rollout_goes_on(shared: Store) -> None:
    first, second = host(shared, "host-1"), host(shared, "host-2")
    first.gate.reason = "an objective burns"
    first.begin(3)
    for _ in range(5):
        first.run(seconds=120, until=lambda: False)
        assert refused(second).startswith("not_coordinator")


class Away:
    """A database that does not answer."""

    @contextmanager
    def write(self, *, durable: bool = True) -> Iterator[object]:
        raise StoreError("no route to host")
        yield

    def transact(self, work: object, *, durable: bool = True) -> object:
        raise StoreError("no route to host")


def test_while_the_database_is_away_nothing_begins_and_what_has_begun_is_finished(shared: Store) -> None:
    """Given a database that goes away in mid-change, the change ends, a crashed server is started, no other begins."""
    world = host(shared, "host-1")
    world.begin(3)
    world.until_state("restarting")
    for part in (world.executor, world.orders):
        part._rights._shared = Away()  # type: ignore[attr-defined]
    assert world.run()
    assert world.server.tokens == 3
    with pytest.raises(ActionError) as caught:
        world.begin(4, current=3)
    assert (caught.value.reason, caught.value.retryable) == ("fleet_store_away", True)
    world.server.crash()
    world.orders.restart(
        world.server.name, "down", world.clock.now(), requested_by="keeper", reason=Reason.REQUESTED_BY_OPERATOR
    )
    assert world.run()
    assert world.server.serves


