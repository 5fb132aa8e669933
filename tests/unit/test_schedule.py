"""Tickers and the calendar: at once, again, never twice at a time, and alive after whatever a run raises."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime, time, timedelta

import pytest

from monitor.clock import SystemClock
from monitor.errors import FatalError, StoreError
from monitor.schedule import Calendar, Ticker
from tests.fakes.fake_clock import FakeClock

PATIENCE = 30.0


#: An hour in which nothing is due yet.
NOON = datetime(2026, 3, 4, 12, 0, tzinfo=UTC)


class Counters:
    def __init__(self) -> None:
        self.errors: list[str] = []
        self.missed: list[str] = []
        self.failed: list[str] = []
        self.known: list[str] = []
        self.told = threading.Event()

    def loop_exists(self, name: str) -> None:
        self.known.append(name)

    def job_exists(self, job: str) -> None:
        self.known.append(job)

    def unexpected_error(self, where: str) -> None:
        self.errors.append(where)

    def job_missed(self, job: str) -> None:
        self.missed.append(job)

    def job_failed(self, job: str) -> None:
        self.failed.append(job)
        self.told.set()


class Runs:
    """Counts runs; a test waits for the next one."""

    def __init__(self, run: Callable[[int], None] = lambda number: None) -> None:
        self.number = 0
        self._run = run
        self._ran = threading.Semaphore(0)

    def __call__(self) -> None:
        self.number += 1
        try:
            self._run(self.number)
        finally:
            self._ran.release()

    def wait(self) -> int:
        assert self._ran.acquire(timeout=PATIENCE)
        return self.number


class Bench:
    def __init__(self, run: Callable[[int], None] = lambda number: None, interval: float = 3600.0) -> None:
        self.runs, self.counters, self.clock = Runs(run), Counters(), FakeClock()
        self.fatal: list[FatalError] = []
        self.ended = threading.Event()
        self.ticker = Ticker(
            "evaluate", self.runs, interval, clock=self.clock, counters=self.counters, fatal=self._died
        )

    def _died(self, error: FatalError) -> None:
        self.fatal.append(error)
        self.ended.set()


class TestTicker:
    def test_the_first_run_is_at_once_and_the_next_when_asked_for(self) -> None:
        bench = Bench()
        bench.ticker.start()
        assert bench.runs.wait() == 1
        bench.ticker.wake()
        assert bench.runs.wait() == 2
        bench.ticker.stop()
        assert bench.runs.number == 2

    def test_it_runs_again_by_itself(self) -> None:
        bench = Bench(interval=0.01)
        bench.ticker.start()
        assert [bench.runs.wait() for _ in range(5)][-1] >= 5
        bench.ticker.stop()

    def test_what_a_run_raises_is_counted_and_the_next_comes(self) -> None:
        def run(number: int) -> None:
            if number == 1:
                raise ZeroDivisionError("a bug")
            if number == 2:
                raise StoreError("away")

        bench = Bench(run)
        bench.ticker.start()
        for _ in range(2):
            bench.runs.wait()
            bench.ticker.wake()
        assert bench.runs.wait() == 3
        bench.ticker.stop()
        assert bench.counters.errors == ["evaluate", "evaluate"]
        assert bench.fatal == []

    def test_a_fatal_error_ends_it_and_is_handed_on(self) -> None:
        def run(number: int) -> None:
            raise FatalError("the disk is gone")

        bench = Bench(run)
        bench.ticker.start()
        assert bench.ended.wait(PATIENCE)
        bench.ticker.stop()
        assert [str(error) for error in bench.fatal] == ["the disk is gone"]
        assert bench.runs.number == 1

    def test_want_of_memory_ends_it_like_a_fatal_error(self) -> None:
        def run(number: int) -> None:
            raise MemoryError

        bench = Bench(run)
        bench.ticker.start()
        assert bench.ended.wait(PATIENCE)
        bench.ticker.stop()
        assert [str(error) for error in bench.fatal] == [
            "out of memory in evaluate: the daemon ends, to be started anew; raise its limits (MemoryMax, LimitDATA)"
        ]
        assert bench.counters.errors == []

    def test_a_long_run_is_waited_for_and_never_doubled(self) -> None:
        begun, over, inside = threading.Event(), threading.Event(), []

        def run(number: int) -> None:
            inside.append(number)
            begun.set()
            assert over.wait(PATIENCE)

        bench = Bench(run, interval=0.001)
        bench.ticker.start()
        assert begun.wait(PATIENCE)
        bench.ticker.wake()
        stopper = threading.Thread(target=bench.ticker.stop)
        stopper.start()
        over.set()
        stopper.join(PATIENCE)
        assert not stopper.is_alive()
        assert inside == [1]

    def test_one_that_never_ends_does_not_hold_up_the_stop_for_ever(self, caplog: pytest.LogCaptureFixture) -> None:
        over = threading.Event()
        bench = Bench(lambda number: assert_set(over))
        bench.ticker.start()
        bench.ticker.stop(timeout=0.05)
        assert "run did not end in time loop=evaluate" in caplog.text
        over.set()
        bench.runs.wait()

    def test_runs_that_were_asked_for_do_not_put_off_the_next_regular_one(self) -> None:
        bench = Bench(interval=2.0)
        bench.ticker.start()
        for _ in range(20):
            bench.runs.wait()
            bench.ticker.wake()
        before = bench.runs.wait()
        # Nobody asks any more: it is due an interval after the last run, not twenty.
        assert bench.runs.wait() > before
        bench.ticker.stop()

    def test_stopping_what_never_ran_is_no_error(self) -> None:
        Bench().ticker.stop()


def _breaks(number: int) -> None:
    raise ZeroDivisionError("a bug")


def assert_set(event: threading.Event) -> None:
    assert event.wait(PATIENCE)


class TestCalendar:
    def due_now(self, calendar: Calendar, job: str) -> None:
        calendar._scheduler.modify_job(job, next_run_time=SystemClock().now())

    def test_a_job_that_fails_is_counted_and_comes_again(self) -> None:
        counters, runs = Counters(), Runs(_breaks)
        calendar = Calendar(counters)
        calendar.daily("prune", runs, time(3, 19))
        calendar.start()
        self.due_now(calendar, "prune")
        runs.wait()
        assert counters.told.wait(PATIENCE)
        assert counters.failed == ["prune"]
        assert calendar._scheduler.get_job("prune") is not None
        calendar.stop()

    def test_one_that_was_held_up_for_hours_still_runs_and_one_for_a_day_is_counted_as_missed(self) -> None:
        counters, late = Counters(), Runs()
        calendar = Calendar(counters)
        calendar.weekly("report", late, "mon", time(9, 0), "Europe/Berlin")
        now = SystemClock().now()
        # Due in an hour, so that no due time of its own lies within the seven hours.
        calendar.daily("prune", Runs(), (now + timedelta(hours=1)).time().replace(microsecond=0))
        calendar.start()
        calendar._scheduler.modify_job("prune", next_run_time=now - timedelta(hours=7))
        calendar._scheduler.modify_job("report", next_run_time=now - timedelta(hours=5))
        assert late.wait() == 1
        calendar.stop()
        assert counters.missed == ["prune"]

    def test_the_week_follows_the_zone(self) -> None:
        calendar = Calendar(Counters())
        calendar.weekly("report", Runs(), "mon", time(9, 0), "Asia/Tokyo")
        calendar.start()
        due = calendar._scheduler.get_job("report").next_run_time
        calendar.stop()
        assert due.astimezone(UTC).strftime("%a %H:%M") == "Mon 00:00"

    @pytest.mark.parametrize(
        ("minute", "more", "minutes"), [(23, {}, [23]), (2, {"every_minutes": 20}, [2, 22, 42]),
                                        (50, {"every_minutes": 20}, [50])],
    )  # fmt: skip
    def test_a_job_comes_every_hour_or_at_even_distances_in_it(
        self, minute: int, more: dict[str, int], minutes: list[int]
    ) -> None:
        calendar = Calendar(Counters())
        calendar.hourly("roll up", Runs(), minute, **more)
        trigger, at, found = calendar._scheduler.get_job("roll up").trigger, NOON, []
        for _ in range(2 * len(minutes)):
            at = trigger.get_next_fire_time(None, at) + timedelta(seconds=1)
            found.append(at.minute)
        assert found == minutes * 2

    def test_stopping_twice_is_no_error(self) -> None:
        calendar = Calendar(Counters())
        calendar.start()
        calendar.stop()
        calendar.stop()
