"""Which processes listen on which port, from a /proc of the test's making."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from monitor.targets.listeners import command_line, listeners, listening_inodes

HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"


def row(number: int, port: int, state: str, inode: int, *, wide: bool = False) -> str:
    address = ("0" * 32 if wide else "0100007F") + f":{port:04X}"
    nobody = ("0" * 32 if wide else "00000000") + ":0000"
    queues = "00000000:00000000 00:00000000 00000000"
    return f"   {number}: {address} {nobody} {state} {queues}  0        0 {inode} 1 0 100\n"


class Proc:
    def __init__(self, path: Path) -> None:
        self.path = path
        (path / "net").mkdir()
        (path / "self").mkdir()
        (path / "net/tcp").write_text(HEAD + row(0, 8000, "0A", 11) + row(1, 8000, "01", 12) + row(2, 9000, "0A", 13))
        (path / "net/tcp6").write_text(HEAD + row(0, 8001, "0A", 14, wide=True))

    def process(self, pid: int, argv: bytes, *inodes: int) -> None:
        folder = self.path / str(pid)
        (folder / "fd").mkdir(parents=True)
        (folder / "cmdline").write_bytes(argv)
        (folder / "fd" / "0").symlink_to("/dev/null")
        for number, inode in enumerate(inodes, 3):
            (folder / "fd" / str(number)).symlink_to(f"socket:[{inode}]")


def test_only_sockets_that_listen_count(tmp_path: Path) -> None:
    Proc(tmp_path)
    assert listening_inodes(tmp_path) == {11: 8000, 13: 9000, 14: 8001}


def test_each_process_has_its_ports_and_its_command_line(tmp_path: Path) -> None:
    proc = Proc(tmp_path)
    proc.process(7, b"vllm\0serve\0my model\0", 11, 12, 14)
    proc.process(9, b"", 13)
    proc.process(8, b"bash\0", 12, 99)
    found = [(one.pid, one.ports, one.argv) for one in listeners(tmp_path)]
    assert found == [(7, (8000, 8001), ("vllm", "serve", "my model")), (9, (9000,), ())]


def test_a_socket_that_children_share_is_counted_for_each(tmp_path: Path) -> None:
    proc = Proc(tmp_path)
    for pid in (20, 21):
        proc.process(pid, b"api\0", 11)
    assert [one.pid for one in listeners(tmp_path)] == [20, 21]


def test_what_has_gone_or_may_not_be_read_is_passed_over(tmp_path: Path) -> None:
    proc = Proc(tmp_path)
    (tmp_path / "30").mkdir()
    proc.process(31, b"api\0", 11)
    assert [one.pid for one in listeners(tmp_path)] == [31]
    assert command_line(30, tmp_path) == command_line(99, tmp_path) == ()


def test_a_host_without_ipv6_is_one_too(tmp_path: Path) -> None:
    Proc(tmp_path)
    (tmp_path / "net/tcp6").unlink()
    assert set(listening_inodes(tmp_path).values()) == {8000, 9000}


def test_words_that_are_no_text_are_kept_as_far_as_they_can_be_shown(tmp_path: Path) -> None:
    proc = Proc(tmp_path)
    proc.process(7, b"vllm\0--name\0\xff\xfe\0\0", 11)
    assert command_line(7, tmp_path)[:2] == ("vllm", "--name")
    assert "\ufffd" in command_line(7, tmp_path)[2]


def test_sockets_of_processes_that_are_not_wanted_are_not_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A daemon that watches a thousand servers of its host has as many connections, and looks once for each of them."""
    proc = Proc(tmp_path)
    proc.process(7, b"vllm\0serve\0", 11)
    proc.process(8, b"acceptd\0run\0", 12)
    listed = os.listdir

    def never_of_ours(folder: os.PathLike[str]) -> list[str]:
        assert Path(folder) != tmp_path / "8/fd"
        return listed(folder)

    monkeypatch.setattr(os, "listdir", never_of_ours)
    assert [one.pid for one in listeners(tmp_path, lambda argv: argv[0] == "vllm")] == [7]
