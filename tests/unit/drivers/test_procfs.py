"""What is read from /proc, on files of a made-up one."""

from __future__ import annotations

from pathlib import Path

import pytest

from monitor.drivers.process import refuse_under_unit
from monitor.drivers.procfs import ProcFs
from monitor.errors import ActionError


def made_up(root: Path, pid: int, name: str, state: str = "S", start: int = 500, environ: bytes = b"A=1\0") -> None:
    folder = root / str(pid)
    (folder / "fd").mkdir(parents=True)
    fields = [state, "1", "70", "71", *["0"] * 15, str(start), "0"]
    (folder / "stat").write_text(f"{pid} ({name}) {' '.join(fields)}")
    (folder / "environ").write_bytes(environ)


def test_names_with_spaces_and_parentheses_do_not_shift_the_fields(tmp_path: Path) -> None:
    made_up(tmp_path, 7, "VLLM::Engine) (Core S 1")
    process = ProcFs(tmp_path).process(7)
    assert process is not None
    assert (process.name, process.state, process.parent, process.group, process.session, process.start_ticks) == (
        "VLLM::Engine) (Core S 1", "S", 1, 70, 71, 500,
    )  # fmt: skip
    assert process.is_alive


def test_zombies_are_seen_and_do_not_live(tmp_path: Path) -> None:
    made_up(tmp_path, 7, "x", state="Z")
    (tmp_path / "self").mkdir()
    (found,) = ProcFs(tmp_path).processes()
    assert not found.is_alive


@pytest.mark.parametrize("raw", [b"", b"VLLM::EngineCore\0\0\0", b"xxxxxxxx", b"=x\0"])
def test_an_environment_that_was_written_over_is_not_known(tmp_path: Path, raw: bytes) -> None:
    made_up(tmp_path, 7, "x", environ=raw)
    assert ProcFs(tmp_path).environ(7) is None


def test_an_environment_is_read_whole(tmp_path: Path) -> None:
    made_up(tmp_path, 7, "x", environ=b"A=1\0B=x=y\0EMPTY=\0")
    assert ProcFs(tmp_path).environ(7) == {"A": "1", "B": "x=y", "EMPTY": ""}


def test_what_is_not_there_is_none_or_empty(tmp_path: Path) -> None:
    proc = ProcFs(tmp_path)
    assert proc.process(9) is None
    assert proc.environ(9) is None
    assert proc.boot_id() == ""
    assert proc.listeners(80) == frozenset()
    assert proc.sockets(9) == frozenset()
    (tmp_path / "9").mkdir()
    (tmp_path / "9" / "stat").write_text("9 (cut off) S 1")
    assert proc.process(9) is None


def test_listeners_are_found_on_both_families_and_only_while_they_listen(tmp_path: Path) -> None:
    (tmp_path / "net").mkdir()
    head = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
    row = "   0: {address}:1F40 00000000:0000 {state} 00000000:00000000 00:00000000 00000000     0        0 {inode} 1\n"
    listening = row.format(address="0100007F", state="0A", inode=11)
    connected = row.format(address="0100007F", state="01", inode=12)
    (tmp_path / "net" / "tcp").write_text(head + listening + connected)
    (tmp_path / "net" / "tcp6").write_text(head + row.format(address="0" * 32, state="0A", inode=13))
    assert ProcFs(tmp_path).listeners(8000) == {11, 13}
    assert ProcFs(tmp_path).listeners(8001) == frozenset()


@pytest.mark.parametrize("text", ["0::/system.slice/acceptd.service\n", "1:name=systemd:/system.slice/acceptd.service"])
def test_servers_are_not_started_below_the_daemons_own_unit(tmp_path: Path, text: str) -> None:
    (tmp_path / "self").mkdir()
    (tmp_path / "self" / "cgroup").write_text(text)
    with pytest.raises(ActionError, match=r"cannot be used below acceptd\.service"):
        refuse_under_unit(ProcFs(tmp_path))


def test_elsewhere_they_are(tmp_path: Path) -> None:
    refuse_under_unit(ProcFs(tmp_path))
    (tmp_path / "self").mkdir()
    (tmp_path / "self" / "cgroup").write_text("0::/user.slice/session-1.scope\n")
    refuse_under_unit(ProcFs(tmp_path))
