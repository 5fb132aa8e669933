"""The feed: each page once and in order, also after our absence; silence is told, a store that is away is not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from monitor.cycle.feed import BOOT_ID, Feed
from monitor.errors import ScrapeError
from monitor.model.reading import Reading, Verdict
from monitor.model.server import ServerName
from monitor.scrape.prometheus_api import ApiSeries
from tests.fakes.fake_clock import FakeClock

SERVER = ServerName("gpu-1")
INSTANCE = "gpu-1:8000"


class Api:
    """A store that scrapes one target every 15 s; `down` are times at which it did not answer."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.away = False
        self.since = clock.now() - timedelta(days=20)
        self.until: datetime | None = None
        self.down: set[float] = set()
        self.asked: list[float] = []
        #: Labels that the targets have had since some moment, newest last.
        self.labels: list[tuple[float, dict[str, str]]] = [(0.0, {})]
        #: How far the store's clock is behind.
        self.behind = timedelta()
        #: Whether answers lack series: those of a store behind this one.
        self.is_partial = False
        self.refused: Callable[[datetime], bool] = lambda start: False

    @property
    def said_at(self) -> datetime | None:
        return self.now() if self.asked else None

    def now(self) -> datetime:
        return self.clock.now() - self.behind

    def _series(self, times: list[float]) -> list[ApiSeries]:
        found = []
        values = {"up": lambda t: "0" if t in self.down else "1", "x": "{:g}".format, "y": lambda t: "1"}
        for (begin, labels), (end, _) in pairwise([*self.labels, (float("inf"), {})]):
            own = [t for t in times if begin <= t < end]
            for name, value in list(values.items())[: 2 if self.is_partial else 3]:
                samples = tuple((t, value(t)) for t in own)
                found.append(ApiSeries({"__name__": name, "instance": INSTANCE, **labels}, samples))
        return [one for one in found if one.samples]

    def _times(self, begin: datetime, end: datetime, step: float) -> list[float]:
        begin, end = max(begin, self.since), min(end, self.until or end, self.now())
        first = int(begin.timestamp() // step + 1) * step
        return [first + step * n for n in range(int((end.timestamp() - first) // step) + 1)] if end > begin else []

    def raw(self, selector: str, at: datetime, seconds: float) -> list[ApiSeries]:
        if self.away:
            raise ScrapeError("http://p: connection refused")
        assert INSTANCE in selector
        self.asked.append(seconds)
        return self._series(self._times(at - timedelta(seconds=seconds), at, 15.0))

    def newest(self, selector: str, at: datetime) -> list[ApiSeries]:
        return self.raw(selector, at, 15.0)

    def steps(self, selector: str, start: datetime, end: datetime, step: int) -> list[ApiSeries]:
        if self.away or self.refused(start):
            raise ScrapeError("http://p: connection refused")
        return self._series(self._times(start - timedelta(seconds=1), end, float(step)))

    def close(self) -> None:
        pass


class Pages:
    """Takes pages as the collector does."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self.missed: list[tuple[float, str]] = []
        self.spacing = 0.0
        self.past: list[float] = []
        self.ok: datetime | None = None
        self.parts = 0
        self.stopping: tuple[Bench, int] | None = None

    def stop_after(self, bench: Bench, pages: int) -> None:
        """The daemon is stopped after so many pages of the past."""
        self.stopping = bench, pages

    def read(self, name: ServerName, body: bytes, at: datetime) -> Reading:
        self.parts += body == f"x {at.timestamp():g}\n".encode()
        assert (name, body.partition(b"y")[0]) == (SERVER, f"x {at.timestamp():g}\n".encode())
        return Reading(
            server=name, scraped_at=at, monotonic=at.timestamp(), dialect="d", verdict=Verdict.OK, reason="r"
        )

    def bring(
        self, name: ServerName, reading: Reading, *, boot_id: str | None = None, scrape_seconds: float | None = None
    ) -> None:
        assert boot_id == BOOT_ID
        if reading.verdict is Verdict.OK:
            self.times.append(reading.scraped_at.timestamp())
            self.ok = reading.scraped_at
            self.spacing = scrape_seconds or 0.0
        else:
            self.missed.append((reading.scraped_at.timestamp(), reading.reason))

    def bring_past(
        self, name: ServerName, readings: Iterator[Reading], *, boot_id: str, scrape_seconds: float
    ) -> int:
        assert (boot_id, scrape_seconds) == (BOOT_ID, 300.0)
        found = [reading.scraped_at for reading in readings]
        self.past += [at.timestamp() for at in found]
        self.ok = found[-1] if found else self.ok
        if self.stopping is not None and len(self.past) >= self.stopping[1]:
            self.stopping[0].goes_on, self.stopping = False, None
        return len(found)

    def last_ok(self, name: ServerName) -> datetime | None:
        return self.ok


class Bench:
    def __init__(self, backfill: float = 0.0) -> None:
        self.clock = FakeClock(datetime(2026, 3, 1, 12, 0, 7, tzinfo=UTC))
        self.api, self.pages = Api(self.clock), Pages()
        self.backfill = backfill
        self.goes_on = True
        self.feed = self.new_feed()

    def new_feed(self) -> Feed:
        return Feed(
            self.api, self.pages, {INSTANCE: SERVER}, self.clock, name="central",  # type: ignore[arg-type]
            pattern="x|up", selector='{job="vllm"}', instance_label="instance", interval_seconds=15.0,
            delay_seconds=5.0, backfill_seconds=self.backfill, step_seconds=300.0, goes_on=lambda: self.goes_on,
        )  # fmt: skip

    def poll(self, seconds: float = 15.0) -> None:
        self.clock.advance(seconds)
        self.feed.poll()

    def is_whole(self) -> bool:
        """Whether the pages are all that there are since the first, each once."""
        times = self.pages.times
        return times == [times[0] + 15.0 * n for n in range(len(times))]


def test_each_page_is_brought_once_and_in_order_however_often_the_store_is_asked() -> None:
    bench = Bench()
    for seconds in (15, 15, 1, 15, 3, 70, 15, 15):
        bench.poll(seconds)
    assert bench.is_whole() and len(bench.pages.times) >= 9
    assert bench.pages.spacing == 15.0


def test_a_daemon_that_was_away_catches_up_to_a_day_back_in_pieces() -> None:
    bench = Bench()
    bench.poll()
    bench.feed = bench.new_feed()
    bench.api.asked.clear()
    bench.poll(2 * 3600)
    assert bench.is_whole() and len(bench.pages.times) > 480
    assert max(bench.api.asked) <= 1800 + 30
    bench.pages.times.clear()
    bench.poll(3 * 86_400)
    assert 5755 <= len(bench.pages.times) <= 5765


def test_while_the_store_is_away_nothing_is_said_of_its_targets_and_nothing_is_lost() -> None:
    bench = Bench()
    bench.poll()
    bench.api.away = True
    bench.poll(600)
    assert "connection refused" in bench.feed.trouble
    bench.api.away = False
    bench.poll()
    assert (bench.feed.trouble, bench.pages.missed) == ("", [])
    assert bench.is_whole()


def test_a_target_that_did_not_answer_the_store_is_missed_at_that_moment() -> None:
    bench = Bench()
    bench.poll()
    down = bench.pages.times[-1] + 15.0
    bench.api.down = {down}
    bench.poll(30)
    assert bench.pages.missed == [(down, "unreachable: central could not scrape it")]
    assert bench.pages.times[-1] > down


def test_a_target_that_the_store_has_no_more_samples_of_is_missed_after_four_intervals() -> None:
    bench = Bench()
    for _ in range(4):
        bench.poll()
    bench.api.until = bench.clock.now()
    bench.poll(30)
    bench.poll(20)
    assert bench.pages.missed == []
    bench.poll(30)
    ((_, reason),) = bench.pages.missed
    assert reason.startswith(f"no_sample: central has had no sample of {INSTANCE} for")


def test_a_server_met_for_the_first_time_brings_its_past_and_goes_on_where_that_ends() -> None:
    bench = Bench(backfill=14 * 86_400.0)
    bench.poll()
    past = bench.pages.past
    assert past == sorted(set(past)) and 4000 <= len(past) <= 4033
    assert bench.pages.times[0] == past[-1] + 15.0 and bench.is_whole()
    bench.feed = bench.new_feed()
    bench.poll()
    assert bench.pages.past is past and len(past) <= 4033


def test_while_the_store_is_away_the_past_waits_with_the_present() -> None:
    bench = Bench(backfill=86_400.0)
    bench.api.away = True
    bench.poll()
    assert "connection refused" in bench.feed.trouble
    bench.api.away = False
    bench.poll()
    assert 280 <= len(bench.pages.past) <= 289
    assert bench.is_whole() and bench.feed.trouble == ""


def test_a_day_that_the_store_does_not_give_is_left_out_and_the_others_are_brought() -> None:
    bench = Bench(backfill=5 * 86_400.0)
    begin = bench.clock.now() - timedelta(days=5)
    bench.api.refused = lambda start: start - begin < timedelta(days=1, hours=1) and start - begin > timedelta(hours=1)
    bench.poll()
    assert 1100 <= len(bench.pages.past) <= 1160 and bench.is_whole()


def test_where_the_past_cannot_be_had_the_present_is_watched() -> None:
    bench = Bench(backfill=14 * 86_400.0)
    bench.api.refused = lambda start: True
    bench.poll(60)
    assert bench.pages.past == [] and bench.is_whole() and bench.feed.trouble == ""


def test_a_past_that_was_broken_off_is_gone_on_with() -> None:
    bench = Bench(backfill=14 * 86_400.0)
    bench.pages.stop_after(bench, 1000)
    bench.poll()
    assert 1000 <= len(bench.pages.past) < 1300 and bench.pages.times == []
    bench.goes_on, bench.feed = True, bench.new_feed()
    bench.poll()
    assert bench.pages.past == sorted(set(bench.pages.past)) and 4000 <= len(bench.pages.past) <= 4033
    assert bench.is_whole() and bench.pages.times[0] - bench.pages.past[-1] == 15.0


def test_what_a_daemon_missed_in_a_week_comes_in_steps() -> None:
    bench = Bench(backfill=14 * 86_400.0)
    bench.poll()
    past, newest = len(bench.pages.past), bench.pages.times[-1]
    bench.pages.times.clear()
    bench.feed = bench.new_feed()
    bench.poll(7 * 86_400.0)
    week = bench.pages.past[past:]
    assert newest < week[0] <= newest + 600.0 and 2005 <= len(week) <= 2017
    assert bench.is_whole() and bench.pages.times[0] - week[-1] == 15.0


@pytest.mark.parametrize(
    ("old", "new"),
    [({}, {"team": "a"}), ({"team": "a"}, {}), ({"pod": "a"}, {"pod": "b"}), ({"pod": "b"}, {"pod": "a"})],
)
def test_a_target_whose_labels_were_changed_goes_on(old: dict[str, str], new: dict[str, str]) -> None:
    bench = Bench(backfill=86_400.0)
    now = bench.clock.now().timestamp()
    bench.api.labels = [(0.0, new), (now - 43_200.0, old), (now + 300.0, new)]
    for _ in range(60):
        bench.poll()
    assert 285 <= len(bench.pages.past) <= 289 and bench.pages.missed == []
    steps = [b - a for a, b in pairwise(bench.pages.times)]
    assert sum(steps) > 850.0 and max(steps) <= 45.0 and steps.count(15.0) >= len(steps) - 1


def test_a_store_whose_clock_is_behind_has_no_silent_targets(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench()
    bench.api.behind = timedelta(minutes=2)
    for _ in range(20):
        bench.poll()
    assert bench.pages.missed == [] and bench.is_whole() and len(bench.pages.times) >= 20
    assert [record.args for record in caplog.records] == [("central", 120.0)]
    bench.api.until = bench.api.now()
    for _ in range(7):
        bench.poll()
    at, reason = bench.pages.missed[0]
    assert reason.startswith(f"no_sample: central has had no sample of {INSTANCE} for")
    assert at < bench.clock.now().timestamp() - 119.0


def test_pages_of_an_answer_in_part_are_asked_for_again_for_a_while() -> None:
    bench = Bench()
    bench.poll()
    bench.api.is_partial = True
    for _ in range(3):
        bench.poll()
    bench.api.is_partial = False
    bench.poll()
    assert (bench.pages.parts, bench.pages.missed) == (0, []) and bench.is_whole()
    whole = len(bench.pages.times)
    bench.api.is_partial = True
    for _ in range(12):
        bench.poll()
    # What there is of them is better than nothing, in the end.
    assert bench.pages.parts > 4 and bench.is_whole() and len(bench.pages.times) > whole + 10
