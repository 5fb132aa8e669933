"""A real llama-server, read as the daemon reads it: to the digit, through a restart, with its clients' truth beside."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import requests
import yaml

from monitor.clock import SystemClock
from monitor.cycle.collect import Collector
from monitor.cycle.history import History
from monitor.cycle.settings import SettingFinder
from monitor.dialects import Dialects
from monitor.intervals.adding import counts_of, over_time
from monitor.intervals.track import resume
from monitor.model.counts import Counts
from monitor.model.interval import Interval
from monitor.model.life import Life, Setting, SettingSource, StartEvidence
from monitor.model.reading import State, Verdict
from monitor.model.server import Engine, GroupName, Server, ServerName
from monitor.scrape.client import ServerClient
from monitor.scrape.probe import ServerProbe
from monitor.store.opening import open_store
from monitor.store.spool import Spool
from monitor.targets.local import server_behind
from monitor.targets.told import ask_server
from monitor.telemetry import Telemetry
from monitor.watchdog import Watchdog
from tests.rigs.llamacpp.build import is_built
from tests.rigs.llamacpp.server import draft_simple, model_file, running_server
from tests.rigs.load import PROMPTS
from tests.rigs.processes import free_port
from tests.rigs.running import RunningServer, is_healthy

pytestmark = [
    pytest.mark.llamacpp,
    pytest.mark.skipif(
        not is_built() and not os.environ.get("CI"), reason="not built: python3.11 tests/rigs/llamacpp/build.py"
    ),
]

NAME = ServerName("llama")
#: Where a server waits for its answer; generous, since the machine may be busy.
PATIENCE = 90.0


@dataclass(frozen=True)
class Truth:
    """What the clients were told, request by request."""

    requests: int = 0
    tokens: int = 0
    drafted: int = 0
    accepted: int = 0


def ask(server: RunningServer, number: int, tokens: int | None = None) -> Truth:
    body = {
        "prompt": PROMPTS[number % len(PROMPTS)], "max_tokens": tokens or 40 + 7 * (number % 5), "temperature": 0,
        "ignore_eos": True, "cache_prompt": False,
    }  # fmt: skip
    answer = requests.post(f"{server.url}/v1/completions", json=body, timeout=PATIENCE)
    answer.raise_for_status()
    timings = answer.json()["timings"]
    return Truth(
        1, answer.json()["usage"]["completion_tokens"], timings.get("draft_n", 0), timings.get("draft_n_accepted", 0)
    )


def ask_many(server: RunningServer, count: int) -> Truth:
    """So many requests, two at a time."""
    with ThreadPoolExecutor(2) as pool:
        told = list(pool.map(lambda number: ask(server, number), range(count)))
    return Truth(
        sum(one.requests for one in told), sum(one.tokens for one in told), sum(one.drafted for one in told),
        sum(one.accepted for one in told),
    )  # fmt: skip


class Watching:
    """The daemon's own collector with a real store, client and look at processes; it can die and come back."""

    def __init__(self, url: str, folder: Path) -> None:
        self.server = Server(
            name=NAME, group=GroupName("g"), base_url=url, metrics_url=f"{url}/metrics", engine=Engine.LLAMACPP
        )
        self.clock = SystemClock()
        self.watchdog = Watchdog(self.clock)
        self.watchdog.start()
        self.store = open_store(f"sqlite:///{folder}/local.db")
        self.store.upgrade()
        self.client = ServerClient(self.watchdog, size_limit=1 << 20)
        probe = ServerProbe(self.client, url)
        self.settings = SettingFinder(
            ask=lambda server, engine: ask_server(engine, probe.document),
            process=lambda server: server_behind(server.base_url), launched=lambda _: None, configured={},
        )  # fmt: skip
        self.new_daemon()

    def new_daemon(self) -> None:
        with self.store.read() as unit:
            lives = unit.lives.open_of(NAME)
            track = resume(NAME, lives, unit.heads.of_server(NAME))
        history = History(3600.0)
        history.fill(lives, [])
        self.collector = Collector(
            {NAME: self.server}, {NAME: self.client}, Spool(self.store, None, self.clock).keep, history,
            readers=Dialects().reader, tracks={NAME: track}, last_ok={}, settings=self.settings,
            interval_seconds=5.0, timeout_seconds=10.0,
            boot_id="boot", clock=self.clock, counters=Telemetry(),
        )  # fmt: skip

    def scrape(self) -> None:
        self.collector.scrape(NAME)

    def verdict(self) -> tuple[Verdict, State | None]:
        with self.store.read() as unit:
            last = unit.readings.get(NAME)
        assert last is not None
        return last.reading.verdict, last.reading.state

    def lives(self) -> list[Life]:
        now = self.clock.now()
        with self.store.read() as unit:
            return unit.lives.of(NAME, now.replace(year=now.year - 1), now)

    def intervals(self, life: Life) -> list[Interval]:
        now = self.clock.now()
        with self.store.read() as unit:
            found = unit.intervals.between([NAME], now.replace(year=now.year - 1), now)
        return [interval for interval in found if interval.life == life.id]

    def total(self, life: Life) -> Counts:
        """All that was stored of a life that began at 0."""
        return counts_of(over_time(self.intervals(life)))

    def close(self) -> None:
        self.client.close()
        self.store.close()
        self.watchdog.stop()


