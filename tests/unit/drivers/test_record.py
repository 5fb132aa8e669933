"""Files that must survive our death and the machine's: whole before or after, and on the disk when we go on."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from monitor.drivers.record import write_durably


def test_a_file_is_replaced_only_by_one_that_has_reached_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "folder" / "a.json"
    write_durably(path, b"old")
    steps: list[tuple[str, bytes]] = []

    def noted(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any) -> Any:
            at_folder = isinstance(given[0], int) and stat.S_ISDIR(os.fstat(given[0]).st_mode)
            steps.append((f"{name} folder" if at_folder else name, path.read_bytes()))
            return real(*given)

        return call

    monkeypatch.setattr(os, "fsync", noted("fsync", os.fsync))
    monkeypatch.setattr(os, "replace", noted("replace", os.replace))
    write_durably(path, b"new")
    # Beside each step what a reader saw before it. The name counts once the folder has reached the disk, too.
    assert steps == [("fsync", b"old"), ("replace", b"old"), ("fsync folder", b"new")]
    assert [one.name for one in path.parent.iterdir()] == ["a.json"]


@pytest.mark.parametrize("fails", ["fsync", "replace"])
def test_where_the_disk_refuses_the_old_one_stays_and_nothing_is_left_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    path = tmp_path / "a.json"
    write_durably(path, b"old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, fails, full)
    with pytest.raises(OSError, match="No space left"):
        write_durably(path, b"new")
    assert path.read_bytes() == b"old"
    assert [one.name for one in tmp_path.iterdir()] == ["a.json"]


@pytest.mark.parametrize("umask", [0o000, 0o077])
def test_its_mode_is_the_one_asked_for_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        write_durably(tmp_path / "a", b"x", 0o640)
        write_durably(tmp_path / "b", b"x")
    finally:
        os.umask(before)
    assert [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in "ab"] == [0o640, 0o600]
