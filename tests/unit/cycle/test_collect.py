"""A scrape: what is stored equals the server's own counters to the digit, whatever fails or dies in between."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from monitor.cycle.collect import Collector
from monitor.cycle.history import History
from monitor.cycle.settings import SettingFinder
from monitor.dialects import Dialects
from monitor.errors import ScrapeError, ScrapeTimeout, StoreError, Unreachable
from monitor.intervals.track import resume
from monitor.launch import parse_command
from monitor.model.life import LastReading, LifeId, Setting, SettingSource, StartEvidence
from monitor.model.reading import Verdict
from monitor.model.server import Engine as Kind
from monitor.model.server import GroupName, Server, ServerName
from monitor.scrape.client import Answer
from monitor.store.spool import Spool
from monitor.targets.local import LocalServer
from monitor.targets.told import Told
from tests.fakes.fake_clock import FakeClock
from tests.fakes.memory_store import MemoryStore
from tests.fakes.mortal import Died, MortalStore
from tests.fakes.pages import V1, v1_page

NAME = ServerName("chat-1")
SERVER = Server(
    name=NAME, group=GroupName("chat"), base_url="http://127.0.0.1:8000", metrics_url="http://127.0.0.1:8000/metrics"
)


class Page:
    """The HTTP client of one server: the page as it stands, or an error."""

    def __init__(self, body: Callable[[], bytes]) -> None:
        self.body = body
        self.status = 200
        self.error: ScrapeError | None = None

    def get(self, url: str, *, deadline_seconds: float, accept: str = "*/*") -> Answer:
        assert (url, deadline_seconds) == (SERVER.metrics_url, 5.0)
        if self.error is not None:
            raise self.error
        return Answer(self.status, "text/plain; version=0.0.4", self.body(), url)


@dataclass
class Engine:
    """An engine that counts, with numbers that a careless sum would round."""

    drafts: int = 9_007_199_254_000
    first: int = 7_000_000_000_001
    second: int = 5_000_000_000_003
    generation: int = 2**52 + 1
    born: float = 1788616077.0

    def work(self, rng: random.Random) -> None:
        drafts = rng.randrange(1, 5000)
        first = rng.randrange(0, drafts + 1)
        second = rng.randrange(0, first + 1)
        self.drafts += drafts
        self.first += first
        self.second += second
        self.generation += drafts + first + second

    def restart(self, at: float) -> None:
        self.drafts = self.first = self.second = self.generation = 0
        self.born = at

    def page(self) -> bytes:
        return v1_page(
            V1(drafts=self.drafts, at=(self.first, self.second), generation=self.generation, created=self.born,
               running=2),
            process_start=self.born - 60.0,
        )


class Counters:
    def __init__(self) -> None:
        self.verdicts: list[str] = []
        self.ups: list[bool] = []
        self.intervals = 0
        self.unknown = 0

    def scraped(self, server: str, verdict: str, seconds: float) -> None:
        assert server == NAME and seconds >= 0
        self.verdicts.append(verdict)

    def server_up(self, server: str, up: bool, unix_seconds: float) -> None:
        self.ups.append(up)

    def intervals_stored(self, server: str, count: int) -> None:
        self.intervals += count

    def unknown_series(self, server: str, count: int) -> None:
        self.unknown += count


class Bench:
    """A collector of one server that can die and come back, as the daemon does."""

    def __init__(self, *, version: str | None = "0.32.0", local: LocalServer | None = None) -> None:
        self.clock = FakeClock()
        self.store = MemoryStore()
        self.engine = Engine(born=self.clock.now().timestamp() - 3600)
        self.page = Page(self.engine.page)
        self.counters = Counters()
        self.reap: Callable[[str], None] = lambda _: None
        self.asked = 0
        self.launched: Setting | None = None
        self.version = version
        self.local = local
        self.new_daemon()

    def new_daemon(self) -> None:
        with self.store.read() as unit:
            lives = unit.lives.open_of(NAME)
            track = resume(NAME, lives, unit.heads.of_server(NAME))
            last = unit.readings.get(NAME)
        self.history = History(86_400.0)
        self.history.fill(lives, [])
        self.settings = SettingFinder(
            ask=self._ask, process=lambda server: self.local, launched=lambda name: self.launched,
            configured={},
        )
        self.collector = Collector(
            {NAME: SERVER}, {NAME: self.page},  # type: ignore[dict-item]
            Spool(MortalStore(self.store, lambda moment: self.reap(moment)), None, self.clock).keep,  # type: ignore[arg-type]
            self.history, readers=Dialects().reader, tracks={NAME: track},
            last_ok={NAME: last.last_ok} if last is not None and last.last_ok is not None else {},
            settings=self.settings, interval_seconds=15.0, timeout_seconds=5.0, boot_id="boot", clock=self.clock,
            counters=self.counters,
        )  # fmt: skip

    def _ask(self, server: Server, engine: object) -> Told:
        self.asked += 1
        return Told(self.version)

    def scrape(self, seconds: float = 15.0) -> None:
        self.clock.advance(seconds)
        self.collector.scrape(NAME)

    def last(self) -> LastReading:
        with self.store.read() as unit:
            last = unit.readings.get(NAME)
        assert last is not None
        return last

    def open_life(self) -> LifeId:
        with self.store.read() as unit:
            (life,) = unit.lives.open_of(NAME)
        return LifeId(life.id)

    def stored(self) -> tuple[float, float, float, float]:
        """Drafts, accepted by position and generation of the open life: its first head and all its intervals."""
        key = self.open_life()
        with self.store.read() as unit:
            head = unit.heads.get(key)
        assert head is not None and head.counts.speculation is not None and head.counts.traffic is not None
        assert head.counts.speculation.accepted_per_pos is not None
        return (
            head.counts.speculation.num_drafts or 0.0, *head.counts.speculation.accepted_per_pos,
            head.counts.traffic.generation_tokens or 0.0,
        )  # type: ignore[return-value]

    def summed(self, first: tuple[float, ...]) -> tuple[float, ...]:
        key = self.open_life()
        total = list(first)
        for interval in self.store.tables.intervals.rows.values():
            if interval.life == key:
                assert interval.speculation is not None and interval.traffic is not None
                parts = (
                    interval.speculation.num_drafts, *(interval.speculation.accepted_per_pos or ()),
                    interval.traffic.generation_tokens,
                )
                total = [whole + (part or 0.0) for whole, part in zip(total, parts, strict=True)]
        return tuple(total)

    def shown(self) -> tuple[float, ...]:
        engine = self.engine
        return tuple(map(float, (engine.drafts, engine.first, engine.second, engine.generation)))


class TestCounts:
    @pytest.mark.parametrize("seed", range(8))
    def test_head_and_intervals_equal_the_servers_counters_whatever_fails(self, seed: int) -> None:
        rng, bench = random.Random(seed), Bench()
        bench.scrape()
        first = bench.stored()
        assert first == bench.shown()

        def die(moment: str) -> None:
            if rng.random() < 0.15:
                raise Died(moment)

        bench.reap = die
        for _ in range(60):
            bench.engine.work(rng)
            bench.store.away = StoreError("disk full") if rng.random() < 0.2 else None
            bench.page.error = Unreachable("no route") if rng.random() < 0.1 else None
            try:
                bench.scrape(rng.choice((15.0, 15.0, 40.0)))
            except Died:
                bench.store.away = None
                bench.new_daemon()
        bench.reap, bench.store.away, bench.page.error = lambda _: None, None, None
        bench.engine.work(rng)
        bench.scrape()
        assert bench.stored() == bench.shown()
        assert bench.summed(first) == bench.shown()

    def test_a_page_that_could_not_be_stored_is_covered_by_the_next(self) -> None:
        bench = Bench()
        bench.scrape()
        bench.engine.work(random.Random(1))
        bench.store.away = StoreError("disk full")
        bench.scrape()
        assert bench.counters.verdicts[-1] == "not_stored"
        assert bench.history.pairs([NAME]) == []
        bench.store.away = None
        bench.engine.work(random.Random(2))
        bench.scrape()
        ((_, interval),) = bench.history.pairs([NAME])
        assert interval.elapsed_seconds == 30.0
        assert bench.stored() == bench.shown()

    def test_a_daemon_that_was_away_for_long_keeps_the_counts_and_draws_no_rate(self) -> None:
        bench = Bench()
        bench.scrape()
        bench.engine.work(random.Random(1))
        bench.new_daemon()
        bench.scrape(3600.0)
        ((_, interval),) = bench.history.pairs([NAME])
        assert interval.is_gap
        assert bench.stored() == bench.shown()

    def test_a_restart_of_the_server_begins_a_life_that_counts_from_nothing(self) -> None:
        bench = Bench()
        bench.scrape()
        old = bench.open_life()
        bench.engine.restart(bench.clock.now().timestamp() + 5)
        bench.engine.work(random.Random(1))
        bench.scrape()
        assert bench.open_life() != old
        assert bench.summed((0.0, 0.0, 0.0, 0.0)) == bench.shown() == bench.stored()
        with bench.store.read() as unit:
            ended = unit.lives.get(old)
        assert ended is not None and ended.ended is not None


class TestOurOwnRestart:
    def test_the_flag_lasts_until_the_first_page_is_stored(self) -> None:
        bench = Bench()
        bench.scrape()
        bench.settings.restarted(NAME)
        bench.engine.restart(bench.clock.now().timestamp() + 1)
        bench.store.away = StoreError("away")
        bench.scrape()
        bench.store.away = None
        shown = Dialects().reader(NAME).read(bench.engine.page(), scraped_at=bench.clock.now(), monotonic=0.0)
        known = bench.settings.of(SERVER, shown)
        assert known is not None and known.restarted
        bench.scrape()
        with bench.store.read() as unit:
            (life,) = unit.lives.open_of(NAME)
        assert life.evidence in (StartEvidence.OUR_RESTART, StartEvidence.PROCESS_START)
        known = bench.settings.of(SERVER, bench.last().reading)
        assert known is not None and not known.restarted

    def test_what_it_was_started_with_is_known_without_the_page(self) -> None:
        bench = Bench()
        bench.launched = Setting(method="ngram", num_speculative_tokens=2)
        bench.scrape()
        with bench.store.read() as unit:
            (life,) = unit.lives.open_of(NAME)
        assert life.setting.method == "ngram"
        assert life.sources["method"] is SettingSource.LAUNCH_FILE
        assert life.sources["num_speculative_tokens"] is SettingSource.PAGE
        assert life.engine_version == "0.32.0"

    def test_it_asks_once_a_life(self) -> None:
        bench = Bench()
        for _ in range(5):
            bench.scrape()
        assert bench.asked == 1
        bench.engine.restart(bench.clock.now().timestamp())
        bench.scrape()
        assert bench.asked == 2


class TestWhatCannotBeRead:
    @pytest.mark.parametrize(
        ("error", "status", "body", "verdict", "words"),
        [
            (Unreachable("http://x: connection refused"), 200, b"", Verdict.SCRAPE_ERROR, "unreachable: http://x"),
            (ScrapeTimeout("http://x: no whole answer within 5 s"), 200, b"", Verdict.SCRAPE_ERROR, "timeout: http"),
            (None, 401, b'{"error":"Unauthorized"}', Verdict.SCRAPE_ERROR, "HTTP 401"),
            (None, 503, b"loading", Verdict.STARTING, "503"),
            (None, 200, b"<html>hello</html>", Verdict.SCRAPE_ERROR, ""),
            (None, 200, b"", Verdict.SCRAPE_ERROR, ""),
        ],
    )
    def test_it_is_stored_as_a_verdict_and_a_sentence_and_loses_nothing(
        self, error: ScrapeError | None, status: int, body: bytes, verdict: Verdict, words: str
    ) -> None:
        bench = Bench()
        bench.scrape()
        ok = bench.last().last_ok
        bench.page.error, bench.page.status, bench.page.body = error, status, lambda: body
        bench.engine.work(random.Random(1))
        bench.scrape()
        last = bench.last()
        assert last.reading.verdict is verdict
        assert words in last.reading.reason
        assert last.reading.engines == ()
        assert last.last_ok == ok
        assert bench.counters.ups == [True, False]
        bench.page.error, bench.page.status, bench.page.body = None, 200, bench.engine.page
        bench.scrape()
        assert bench.stored() == bench.shown()
        assert bench.last().last_ok == bench.clock.now()

    def test_a_failure_that_repeats_is_logged_once_and_its_end_too(self, caplog: pytest.LogCaptureFixture) -> None:
        bench = Bench()
        with caplog.at_level(logging.INFO, logger="monitor.cycle.collect"):
            bench.page.error = Unreachable("no route")
            for _ in range(5):
                bench.scrape()
            bench.page.error = None
            bench.scrape()
            bench.scrape()
        lines = [record.message for record in caplog.records if "page" in record.message]
        assert len(lines) == 2
        assert "page cannot be used" in lines[0] and "can be read again" in lines[1]

    def test_servers_are_ready_once_each_was_asked_whatever_it_said(self) -> None:
        bench = Bench()
        assert not bench.collector.tried_all()
        bench.page.error = Unreachable("no route")
        bench.scrape()
        assert bench.collector.tried_all()
        assert bench.collector.last_page(NAME) == b""

    def test_the_newest_bytes_are_kept_for_evidence(self) -> None:
        bench = Bench()
        bench.scrape()
        assert bench.collector.last_page(NAME) == bench.engine.page()


def test_a_server_without_a_name_for_its_engine_is_not_asked_for_its_setting() -> None:
    bench = Bench()
    bench.page.body = lambda: b"# TYPE python_info gauge\npython_info 1\n"
    bench.scrape()
    assert bench.asked == 0
    assert replace(bench.last().reading, reason="").verdict is Verdict.NO_ENGINE_METRICS


class TestUnknownSeries:
    NEW = b"# TYPE vllm:brand_new_total counter\nvllm:brand_new_total{engine=\"0\"} 1\nvllm:other_new 2\n"

    def test_each_name_is_reported_once_and_counted(self, caplog: pytest.LogCaptureFixture) -> None:
        bench = Bench()
        bench.page.body = lambda: bench.engine.page() + self.NEW
        with caplog.at_level(logging.WARNING, logger="monitor.cycle.collect"):
            for _ in range(3):
                bench.scrape()
        (line,) = [record.message for record in caplog.records]
        assert line == (
            "series that acceptd does not know server=chat-1 count=2: vllm:brand_new_total, vllm:other_new"
        )
        assert bench.counters.unknown == 2
        assert bench.last().reading.engines

    def test_names_made_up_for_every_page_end_in_silence(self, caplog: pytest.LogCaptureFixture) -> None:
        bench, turn = Bench(), iter(range(100))

        def page() -> bytes:
            first = next(turn) * 100
            lines = b"".join(b"vllm:made_up_%d 1\n" % number for number in range(first, first + 100))
            return bench.engine.page() + lines

        bench.page.body = page
        with caplog.at_level(logging.WARNING, logger="monitor.cycle.collect"):
            for _ in range(20):
                bench.scrape()
        assert bench.counters.unknown == 1000
        assert max(len(record.message) for record in caplog.records) < 1000


def test_sources_that_disagree_are_kept_with_the_life_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    argv = ("vllm", "serve", "m", "--speculative-config", '{"method": "ngram", "num_speculative_tokens": 5}')
    bench = Bench(local=LocalServer(Kind.VLLM, 42, 8000, argv, parse_command(Kind.VLLM, argv)))
    with caplog.at_level(logging.WARNING, logger="monitor.cycle.collect"):
        for _ in range(3):
            bench.scrape()
    with bench.store.read() as unit:
        (life,) = unit.lives.open_of(NAME)
    assert life.setting == Setting(method="ngram", num_speculative_tokens=2)
    note = "num_speculative_tokens: page says 2, command line says 5"
    assert life.setting_notes == (note,)
    assert [record.message.endswith(note) for record in caplog.records] == [True]


def test_a_restart_that_only_counters_tell_of_asks_everybody_anew() -> None:
    bench = Bench()
    bench.page.body = lambda: b"\n".join(
        line for line in bench.engine.page().split(b"\n") if b"_created" not in line and b"process_start" not in line
    )
    bench.launched = Setting(method="ngram", num_speculative_tokens=2)
    bench.scrape()
    bench.launched = Setting(method="eagle3", num_speculative_tokens=2)
    bench.engine.restart(0.0)
    for turn in range(2):  # the first page after a fall is held back
        bench.engine.work(random.Random(turn))
        bench.scrape()
    assert bench.asked == 2
    with bench.store.read() as unit:
        (life,) = unit.lives.open_of(NAME)
    assert (life.evidence, life.setting.method) == (StartEvidence.COUNTERS_FELL, "eagle3")


@pytest.mark.parametrize("jump", [-90.0, 90.0, -86_400.0, 86_400.0, -0.4])
def test_a_wall_clock_that_is_set_changes_no_count_and_no_length(jump: float) -> None:
    bench = Bench()
    bench.scrape()
    first = bench.stored()
    for turn in range(4):
        bench.engine.work(random.Random(turn))
        if turn == 2:
            bench.clock.jump(jump)
        bench.scrape()
    assert bench.stored() == bench.shown()
    assert bench.summed(first) == bench.shown()
    with bench.store.read() as unit:
        assert len(unit.lives.open_of(NAME)) == 1
    intervals = list(bench.store.tables.intervals.rows.values())
    assert [interval.elapsed_seconds for interval in intervals] == pytest.approx([15.0] * 4)
    assert not any(interval.is_gap or interval.partial for interval in intervals)
