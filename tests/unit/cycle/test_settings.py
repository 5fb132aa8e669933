"""What is known of a setting besides the page, by whom, asked once a life."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from monitor.cycle.settings import KnownSetting, SettingFinder
from monitor.launch import parse_command
from monitor.model.life import Said, Setting, SettingSource
from monitor.model.reading import Reading
from monitor.model.server import Engine, GroupName, Server
from monitor.targets.local import LocalServer
from monitor.targets.told import Told
from tests.fakes.readings import SERVER, Counted, engine_reading, reading

WATCHED = Server(name=SERVER, group=GroupName("g"), base_url="http://127.0.0.1:8000", metrics_url="http://x/metrics")


def local(*argv: str) -> LocalServer:
    return LocalServer(Engine.VLLM, 42, 8000, argv, parse_command(Engine.VLLM, argv))


class World:
    def __init__(self) -> None:
        self.told = Told("0.32.0")
        self.found: LocalServer | None = None
        self.launched: Setting | None = None
        self.configured: dict[str, Setting] = {}
        self.asked: list[Engine] = []
        self.error: OSError | None = None

    def finder(self) -> SettingFinder:
        return SettingFinder(
            ask=self.ask, process=self.look, launched=lambda name: self.launched,
            configured=self.configured,  # type: ignore[arg-type]
        )

    def ask(self, server: Server, engine: Engine) -> Told:
        self.asked.append(engine)
        return self.told

    def look(self, server: Server) -> LocalServer | None:
        if self.error is not None:
            raise self.error
        return self.found


def page(born: float = 0.0, at: float = 60.0, **more: object) -> Reading:
    made = reading(at, engine_reading(Counted(steps=10, started=born)), process_start=-30.0)
    return replace(made, **more)  # type: ignore[arg-type]


ASKED = ("vllm", "serve", "m", "--speculative-config", '{"method": "ngram", "num_speculative_tokens": 5}')


class TestFinder:
    def test_a_page_without_an_engine_asks_nobody(self) -> None:
        world = World()
        assert world.finder().of(WATCHED, reading(1.0)) is None
        assert not world.asked

    def test_every_source_says_its_own_most_trusted_first(self) -> None:
        world = World()
        world.found = local(*ASKED)
        world.launched = Setting(method="ngram", num_speculative_tokens=2)
        info = Said(source=SettingSource.SERVER_INFO, setting=Setting(num_speculative_tokens=4))
        world.told = Told("0.32.0", info)
        world.configured = {SERVER: Setting(num_speculative_tokens=9)}
        known = world.finder().of(WATCHED, page())
        assert known is not None
        assert [(one.source.value, one.setting.num_speculative_tokens) for one in known.said] == [
            ("command line", 5), ("launch file", 2), ("server_info", 4), ("config", 9),
        ]  # fmt: skip
        assert known.engine_version == "0.32.0" and not known.restarted

    def test_a_command_line_without_speculation_says_off(self) -> None:
        world = World()
        world.found = local("vllm", "serve", "m")
        known = world.finder().of(WATCHED, page())
        assert known is not None and known.said[0].setting.is_off

    def test_one_that_cannot_be_read_says_why(self) -> None:
        world = World()
        world.found = local("vllm", "serve", "m", "--speculative-config", "{not json")
        known = world.finder().of(WATCHED, page())
        assert known is not None
        assert known.said[0].setting == Setting()
        assert str(known.said[0].note).startswith("command line not used: --speculative-config")

    def test_processes_that_may_not_be_looked_at_are_no_error(self) -> None:
        world = World()
        world.error = PermissionError("denied")
        known = world.finder().of(WATCHED, page())
        assert known is not None and known.said == ()

    @pytest.mark.parametrize(
        ("dialect", "engine"),
        [("vllm_v0", Engine.VLLM), ("vllm_v1", Engine.VLLM), ("sglang", Engine.SGLANG), ("llamacpp", Engine.LLAMACPP)],
    )
    def test_the_page_says_whom_to_ask(self, dialect: str, engine: Engine) -> None:
        world = World()
        world.finder().of(WATCHED, page(dialect=dialect))
        assert world.asked == [engine]

    def test_it_asks_once_a_life_and_anew_for_the_next(self) -> None:
        world = World()
        finder = world.finder()
        for turn in range(30):
            finder.of(WATCHED, page(at=15.0 * turn))
        assert len(world.asked) == 1
        world.told = Told("0.33.0")
        known = finder.of(WATCHED, page(born=100.0))
        assert known is not None and known.engine_version == "0.33.0"
        assert len(world.asked) == 2

    def test_another_start_mark_is_another_life(self) -> None:
        world = World()
        finder = world.finder()
        for mark in ("1", "1", "2", "2"):
            finder.of(WATCHED, page(start_mark=mark))
        assert len(world.asked) == 2

    def test_a_new_life_has_no_version_until_it_was_told(self) -> None:
        world = World()
        finder = world.finder()
        finder.of(WATCHED, page())
        world.told = Told(is_whole=False)
        known = finder.of(WATCHED, page(born=100.0))
        assert known is not None and known.engine_version is None
        assert finder.version(SERVER) == "0.32.0"

    def test_who_gave_no_answer_is_asked_again_ever_more_rarely(self) -> None:
        world = World()
        world.told = Told(is_whole=False)
        finder = world.finder()
        asked = []
        for turn in range(4 * 3600):
            before = len(world.asked)
            finder.of(WATCHED, page(at=15.0 * turn))
            asked += [15.0 * turn] if len(world.asked) > before else []
        gaps = [later - earlier for earlier, later in pairwise(asked)]
        assert gaps[:4] == [15.0, 30.0, 60.0, 120.0]
        assert max(gaps) == 3600.0
        world.told = Told("0.32.0")
        known = finder.of(WATCHED, page(at=asked[-1] + 3600.0))
        assert known is not None and known.engine_version == "0.32.0"

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

    def test_a_restart_is_seen_even_where_the_page_shows_no_start(self) -> None:
        world = World()
        finder = world.finder()
        silent = reading(60.0, engine_reading(Counted(steps=10, started=None)))
        finder.of(WATCHED, silent)
        finder.restarted(SERVER)
        known = finder.of(WATCHED, silent)
        assert known is not None and known.restarted
        assert len(world.asked) == 2

    def test_what_was_known_is_forgotten_when_the_counters_tell_of_another_process(self) -> None:
        world = World()
        finder = world.finder()
        silent = reading(60.0, engine_reading(Counted(steps=10, started=None)))
        finder.of(WATCHED, silent)
        world.found = local(*ASKED)
        assert finder.of(WATCHED, silent) == KnownSetting((), "0.32.0")
        finder.forget(SERVER)
        known = finder.of(WATCHED, silent)
        assert known is not None and known.said[0].setting.num_speculative_tokens == 5

    def test_the_version_is_none_before_anyone_asked(self) -> None:
        assert World().finder().version(SERVER) is None
