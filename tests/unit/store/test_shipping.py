"""From one store to another: each count once, whoever dies, sleeps or is away in between."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest

from monitor.model.interval import Interval
from monitor.model.life import LastReading, Life, LifeId
from monitor.model.rollout import Lease
from monitor.model.server import ServerName
from monitor.store.naming import NameTaken, Naming
from monitor.store.pages import Page
from monitor.store.refusals import StoreAway
from monitor.store.shipping import ADOPTED_AT_ONCE, Shipped, adopt, gone_back, ship, watch_lease
from monitor.store.spool import Spool
from tests.fakes.fake_clock import FakeClock
from tests.fakes.memory_store import Intervals, MemoryStore
from tests.integration.store.values import T0, at, head, interval, life, reading

A, B = ServerName("a"), ServerName("b")
AWAY = StoreAway("database x: the server cannot be reached")


class Host:
    """A daemon with its local store: it takes pages and brings them over."""

    def __init__(self, name: str, shared: MemoryStore) -> None:
        self.name = name
        self.shared = shared
        self.store = MemoryStore()
        self.spool = Spool(self.store, None, FakeClock(), ship=True)
        self.leases: dict[ServerName, Lease] = {}
        naming = Naming(name, f"folder-of-{name}", 1e6)
        with shared.write() as unit:
            self.right = naming.claim(unit, T0)

    def take(self, *servers: ServerName, now: float = 0.0) -> None:
        with self.shared.write() as unit:
            found = unit.leases.hold([watch_lease(server) for server in servers], self.name, 60.0, at(now))
        self.leases = {ServerName(name.removeprefix("watch:")): lease for name, lease in found.items()}

    def page(self, of: Life, number: float) -> None:
        """Page `number` of a server: its head stands at the number of its intervals."""
        with self.store.read() as unit:
            known = unit.heads.get(of.id)
        begins = known is None
        moved = head(of, at(15.0 * number), scale=float(number))
        last = LastReading(replace(reading(of.server).reading, scraped_at=at(15.0 * number)), T0)
        start = 0.0 if known is None else (known.at - T0).total_seconds()
        closed = () if begins else (interval(of, 15.0 * number, 15.0 * number - start),)
        self.spool.keep(Page(lives=(of,) if begins else (), heads=(moved,), intervals=closed, last=last))

    def ship(self, now: float = 0.0) -> Shipped:
        return ship(self.store, self.shared, self.right, self.name, self.leases, at(now))


def chain(store: MemoryStore, server: ServerName) -> list[tuple[float, float]]:
    """Begin and end of the server's intervals."""
    with store.read() as unit:
        found = unit.intervals.between([server], T0 - timedelta(days=1), at(1e6))
    return [((one.start - T0).total_seconds() / 15, (one.end - T0).total_seconds() / 15) for one in found]


def heads(store: MemoryStore) -> dict[LifeId, float]:
    with store.read() as unit:
        found = [(life.id, unit.heads.get(life.id)) for life in unit.lives.of(None, T0 - timedelta(days=1), at(1e6))]
    return {name: (head.at - T0).total_seconds() / 15 for name, head in found if head is not None}


ONE, OTHER = life("a/m/0/1", A), life("b/m/0/1", B)


def test_what_waits_goes_over_once_and_its_head_with_it() -> None:
    shared = MemoryStore()
    host = Host("h1", shared)
    host.take(A, B)
    for number in range(4):
        host.page(ONE, number)
        host.page(OTHER, number)
    assert host.ship() == Shipped(6, 0, False)
    assert host.ship() == Shipped()
    assert chain(shared, A) == chain(shared, B) == [(0, 1), (1, 2), (2, 3)]
    assert heads(shared) == {ONE.id: 3, OTHER.id: 3}


def test_a_database_that_is_away_costs_nothing_but_time() -> None:
    shared = MemoryStore()
    host = Host("h1", shared)
    host.take(A)
    host.page(ONE, 0)
    shared.away = AWAY
    for number in range(1, 9):
        host.page(ONE, number)
        with pytest.raises(StoreAway):
            host.ship()
    shared.away = None
    assert host.ship().intervals == 8
    assert heads(shared) == {ONE.id: 8}


def test_a_death_after_it_reached_the_database_doubles_nothing() -> None:
    shared = MemoryStore()
    host = Host("h1", shared)
    host.take(A)
    host.page(ONE, 0)
    host.page(ONE, 1)
    before = host.store.tables.copy()
    host.ship()
    host.store.tables.restore(before)  # the queue was not yet written when it died
    host.page(ONE, 2)
    assert host.ship() == Shipped(1, 0, False)
    assert chain(shared, A) == [(0, 1), (1, 2)]


