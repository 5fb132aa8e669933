"""Pages of a host that shares a database: servers of other hosts stand beside its own, and its absence is said."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, cast

import pytest

from monitor.app.desk import DaemonDesk
from monitor.app.fleet_view import FleetView
from monitor.app.heart import Heart
from monitor.app.neighbours import Neighbours
from monitor.errors import StoreError
from monitor.model.record import Watched
from monitor.model.server import Mode
from monitor.store import Store
from monitor.store.api import Unit
from monitor.telemetry import Telemetry
from monitor.web.pages import make_app
from tests.fakes.fake_clock import FakeClock
from tests.fakes.memory_store import MemoryStore
from tests.fakes.story import CHAT_2, GROUPS, RAG_1, SERVERS, write_story

#: Who watches what: the group `chat` lies on both hosts, `rag` on the other alone.
HERE, THERE = "h1", "h2"
PLACES = {server.name: THERE if server.name in (CHAT_2, RAG_1) else HERE for server in SERVERS}
CLOCK = FakeClock()


class Fleet:
    """The fleet's database as a page reads it: away, or hanging until it is let go, when a test says so."""

    def __init__(self, told: MemoryStore) -> None:
        self._told = told
        self.away = False
        self.go = threading.Event()
        self.go.set()

    @contextmanager
    def read(self) -> Iterator[Unit]:
        self.go.wait(30.0)
        if self.away:
            raise StoreError("connection refused")
        with self._told.read() as unit:
            yield unit

    def close(self) -> None:
        """Nothing to give back."""


@pytest.fixture(scope="module")
def told() -> MemoryStore:
    """The fleet's database with the story in it, and who watches what."""
    store = MemoryStore()
    write_story(store, CLOCK.now())
    modes = {name: group.mode for group in GROUPS for name in group.servers}
    with store.write() as unit:
        unit.servers.put([
            Watched(server=one.name, group=one.group, host=PLACES[one.name], url=one.base_url, mode=modes[one.name],
                    engine=one.engine, since=CLOCK.now())
            for one in SERVERS
        ])  # fmt: skip
    return store


class Site:
    """The application of host h1, whose own store knows nothing yet."""

    def __init__(self, told: MemoryStore, *, first: float = 20.0) -> None:
        self.clock, self.fleet = FakeClock(), Fleet(told)
        self.trouble, self.present = "", [THERE]
        self.near = Neighbours(
            cast(Store, self.fleet), HERE, self.clock, trouble=lambda: self.trouble, present=lambda: self.present,
            first_seconds=first, asked_seconds=first,
        )
        own = MemoryStore()
        groups = [replace(one, servers=kept) for one in GROUPS
                  if (kept := tuple(name for name in one.servers if PLACES[name] == HERE))]
        servers = [one for one in SERVERS if PLACES[one.name] == HERE]
        view = FleetView(
            self.near, own, Telemetry(), groups, servers, self.clock, Heart(self.clock, 120.0),
            tried_all=lambda: True, report_file=lambda key, ending: None, live_report=lambda: "",
        )
        scopes = ["*", *(f"group:{g.name}" for g in groups), *(f"server:{s.name}" for s in servers)]
        app = make_app(view, DaemonDesk(own, scopes, self.clock), token=None, hosts=frozenset({"localhost"}),
                       simulated=False, target=0.6)
        self.web = app.test_client()

    def text(self, path: str, status: int = 200) -> str:
        answer = self.web.get(path)
        assert answer.status_code == status, answer.get_data(as_text=True)
        return answer.get_data(as_text=True)

    def status(self) -> dict[str, Any]:
        return cast(dict[str, Any], self.web.get("/api/v1/status").get_json())


@pytest.fixture
def make(told: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Site]]:
    monkeypatch.setattr("monitor.web.guard.peer_uid", lambda environ: 0)
    made: list[Site] = []

    def site(**more: float) -> Site:
        made.append(Site(told, **more))
        return made[-1]

    yield site
    for one in made:
        one.fleet.go.set()
        one.near.close()


