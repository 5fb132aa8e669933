"""The recent past in memory: what the store has, no more, and not for longer than asked."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from monitor.cycle.history import History
from monitor.model.server import ServerName
from tests.unit.signals.windows import NOON, interval, life

A, B = ServerName("a"), ServerName("b")


def test_it_goes_on_from_what_the_store_has() -> None:
    history, one = History(600.0), life("a")
    history.fill([one], [interval(one, 0.0), interval(one, 15.0)])
    history.add([], [interval(one, 30.0)], NOON + timedelta(seconds=30))
    assert [i.end for _, i in history.pairs([A])] == [NOON + timedelta(seconds=s) for s in (0, 15, 30)]


def test_what_is_too_old_is_dropped_as_new_ones_come() -> None:
    history, one = History(60.0), life("a")
    for step in range(20):
        end = 15.0 * step
        history.add([one], [interval(one, end)], NOON + timedelta(seconds=end))
    ends = [(i.end - NOON).total_seconds() for _, i in history.pairs([A])]
    assert ends == [225.0, 240.0, 255.0, 270.0, 285.0]


def test_only_the_servers_and_the_time_asked_for() -> None:
    history, a, b = History(600.0), life("a"), life("b")
    history.add([a, b], [interval(a, 0.0), interval(b, 5.0), interval(a, 15.0)], NOON)
    assert [i.server for _, i in history.pairs([B])] == ["b"]
    assert [i.end for _, i in history.pairs([A, B], NOON)] == [
        NOON + timedelta(seconds=15), NOON + timedelta(seconds=5)
    ]  # fmt: skip
    assert history.pairs([ServerName("c")]) == []


def test_an_interval_comes_with_its_life_as_it_is_known_now() -> None:
    history, one = History(600.0), life("a", tokens=None)
    history.add([one], [interval(one, 0.0)], NOON)
    learned = replace(one, setting=replace(one.setting, num_speculative_tokens=3))
    history.add([learned], [], NOON)
    ((known, _),) = history.pairs([A])
    assert known == learned


def test_newest_lives_are_those_that_go_on_by_engine() -> None:
    history = History(600.0)
    old, first, second = life("a", number=1), life("a", number=2), life("a", engine="1", number=2)
    history.add([old], [interval(old, 0.0)], NOON)
    history.add(
        [replace(old, ended=NOON), second, first], [interval(second, 15.0), interval(first, 15.0)], NOON
    )
    assert history.newest_lives(A) == (first, second)
    assert history.newest_lives(B) == ()


def test_a_life_without_an_interval_does_not_count_yet() -> None:
    history, one = History(600.0), life("a")
    history.add([one], [], NOON)
    assert history.newest_lives(A) == ()


def test_lives_do_not_pile_up() -> None:
    history = History(60.0)
    for number in range(500):
        one = life("a", number=number)
        at = NOON + timedelta(seconds=15.0 * number)
        history.add([replace(one, ended=at)], [interval(one, 15.0 * number)], at)
    assert len(history._lives) < 120
    assert len(history.pairs([A])) == 5
