"""The SLOs of a running daemon: every page counts once, also over a restart; what we do ourselves does not count."""

from __future__ import annotations

import logging
import random
import threading
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from monitor.cycle.objectives import NoObjectives
from monitor.cycle.slos import SloKeeper, is_answer
from monitor.errors import StoreError
from monitor.model.interval import Interval
from monitor.model.outcome import Truth
from monitor.model.reading import Verdict
from monitor.model.record import Checks
from monitor.model.server import ServerName
from monitor.model.slo import Indicator
from monitor.slo.book import SloBook
from monitor.slo.burn import SloStatus
from tests.fakes.memory_store import MemoryStore
from tests.unit.cycle.objectives import (
    ACCEPTANCE,
    CHAT,
    ERRORS,
    GROUP,
    NOON,
    TTFT,
    UPTIME,
    A,
    B,
    at,
    failed,
    life,
    page,
    policies,
    served,
)


def keeper(*entries: str, store: MemoryStore | None = None, answers: dict[ServerName, bool | None] | None = None,
           begun: bool = True) -> SloKeeper:
    known = answers if answers is not None else {}
    made = SloKeeper(store or MemoryStore(), policies(*entries), [GROUP], answers=lambda name: known.get(name))
    if begun:
        made.read_back(NOON)
    return made


def counted(made: SloKeeper, seconds: float, name: str) -> tuple[float, float]:
    """Good and valid events of one SLO."""
    one: SloStatus = next(s for s in made.look(at(seconds)).statuses if s.slo.name == name)
    return one.attainment.good, one.attainment.valid


class TestCounting:
    def test_a_page_counts_for_every_slo(self) -> None:
        made = keeper(TTFT, UPTIME)
        made.noted(page(15), [], [served(15, slow=2)])
        made.noted(failed(30), [], [])
        assert counted(made, 31, "ttft") == (10.0, 12.0)
        assert counted(made, 31, "up") == (1.0, 2.0)

    @pytest.mark.parametrize(
        ("verdict", "reason", "answered"),
        [
            (Verdict.OK, "", True),
            (Verdict.NO_ENGINE_METRICS, "only python_*", True),
            (Verdict.SCRAPE_ERROR, "HTTP 401: unauthorized", True),
            (Verdict.SCRAPE_ERROR, "HTTP 500: no", False),
            (Verdict.SCRAPE_ERROR, "unreachable: refused", False),
            (Verdict.STARTING, "HTTP 503: loading", False),
        ],
    )
    def test_what_counts_as_an_answer(self, verdict: Verdict, reason: str, answered: bool) -> None:
        assert is_answer(page(0, verdict=verdict, reason=reason)) is answered

    def test_a_stuck_engine_does_not_answer_and_a_healthy_one_without_a_page_does(self) -> None:
        found: dict[ServerName, bool | None] = {A: False, B: True}
        made = keeper(UPTIME, answers=found)
        made.noted(page(15), [], [])
        made.noted(failed(15, B), [], [])
        assert counted(made, 20, "up") == (1.0, 2.0)
        found[A], found[B] = None, False
        made.noted(page(30), [], [])
        made.noted(failed(30, B), [], [])
        assert counted(made, 40, "up") == (2.0, 4.0)


class TestOurOwnDoing:
    def test_while_a_change_has_a_server_only_failed_requests_count(self) -> None:
        made = keeper(TTFT, UPTIME, ERRORS)
        made.changing({A})
        made.noted(failed(15), [], [])
        made.noted(page(30), [], [served(30, slow=5, errors=3)])
        made.changing(set())
        made.noted(page(45), [], [served(45)])
        assert counted(made, 50, "ttft") == (10.0, 10.0)
        assert counted(made, 50, "up") == (2.0, 2.0)
        assert counted(made, 50, "av") == (20.0, 23.0)

    def test_the_first_answers_of_a_new_process_are_its_warm_up_whoever_started_it(self) -> None:
        made = keeper(TTFT)
        made.noted(page(0), [life(first_seen=at(0), born=True)], [])
        made.noted(page(120), [], [served(120, slow=9)])
        made.noted(page(135), [], [served(135, slow=1)])
        assert counted(made, 140, "ttft") == (10.0, 11.0)

    def test_a_server_first_met_has_no_warm_up(self) -> None:
        made = keeper(TTFT)
        made.noted(page(15), [life(first_seen=at(0))], [served(15, slow=9)])
        assert counted(made, 20, "ttft") == (10.0, 19.0)

    def test_a_server_that_we_start_misses_nothing_until_it_answers(self) -> None:
        made = keeper(UPTIME)
        made.starting(A, at(600))
        made.noted(failed(15), [], [])
        made.noted(page(30), [], [])
        made.noted(failed(45), [], [])
        assert counted(made, 50, "up") == (1.0, 2.0)

    def test_one_that_does_not_start_in_time_misses_from_then_on(self) -> None:
        made = keeper(UPTIME)
        made.starting(A, at(600))
        for seconds in (15, 600, 615, 630):
            made.noted(failed(seconds), [], [])
        assert counted(made, 640, "up") == (0.0, 2.0)


