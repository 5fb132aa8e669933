"""Filling the memory: a daemon that starts remembers what the one before it did."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from monitor.cycle.history import History
from monitor.cycle.recall import Recalled, recall, scraped_seconds
from monitor.model.server import ServerName
from tests.fakes.memory_store import MemoryStore
from tests.unit.signals.windows import NOON, interval, life

A = ServerName("a")
NOW = NOON + timedelta(hours=60)


@pytest.fixture
def told() -> tuple[MemoryStore, History]:
    """Nine hours at 5 tokens, then 3 until now: in the store, and as a daemon remembers that saw it all."""
    store, watched = MemoryStore(), History(3600.0)
    tried = replace(life("a", tokens=5, number=1), ended=NOON + timedelta(hours=9))
    kept = replace(life("a", tokens=3, number=2), first_seen=tried.ended)
    found = [
        interval(tried if end <= 9 * 60 else kept, 60.0 * end, seconds=300.0) for end in range(5, 60 * 60 + 1, 5)
    ]
    with store.write() as unit:
        for one in (tried, kept):
            unit.lives.add(one)
        unit.intervals.add(found)
    for one in found:
        watched.add([tried, kept], [one], one.end)
    return store, watched


def again(store: MemoryStore) -> History:
    history = History(3600.0)
    with store.read() as unit:
        found = recall(unit, A, NOW, 3600.0)
    history.fill(found.lives, found.scraped, found.sums)
    return history


@pytest.mark.parametrize("aged", [False, True])
def test_it_remembers_as_if_it_had_watched(told: tuple[MemoryStore, History], aged: bool) -> None:
    store, watched = told
    history, day = again(store), NOW - timedelta(hours=23)
    if aged:
        history.age([A, ServerName("never seen")], NOW)
    assert history.pairs([A], day) == watched.pairs([A], day)
    assert history.newest_lives(A) == watched.newest_lives(A)
    assert history.settled_since(A) == watched.settled_since(A) == NOON + timedelta(hours=9)


def test_it_goes_on_as_if_it_had_watched(told: tuple[MemoryStore, History]) -> None:
    """What is summed up at a start is not summed up by the first scrape: of a thousand servers that came late by it."""
    store, watched = told
    history = again(store)
    history.age([A], NOW)
    new = replace(life("a", tokens=3, number=2), first_seen=NOON + timedelta(hours=9))
    for minute in range(5, 181, 5):
        end = NOW + timedelta(minutes=minute)
        one = interval(new, (end - NOON).total_seconds(), seconds=300.0)
        for memory in (history, watched):
            memory.add([], [one], end)
    day = NOW - timedelta(hours=20)
    assert history.pairs([A], day) == watched.pairs([A], day)
    assert list(history.coarse_track(A).pairs)[-30:] == list(watched.coarse_track(A).pairs)[-30:]


@pytest.mark.parametrize("minutes", [2, 61, 400, 503])
def test_nothing_is_lost_or_doubled_whenever_it_starts(minutes: int) -> None:
    store, one, history = MemoryStore(), replace(life("a"), first_seen=NOON), History(600.0)
    found = [interval(one, 60.0 * end, seconds=60.0) for end in range(1, 701)]
    now = NOON + timedelta(minutes=minutes, seconds=20)
    with store.write() as unit:
        unit.lives.add(one)
        unit.intervals.add([each for each in found if each.end <= now])
    with store.read() as unit:
        told = recall(unit, A, now, 600.0)
    history.fill(told.lives, told.scraped, told.sums)
    history.age([A], now)
    for each in found[minutes:]:
        history.add([], [each], each.end + timedelta(seconds=20))
        for track in (history.track(A), history.coarse_track(A)):
            assert list(track.ends) == sorted(track.ends)
            drafts = sum(pair[1].speculation.num_drafts for pair in track.pairs)
            assert drafts == 1000.0 * (each.end - NOON).seconds / 60


def test_and_what_other_settings_took(told: tuple[MemoryStore, History]) -> None:
    store, watched = told
    for history in (again(store), watched):
        other = [one for of, one in history.pairs([A]) if of.setting.num_speculative_tokens == 5]
        assert [one.elapsed_seconds for one in other] == [3600.0] * 6
        assert other[-1].end == NOON + timedelta(hours=9)


def test_a_server_that_was_never_seen_is_not_remembered() -> None:
    with MemoryStore().read() as unit:
        assert recall(unit, A, NOW, 3600.0) == Recalled()


@pytest.mark.parametrize(
    ("servers", "window", "seconds"),
    [
        (1, 1800.0, 86_400.0),  # a few servers: the whole day
        (100, 1800.0, 6000.0),
        (1000, 1800.0, 600.0),  # a fleet: longer windows rest on sums
        (5000, 86_400.0, 600.0),  # the short window, and a little
        (5000, 60.0, 360.0),
    ],
)
def test_how_long_intervals_are_kept_as_scraped(servers: int, window: float, seconds: float) -> None:
    assert scraped_seconds(servers, 15.0, window) == seconds
