"""What is known of a setting besides the page, each part with where it is from, asked once a life."""

from __future__ import annotations

from dataclasses import replace

import pytest

from monitor.cycle.settings import SettingFinder, merge
from monitor.launch import parse_command
from monitor.model.life import Setting, SettingSource
from monitor.model.reading import Reading
from monitor.model.server import Engine, GroupName, Server
from monitor.targets.local import LocalServer
from tests.fakes.readings import SERVER, Counted, engine_reading, reading

WATCHED = Server(name=SERVER, group=GroupName("g"), base_url="http://127.0.0.1:8000", metrics_url="http://x/metrics")
LINE, FILE, CONFIG = SettingSource.COMMAND_LINE, SettingSource.LAUNCH_FILE, SettingSource.CONFIG


class TestMerge:
    def test_the_first_source_that_knows_a_part_gives_it(self) -> None:
        line = Setting(method="eagle3", draft_model="org/head")
        file = Setting(method="ngram", num_speculative_tokens=4)
        config = Setting(num_speculative_tokens=9, schedule=((1, 8, 3),))
        setting, sources = merge([(LINE, line), (FILE, file), (CONFIG, config)])
        assert setting == Setting(
            method="eagle3", num_speculative_tokens=4, draft_model="org/head", schedule=((1, 8, 3),)
        )
        assert sources == {
            "method": LINE, "draft_model": LINE, "num_speculative_tokens": FILE, "schedule": CONFIG,
        }  # fmt: skip

    def test_off_is_a_number_and_not_unknown(self) -> None:
        off, config = Setting(num_speculative_tokens=0), Setting(method="ngram", num_speculative_tokens=3)
        setting, sources = merge([(LINE, off), (CONFIG, config)])
        assert setting.num_speculative_tokens == 0
        assert sources["num_speculative_tokens"] is LINE

    def test_nothing_known_is_nothing(self) -> None:
        assert merge([]) == merge([(LINE, Setting())]) == (Setting(), {})


def local(*argv: str) -> LocalServer:
    return LocalServer(Engine.VLLM, 42, 8000, argv, parse_command(Engine.VLLM, argv))


class World:
    def __init__(self) -> None:
        self.version: str | None = "0.32.0"
        self.found: LocalServer | None = None
        self.launched: Setting | None = None
        self.configured: dict[str, Setting] = {}
        self.asked = 0
        self.error: OSError | None = None

    def finder(self) -> SettingFinder:
        return SettingFinder(
            version=self.ask, process=self.look, launched=lambda name: self.launched,
            configured=self.configured,  # type: ignore[arg-type]
        )

    def ask(self, name: str) -> str | None:
        self.asked += 1
        return self.version

    def look(self, server: Server) -> LocalServer | None:
        if self.error is not None:
            raise self.error
        return self.found


def page(born: float = 0.0, **more: float) -> Reading:
    return reading(60.0, engine_reading(Counted(steps=10, started=born)), process_start=more.get("start", -30.0))


class TestFinder:
    def test_a_page_without_an_engine_asks_nobody(self) -> None:
        world = World()
        assert world.finder().of(WATCHED, reading(1.0)) is None
        assert world.asked == 0

    def test_the_command_line_of_the_process_comes_first(self) -> None:
        world = World()
        argv = ("vllm", "serve", "m", "--speculative-config", '{"method": "ngram", "num_speculative_tokens": 5}')
        world.found = local(*argv)
        world.launched = Setting(method="ngram", num_speculative_tokens=2)
        world.configured = {SERVER: Setting(num_speculative_tokens=9)}
        known = world.finder().of(WATCHED, page())
        assert known is not None
        assert (known.setting.method, known.setting.num_speculative_tokens) == ("ngram", 5)
        assert known.engine_version == "0.32.0" and not known.restarted

    def test_a_command_line_without_speculation_says_off(self) -> None:
        world = World()
        world.found = local("vllm", "serve", "m")
        world.configured = {SERVER: Setting(method="ngram", num_speculative_tokens=2)}
        known = world.finder().of(WATCHED, page())
        assert known is not None and known.setting.is_off

    def test_one_that_cannot_be_read_says_nothing(self) -> None:
        world = World()
        world.found = local("vllm", "serve", "m", "--speculative-config", "{not json")
        world.configured = {SERVER: Setting(method="ngram", num_speculative_tokens=2)}
        known = world.finder().of(WATCHED, page())
        assert known is not None and known.sources == {"method": CONFIG, "num_speculative_tokens": CONFIG}

    def test_processes_that_may_not_be_looked_at_are_no_error(self) -> None:
        world = World()
        world.error = PermissionError("denied")
        known = world.finder().of(WATCHED, page())
        assert known is not None and known.setting == Setting()

    def test_it_asks_once_a_life_and_anew_for_the_next(self) -> None:
        world = World()
        finder = world.finder()
        for _ in range(3):
            finder.of(WATCHED, page())
        assert world.asked == 1
        world.version = "0.33.0"
        known = finder.of(WATCHED, page(born=100.0))
        assert known is not None and known.engine_version == "0.33.0"
        assert world.asked == 2

    def test_a_version_that_was_known_is_not_forgotten_by_a_server_that_does_not_say_it_now(self) -> None:
        world = World()
        finder = world.finder()
        finder.of(WATCHED, page())
        world.version = None
        known = finder.of(WATCHED, page(born=100.0))
        assert known is not None and known.engine_version == finder.version(SERVER) == "0.32.0"

    def test_a_version_that_was_not_known_is_asked_for_again(self) -> None:
        world = World()
        world.version = None
        finder = world.finder()
        finder.of(WATCHED, page())
        world.version = "0.32.0"
        known = finder.of(WATCHED, page())
        assert known is not None and known.engine_version == "0.32.0"
        assert world.asked == 2

    def test_a_server_that_never_tells_its_version_is_asked_a_few_times(self) -> None:
        world = World()
        world.version = None
        finder = world.finder()
        for _ in range(20):
            finder.of(WATCHED, page())
        assert world.asked == 3

    def test_our_own_restart_is_told_until_its_first_page_was_stored(self) -> None:
        world = World()
        finder = world.finder()
        finder.of(WATCHED, page())
        finder.restarted(SERVER)
        for _ in range(2):
            known = finder.of(WATCHED, page(born=100.0))
            assert known is not None and known.restarted
        finder.restart_seen(SERVER)
        known = finder.of(WATCHED, page(born=100.0))
        assert known is not None and not known.restarted
        assert known == replace(known, restarted=False)

    def test_a_restart_is_seen_even_where_the_page_shows_no_start(self) -> None:
        world = World()
        finder = world.finder()
        silent = reading(60.0, engine_reading(Counted(steps=10, started=None)))
        finder.of(WATCHED, silent)
        finder.restarted(SERVER)
        known = finder.of(WATCHED, silent)
        assert known is not None and known.restarted
        assert world.asked == 2

    @pytest.mark.parametrize("born", [None, 5.0])
    def test_the_version_is_none_before_anyone_asked(self, born: float | None) -> None:
        assert World().finder().version(SERVER) is None
