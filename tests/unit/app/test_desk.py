"""Requests of the page: waited for a little, permitted as the store's file is."""

from __future__ import annotations

import grp
import os
import pwd
from pathlib import Path

import pytest

from monitor.app.desk import DaemonDesk, may_write
from monitor.model.server import Group, GroupName
from monitor.web.source import NoSuchThing
from tests.fakes.fake_clock import FakeClock
from tests.fakes.memory_store import MemoryStore
from tests.unit.actions.test_drift import changed_by_hand, found


class Answering(FakeClock):
    """A clock while whose sleeping the daemon answers what is pending."""

    def __init__(self, store: MemoryStore, outcome: str) -> None:
        super().__init__()
        self._store = store
        self._outcome = outcome

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        with self._store.write() as unit:
            for command in unit.commands.pending():
                unit.commands.finish(command.id, self.now(), self._outcome)


def test_an_answer_in_time_is_given_at_once() -> None:
    store = MemoryStore()
    desk = DaemonDesk(store, ["*"], Answering(store, "refused (paused): not now"))
    answer = desk.ask("approve", "d-1", "mira")
    assert (answer["taken"], answer["outcome"]) == (False, "refused (paused): not now")


def test_nobody_waits_for_long() -> None:
    store, clock = MemoryStore(), FakeClock()
    began = clock.monotonic()
    assert DaemonDesk(store, ["*"], clock).ask("reject", "d-1", "mira")["taken"] is None
    assert 4 < clock.monotonic() - began < 7


def test_resuming_on_the_page_releases_what_was_changed_by_hand() -> None:
    world = changed_by_hand()
    assert found(world) is not None
    group = Group(name=GroupName("g"), servers=(world.server.name,), limits=world.limits)
    desk = DaemonDesk(world.store, ["*", "group:g"], world.clock, [group])
    desk.resume("group:g", "web:mira")
    assert found(world) is None
    with world.store.read() as unit:
        assert [entry.actor for entry in unit.audit.recent(9) if entry.what == "drift.released"] == ["web:mira"]
    # Nothing is paused, and nothing is left alone any more.
    with pytest.raises(NoSuchThing):
        desk.resume("group:g", "web:mira")


def test_who_may_write_the_store_may_act(tmp_path: Path) -> None:
    path = tmp_path / "local.db"
    path.touch(mode=0o640)
    assert may_write(path, 0) and may_write(path, os.stat(path).st_uid)
    nobody = pwd.getpwnam("nobody")
    assert not may_write(path, nobody.pw_uid)
    assert not may_write(tmp_path / "none", 0)


@pytest.mark.skipif(os.getuid() != 0, reason="only root may give a file to another group")
def test_a_group_that_may_write_the_store_may_act(tmp_path: Path) -> None:
    path = tmp_path / "local.db"
    path.touch()
    nobody = pwd.getpwnam("nobody")
    os.chown(path, 0, nobody.pw_gid)
    path.chmod(0o640)
    assert not may_write(path, nobody.pw_uid)
    path.chmod(0o660)
    assert may_write(path, nobody.pw_uid)
    assert not may_write(path, 4_000_000)
    other = next(one for one in grp.getgrall() if one.gr_gid not in (nobody.pw_gid, 0))
    os.chown(path, 0, other.gr_gid)
    assert not may_write(path, nobody.pw_uid)
