"""What a daemon does with the fleet's database while it comes and goes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from monitor.app.membership import Candidate, Member
from monitor.app.sharing import Sharing
from monitor.errors import StoreError
from monitor.model.server import ServerName
from monitor.store.opening import open_store
from tests.fakes.fake_clock import FakeClock

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
