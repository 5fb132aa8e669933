"""The terminal that one keeps open: what it shows at every size, what its keys do, how it leaves the terminal."""

from __future__ import annotations

import io
import os
import pty
import re
import termios
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from rich.console import Console

from monitor.cli.board import Board, alert_lines, group_line
from monitor.cli.context import Context
from monitor.cli.keys import Keys
from monitor.cli.watching import Place, watch_fleet
from monitor.clock import SystemClock
from monitor.config.running import Running, write_running
from monitor.store import open_store
from tests.fakes.story import GROUPS, SERVERS, write_story
from tests.unit.cli.conftest import Run

CLOCK = SystemClock()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a daemon with a past, that does not run now."""
    path = tmp_path_factory.mktemp("watch")
    store = open_store(f"sqlite:///{path}/local.db")
    store.upgrade()
    write_story(store, CLOCK.now())
    store.close()
    write_running(path, Running(
        pid=1, version="0.1.0", started_at=CLOCK.now(), host="gpu-7", listen="127.0.0.1:9747", simulated=False,
        servers=SERVERS, groups=GROUPS,
    ))  # fmt: skip
    return path


class Pressed(Keys):
    """Keys pressed one after the other, each after a look; `q` in the end."""

    def __init__(self, keys: Sequence[str | None]) -> None:
        super().__init__(0)
        self._keys = iter([*keys, "q"])

    def pressed(self, seconds: float) -> str | None:
        return next(self._keys)

    def __enter__(self) -> Pressed:
        return self


def screens(
    folder: Path, *keys: str | None, width: int = 140, height: int = 40, place: Place | None = None
) -> list[str]:
    """What was on the screen after each key."""
    out = io.StringIO()
    console = Console(file=out, width=width, height=height, force_terminal=True, color_system=None, highlight=False)
    watch_fleet(Context(data_dir=folder), console, CLOCK, Pressed(keys), 0.0, place or Place())
    shown = re.split(r"\x1b\[H", out.getvalue())
    found = [re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", one).rstrip() for one in shown if "acceptd" in one]
    return found


class TestWhatItShows:
    def test_every_server_with_its_figures_its_history_and_what_acceptd_would_do(self, folder: Path) -> None:
        (screen, *_) = screens(folder)
        assert "acceptd 0.1.0 on gpu-7: not running" in screen and "4/4 up" in screen
        assert "PAGE rag-1: AcceptanceCliff" in screen and "HighPreemptions" in screen
        assert "Paused: group:rag by jonas" in screen
        chat = next(line for line in screen.splitlines() if line.startswith("chat-1"))
        for what in ("ok", "3", "eagle3", "53.7%", "2.61", "12.4 ms", "▅▅▅"):
            assert what in chat
        assert "Group chat (approve) waits for approval: lower to 2 (+6.0%)" in screen
        assert re.search(r"code-1 +observing .* observing: mtp, 3", screen)
        assert re.search(r"rag-1 +AcceptanceCliff", screen)
        assert "HighPreemptions" in next(line for line in screen.splitlines() if line.startswith("chat-2"))

    def test_silenced_alerts_do_not_stand_above_the_servers(self, folder: Path) -> None:
        assert "TICKET" not in screens(folder)[0]

    @pytest.mark.parametrize(("width", "height"), [(200, 50), (100, 30), (80, 24), (60, 15), (40, 8), (20, 4)])
    def test_it_never_shows_more_than_fits(self, folder: Path, width: int, height: int) -> None:
        for screen in screens(folder, "down", "page down", "end", "up", "home", width=width, height=height):
            lines = screen.splitlines()
            assert len(lines) <= height
            assert all(len(line) <= width for line in lines)

    @pytest.mark.parametrize(
        ("width", "there", "gone"),
        [(160, "method last hour KV read acceptd", ""), (100, "last hour run acceptd", "method read"),
         (70, "tokens/s wait step", "last KV method read"), (40, "accept. length", "wait step run")],
    )  # fmt: skip
    def test_what_matters_least_gives_way_to_a_narrow_terminal(
        self, folder: Path, width: int, there: str, gone: str
    ) -> None:
        head = next(line for line in screens(folder, width=width)[0].splitlines() if line.startswith("server"))
        assert all(word in head for word in there.split()), head
        assert not any(word in head.split() for word in gone.split()), head

    def test_short_names_leave_room_for_more(self) -> None:
        figures = {"acceptance_rate": 0.7, "acceptance_length": 2.4, "step_seconds": 0.01, "running": 3.0,
                   "generation_tokens_per_second": 7000.0, "waiting": 0.0, "kv_usage": 0.04}
        server = {"name": "a1", "figures": figures, "num_speculative_tokens": 3, "method": "mtp", "last_ok": None,
                  "intent": "", "condition": "ok", "level": "ok"}
        trends = {"a1": [0.1, 0.1, 0.9, None, *[0.5] * 16]}
        for width, heads in ((80, "k accept. last hour length step tokens/s run wait KV acceptd"),
                             (60, "k accept. length step tokens/s wait acceptd")):
            out = Console(file=io.StringIO(), width=width)
            out.print(Board([{"intent": "", "servers": [server]}], trends, CLOCK.now(), width).table([server]))
            head, row = out.file.getvalue().splitlines()  # type: ignore[attr-defined]
            assert head.split() == ["server", "state", *heads.split()]
            assert len(row) <= width
        # Where the last hour has no room for twenty points there are ten, each of two.
        narrow = Console(file=io.StringIO(), width=80)
        narrow.print(Board([{"intent": "", "servers": [server]}], trends, CLOCK.now(), 80).table([server]))
        assert "▁█▅▅▅▅▅▅▅▅ " in narrow.file.getvalue()  # type: ignore[attr-defined]

    def test_a_narrow_terminal_shows_how_the_fleet_is_before_where_its_page_is(self, folder: Path) -> None:
        assert "4/4 up" in screens(folder, width=60)[0]


class TestKeys:
    def test_it_scrolls_and_never_beyond_its_ends(self, folder: Path) -> None:
        first, down, back, end = screens(folder, "down", "up", "end", height=14)[:4]
        assert "Group chat" in first and "Group chat" not in down
        assert [line[:20] for line in back.splitlines()[:-1]] == [line[:20] for line in first.splitlines()[:-1]]
        assert "lines above or below" in end

    def test_g_shows_one_group_after_the_other_and_all_again(self, folder: Path) -> None:
        every, chat, code, rag, again = screens(folder, "g", "g", "g", "g")
        groups = [re.findall(r"^Group (\w+)", one, re.MULTILINE) for one in (every, chat, code, rag, again)]
        assert groups == [["chat", "code", "rag"], ["chat"], ["code"], ["rag"], ["chat", "code", "rag"]]

    def test_a_group_that_is_gone_gives_way_to_all(self, folder: Path) -> None:
        assert "Group chat" in screens(folder, "g", place=Place(group="gone"))[1]


@pytest.fixture
def terminal() -> Iterator[tuple[int, int]]:
    """A person's end and a program's end of a terminal."""
    person, program = pty.openpty()
    yield person, program
    os.close(person)
    os.close(program)


class TestReadingKeys:
    @pytest.mark.parametrize(
        ("typed", "key"),
        [(b"q", "q"), (b"\x1b[A", "up"), (b"\x1b[6~", "page down"), (b"\x1b[x", "escape"), (b"\x03", None)],
    )  # fmt: skip
    def test_a_key_is_known_as_it_is_pressed(self, terminal: tuple[int, int], typed: bytes, key: str | None) -> None:
        person, program = terminal
        with Keys(program) as keys:
            assert keys.pressed(0.0) is None
            if key is None:
                return
            os.write(person, typed)
            assert keys.pressed(10.0) == key

    def test_the_terminal_is_put_back_whatever_happens(self, terminal: tuple[int, int]) -> None:
        _, program = terminal
        before = termios.tcgetattr(program)
        with pytest.raises(RuntimeError), Keys(program):
            assert termios.tcgetattr(program)[3] != before[3]
            raise RuntimeError
        assert termios.tcgetattr(program) == before


def test_without_a_terminal_it_says_what_to_use(acceptd: Run, folder: Path) -> None:
    said = acceptd("--data-dir", folder, "watch")
    assert said.code == 3 and "acceptd status" in said.err
    said = acceptd("--data-dir", folder, "watch", "--group", "nope")
    assert said.code == 3 and "known: chat, code, rag" in said.err
    assert acceptd("--data-dir", folder, "watch", "--every", "2").code == 2


class TestStatus:
    def test_of_many_servers_only_those_that_are_not_well_are_shown(
        self, acceptd: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("monitor.cli.looking._FEW", 3)
        said = acceptd("--data-dir", folder, "status").out
        assert "rag-1" in said and "chat-1" not in said
        assert "1 servers are well: acceptd status --group chat" in said
        assert "chat-1" in acceptd("--data-dir", folder, "status", "--group", "chat").out
        assert acceptd("--data-dir", folder, "status", "--group", "nope").code == 3


def test_alerts_say_who_is_on_them_and_which_are_silenced(acceptd: Run, folder: Path) -> None:
    said = acceptd("--data-dir", folder, "alerts").out
    assert re.search(r"HighPreemptions.*\[silenced\]", said) and not re.search(r"AcceptanceCliff.*\[silenced\]", said)
    found = {one["name"]: one["silenced"] for one in acceptd("--data-dir", folder, "alerts", "--json").json()}
    assert found["HighPreemptions"] and not found["AcceptanceCliff"]


@pytest.mark.parametrize(
    ("silenced", "words"),
    [((False, False), ["PAGE a", "PAGE b"]), ((False, True), ["PAGE a", "1 silenced."]),
     ((True, True), ["No alerts but 2 silenced."]), ((), ["No alerts."])],
)  # fmt: skip
def test_what_is_silenced_is_counted_and_never_taken_for_quiet(silenced: tuple[bool, ...], words: list[str]) -> None:
    now = CLOCK.now()
    alerts = [
        {"state": "firing", "silenced": one, "severity": "page", "summary": name, "since": now.isoformat(),
         "acknowledged_by": None}
        for one, name in zip(silenced, "ab", strict=False)
    ]
    said = alert_lines({"alerts": alerts, "daemon": {"running": True}, "pauses": []}, now)
    assert [line.plain.partition(" (")[0] for line in said] == words


def test_what_a_server_calls_itself_does_not_steer_the_terminal() -> None:
    """A rich text takes control characters as they are, on one look and on a screen that is kept."""
    now, evil = CLOCK.now(), "rag\x1b]0;mine\x07\x1b[2J"
    alert = {"state": "firing", "silenced": False, "severity": "page", "summary": evil, "since": now.isoformat(),
             "acknowledged_by": None}
    pause = {"scope": evil, "author": evil, "reason": evil}
    figures = dict.fromkeys(
        ("acceptance_rate", "acceptance_length", "step_seconds", "generation_tokens_per_second", "running", "waiting",
         "kv_usage"))
    server = {"name": evil, "figures": figures, "num_speculative_tokens": None, "method": evil, "last_ok": None,
              "intent": evil, "condition": "ok", "level": "ok"}
    group = {"name": evil, "mode": "auto", "rollout": None, "intent": evil, "servers": [server]}
    told = Console(file=io.StringIO(), force_terminal=True, width=400, color_system=None)
    for line in (*alert_lines({"alerts": [alert], "daemon": {"running": True}, "pauses": [pause]}, now),
                 group_line(group)):
        told.print(line)
    told.print(Board([group], {}, now, 400).table([{**server, "intent": "other"}]))
    assert "\x1b" not in told.file.getvalue() and "\x07" not in told.file.getvalue()  # type: ignore[attr-defined]
    assert "rag\\x1b" in told.file.getvalue()  # type: ignore[attr-defined]
