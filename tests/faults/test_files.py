"""Files that are not as we left them: a damaged database, one of another version, a launch file cut in half."""

from __future__ import annotations

import contextlib
import random
import shutil
import sqlite3
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from alembic import command

from monitor.store.opening import open_store
from monitor.store.schema import Schema
from monitor.store.sqlite import SqliteDatabase
from tests.acceptance.daemon import PATIENCE, free_port
from tests.faults.counted import CountedServer, serving
from tests.faults.daemon import FaultyDaemon
from tests.integration.store.test_migrations import newer, newest

PAGE = 4096


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[FaultyDaemon, list[CountedServer], Path]]:
    """A daemon that has stored some minutes' worth, stopped; its servers, which go on counting; a copy of its file."""
    folder = tmp_path_factory.mktemp("filled")
    servers = [CountedServer(f"s{number}") for number in range(3)]
    with serving(*servers):
        daemon = FaultyDaemon(folder, *servers, scrape={"interval": "50ms", "timeout": "50ms"})
        daemon.start()
        daemon.wait(lambda: all(len(one.asked) > 3 for one in servers) or None, "all are met")
        for server in servers:
            server.restart()
        daemon.wait(lambda: all(len(one.asked) > 60 for one in servers) or None, "something is stored")
        daemon.stop()
        good = folder / "good.db"
        database = sqlite3.connect(daemon.data_dir / "local.db")
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        database.close()
        shutil.copy(daemon.data_dir / "local.db", good)
        try:
            yield daemon, servers, good
        finally:
            daemon.tear_down()


def middle(good: bytes) -> bytes:
    """Random bytes in a tenth of the file, beyond its first pages."""
    begin = len(good) * 6 // 10 // PAGE * PAGE
    length = len(good) // 10 // PAGE * PAGE
    return good[:begin] + random.Random(1).randbytes(length) + good[begin + length :]