def test_one_that_slept_while_another_took_its_server_writes_nothing() -> None:
    shared = MemoryStore()
    sleeper, other = Host("h1", shared), Host("h2", shared)
    sleeper.take(A, B)
    for number in range(3):
        sleeper.page(ONE, number)
        sleeper.page(OTHER, number)
    sleeper.ship()
    sleeper.page(ONE, 3)
    sleeper.page(OTHER, 3)
    other.take(A, now=61)
    sleeper.take(B, now=61)
    adopt(shared, other.store, [A], T0 - timedelta(hours=1), at(61))
    other.page(ONE, 5)
    other.ship(now=62)
    sleeper.page(ONE, 6)
    assert sleeper.ship(now=62) == Shipped(1, 2, False)
    assert chain(shared, A) == [(0, 1), (1, 2), (2, 5)]
    assert heads(shared) == {ONE.id: 5, OTHER.id: 3}


def test_rows_of_a_server_that_nobody_took_wait_until_it_is_ours_again() -> None:
    shared = MemoryStore()
    host = Host("h1", shared)
    host.take(A)
    host.page(ONE, 0)
    host.page(ONE, 1)
    assert host.ship(now=61) == Shipped()  # the lease is over, but nobody else has it
    host.take(A, now=70)
    assert host.ship(now=70) == Shipped(1, 0, False)


def test_many_are_taken_over_a_few_at_a_time() -> None:
    """Half a gigabyte of objects otherwise, when a host of a large fleet dies."""
    shared = MemoryStore()
    first, second = Host("h1", shared), Host("h2", shared)
    lives = [life(f"s{number}/m/0/1", ServerName(f"s{number}")) for number in range(2 * ADOPTED_AT_ONCE + 1)]
    first.take(*(one.server for one in lives))
    for number in range(3):
        for one in lives:
            first.page(one, number)
    first.ship()
    at_once: list[int] = []
    between = Intervals.between

    def counted(self: Intervals, servers: Sequence[ServerName], *args: Any, **options: Any) -> list[Interval]:
        at_once.append(len(servers))
        return between(self, servers, *args, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Intervals, "between", counted)
        taken = adopt(shared, second.store, [one.server for one in lives], T0 - timedelta(hours=1), at(61))
    assert taken == 2 * len(lives)
    assert at_once == [ADOPTED_AT_ONCE, ADOPTED_AT_ONCE, 1]
    assert heads(second.store) == {one.id: 2 for one in lives}
    assert all(chain(second.store, one.server) == [(0, 1), (1, 2)] for one in lives)
    assert adopt(shared, second.store, [], T0, at(61)) == 0


def test_who_takes_over_again_voids_what_it_had_and_goes_on_from_the_others_head() -> None:
    shared = MemoryStore()
    first, second = Host("h1", shared), Host("h2", shared)
    first.take(A)
    for number in range(3):
        first.page(ONE, number)
    first.ship()
    first.page(ONE, 3)  # never reaches the database
    second.take(A, now=61)
    assert adopt(shared, second.store, [A], T0 - timedelta(hours=1), at(61)) == 2
    second.page(ONE, 4)
    second.ship(now=62)
    first.take(A, now=200)
    assert adopt(shared, first.store, [A], T0 - timedelta(hours=1), at(200)) == 1
    assert heads(first.store) == {ONE.id: 4}
    first.page(ONE, 15)
    assert first.ship(now=200) == Shipped(1, 0, False)
    assert chain(shared, A) == [(0, 1), (1, 2), (2, 4), (4, 15)]


def test_a_life_that_only_we_knew_ends_where_another_had_the_server() -> None:
    shared = MemoryStore()
    first, second = Host("h1", shared), Host("h2", shared)
    first.take(A)
    first.page(ONE, 1)
    second.take(A, now=61)
    second.page(life("a/m/0/2", A, first_seen=at(61)), 5)
    second.ship(now=62)
    adopt(shared, first.store, [A], T0 - timedelta(hours=1), at(200))
    with first.store.read() as unit:
        assert [one.id for one in unit.lives.open_of(A)] == ["a/m/0/2"]
        assert unit.unshipped.count() == 0