@pytest.fixture
def watch(tmp_path: Path) -> Iterator[Any]:
    made: list[Watching] = []

    def build(url: str) -> Watching:
        made.append(Watching(url, tmp_path))
        return made[-1]

    yield build
    for one in made:
        one.close()


def check(counts: Counts, truth: Truth, tokens: int) -> None:
    """What was stored equals what the clients were told, to the digit."""
    speculation, traffic = counts.speculation, counts.traffic
    assert speculation is not None and traffic is not None
    assert traffic.generation_tokens == truth.tokens
    assert speculation.num_draft_tokens == truth.drafted
    assert speculation.num_accepted_tokens == truth.accepted
    assert speculation.accepted_per_pos is not None and sum(speculation.accepted_per_pos) == truth.accepted
    assert len(speculation.accepted_per_pos) == tokens
    assert 0 < truth.accepted <= truth.drafted <= tokens * (speculation.num_drafts or 0)


def test_counters_to_the_digit_through_a_restart_and_the_death_of_the_daemon(watch: Any) -> None:
    port = free_port()
    with running_server(speculation=draft_simple(4), port=port, ready=is_healthy) as server:
        watching = watch(server.url)
        watching.scrape()
        assert watching.verdict()[0] is Verdict.NO_DRAFTS_YET
        [life] = watching.lives()
        draft = str(model_file("draft"))
        assert life.setting == Setting(method="draft_model", num_speculative_tokens=4, draft_model=draft)
        assert life.sources["num_speculative_tokens"] is SettingSource.COMMAND_LINE, "no page has shown it yet"
        truth = ask_many(server, 6)
        watching.scrape()
        watching.new_daemon()
        more = ask_many(server, 4)
        watching.scrape()
        [life] = watching.lives()
        assert life.sources["num_speculative_tokens"] is SettingSource.PAGE
        assert life.setting_notes == ()
        check(
            watching.total(life),
            Truth(10, truth.tokens + more.tokens, truth.drafted + more.drafted, truth.accepted + more.accepted), 4,
        )  # fmt: skip
    with running_server(speculation=draft_simple(2), port=port, ready=is_healthy) as server:
        truth = ask_many(server, 15)
        watching.scrape()
        [old, new] = watching.lives()
        assert old.ended is not None
        assert new.evidence is StartEvidence.PROCESS_START, "its header tells, whatever the counters say"
        assert new.setting.num_speculative_tokens == 2
        more = ask_many(server, 2)
        watching.scrape()
        intervals = watching.intervals(new)
        if new.counts_from_zero:
            check(
                watching.total(new),
                Truth(17, truth.tokens + more.tokens, truth.drafted + more.drafted, truth.accepted + more.accepted), 2,
            )  # fmt: skip
        else:  # it had counted more than the old one by its first page, which so might not be its own
            check(counts_of(intervals[-1]), more, 2)


def test_one_long_request_is_work_whose_counters_come_later(watch: Any) -> None:
    with running_server(speculation=draft_simple(4), ready=is_healthy) as server:
        watching = watch(server.url)
        ask(server, 0)
        watching.scrape()
        states = []
        with ThreadPoolExecutor(1) as pool:
            request = pool.submit(ask, server, 0, tokens=1000)
            while not request.done():
                watching.scrape()
                states.append(watching.verdict())
        assert not {Verdict.NEEDS_PROBE, Verdict.RESET_DETECTED, Verdict.COUNTER_GLITCH} & {one for one, _ in states}
        if len(states) > 6:
            assert State.BUSY_COUNTERS_DEFERRED in [state for _, state in states]
        watching.scrape()
        [life] = watching.lives()
        check(watching.total(life), request.result(), 4)


