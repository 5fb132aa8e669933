"""Daemons of several hosts, each with a store of its own, change one group at a time, and so many in the fleet."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from monitor.actions.orders import Orders
from monitor.actions.rights import FleetRights
from monitor.errors import ActionError, StoreError
from monitor.model.decision import Reason
from monitor.model.rollout import Lease
from monitor.store import Store, open_store
from monitor.store.naming import Naming
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


def named(shared: Store, host: str, clock: FakeClock) -> Lease:
    """The right to a host's name, for the time of a test."""
    with shared.write() as unit:
        return Naming(host, f"folder of {host}", 1e6).claim(unit, clock.now())


def host(shared: Store, name: str, clock: FakeClock | None = None, *, most: int = 1) -> World:
    """A daemon with a store and a server of its own, in a fleet."""
    world = World()
    world.clock = clock or world.clock
    right = named(shared, name, world.clock)
    rights = FleetRights(shared, name, world.clock, name=lambda: right, max_concurrent=most)
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
    # It is given back at the next turn.
    first.executor.tick(first.clock.now())
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
    names = [named(shared, f"host-{n}", clock) for n in range(3)]
    rights = [FleetRights(shared, f"host-{n}", clock, name=partial(names.__getitem__, n), max_concurrent=2)
              for n in range(3)]
    for n in range(2):
        rights[n].take(f"group-{n}", clock.now())  # type: ignore[arg-type]
    with pytest.raises(ActionError, match="2 of 2 rollouts at once are under way in the fleet"):
        rights[2].take("group-2", clock.now())  # type: ignore[arg-type]
    # One under which nothing began is given back by who took it, or after two minutes.
    rights[0].keep((), clock.now())
    with pytest.raises(ActionError, match="2 of 2"):
        rights[2].take("group-2", clock.now())  # type: ignore[arg-type]
    rights[0].drop("group-0")  # type: ignore[arg-type]
    rights[2].take("group-2", clock.now())  # type: ignore[arg-type]
    clock.advance(200)
    rights[1].keep((), clock.now())
    rights[0].take("group-0", clock.now())  # type: ignore[arg-type]


@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_right_that_is_prolonged_keeps_its_place_and_takes_no_other(shared: Store, is_restarted: bool) -> None:
    clock = FakeClock()
    names = [named(shared, f"host-{n}", clock) for n in range(3)]

    def rights_of(n: int) -> FleetRights:
        return FleetRights(shared, f"host-{n}", clock, name=lambda: names[n], max_concurrent=2)

    rights = [rights_of(n) for n in range(3)]
    for n in range(2):
        rights[n].take(f"group-{n}", clock.now())  # type: ignore[arg-type]
    rights[0].drop("group-0")  # type: ignore[arg-type]
    if is_restarted:
        rights[1] = rights_of(1)
    # One that another host changes costs the others of this host nothing.
    rights[2].take("group-2", clock.now())  # type: ignore[arg-type]
    rights[1].keep(["group-2", "group-1"], clock.now())  # type: ignore[list-item]
    rights[2].drop("group-2")  # type: ignore[arg-type]
    clock.advance(200)
    rights[1].keep(["group-1"], clock.now())  # type: ignore[list-item]
    rights[2].take("group-2", clock.now())  # type: ignore[arg-type]
    rights[1].keep((), clock.now())
    rights[0].take("group-0", clock.now())  # type: ignore[arg-type]


def test_a_daemon_that_stops_keeps_only_what_the_next_one_ends(shared: Store) -> None:
    first, second = host(shared, "host-1"), host(shared, "host-2")
    first.begin(3)
    first.executor.tick(first.clock.now())
    first.executor.end()
    assert refused(second).startswith("not_coordinator")
    assert first.run()
    first.executor.end()
    second.begin(3)


def test_who_has_lost_its_name_to_another_begins_nothing(shared: Store) -> None:
    """Given another daemon of the same name, whose leases would otherwise count as one's own."""
    first = host(shared, "host-1")
    with shared.write() as unit:
        (lease, _), *_ = unit.leases.standing("name:host-1", first.clock.now())
        unit.leases.release(lease)
        Naming("host-1", "another folder", 60.0).claim(unit, first.clock.now())
    assert refused(first).startswith("not_coordinator: this host's name")
    assert first.is_quiet()


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


