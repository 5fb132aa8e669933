"""A server's log: rotation, tail, and a server that goes on writing."""

from __future__ import annotations

import os
from pathlib import Path

from monitor.drivers.logs import ServerLog


def write(log: ServerLog, text: str, headline: str = "start") -> None:
    handle = log.open(headline)
    os.write(handle, text.encode())
    os.close(handle)


def test_the_tail_is_of_the_newest_start(tmp_path: Path) -> None:
    log = ServerLog(tmp_path / "logs", "s")
    assert log.tail(5) == ""
    write(log, "old\n")
    write(log, "one\ntwo\nthree\n")
    assert log.tail(2) == "two\nthree"
    assert log.tail(50) == "one\ntwo\nthree"


def test_a_large_file_is_moved_aside_at_the_next_start_and_only_so_many_are_kept(tmp_path: Path) -> None:
    log = ServerLog(tmp_path, "s", size_limit=50, keep=2)
    for number in range(5):
        write(log, f"{number}" * 60)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["s.log", "s.log.1", "s.log.2"]
    assert "333" in (tmp_path / "s.log.1").read_text()
    assert "222" in (tmp_path / "s.log.2").read_text()


def test_a_running_server_goes_on_in_the_emptied_file(tmp_path: Path) -> None:
    log = ServerLog(tmp_path, "s", size_limit=50)
    handle = log.open("start")
    os.write(handle, b"x" * 60)
    log.trim()
    os.write(handle, b"after\n")
    os.close(handle)
    assert log.path.read_text() == "after\n"
    assert "x" * 60 in (tmp_path / "s.log.1").read_text()
    log.trim()
    assert log.path.read_text() == "after\n"


def test_bytes_that_are_no_text_and_very_long_lines_do_not_break_the_tail(tmp_path: Path) -> None:
    log = ServerLog(tmp_path, "s")
    handle = log.open("start")
    os.write(handle, b"y" * 200_000 + b"\n\xff\xfe end\n")
    os.close(handle)
    assert log.tail(1).endswith("end")
    assert len(log.tail(10)) < 70_000
