"""The ring: records come out once and in order, whatever the sizes, the wraps and the deaths in between."""

from __future__ import annotations

import os
import random
from collections import deque
from pathlib import Path

import pytest

from monitor.errors import StoreError
from monitor.store.ring import SMALLEST_BYTES, Ring


def opened(path: Path, size: int = SMALLEST_BYTES) -> Ring:
    ring = Ring(path, size)
    ring.open()
    return ring


def test_what_goes_in_comes_out_in_order_also_after_a_death(tmp_path: Path) -> None:
    ring = opened(tmp_path / "r")
    for number in range(5):
        ring.append(b"page %d" % number)
    again = opened(tmp_path / "r")  # nobody closed the first
    assert again.oldest(3) == [b"page 0", b"page 1", b"page 2"]
    assert again.waiting == 5
    again.remove(again.oldest(3))
    assert opened(tmp_path / "r").oldest(10) == [b"page 3", b"page 4"]


def test_it_is_a_queue_of_bounded_size_for_any_sequence_of_calls(tmp_path: Path) -> None:
    rng = random.Random(7)
    ring = opened(tmp_path / "r")
    expected: deque[bytes] = deque()
    added = removed = 0
    for turn in range(3000):
        if rng.random() < 0.6:
            record = rng.randbytes(rng.randrange(0, 9000))
            ring.append(record)
            expected.append(record)
            added += 1
        else:
            batch = ring.oldest(rng.randrange(0, 6))
            ring.remove(batch)
            removed += len(batch)
            while len(expected) > ring.waiting + len(batch):
                expected.popleft()
            assert [expected.popleft() for _ in batch] == batch
        if turn % 500 == 0:
            ring.close()
            ring = opened(tmp_path / "r")
        assert 0 <= ring.fill_ratio <= 1
    assert ring.dropped == added - removed - ring.waiting > 0
    assert ring.oldest(10**6) == list(expected)[-ring.waiting :]
    assert (tmp_path / "r").stat().st_size == SMALLEST_BYTES


def test_what_is_taken_away_has_reached_the_disk_and_what_is_added_need_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ring = Ring(tmp_path / "ring", SMALLEST_BYTES)
    ring.open()
    flushed: list[bytes] = []
    real = os.fsync

    def fsync(file: int) -> None:
        flushed.append(os.pread(file, 1024, 0))
        real(file)

    monkeypatch.setattr(os, "fsync", fsync)
    ring.append(b"one")
    ring.append(b"two")
    assert flushed == []
    ring.remove(ring.oldest(1))
    ring.close()
    # The header that says so is in what was flushed: records that came back would be older than the store.
    assert flushed == [(tmp_path / "ring").read_bytes()[:1024]]


def test_records_pushed_out_while_they_were_handled_are_not_taken_for_others(tmp_path: Path) -> None:
    ring = opened(tmp_path / "r")
    ring.append(b"first")
    batch = ring.oldest(1)
    big = [bytes([number]) * 20_000 for number in range(4)]
    for record in big:
        ring.append(record)
    ring.remove(batch)
    assert ring.oldest(9) == big[-ring.waiting :]


def test_damage_ends_the_queue_and_is_counted(tmp_path: Path) -> None:
    ring = opened(tmp_path / "r")
    for number in range(4):
        ring.append(b"page %d" % number)
    ring.close()
    with (tmp_path / "r").open("r+b") as file:
        file.seek(1024 + 2 * (8 + 6) + 9)
        file.write(b"?")
    ring = opened(tmp_path / "r")
    assert ring.oldest(9) == [b"page 0", b"page 1"]
    assert (ring.waiting, ring.dropped) == (2, 2)


def test_a_torn_header_leaves_the_one_before(tmp_path: Path) -> None:
    ring = opened(tmp_path / "r")
    ring.append(b"one")  # headers 1 and 2 of the file are written in turn
    ring.append(b"two")
    ring.close()
    newest = 3 % 2
    with (tmp_path / "r").open("r+b") as file:
        file.seek(512 * newest + 20)
        file.write(b"\xff\xff")
    assert opened(tmp_path / "r").oldest(9) == [b"one"]


def test_a_new_size_waits_until_the_queue_is_empty(tmp_path: Path) -> None:
    ring = opened(tmp_path / "r")
    ring.append(b"waits")
    ring.close()
    ring = opened(tmp_path / "r", 2 * SMALLEST_BYTES)
    assert (tmp_path / "r").stat().st_size == SMALLEST_BYTES
    ring.remove(ring.oldest(1))
    ring.close()
    opened(tmp_path / "r", 2 * SMALLEST_BYTES)
    assert (tmp_path / "r").stat().st_size == 2 * SMALLEST_BYTES


def test_a_file_that_is_no_ring_is_made_anew(tmp_path: Path) -> None:
    (tmp_path / "r").write_bytes(b"something else")
    ring = opened(tmp_path / "r")
    ring.append(b"x")
    assert ring.oldest(1) == [b"x"]


def test_where_it_cannot_be_made_the_error_says_so(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"spool file .*: No such file"):
        opened(tmp_path / "nowhere" / "r")
    with pytest.raises(ValueError, match="expected at least"):
        Ring(tmp_path / "r", 10)


def test_a_record_larger_than_the_ring_is_refused_and_harms_nothing(tmp_path: Path) -> None:
    ring = opened(tmp_path / "r")
    ring.append(b"kept")
    with pytest.raises(OSError, match="no room"):
        ring.append(bytes(SMALLEST_BYTES))
    assert ring.oldest(9) == [b"kept"]


def test_group_reads_and_others_do_not(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        opened(tmp_path / "r")
    finally:
        os.umask(old)
    assert (tmp_path / "r").stat().st_mode & 0o777 == 0o640
