"""The recent past in memory: what the store has, no more, and not for longer than asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta

import pytest

from monitor.cycle.history import History
from monitor.model.life import Life
from monitor.model.server import ServerName
from tests.unit.signals.windows import NOON, interval, life

A, B = ServerName("a"), ServerName("b")


def test_it_goes_on_from_what_the_store_has() -> None:
    history, one = History(600.0), life("a")
    history.fill([one], [interval(one, 0.0), interval(one, 15.0)])
    history.add([], [interval(one, 30.0)], NOON + timedelta(seconds=30))
    assert [i.end for _, i in history.pairs([A])] == [NOON + timedelta(seconds=s) for s in (0, 15, 30)]


class TestAge:
    """The older, the coarser; and gone after a day, but for other settings."""

    HOURS = 30

    def aged(self, lives: Mapping[float, Life], hours: float = HOURS, scraped: float = 3600.0) -> History:
        """An interval a minute; each life begins at its hour."""
        history = History(scraped)
        for minute in range(1, int(hours * 60) + 1):
            one = lives[max(begun for begun in lives if begun * 60 < minute)]
            history.add([one], [interval(one, 60.0 * minute, seconds=60.0)], NOON + timedelta(minutes=minute))
        return history

    def test_as_scraped_then_five_minutes_then_hours(self) -> None:
        found = self.aged({0: life("a")}).track(A)
        now = NOON + timedelta(hours=self.HOURS)
        lengths = [(now - i.end, i.elapsed_seconds) for _, i in found.pairs]
        assert {seconds for age, seconds in lengths if age < timedelta(minutes=59)} == {60.0}
        assert {seconds for age, seconds in lengths if timedelta(minutes=66) < age < timedelta(hours=5)} == {300.0}
        assert {seconds for age, seconds in lengths if age > timedelta(hours=7)} == {3600.0}
        assert list(found.ends) == sorted(found.ends)
        assert [pair[1].end for pair in found.pairs] == list(found.ends)

    def test_a_day_is_kept_and_nothing_of_it_is_lost(self) -> None:
        history = self.aged({0: life("a")})
        now = NOON + timedelta(hours=self.HOURS)
        of_day = history.pairs([A], now - timedelta(days=1))
        assert sum(i.elapsed_seconds for _, i in of_day) == pytest.approx(86_400.0, abs=3600.0)
        assert sum(i.speculation.num_drafts for _, i in of_day) == pytest.approx(1440 * 1000.0, rel=0.05)
        assert len(history.pairs([A])) - len(of_day) <= 1  # what fell out since the last full hour

    def test_the_last_hours_at_another_setting_outlive_the_day(self) -> None:
        tried = replace(life("a", tokens=5, number=1), ended=NOON + timedelta(hours=9))
        history = self.aged({0: tried, 9: life("a", tokens=3, number=2)}, hours=9 + 40)
        now = NOON + timedelta(hours=49)
        old = [pair for pair in history.pairs([A]) if pair[1].end < now - timedelta(hours=26)]
        assert [life_.id for life_, _ in old] == [tried.id] * 6
        assert old[-1][1].end == NOON + timedelta(hours=9)
        assert history.newest_lives(A) == (life("a", tokens=3, number=2),)

    def test_after_a_month_they_are_gone(self) -> None:
        history, old = History(3600.0), replace(life("a", tokens=5, number=1), ended=NOON)
        new = life("a", number=2)
        history.add([old], [interval(old, 3600.0 * hour, seconds=3600.0) for hour in range(3)], NOON)
        for day in (1, 29, 31):
            end = 86_400.0 * day
            history.add([new], [interval(new, end, seconds=60.0)], NOON + timedelta(days=day))
            assert any(one.id == old.id for one, _ in history.pairs([A])) == (day < 30)


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
        at = NOON + timedelta(hours=number)
        history.add([replace(one, ended=at)], [interval(one, 3600.0 * number)], at)
    assert len(history._lives) < 130
    assert len(history.pairs([A])) == 25


class TestSettled:
    def test_a_server_that_was_never_elsewhere_is_not_known_to_have_come(self) -> None:
        history, first, again = History(3600.0), life("a", number=1), life("a", number=2)
        history.add([first, again], [interval(first, 0.0), interval(again, 15.0)], NOON)
        assert history.settled_since(A) is None
        assert history.settled_since(B) is None

    def test_it_is_settled_since_its_first_page_at_the_setting(self) -> None:
        history, old = History(3600.0), replace(life("a", tokens=5), first_seen=NOON - timedelta(hours=1))
        new = [replace(life("a", number=n), first_seen=NOON + timedelta(minutes=n)) for n in (2, 3)]
        history.add([old, *new], [interval(one, 15.0 * n) for n, one in enumerate([old, *new])], NOON)
        assert history.settled_since(A) == NOON + timedelta(minutes=2)
