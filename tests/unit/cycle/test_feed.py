"""The feed: each page once and in order, also after our absence; silence is told, a store that is away is not."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

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

    def _series(self, times: list[float]) -> list[ApiSeries]:
        ups = tuple((t, "0" if t in self.down else "1") for t in times)
        up = ApiSeries({"__name__": "up", "instance": INSTANCE}, ups)
        one = ApiSeries({"__name__": "x", "instance": INSTANCE}, tuple((t, f"{t:g}") for t in times))
        return [up, one]

    def _times(self, begin: datetime, end: datetime, step: float) -> list[float]:
        begin, end = max(begin, self.since), min(end, self.until or end, self.clock.now())
        first = int(begin.timestamp() // step + 1) * step
        return [first + step * n for n in range(int((end.timestamp() - first) // step) + 1)] if end > begin else []

    def raw(self, selector: str, at: datetime, seconds: float) -> list[ApiSeries]:
        if self.away:
            raise ScrapeError("http://p: connection refused")
        assert INSTANCE in selector
        self.asked.append(seconds)
        return self._series(self._times(at - timedelta(seconds=seconds), at, 15.0))

    def steps(self, selector: str, start: datetime, end: datetime, step: int) -> list[ApiSeries]:
        if self.away:
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

    def read(self, name: ServerName, body: bytes, at: datetime) -> Reading:
        assert (name, body) == (SERVER, f"x {at.timestamp():g}\n".encode())
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
        return len(found)

    def is_new(self, name: ServerName) -> bool:
        return self.ok is None

    def last_ok(self, name: ServerName) -> datetime | None:
        return self.ok


class Bench:
    def __init__(self, backfill: float = 0.0) -> None:
        self.clock = FakeClock(datetime(2026, 3, 1, 12, 0, 7, tzinfo=UTC))
        self.api, self.pages = Api(self.clock), Pages()
        self.backfill = backfill
        self.feed = self.new_feed()

    def new_feed(self) -> Feed:
        return Feed(
            self.api, self.pages, {INSTANCE: SERVER}, self.clock, name="central",  # type: ignore[arg-type]
            pattern="x|up", selector='{job="vllm"}', instance_label="instance", interval_seconds=15.0,
            delay_seconds=5.0, backfill_seconds=self.backfill, step_seconds=300.0,
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


def test_where_the_past_cannot_be_had_the_present_is_watched() -> None:
    bench = Bench(backfill=86_400.0)
    bench.api.away = True
    bench.poll()
    bench.api.away = False
    bench.poll()
    assert bench.is_whole() and bench.feed.trouble == ""
