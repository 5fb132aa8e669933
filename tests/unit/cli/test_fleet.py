"""`--fleet`: servers of all hosts on the command line, and what is said where their database does not answer."""

from __future__ import annotations

import io
import json
import re
import threading
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from monitor.app.membership import HOST
from monitor.cli.board import Board, alert_lines, fleet_lines, group_line, headline
from monitor.cli.context import Context
from monitor.cli.fleet import FleetInSight, read_fleet
from monitor.cli.looking import look
from monitor.cli.watching import Place, screen
from monitor.clock import SystemClock
from monitor.config.running import read_running, write_running
from monitor.model.record import Watched
from monitor.report.others import alerts_elsewhere, joined
from monitor.report.overview import overview
from tests.fakes.fake_clock import FakeClock
from tests.fakes.memory_store import MemoryStore
from tests.fakes.story import CHAT_2, GROUPS, RAG_1, SERVERS, write_story
from tests.unit.cli.conftest import Folder, Run

HERE, THERE = "h1", "h2"
THEIRS = (CHAT_2, RAG_1)
NOW = FakeClock().now()


@pytest.fixture
def nowhere(tmp_path: Path) -> Path:
    """A configuration whose database nobody listens for."""
    path = tmp_path / "acceptd.yaml"
    path.write_text("store: {shared: {url: 'postgresql://acceptd@127.0.0.1:1/acceptd', password: hunter2}}\n")
    return path


def test_away_the_database_leaves_this_host_and_a_word_why(acceptd: Run, folder: Folder, nowhere: Path) -> None:
    given = ("--config", nowhere, "--data-dir", folder.path)
    said = acceptd(*given, "status", "--fleet")
    assert said.code == 0 and "chat-1" in said.out
    assert "The servers of other hosts cannot be read: " in said.out
    assert "hunter2" not in said.out + said.err
    view = acceptd(*given, "status", "--fleet", "--json").json()
    assert {one["host"] for group in view["groups"] for one in group["servers"]} == {"host-1"}
    assert view["fleet"]["trouble"] and view["fleet"]["hosts"] == ["host-1"]
    listed = acceptd(*given, "servers", "--fleet", "--json")
    assert len(listed.json()) == 2 and "cannot be read" in listed.err


def test_alerts_without_the_database_are_this_host_s_own_and_say_so(
    acceptd: Run, folder: Folder, nowhere: Path
) -> None:
    said = acceptd("--config", nowhere, "--data-dir", folder.path, "alerts", "--fleet", "--json")
    own = acceptd("--data-dir", folder.path, "alerts", "--json").json()
    assert said.json() == [{**one, "host": "host-1"} for one in own] and own
    assert said.err.startswith("The alerts of other hosts cannot be read: ") and "hunter2" not in said.err
    assert "host-1" in acceptd("--config", nowhere, "--data-dir", folder.path, "alerts", "--fleet").out
    write_running(folder.path, replace(read_running(folder.path), shared=True))
    assert "This host alone" in acceptd("--data-dir", folder.path, "alerts").out


def test_alerts_of_other_hosts_stand_with_their_host_and_own_ones_once() -> None:
    store = two_hosts(alive=True)
    own = RAG_1  # here: of the host that asks
    with store.read() as unit:
        everything = unit.alerts.since(NOW - timedelta(days=30))
        ours = {(one.fingerprint, one.active_since) for one in everything if one.labels.get("server") == own}
        found = alerts_elsewhere(unit, NOW - timedelta(days=30), NOW, ours)
    assert ours and {one["fingerprint"] for one in found} == {
        one.fingerprint for one in everything if one.labels.get("server") != own
    }
    chat = next(one for one in found if one["labels"].get("server") == str(CHAT_2))
    assert (chat["host"], chat["silenced"]) == (THERE, True)


