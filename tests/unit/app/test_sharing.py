"""What a daemon does with the fleet's database while it comes and goes."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from monitor.app.membership import Candidate, Member
from monitor.app.sharing import Sharing
from monitor.errors import StoreError
from monitor.model.server import GroupName, Server, ServerName
from monitor.store.opening import open_store
from tests.fakes.fake_clock import FakeClock

LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)
FOUND = Candidate(ServerName("a"), "pool")


def make(folder: Path) -> tuple[Sharing, Member]:
    clock = FakeClock()
    local, shared = (open_store(f"sqlite:///{folder}/{name}.db") for name in ("local", "shared"))
    local.upgrade()
    shared.upgrade()
    member = Member(shared, "h1", folder, clock, lease_seconds=60.0)
    return Sharing(local, shared, member, clock, changed=lambda: None), member


def test_what_is_to_be_taken_over_is_begun_once_the_database_is_there_again(tmp_path: Path) -> None:
    sharing, member = make(tmp_path)
    sharing.candidates([FOUND], ["pool"])
    member.beat([FOUND], ["pool"], [])
    member.standing = replace(member.standing, unknown=frozenset({FOUND.server}))
    assert sharing.must_adopt([FOUND.server]) and not sharing.must_adopt([])

    def away() -> None:
        raise StoreError("connection refused")

    # To begin anew for it now would only stop the daemon, again and again.
    sharing._guarded(away)
    assert not sharing.must_adopt([FOUND.server])


def test_the_same_servers_told_again_are_no_reason_to_look_at_once(tmp_path: Path) -> None:
    sharing, _ = make(tmp_path)
    sharing.candidates([FOUND], ["pool"])
    assert sharing._wake.is_set()
    sharing._wake.clear()
    sharing.candidates([FOUND], ["pool"])
    assert not sharing._wake.is_set()


def test_a_server_that_becomes_ours_is_told_at_once_and_one_in_doubt_does_not_retire(tmp_path: Path) -> None:
    """The page of the fleet shows what its database has: a server taken over was missing there for up to a minute."""
    sharing, member = make(tmp_path)
    servers = [
        Server(name=ServerName(name), group=GroupName("g"), base_url=f"http://{name}", metrics_url=f"http://{name}/m")
        for name in "ab"
    ]
    both = [Candidate(server.name, "pool") for server in servers]

    def told() -> dict[str, bool]:
        with sharing.store.read() as unit:
            return {one.server: one.retired_at is None for one in unit.servers.all(LONG_AGO)}

    sharing.candidates(both[:1], ["pool"])
    sharing.watching(servers, [])
    sharing._beat()
    sharing._move()
    assert told() == {"a": True}
    sharing.candidates(both, ["pool"])
    sharing._beat()
    sharing._move()
    assert told() == {"a": True, "b": True}
    member.doubt([servers[1].name])
    sharing._move()
    assert told() == {"a": True, "b": True}


def test_what_one_server_lacks_is_not_forgotten_for_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second server that is compared before the first was taken back left two hours of the first one's days."""
    sharing, _ = make(tmp_path)
    names = [ServerName("a"), ServerName("b")]
    asked: list[datetime] = []
    monkeypatch.setattr("monitor.app.sharing.gone_back", lambda local, shared, fresh: dict.fromkeys(fresh, LONG_AGO))
    monkeypatch.setattr("monitor.app.sharing.adopt", lambda shared, local, wanted, since, now: asked.append(since) or 0)
    sharing.candidates([Candidate(names[0], "pool")], ["pool"])
    sharing._beat()
    monkeypatch.setattr("monitor.app.sharing.gone_back", lambda local, shared, fresh: {})
    sharing.candidates([Candidate(name, "pool") for name in names], ["pool"])
    sharing._beat()
    sharing.adopt(names)
    assert asked == [LONG_AGO]
    assert sharing._lacking == {}