class TestReadingBack:
    def test_until_then_nothing_is_known_and_nothing_may_begin(self) -> None:
        made = keeper(TTFT, begun=False)
        made.noted(page(15), [], [served(15, slow=9, fast=0)])
        look = made.look(at(20))
        assert not look.is_whole
        assert {outcome.truth for outcome in look.outcomes} == {Truth.NO_DATA}
        assert made.statuses is None
        assert made.refusal(CHAT) == "the history of its SLOs is still being read"

    def test_pages_that_came_meanwhile_count_once_it_is_done(self) -> None:
        made = keeper(TTFT, UPTIME, begun=False)
        made.noted(page(15), [], [served(15, slow=1)])
        made.noted(failed(30), [], [])
        assert made.checks() == ()
        made.read_back(NOON)
        assert counted(made, 40, "ttft") == (10.0, 11.0)
        assert made.checks() == (Checks(A, at(300), 1, 1),)
        assert made.statuses is not None

    def test_also_those_that_come_while_the_others_are_counted(self, monkeypatch: pytest.MonkeyPatch) -> None:
        made = keeper(TTFT, UPTIME, begun=False)
        made.noted(page(15), [], [served(15, slow=1)])
        late = [30]
        count = SloBook.add_interval

        def more(book: SloBook, interval: Interval, **options: Any) -> None:
            if late:
                seconds = late.pop(0)
                made.noted(page(seconds), [], [served(seconds, slow=2)])
            count(book, interval, **options)

        monkeypatch.setattr(SloBook, "add_interval", more)
        done = threading.Thread(target=made.read_back, args=(NOON,), daemon=True)
        done.start()
        done.join(timeout=30)
        assert not done.is_alive()
        monkeypatch.undo()
        made.noted(page(60), [], [served(60)])
        assert counted(made, 70, "ttft") == (30.0, 33.0)
        assert made.checks() == (Checks(A, at(300), 3, 0),)

    def test_it_waits_until_it_may_begin(self) -> None:
        made, looks = keeper(TTFT, begun=False), []

        def may_begin() -> bool:
            looks.append(made.statuses)
            return len(looks) == 3

        made.read_back(NOON, may_begin)
        assert looks == [None] * 3
        assert made.statuses is not None

    def test_it_rests_as_long_as_it_worked(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Under load a server takes longer, and the rest is longer: what scrapes need is left to them."""
        moments = iter([0.0, 0.001, 5.0, 5.25, 7.0, 9000.0, 9001.0])
        servers = [A, B, ServerName("asleep meanwhile")]
        made = SloKeeper(
            MemoryStore(), policies(UPTIME), [replace(GROUP, servers=servers)], monotonic=lambda: next(moments)
        )
        rests: list[float] = []
        monkeypatch.setattr(threading.Event, "wait", lambda event, seconds: rests.append(seconds))
        made.read_back(NOON)
        assert rests == [0.03, 0.25, 1.0]

    def test_a_stop_ends_that_wait(self) -> None:
        made = keeper(TTFT, begun=False)
        made.stop()
        made.read_back(NOON, lambda: False)

    def test_without_objectives_nothing_waits(self) -> None:
        made = keeper(begun=False)
        assert made.refusal(CHAT) == ""
        made.read_back(NOON)
        assert made.look(at(1)).statuses == ()

    def test_a_store_that_fails_leaves_what_could_be_read(self, caplog: pytest.LogCaptureFixture) -> None:
        store = MemoryStore()
        store.away = StoreError("disk gone")
        made = keeper(UPTIME, store=store, begun=False)
        with caplog.at_level(logging.ERROR):
            made.read_back(NOON)
        assert "disk gone" in caplog.text
        made.noted(page(15), [], [])
        assert counted(made, 20, "up") == (1.0, 1.0)

    def test_a_stop_ends_it(self) -> None:
        store = MemoryStore()
        with store.write() as unit:
            unit.checks.add([Checks(A, NOON, 20, 0)])
        made = keeper(UPTIME, store=store, begun=False)
        made.stop()
        made.read_back(NOON)
        assert counted(made, 1, "up") == (0.0, 0.0)

    def test_after_a_restart_every_figure_is_what_it_was(self) -> None:
        """Two days of two servers, with an outage and a change: the next daemon knows what the last one knew."""
        rng, store = random.Random(7), MemoryStore()
        first = keeper(TTFT, UPTIME, ERRORS, ACCEPTANCE, store=store)
        with store.write() as unit:
            for name in (A, B):
                unit.lives.add(life(f"life-{name}", name))
        end = 2 * 86400
        for seconds in range(60, end + 1, 60):
            for name in (A, B):
                if name == B and 40_000 < seconds < 43_000:
                    first.noted(failed(seconds, name), [], [])
                    continue
                one = served(seconds, server=name, life=f"life-{name}", elapsed=60.0, slow=rng.randrange(3),
                             errors=rng.randrange(2), accepted=rng.randrange(300, 900))
                with store.write() as unit:
                    unit.intervals.add([one])
                first.noted(page(seconds, name), [], [one])
        checks = first.checks()
        with store.write() as unit:
            unit.checks.add(checks)
        first.stored(checks)
        second = SloKeeper(store, policies(TTFT, UPTIME, ERRORS, ACCEPTANCE), [GROUP])
        second.read_back(at(end))
        before, after = first.look(at(end + 1)).statuses, second.look(at(end + 1)).statuses
        assert len(before) == 4
        for old, new in zip(before, after, strict=True):
            # Of a check that was stored is known in which five minutes it was made.
            within = 300.0 / (30 * 86_400.0) if old.slo.indicator is Indicator.UPTIME else 1e-12
            assert old.attainment.known == pytest.approx(new.attainment.known, abs=within)
            assert replace(old.attainment, known=1.0) == replace(new.attainment, known=1.0)
            assert old.burn_rate == pytest.approx(new.burn_rate)
            for was, now in zip(old.burns, new.burns, strict=True):
                assert (was.long, was.short) == (pytest.approx(now.long), pytest.approx(now.short))


class TestChecks:
    def test_they_are_kept_by_five_minutes_until_they_are_stored(self) -> None:
        made = keeper(UPTIME)
        for seconds in (285, 300, 301):
            made.noted(page(seconds), [], [])
        made.noted(failed(310, B), [], [])
        first = made.checks()
        assert first == (Checks(A, at(300), 2, 0), Checks(A, at(600), 1, 0), Checks(B, at(600), 0, 1))
        made.noted(page(315), [], [])
        made.stored(first)
        assert made.checks() == (Checks(A, at(600), 1, 0),)

    def test_what_a_change_made_a_server_miss_is_not_kept(self) -> None:
        made = keeper(UPTIME)
        made.changing({A})
        made.noted(failed(15), [], [])
        assert made.checks() == ()

    def test_what_is_left_is_stored_at_a_stop(self) -> None:
        store = MemoryStore()
        made = keeper(UPTIME, store=store)
        made.noted(page(15), [], [])
        made.store_checks()
        made.store_checks()
        with store.read() as unit:
            assert unit.checks.between(None, NOON, at(600)) == [Checks(A, at(300), 1, 0)]

    def test_they_are_counted_even_without_an_uptime_objective(self) -> None:
        """So that one that is added later has a past."""
        made = keeper(TTFT)
        made.noted(page(15), [], [])
        assert made.checks() == (Checks(A, at(300), 1, 0),)


def test_a_burning_slo_refuses_its_group_from_the_next_look_on() -> None:
    made = keeper(TTFT)
    for minute in range(1, 90):
        made.noted(page(60 * minute), [], [served(60 * minute, slow=9, fast=1, elapsed=60.0)])
    assert made.refusal(CHAT) == ""
    made.look(at(90 * 60))
    assert made.refusal(CHAT) == "SLO ttft of chat burns its error budget"
    assert made.statuses is not None and made.statuses[0].slo.name == "ttft"


def test_no_objectives_say_nothing() -> None:
    none = NoObjectives()
    none.stored(())
    assert (none.look(NOON).outcomes, none.checks()) == ((), ())
    assert none.look(NOON + timedelta(days=1)).is_whole
