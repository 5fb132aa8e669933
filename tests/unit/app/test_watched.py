"""Servers come, go and come back: their history stays, and so do counts of one that was not away for long."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from monitor.app.watched import end_lives_of_retired, note_watched
from monitor.model.record import Watched
from monitor.model.server import Group, GroupName, Server, ServerName
from monitor.report.assemble import with_known
from tests.fakes.memory_store import MemoryStore
from tests.integration.store.values import T0, at, head, life

A, B = ServerName("a"), ServerName("b")
CHAT = GroupName("chat")


def server(name: ServerName) -> Server:
    return Server(name=name, group=CHAT, base_url=f"http://{name}:1", metrics_url=f"http://{name}:1/metrics")


def note(store: MemoryStore, now: datetime, *names: ServerName, host: str = "h1") -> dict[str, Watched]:
    groups = [Group(name=CHAT, servers=names)] if names else []
    note_watched(store, [server(name) for name in names], groups, host, now)
    with store.read() as unit:
        return {one.server: one for one in unit.servers.all(T0 - timedelta(days=1))}


def test_a_server_that_goes_retires_and_one_that_comes_back_is_watched_anew() -> None:
    store = MemoryStore()
    assert note(store, at(0), A, B)[B].since == at(0)
    gone = note(store, at(60), A)
    assert (gone[A].retired_at, gone[B].retired_at) == (None, at(60))
    again = note(store, at(90), A, B)
    assert (again[A].since, again[B].since, again[B].retired_at) == (at(0), at(90), None)
    with store.read() as unit:
        said = [(entry.what, entry.subject) for entry in reversed(unit.audit.recent(10))]
    assert said == [
        ("server.watched", "a"), ("server.watched", "b"), ("server.retired", "b"), ("server.watched", "b"),
    ]


def test_servers_of_other_hosts_are_left_alone() -> None:
    store = MemoryStore()
    note(store, at(0), A)
    found = note(store, at(60), B, host="h2")
    assert (found[A].host, found[A].retired_at) == ("h1", None)
    assert note(store, at(90), A, B, host="h2")[A].host == "h2"


def test_a_life_ends_an_hour_after_its_server_left_and_not_before() -> None:
    store = MemoryStore()
    note(store, at(0), A, B)
    born = replace(life("b/m/0/1", B), ended=None)
    with store.write() as unit:
        unit.lives.add(born)
        unit.heads.put([head(born, at(50))])
    note(store, at(60), A)
    assert end_lives_of_retired(store, at(60 + 3599)) == 0
    assert end_lives_of_retired(store, at(60 + 3601)) == 1
    with store.read() as unit:
        found = unit.lives.get(born.id)
    assert found is not None and found.ended == at(50)
    assert end_lives_of_retired(store, at(9000)) == 0


def test_a_report_counts_servers_that_have_left_in_their_groups() -> None:
    store = MemoryStore()
    note(store, at(0), A, B)
    known = note(store, at(60), A).values()
    (chat,) = with_known([Group(name=CHAT, servers=(A,))], known)
    assert chat.servers == (A, B)
    (alone,) = with_known([], known)
    assert (alone.name, alone.servers) == (CHAT, (A, B))