def test_the_fleet_is_shown_whole_each_server_with_its_host(make: Callable[..., Site]) -> None:
    found = make().status()
    assert {one["name"]: one["host"] for group in found["groups"] for one in group["servers"]} == PLACES
    groups = {group["name"]: group for group in found["groups"]}
    assert [groups[name]["hosts"] for name in ("chat", "code", "rag")] == [[HERE, THERE], [HERE], [THERE]]
    assert [groups[name]["is_here"] for name in ("chat", "code", "rag")] == [True, True, False]
    assert (groups["rag"]["mode"], groups["chat"]["mode"]) == (Mode.RECOMMEND, Mode.APPROVE)
    # What is known of the other's servers is read from the database: their figures count in those of the fleet.
    rag = groups["rag"]["servers"][0]
    assert rag["figures"]["generation_tokens_per_second"] > 0 and rag["setting"]
    assert found["figures"]["generation_tokens_per_second"] >= rag["figures"]["generation_tokens_per_second"]
    fleet = found["fleet"]
    assert (fleet["host"], fleet["hosts"], fleet["away"], fleet["trouble"]) == (HERE, [HERE, THERE], [], "")
    about = [one for one in found["alerts"] if one["host"] == THERE]
    assert any(one["name"] == "AcceptanceCliff" and one["labels"]["server"] == RAG_1 for one in about)
    # A copy of an alert about a server of this host is no news of another.
    assert not any(PLACES.get(one["labels"].get("server")) == HERE for one in found["alerts"])


def test_pages_of_another_hosts_things_say_whose_they_are_and_offer_nothing_that_is_its_own(
    make: Callable[..., Site],
) -> None:
    site = make()
    fleet = site.text("/")
    assert '<span class="pill" title="host">h2</span>' in fleet and "2 hosts, this is h1" in fleet
    server = site.text("/servers/rag-1")
    assert "on h2" in server and "Process lives" in server and "<svg" in server
    assert "<code>acceptd pause rag-1</code>" in server and 'id="pause-form"' not in server
    group = site.text("/groups/rag?span=7d")
    assert "Counted by h2" in group and "<code>acceptd pause rag</code>" in group and 'id="pause-form"' not in group
    both = site.text("/groups/chat")
    assert 'id="pause-form"' in both and "by this host" in both and "for h2 to do" in both
    assert "rag-1" not in site.text("/silences")
    for path in ("/alerts", "/decisions", "/rollouts/r-two", "/decisions/d-chat3", "/rollouts"):
        site.text(path)
    site.text("/servers/nobody", 404)


def test_while_the_database_is_away_this_hosts_servers_are_shown_and_the_page_says_so(
    make: Callable[..., Site],
) -> None:
    site = make()
    site.trouble = "connection refused"
    text = site.text("/")
    assert "This page may lack other hosts: the fleet&#39;s database is away: connection refused." in text
    assert "code-1" in text and "rag-1" not in text
    assert "is away" in site.text("/groups/code") and "is away" in site.text("/alerts")
    assert site.status()["fleet"]["trouble"].endswith("connection refused")
    site.text("/groups/rag", 404)
    # What was read before stays, with its age.
    site.trouble = ""
    assert "rag-1" in site.text("/")
    site.trouble = "connection refused"
    old = site.text("/")
    assert "rag-1" in old and "the others as of" in old and "connection refused" in old
    assert "is away" in site.text("/servers/rag-1", 503)
    assert "chat-1" in site.text("/groups/chat")


def test_a_database_that_hangs_holds_up_no_page(make: Callable[..., Site]) -> None:
    site = make(first=0.05)
    site.fleet.go.clear()
    text = site.text("/")
    assert "the servers of other hosts are being read" in text and "code-1" in text
    assert "code-1" in site.text("/groups/code") and "Firing" in site.text("/alerts")


def test_a_reading_that_fails_is_told_and_made_again(make: Callable[..., Site]) -> None:
    site = make()
    site.fleet.away = True
    assert "cannot be read: connection refused" in site.text("/")
    site.fleet.away = False
    site.clock.advance(31.0)
    site.near.look()
    site.near.ask(lambda unit: None)
    assert "rag-1" in site.text("/") and "may lack" not in site.text("/")


def test_servers_of_a_host_that_gives_no_sign_of_life_are_not_shown_as_well(make: Callable[..., Site]) -> None:
    site = make()
    site.present = []
    found = site.status()
    rag = next(group for group in found["groups"] if group["name"] == "rag")
    assert (rag["up"], rag["servers"][0]["condition"], rag["servers"][0]["level"]) == (0, "host away", "bad")
    assert found["fleet"]["away"] == [THERE]
    assert "No sign of life of h2" in site.text("/")


def test_while_one_question_hangs_the_others_of_a_page_are_not_put(make: Callable[..., Site]) -> None:
    site = make(first=0.05)
    site.fleet.go.clear()
    site.near.look()
    for _ in range(3):
        with pytest.raises(StoreError, match="does not answer in time"):
            site.near.ask(lambda unit: None)
    assert site.near._jobs.qsize() <= 1
