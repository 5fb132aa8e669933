"""Which user is behind a connection: from what the kernel prints, and from a real connection of this process."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from monitor.web.peer import peer_uid, user_name

HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
REST = "00000000:00000000 00:00000000 00000000"
LOCAL_6, MAPPED = "00000000000000000000000001000000", "0000000000000000FFFF00000100007F"
FOUR = (
    f"   0: 0100007F:2613 00000000:0000 0A {REST}  900        0 1 1 0 100 0 0 10 0\n"
    f"   1: 0100007F:A1B2 0100007F:2613 01 {REST} 1000        0 2 1 0 20 4 30 10 -1\n"
    f"   2: 0100007F:2613 0100007F:A1B2 01 {REST}  900        0 3 1 0 20 4 30 10 -1\n"
    f"   3: 0200000A:A1B3 0100007F:2613 01 {REST} 1001        0 4 1 0 20 4 30 10 -1\n"
)
SIX = (
    f"   0: {LOCAL_6}:A1B4 {LOCAL_6}:2613 01 {REST} 1002        0 5 1 0 20 4 30 10 -1\n"
    f"   1: {MAPPED}:A1B5 {MAPPED}:2613 01 {REST} 1003        0 6 1 0 20 4 30 10 -1\n"
)


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    (tmp_path / "net").mkdir()
    (tmp_path / "net/tcp").write_text(HEAD + FOUR)
    (tmp_path / "net/tcp6").write_text(HEAD + SIX)
    return tmp_path


@pytest.mark.parametrize(
    ("address", "port", "uid"),
    [
        ("127.0.0.1", 0xA1B2, 1000), ("::1", 0xA1B4, 1002), ("127.0.0.1", 0xA1B5, 1003), ("127.0.0.1", 0xA1B3, None),
        ("10.0.0.2", 0xA1B3, None), ("127.0.0.1", 1, None), ("nowhere", 0xA1B2, None), ("127.0.0.1", "x", None),
    ],
    ids=str,
)  # fmt: skip
def test_the_user_is_that_of_the_clients_end_of_a_loopback_connection(
    proc: Path, address: str, port: object, uid: int | None
) -> None:
    environ = {"REMOTE_ADDR": address, "REMOTE_PORT": str(port), "SERVER_PORT": str(0x2613)}
    assert peer_uid(environ, proc) == uid


def test_nobody_is_known_where_the_kernel_says_nothing(tmp_path: Path) -> None:
    assert peer_uid({"REMOTE_ADDR": "127.0.0.1", "REMOTE_PORT": "1", "SERVER_PORT": "2"}, tmp_path) is None
    assert peer_uid({}, tmp_path) is None


def test_a_real_connection_is_ours() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        own = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", own)) as client:
            port = client.getsockname()[1]
            environ = {"REMOTE_ADDR": "127.0.0.1", "REMOTE_PORT": str(port), "SERVER_PORT": str(own)}
            assert peer_uid(environ) == os.getuid()


def test_a_user_without_a_name_has_a_number() -> None:
    assert user_name(0) == "root"
    assert user_name(4_000_000) == "uid 4000000"
