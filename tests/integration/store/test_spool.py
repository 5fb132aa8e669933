"""The spool on real trouble: a database file that another process holds, and a disk that is really full."""

from __future__ import annotations

import os
import sqlite3
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from monitor.clock import SystemClock
from monitor.model.life import LastReading
from monitor.store import StoreAway, StoreBusy
from monitor.store.pages import Page
from monitor.store.ring import Ring
from monitor.store.schema import Schema
from monitor.store.spool import Spool
from monitor.store.sql import SqlStore
from monitor.store.sqlite import SqliteDatabase
from tests.integration.store.values import T0, at, head, interval, life, reading

BORN = life()


def page(number: int) -> Page:
    return Page(
        lives=() if number else (BORN,), heads=(head(BORN, at(15.0 * number)),),
        intervals=(interval(BORN, 15.0 * number),) if number else (),
        last=LastReading(replace(reading().reading, scraped_at=at(15.0 * number)), T0),
    )


def opened(folder: Path) -> tuple[SqlStore, Spool]:
    store = SqlStore(SqliteDatabase(folder / "local.db", busy_seconds=0.05), Schema())
    store.upgrade()
    spool = Spool(store, Ring(folder / "spool.ring", 256 * 1024), SystemClock())
    spool.open()
    return store, spool


def numbers(store: SqlStore) -> list[float]:
    with store.read() as unit:
        return [(one.end - T0).total_seconds() / 15 for one in unit.intervals.between(None, T0, at(1e6))]


def test_while_another_process_holds_the_file_pages_wait_and_go_in_afterwards(tmp_path: Path) -> None:
    store, spool = opened(tmp_path)
    spool.keep(page(0))
    holder = sqlite3.connect(tmp_path / "local.db", isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    for number in (1, 2, 3):
        spool.keep(page(number))
    with pytest.raises(StoreBusy, match="stays locked"):
        spool.drain()
    holder.execute("COMMIT")
    holder.close()
    assert spool.drain() == 3
    spool.keep(page(4))
    assert numbers(store) == [1, 2, 3, 4]
    store.close()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MiB; needs root."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounting = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mounting, capture_output=True, check=False).returncode:
        pytest.skip("no file system can be mounted here (needs root)")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_on_a_full_disk_pages_wait_in_the_room_that_was_taken_before(small_disk: Path) -> None:
    store, spool = opened(small_disk)
    spool.keep(page(0))
    filler = small_disk / "filler"
    with filler.open("wb", buffering=0) as file, pytest.raises(OSError, match="No space"):
        while True:
            file.write(bytes(1024))
    kept = 0
    while spool.state().away_seconds is None:
        kept += 1
        spool.keep(page(kept))
    for number in range(kept + 1, kept + 21):
        spool.keep(page(number))
    assert "the disk is full" in spool.state().trouble
    with pytest.raises(StoreAway, match="the disk is full"):
        spool.drain()
    filler.unlink()
    spool.drain()
    assert numbers(store) == list(range(1, kept + 21))
    store.close()
