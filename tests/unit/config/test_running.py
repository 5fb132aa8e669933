"""What a daemon leaves for the command line, and the lock that makes it the only one."""

from __future__ import annotations

import os
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from monitor.config.running import FolderLock, is_running, read_running, write_running
from monitor.errors import FatalError, MonitorError
from monitor.model.maintenance import Window
from monitor.model.server import ActionLimits
from tests.fakes.fake_clock import FakeClock
from tests.unit.cli.conftest import running

NOW = FakeClock().now()
LIMITS = ActionLimits(
    max_speculative_tokens=5, cooldown_seconds=0.5, never=(3, 0),
    maintenance=(Window("0 2 * * sun", 3600.0, "Asia/Tokyo"),),
)  # fmt: skip


class TestNote:
    def test_what_was_written_is_read(self, tmp_path: Path) -> None:
        note = running(NOW)
        group = replace(note.groups[0], limits=LIMITS)
        note = replace(note, groups=(group,), config_file="/etc/acceptd/acceptd.yaml")
        write_running(tmp_path, note)
        assert read_running(tmp_path) == note
        assert [path.name for path in tmp_path.iterdir()] == ["running.json"]

    def test_no_note_says_how_to_begin(self, tmp_path: Path) -> None:
        with pytest.raises(MonitorError, match="acceptd run"):
            read_running(tmp_path)


class TestLock:
    def test_one_holder_at_a_time(self, tmp_path: Path) -> None:
        clock = FakeClock()
        first, second = FolderLock(tmp_path, clock), FolderLock(tmp_path, clock)
        first.acquire()
        assert is_running(tmp_path)
        with pytest.raises(FatalError, match=f"another acceptd already runs on {tmp_path}"):
            second.acquire()
        first.release()
        assert not is_running(tmp_path)
        second.acquire()
        second.release()
        second.release()

    def test_looking_does_not_take_it(self, tmp_path: Path) -> None:
        assert not is_running(tmp_path)
        assert list(tmp_path.iterdir()) == []
        lock = FolderLock(tmp_path, FakeClock())
        lock.acquire()
        for _ in range(3):
            assert is_running(tmp_path)
        lock.release()

    def test_it_dies_with_its_process(self, tmp_path: Path) -> None:
        child = os.fork()
        if child == 0:
            FolderLock(tmp_path, FakeClock()).acquire()
            os._exit(0)
        os.waitpid(child, 0)
        lock = FolderLock(tmp_path, FakeClock())
        lock.acquire()
        lock.release()

    def test_it_is_for_the_group_to_read(self, tmp_path: Path) -> None:
        lock = FolderLock(tmp_path, FakeClock())
        lock.acquire()
        mode = stat.S_IMODE((tmp_path / "acceptd.lock").stat().st_mode)
        lock.release()
        assert mode & 0o007 == 0

    def test_a_folder_that_cannot_be_written_is_named(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        with pytest.raises(FatalError, match="cannot be written"):
            FolderLock(tmp_path / "file", FakeClock()).acquire()
