"""The spool: whatever the store does, pages go in once and in order, and no scrape is refused while they can wait."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from monitor.errors import StoreError
from monitor.model.life import Head, LastReading, LifeId
from monitor.model.server import ServerName
from monitor.store.pages import Page, packed, store_page, store_page_again, unpacked
from monitor.store.refusals import StoreAway, StoreBusy
from monitor.store.ring import SMALLEST_BYTES, Ring
from monitor.store.spool import Spool
from tests.fakes.fake_clock import FakeClock
from tests.fakes.memory_store import MemoryStore
from tests.integration.store.values import T0 as NOW
from tests.integration.store.values import head, interval, life, reading

LIFE = LifeId("chat-1/m/0/1")
SERVER = ServerName("chat-1")
BORN = life(LIFE, SERVER)
FULL = StoreAway("database file x: the disk is full")


def page(number: int, *, ended: bool = False) -> Page:
    """The page number `number` of one server: each closes an interval of 15 s."""
    at = NOW + timedelta(seconds=15 * number)
    lives = (replace(BORN, ended=at if ended else None),) if not number or ended else ()
    last = LastReading(replace(reading(SERVER).reading, scraped_at=at), at)
    closed = (interval(BORN, 15.0 * number),) if number else ()
    return Page(lives=lives, known=() if ended else (BORN,), heads=(head(BORN, at),), intervals=closed, last=last)


class Bench:
    def __init__(self, folder: Path, *, size: int = 1 << 20) -> None:
        self.clock = FakeClock()
        self.store = MemoryStore()
        self.path, self.size = folder / "spool.ring", size
        self.spool = self.new_spool()

    def new_spool(self) -> Spool:
        spool = Spool(self.store, Ring(self.path, self.size), self.clock)
        spool.open()
        return spool

    def ends(self) -> list[datetime]:
        return [one.end for one in self.store.tables.intervals.rows.values()]

    def head(self) -> Head:
        with self.store.read() as unit:
            found = unit.heads.get(LIFE)
        assert found is not None
        return found


def ends(*numbers: int) -> list[datetime]:
    return [NOW + timedelta(seconds=15 * number) for number in numbers]


def test_a_page_comes_back_from_its_bytes_as_it_was() -> None:
    full = page(3, ended=True)
    assert unpacked(packed(full)) == full
    with pytest.raises(ValueError, match="no compressed page"):
        unpacked(b"something")


def test_pages_wait_while_the_store_is_away_and_go_in_once_and_in_order(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.spool.keep(page(0))
    bench.store.away = FULL
    for number in (1, 2, 3):
        bench.spool.keep(page(number))
    state = bench.spool.state()
    assert (state.waiting, state.lost, "disk is full" in state.trouble) == (3, 0, True)
    with pytest.raises(StoreAway):
        bench.spool.drain()
    bench.store.away = None
    bench.spool.keep(page(4))  # the store would take it, but it must not overtake
    assert bench.ends() == []
    assert bench.spool.drain() == 4
    assert bench.ends() == ends(1, 2, 3, 4)
    assert bench.head().at == ends(4)[0]
    bench.spool.keep(page(5))
    assert bench.ends() == ends(1, 2, 3, 4, 5)
    assert bench.spool.state() == bench.new_spool().state()
    assert bench.spool.state().trouble == ""


def test_what_waits_survives_the_daemon(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.spool.keep(page(0))
    bench.store.away = StoreBusy("it stays locked")
    bench.spool.keep(page(1))
    bench.store.away = None
    bench.spool = bench.new_spool()
    assert bench.spool.state().away_seconds is not None
    assert bench.spool.drain() == 1
    assert bench.head().at == ends(1)[0]


def test_a_death_between_storing_and_forgetting_doubles_nothing_and_goes_back_nowhere(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.store.away = FULL
    for number in (0, 1, 2, 3):
        bench.spool.keep(page(number, ended=number == 3))
    bench.store.away = None
    with bench.store.write() as unit:
        for number in (0, 1, 2, 3):
            store_page_again(unit, page(number, ended=number == 3))
    assert bench.new_spool().drain() == 4
    assert bench.ends() == ends(1, 2, 3)
    assert bench.head().at == ends(3)[0]
    with bench.store.read() as unit:
        found, last = unit.lives.get(LIFE), unit.readings.get(SERVER)
    assert found is not None and found.ended == ends(3)[0]
    assert last is not None and last.reading.scraped_at == ends(3)[0]


def test_pages_that_come_back_after_newer_ones_change_nothing(tmp_path: Path) -> None:
    # As after a loss of power on a disk that had not written down what was forgotten.
    bench = Bench(tmp_path)
    bench.store.away = FULL
    for number in (0, 1, 2):
        bench.spool.keep(page(number))
    bench.store.away = None
    with bench.store.write() as unit:
        for number in range(5):
            store_page(unit, page(number))
    assert bench.new_spool().drain() == 3
    assert bench.ends() == ends(1, 2, 3, 4)
    assert bench.head().at == ends(4)[0]
    with bench.store.read() as unit:
        last = unit.readings.get(SERVER)
    assert last is not None and last.reading.scraped_at == ends(4)[0]


def test_any_mix_of_outages_and_deaths_stores_every_page_once(tmp_path: Path) -> None:
    rng = random.Random(11)
    bench = Bench(tmp_path)
    for number in range(400):
        bench.store.away = FULL if rng.random() < 0.4 else None
        bench.spool.keep(page(number))
        if rng.random() < 0.3:
            try:
                bench.spool.drain()
            except StoreError:
                assert bench.store.away is not None
        if rng.random() < 0.1:
            bench.spool = bench.new_spool()
    bench.store.away = None
    bench.spool.drain()
    assert bench.ends() == ends(*range(1, 400))
    assert bench.head().at == ends(399)[0]


def test_when_the_queue_is_full_the_oldest_go_and_are_counted(tmp_path: Path) -> None:
    bench = Bench(tmp_path, size=SMALLEST_BYTES)
    bench.spool.keep(page(0))
    bench.store.away = FULL
    for number in range(1, 200):
        bench.spool.keep(page(number))
    state = bench.spool.state()
    assert state.lost_lately == state.lost == 199 - state.waiting > 0
    assert state.fill_ratio > 0.9
    bench.store.away = None
    bench.spool.drain()
    assert bench.ends() == ends(*range(200 - state.waiting, 200))
    bench.clock.advance(3601)
    assert (bench.spool.state().lost_lately, bench.spool.state().lost) == (0, state.lost)


def test_a_page_that_the_store_refuses_for_good_keeps_no_other_waiting(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.spool.keep(page(0))
    bench.store.away = FULL
    orphan = replace(page(2), lives=(), known=(), heads=(replace(head(BORN), life=LifeId("nobody")),), intervals=())
    for one in (page(1), orphan, page(3)):
        bench.spool.keep(one)
    bench.store.away = None
    assert bench.spool.drain() == 2
    assert bench.ends() == ends(1, 3)
    assert bench.spool.state().lost == bench.spool.state().lost_lately == 1


def test_a_life_whose_first_page_made_room_comes_with_its_next_and_ends_the_one_before(tmp_path: Path) -> None:
    bench = Bench(tmp_path, size=SMALLEST_BYTES)
    bench.spool.keep(page(0))
    bench.store.away = FULL
    second = replace(BORN, id=LifeId("chat-1/m/0/2"), first_seen=NOW + timedelta(seconds=15))
    bench.spool.keep(replace(page(1), lives=(replace(BORN, ended=second.first_seen), second), known=(second,)))
    number = 2
    while bench.spool.state().lost < 5:
        closed = interval(second, 15.0 * number)
        bench.spool.keep(replace(page(number), known=(second,), heads=(head(second, closed.end),), intervals=(closed,)))
        number += 1
    bench.store.away = None
    assert bench.spool.drain() == number - 1 - 5
    bench.spool.keep(replace(page(number), heads=(head(second, closed.end),), intervals=(interval(second, 9000.0),)))
    with bench.store.read() as unit:
        assert [one.id for one in unit.lives.open_of(SERVER)] == [second.id]
        assert unit.lives.get(LIFE) == replace(BORN, ended=second.first_seen)
        assert len(unit.intervals.between([SERVER], NOW, NOW + timedelta(days=1))) == number - 6 + 1


def test_a_refusal_that_is_about_the_page_is_passed_on_and_nothing_waits(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    with pytest.raises(StoreError):
        bench.spool.keep(replace(page(1), lives=()))
    assert bench.spool.state().waiting == 0


def test_without_a_queue_the_store_s_own_refusal_is_passed_on() -> None:
    store = MemoryStore()
    spool = Spool(store, None, FakeClock())
    spool.open()
    store.away = FULL
    with pytest.raises(StoreAway, match="disk is full"):
        spool.keep(page(0))
    store.away = None
    spool.keep(page(0))
    assert spool.drain() == 0


def test_where_nothing_can_be_written_at_all_the_error_names_both(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.store.away = FULL
    bench.spool.close()
    with pytest.raises(StoreAway, match=r"disk is full; and the page cannot wait on disk"):
        bench.spool.keep(page(0))


def test_the_first_storing_refuses_what_is_known() -> None:
    store = MemoryStore()
    with store.write() as unit:
        store_page(unit, page(0))
        store_page(unit, page(1))
    with pytest.raises(StoreError), store.write() as unit:
        store_page(unit, page(1))