class TestWatch:
    """`watch --fleet`: looks at the fleet's database in a thread of its own."""

    def sight(self, folder: Path, shared: Any) -> FleetInSight:
        return FleetInSight(Context(data_dir=folder), shared, SystemClock(), 300.0)

    def here(self, folder: Folder) -> dict[str, Any]:
        return look(Context(data_dir=folder.path), SystemClock().now(), 300.0)

    def test_the_servers_of_other_hosts_come_with_their_last_hour(self, folder: Folder) -> None:
        store = MemoryStore()
        now = SystemClock().now()
        write_story(store, now)
        with store.write() as unit:
            unit.servers.put([
                Watched(server=RAG_1, group=GROUPS[2].name, host=THERE, url="http://there", engine=SERVERS[0].engine,
                        mode=GROUPS[2].mode, labels={}, since=now)
            ])  # fmt: skip
            unit.leases.hold([f"{HOST}{THERE}"], THERE, 60.0, now)
        sight = self.sight(folder.path, store)
        with closing(sight):
            deadline = SystemClock().monotonic() + 30
            while True:
                view, theirs = sight.join(self.here(folder))
                if view["fleet"]["hosts"] == [THERE, "host-1"] or SystemClock().monotonic() > deadline:
                    break
        hosts = {one["name"]: one["host"] for group in view["groups"] for one in group["servers"]}
        assert hosts[str(RAG_1)] == THERE and set(hosts.values()) == {"host-1", THERE}
        assert view["fleet"]["trouble"] == "" and view["fleet"]["away"] == []
        assert str(RAG_1) in theirs

    def test_a_database_that_hangs_stops_nothing(self, folder: Folder) -> None:
        go_on = threading.Event()

        class Hanging(MemoryStore):
            def read(self) -> Any:
                go_on.wait(60)
                return super().read()

        sight = self.sight(folder.path, Hanging())
        view, _ = sight.join(self.here(folder))
        assert view["fleet"]["trouble"] == "the servers of other hosts are being read"
        assert {one["host"] for group in view["groups"] for one in group["servers"]} == {"host-1"}
        go_on.set()
        sight.close()

    def test_the_screen_says_which_hosts_there_are(self) -> None:
        out = Console(width=140, record=True, file=io.StringIO())
        out.print(screen(fleet(alive=False), {}, Place(), 140, 40, FakeClock()))
        said = out.export_text()
        assert "2 hosts (h1, h2), this is h1." in said and "No sign of life of h2" in said
        assert re.search(rf"^{CHAT_2} +{THERE} +host away", said, re.MULTILINE)


@pytest.mark.parametrize("command", ["status", "servers", "alerts"])
def test_without_such_a_database_the_option_is_refused(acceptd: Run, folder: Folder, command: str) -> None:
    said = acceptd("--data-dir", folder.path, command, "--fleet")
    assert (said.code, said.out) == (2, "")
    assert "store.shared: found nothing" in said.err


def test_what_is_shown_without_the_option_is_what_it_was(acceptd: Run, folder: Folder) -> None:
    before = acceptd("--data-dir", folder.path, "status")
    assert "--fleet" not in before.out
    write_running(folder.path, replace(read_running(folder.path), shared=True))
    assert "This host alone; with --fleet all that share its database." in acceptd(
        "--data-dir", folder.path, "status").out
    view = acceptd("--data-dir", folder.path, "status", "--json").json()
    assert "fleet" not in view and "host" not in view["groups"][0]["servers"][0]


def two_hosts(*, alive: bool) -> MemoryStore:
    """The fleet's database with the story on two hosts."""
    store = MemoryStore()
    write_story(store, NOW)
    with store.write() as unit:
        unit.servers.put(
            Watched(server=one.name, group=one.group, host=THERE if one.name in THEIRS else HERE, url=one.metrics_url,
                    engine=one.engine, mode=GROUPS[0].mode, labels={}, since=NOW)
            for one in SERVERS
        )
        if alive:
            unit.leases.hold([f"{HOST}{THERE}"], THERE, 60.0, NOW)
    return store


def fleet(*, alive: bool) -> dict[str, Any]:
    """That, as the first host has it."""
    store = two_hosts(alive=alive)
    own = [replace(group, servers=tuple(name for name in group.servers if name not in THEIRS)) for group in GROUPS]
    with store.read() as unit:
        here = overview(unit, [group for group in own if group.servers],
                        [one for one in SERVERS if one.name not in THEIRS], NOW)
        others, present, trends = read_fleet(unit, HERE, NOW, 300.0, trends=True)
    assert not trends.keys() & {str(one.name) for one in SERVERS if one.name not in THEIRS}
    daemon = {"running": True, "pid": 1, "version": "0", "host": HERE, "listen": "x", "data_dir": "d",
              "simulated": False}
    return {"daemon": daemon, **joined(here, others, HERE, present=present, trouble="", ours=())}


def text_of(view: dict[str, Any]) -> str:
    out = Console(width=160, record=True, file=io.StringIO())
    board = Board(view["groups"], {}, NOW + timedelta(seconds=1), 160)
    for line in (headline(view), *fleet_lines(view), *alert_lines(view, NOW)):
        out.print(line)
    for group in view["groups"]:
        out.print(group_line(group))
        out.print(board.table(group["servers"]))
    return out.export_text()


def test_every_server_stands_with_its_host() -> None:
    view = fleet(alive=True)
    said = text_of(view)
    assert "2 hosts (h1, h2), this is h1." in said and "No sign of life" not in said
    assert "Group chat on h1, h2" in said and "Group rag on h2" in said
    lines = {line.split()[0]: line.split() for line in said.splitlines() if line.strip()}
    assert lines[str(CHAT_2)][1] == THERE and lines[str(SERVERS[0].name)][1] == HERE
    json.dumps(view)


def test_servers_of_a_silent_host_are_said_to_be_old() -> None:
    said = text_of(fleet(alive=False))
    assert "No sign of life of h2: its servers are shown as they were last seen." in said
    assert "host away" in said