def test_without_a_draft_it_is_known_to_be_off(watch: Any) -> None:
    with running_server(ready=is_healthy) as server:
        watching = watch(server.url)
        ask_many(server, 4)
        watching.scrape()
        assert watching.verdict()[0] is Verdict.NOT_SPEC_DECODE
        [life] = watching.lives()
        assert life.setting.is_off
        assert life.sources["num_speculative_tokens"] in (SettingSource.PAGE, SettingSource.COMMAND_LINE)


def acceptd(*arguments: str) -> subprocess.CompletedProcess[str]:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("ACCEPTD_")}
    return subprocess.run(
        [sys.executable, "-m", "monitor", *arguments],
        capture_output=True, text=True, timeout=120, check=False, env=environ,
    )  # fmt: skip


def test_the_command_reads_it_from_its_url(tmp_path: Path) -> None:
    with running_server(speculation=draft_simple(3), ready=is_healthy) as server:
        before = json.loads(acceptd("read", server.url, "--between", "0", "--json").stdout)
        assert (before["verdict"], before["dialect"]) == ("spec_decode_no_drafts_yet", "llamacpp")
        truth = ask_many(server, 5)
        said = json.loads(acceptd("read", server.url, "--between", "1", "--json").stdout)
        assert said["verdict"] == "ok"
        [model] = said["models"]
        assert model["num_speculative_tokens"] == 3
        lifetime = model["lifetime"]
        assert lifetime["generation_tokens"] == truth.tokens
        assert lifetime["num_draft_tokens"] == truth.drafted
        assert lifetime["acceptance_rate"] == pytest.approx(truth.accepted / truth.drafted)
        assert model["interval"]["num_drafts"] == 0


def test_the_daemon_shows_where_the_setting_is_from_and_who_disagrees(tmp_path: Path) -> None:
    with running_server(speculation=draft_simple(3), ready=is_healthy) as server:
        ask_many(server, 2)
        config = tmp_path / "acceptd.yaml"
        config.write_text(
            yaml.safe_dump(
                {
                    "data_dir": str(tmp_path / "data"), "scrape": {"interval": "1s", "timeout": "1s"},
                    "servers": [{"name": NAME, "url": server.url, "engine": "llamacpp",
                                 "speculation": {"method": "draft_model", "num_speculative_tokens": 6}}],
                    "web": {"listen": "127.0.0.1:0"},
                }
            )
        )  # fmt: skip
        daemon = WatchOnly(config)
        try:
            daemon.wait_until_read()
            shown = acceptd("--config", str(config), "servers").stdout
            [found] = json.loads(acceptd("--config", str(config), "servers", "--json").stdout)
        finally:
            daemon.stop()
        note = "num_speculative_tokens: page says 3, command line says 3, config says 6"
        assert found["num_speculative_tokens"] == 3
        assert found["setting_notes"] == [note]
        assert " ".join(note.split()) in " ".join(shown.split())
        assert found["sources"]["num_speculative_tokens"] == "page"
        assert found["sources"]["draft_model"] == "command line"


class WatchOnly:
    """`acceptd run` on a configuration of its own."""

    def __init__(self, config: Path) -> None:
        self._config = config
        self._log = config.with_name("acceptd.log")
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "monitor", "--config", str(config), "run"],
                stdout=log, stderr=log, stdin=subprocess.DEVNULL,
            )  # fmt: skip

    def wait_until_read(self) -> None:
        clock = SystemClock()
        deadline = clock.monotonic() + PATIENCE
        while clock.monotonic() < deadline:
            assert self._process.poll() is None, self._log.read_text()
            done = acceptd("--config", str(self._config), "servers", "--json")
            if done.returncode == 0 and (found := json.loads(done.stdout)) and found[0]["setting_notes"]:
                return
            clock.sleep(0.5)
        raise AssertionError(f"not read in time:\n{self._log.read_text()}")

    def stop(self) -> None:
        self._process.terminate()
        assert self._process.wait(timeout=60) == 0, self._log.read_text()