DAMAGES: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "its first tables are random": (
        lambda good: good[:PAGE] + random.Random(2).randbytes(20 * PAGE) + good[21 * PAGE :], "is damaged",
    ),
    "its beginning is overwritten": (lambda good: b"x" * 200 + good[200:], "no SQLite database, or its beginning"),
    "it ends in the middle": (lambda good: good[: len(good) // 2], "is damaged"),
}


def replace(daemon: FaultyDaemon, content: bytes) -> None:
    for name in ("local.db-wal", "local.db-shm"):
        (daemon.data_dir / name).unlink(missing_ok=True)
    (daemon.data_dir / "local.db").write_bytes(content)
    daemon.log.unlink(missing_ok=True)


@pytest.mark.parametrize("what", DAMAGES)
def test_a_damaged_database_is_refused_in_one_sentence(
    filled: tuple[FaultyDaemon, list[CountedServer], Path], what: str
) -> None:
    daemon, _, good = filled
    damage, sentence = DAMAGES[what]
    replace(daemon, damage(good.read_bytes()))
    process = daemon.spawn()
    assert process.wait(timeout=PATIENCE) == 1, daemon.said()
    said = [line for line in daemon.said().splitlines() if " INFO " not in line]
    assert len(said) == 1 and sentence in said[0] and "docs/operations.md" in said[0], said
    # It is left as it is.
    assert (daemon.data_dir / "local.db").read_bytes() == damage(good.read_bytes())


def test_what_is_left_of_a_damaged_database_is_recovered_and_counts_go_on(
    filled: tuple[FaultyDaemon, list[CountedServer], Path],
) -> None:
    daemon, servers, good = filled
    replace(daemon, middle(good.read_bytes()))
    done = daemon.command("db", "recover")
    assert done.returncode == 0, done.stderr
    assert "in part" in done.stdout and "recovered; the damaged file is kept as" in done.stdout
    (kept,) = (path for path in daemon.data_dir.glob("local.db.damaged-*") if path.name[-4:] not in ("-wal", "-shm"))
    assert kept.read_bytes() == middle(good.read_bytes())
    with sqlite3.connect(daemon.data_dir / "local.db") as database:
        assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert database.execute("PRAGMA foreign_key_check").fetchall() == []
        (left,) = database.execute("SELECT count(*) FROM intervals").fetchone()
    with sqlite3.connect(good) as database:
        (before,) = database.execute("SELECT count(*) FROM intervals").fetchone()
    database.close()
    assert before * 0.5 < left <= before
    daemon.start()
    daemon.read_on(4)
    # Of lives that were under way something may be lost; nothing may be there twice.
    for server in servers:
        server.restart()
    daemon.comes_out_whole()
    daemon.stop()


def test_a_schema_one_newer_serves_and_two_newer_is_refused(
    filled: tuple[FaultyDaemon, list[CountedServer], Path], tmp_path: Path
) -> None:
    daemon, servers, good = filled
    replace(daemon, good.read_bytes())
    url = f"sqlite:///{daemon.data_dir / 'local.db'}"
    for ahead in (1, 2):
        store = open_store(url, migrations=newer(tmp_path, ahead))
        store.upgrade()
        store.close()
        if ahead == 1:
            asked = [len(server.asked) for server in servers]
            daemon.start()
            daemon.wait(
                lambda: all(len(one.asked) > was + 2 for one, was in zip(servers, asked, strict=True)) or None,  # noqa: B023
                "all are read",
            )
            assert "page not stored" not in daemon.said() and "Traceback" not in daemon.said()
            daemon.stop()
    daemon.log.unlink()
    process = daemon.spawn()
    assert process.wait(timeout=PATIENCE) == 1
    (said,) = daemon.said().splitlines()
    assert said.startswith(f"database file {daemon.data_dir / 'local.db'}: its schema is at revision")
    assert said.endswith("install a newer acceptd")


def test_an_older_schema_is_brought_up_and_a_copy_is_kept(
    watching: Callable[..., FaultyDaemon],
) -> None:
    server = CountedServer("s")
    with serving(server):
        daemon = watching(server)
        daemon.data_dir.mkdir()
        path = daemon.data_dir / "local.db"
        database = SqliteDatabase(path)
        database.create()
        with database.migrating() as connection:
            command.upgrade(Schema().config(connection), "0001")
        database.close()
        daemon.start()
        daemon.wait(lambda: len(server.asked) > 2 or None, "it is read")
        daemon.stop()
        store = open_store(f"sqlite:///{path}")
        assert store.revision() == newest()
        store.close()
        kept = SqliteDatabase(path.with_name("local.db.from-0001"))
        with kept.reading() as connection:
            assert Schema().revision(connection) == "0001"
        kept.close()


TINY = Path(__file__).resolve().parents[1] / "fakes" / "tiny_server.py"


def servers_of(port: int) -> list[int]:
    """Processes of the tiny server on that port."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                words = (entry / "cmdline").read_bytes().split(b"\0")
                if str(TINY).encode() in words and str(port).encode() in words:
                    found.append(int(entry.name))
    return found


def test_a_launch_file_cut_in_half_starts_no_second_server_and_a_second_daemon_does_not_either(
    watching: Callable[..., FaultyDaemon],
) -> None:
    port = free_port()
    argv = [sys.executable, str(TINY), "--port", str(port), "--speculative-config", '{"num_speculative_tokens": 2}']
    managed = {"name": "tiny", "url": f"http://127.0.0.1:{port}", "driver": {"kind": "process", "command": argv}}
    daemon, other = watching(servers=[managed]), watching(servers=[managed])
    daemon.start()
    # One process, however many look: a daemon with the same configuration finds the port taken and leaves it alone.
    (pid,) = daemon.wait(lambda: servers_of(port), "the server runs")
    up = 'acceptd_server_up{server="tiny"} 1.0'
    daemon.wait(lambda: up in (daemon.page("/metrics") or "") or None, "the server serves")
    other.start()
    other.wait(lambda: up in (other.page("/metrics") or "") or None, "another daemon watches it")
    other.stop()
    assert servers_of(port) == [pid]
    daemon.kill()
    record = daemon.data_dir / "launch" / "tiny.json"
    record.write_text(record.read_text()[:40])
    daemon.start()
    daemon.wait(lambda: "expected the record of a start; remove the file" in daemon.said() or None, "it is named")
    daemon.wait(lambda: up in (daemon.page("/metrics") or "") or None, "it is watched all the same")
    daemon.stop()
    assert servers_of(port) == [pid]
    # As the sentence says; the server is known by its environment.
    record.unlink()
    daemon.start()
    daemon.wait(lambda: "managed server runs" in daemon.said() or None, "it is taken up again")
    daemon.stop()
    assert servers_of(port) == [pid]