def test_any_history_of_handovers_counts_everything_once() -> None:
    rng = random.Random(5)
    for _ in range(30):
        shared = MemoryStore()
        hosts = [Host("h1", shared), Host("h2", shared)]
        owner, number, now = hosts[0], 0, 0.0
        owner.take(A, now=now)
        owner.page(ONE, 0)
        owner.ship(now=now)
        for _ in range(60):
            number, now = number + 1, now + 1.0
            owner.page(ONE, number)
            if rng.random() < 0.4:
                shared.away = AWAY if rng.random() < 0.3 else None
                if shared.away is None:
                    owner.take(A, now=now)
                    owner.ship(now=now)
                shared.away = None
            if rng.random() < 0.1:
                now += 100.0
                late, owner = owner, hosts[1 - hosts.index(owner)]
                owner.take(A, now=now)
                adopt(shared, owner.store, [A], T0 - timedelta(days=1), at(now))
                late.page(ONE, number + 1)
                late.ship(now=now)
                number += 1
        owner.take(A, now=now)
        owner.ship(now=now)
        found = chain(shared, A)
        assert found[0][0] == 0
        assert all(one[1] == two[0] for one, two in pairwise(found))
        assert heads(shared) == {ONE.id: found[-1][1]}


def test_who_has_lost_its_name_to_another_brings_nothing() -> None:
    """Given a twin of the same name, under which the leases still hold."""
    shared = MemoryStore()
    host = Host("h1", shared)
    host.take(A)
    host.page(ONE, 1)
    host.page(ONE, 2)
    with shared.write() as unit:
        unit.leases.release(host.right)
        Naming("h1", "another folder", 60.0).claim(unit, T0)
    with pytest.raises(NameTaken):
        host.ship()
    assert chain(shared, A) == []
    with host.store.read() as unit:
        assert unit.unshipped.count() > 0  # kept, until the name is its own again or it has another


def test_a_file_that_went_back_is_noticed_and_takes_back_what_it_lacks() -> None:
    shared = MemoryStore()
    host = Host("h1", shared)
    host.take(A, B)
    for number in range(4):
        host.page(ONE, number)
        host.page(OTHER, number)
    host.ship()
    before = host.store.tables.copy()
    assert gone_back(host.store, shared, [A, B]) == {}
    host.page(ONE, 4)
    # What waits here is no sign: the newest that is there is known.
    assert gone_back(host.store, shared, [A, B]) == {}
    host.page(ONE, 5)
    host.ship()
    host.store.tables.restore(before)
    assert gone_back(host.store, shared, [A, B]) == {A: at(45.0)}
    # Also where it went on from the old head meanwhile.
    host.page(ONE, 6)
    assert gone_back(host.store, shared, [A, B]) == {A: at(75.0)}
    adopt(shared, host.store, [A], at(45.0), at(91.0))
    host.page(ONE, 7)
    host.ship()
    assert chain(shared, A) == [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 7)]
    assert gone_back(host.store, shared, [A, B]) == {}


def test_a_file_that_was_made_anew_is_noticed_and_a_life_that_ended_here_is_none() -> None:
    shared = MemoryStore()
    host = Host("h1", shared)
    host.take(A)
    host.page(ONE, 0)
    host.ship()
    # A head without an interval has counted nothing there.
    assert gone_back(MemoryStore(), shared, [A]) == {}
    host.page(ONE, 1)
    host.ship()
    assert gone_back(MemoryStore(), shared, [A]) == {A: at(15.0)}
    with host.store.write() as unit:
        unit.lives.put([replace(ONE, ended=at(20.0))])
        unit.heads.remove([ONE.id])
    assert gone_back(host.store, shared, [A]) == {}


def test_what_another_counted_while_we_were_cut_off_is_here_once_when_the_server_comes_back() -> None:
    shared = MemoryStore()
    cut_off, other = Host("h1", shared), Host("h2", shared)
    cut_off.take(A)
    for number in range(4):
        cut_off.page(ONE, number)
    cut_off.ship()
    other.take(A, now=61)
    adopt(shared, other.store, [A], T0 - timedelta(hours=1), at(61))
    # Both watch it for a while: the one that is cut off goes on alone.
    for number in (4.5, 5.5, 6.5):
        cut_off.page(ONE, number)
    for number in (5, 6):
        other.page(ONE, number)
    other.ship(now=62)
    assert cut_off.ship(now=62) == Shipped(0, 3, False)
    assert chain(cut_off.store, A) == [(0, 1), (1, 2), (2, 3)]
    cut_off.page(ONE, 7.5)
    cut_off.take(A, now=200)
    adopt(shared, cut_off.store, [A], T0 - timedelta(hours=1), at(200))
    cut_off.page(ONE, 8)
    assert chain(cut_off.store, A) == [(0, 1), (1, 2), (2, 3), (3, 5), (5, 6), (6, 8)]
