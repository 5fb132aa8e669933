"""A bounded queue of records in one file of fixed size: what it needs of the disk it takes once, when it is made.

So it can be written while the disk is full. When it is full itself, the oldest records make room and are counted. It
knows nothing of what the records mean.

The file: two headers of 512 bytes, written in turn, so that one of them is whole whenever the power goes; then the
ring. Positions in the headers only grow; a record lies at its position modulo the size of the ring, may wrap round its
end, and carries its length and checksum. A record counts once the header after it is written.
"""

from __future__ import annotations

import os
import struct
import threading
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from monitor.errors import StoreError

_MAGIC = b"acceptd ring 1\n\0"
#: Sequence number, first byte, byte after the last, records waiting, records dropped since the file was made.
_HEADER = struct.Struct("<QQQQQ")
_RECORD = struct.Struct("<II")
_SUM = struct.Struct("<I")
_HEADER_BYTES = 512
_BEGIN = 2 * _HEADER_BYTES
#: A ring smaller than this (bytes) holds less than one page of a large server.
SMALLEST_BYTES = 64 * 1024
FILE_MODE = 0o640


@dataclass(frozen=True, slots=True)
class _Marks:
    sequence: int = 0
    first: int = 0
    end: int = 0
    waiting: int = 0
    dropped: int = 0


class Ring:
    """The queue in the file at `path`, of `size` bytes. Safe from several threads of one process."""

    def __init__(self, path: Path, size: int) -> None:
        if size < SMALLEST_BYTES:
            raise ValueError(f"ring of {size} bytes: expected at least {SMALLEST_BYTES}")
        self._path = path
        self._size = size
        self._lock = threading.Lock()
        self._file: int | None = None
        self._marks = _Marks()

    def open(self) -> None:
        """Open the file, or make it and take its space. Raises StoreError where that cannot be had.

        A file of another size keeps it while records wait in it, and is made anew once it is empty.
        """
        with self._lock:
            try:
                known = self._read_marks()
                if known is None or (not known.waiting and self._capacity != self._size - _BEGIN):
                    self._make(known.dropped if known is not None else 0)
                else:
                    self._marks = known
            except OSError as error:
                self._close()
                hint = "intervals cannot wait on disk while the store is away"
                raise StoreError(f"spool file {self._path}: {error.strerror or error}: {hint}") from error

    def close(self) -> None:
        """Close the file; the records stay in it."""
        with self._lock:
            self._close()

    @property
    def waiting(self) -> int:
        """Records in the queue."""
        return self._marks.waiting

    @property
    def dropped(self) -> int:
        """Records that were lost to newer ones, or to damage, since the file was made."""
        return self._marks.dropped

    @property
    def fill_ratio(self) -> float:
        """Share of the ring that is taken, 0 to 1."""
        return (self._marks.end - self._marks.first) / self._capacity if self._file is not None else 0.0

    def append(self, record: bytes) -> None:
        """Add a record, dropping the oldest ones where there is no room. Raises OSError, and nothing is added then."""
        with self._lock:
            marks, needed = self._marks, _RECORD.size + len(record)
            if self._file is None or needed > self._capacity:
                raise OSError(f"spool file {self._path}: no room for a record of {len(record)} bytes")
            while marks.end + needed - marks.first > self._capacity:
                marks = self._without_oldest(marks)
            if marks.dropped != self._marks.dropped:
                # Before the record is written over them: a header must never name what is gone.
                self._write_marks(marks)
                marks = self._marks
            self._put(marks.end, _RECORD.pack(len(record), zlib.crc32(record)) + record)
            self._write_marks(replace(marks, end=marks.end + needed, waiting=marks.waiting + 1))

    def oldest(self, limit: int) -> list[bytes]:
        """The oldest records, at most `limit`; they stay in the queue. Damaged ones end the queue and are counted."""
        found: list[bytes] = []
        with self._lock:
            at = self._marks.first
            while at < self._marks.end and len(found) < limit:
                record = self._record(at)
                if record is None:
                    lost = self._marks.waiting - len(found)
                    kept = replace(self._marks, end=at, waiting=len(found), dropped=self._marks.dropped + lost)
                    self._write_marks(kept)
                    break
                found.append(record)
                at += _RECORD.size + len(record)
        return found

    def remove(self, records: Sequence[bytes]) -> None:
        """Take away these records, which `oldest` gave; those that newer ones have pushed out since are gone already.

        Reaches the disk before it returns: records that come back after a loss of power would be older than the store.
        """
        with self._lock:
            marks = self._marks
            for record in records:
                if not marks.waiting or self._record(marks.first) != record:
                    continue
                marks = replace(marks, first=marks.first + _RECORD.size + len(record), waiting=marks.waiting - 1)
            self._write_marks(marks)
            if self._file is not None:
                os.fsync(self._file)

    @property
    def _capacity(self) -> int:
        return (os.fstat(self._file).st_size if self._file is not None else self._size) - _BEGIN

    def _make(self, dropped: int) -> None:
        self._close()
        unfinished = self._path.with_name(self._path.name + ".unfinished")
        unfinished.unlink(missing_ok=True)
        self._file = os.open(unfinished, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, FILE_MODE)
        try:
            os.fchmod(self._file, FILE_MODE)
            os.posix_fallocate(self._file, 0, self._size)
            self._write_marks(_Marks(dropped=dropped))
            os.fsync(self._file)
            unfinished.replace(self._path)
        except OSError:
            unfinished.unlink(missing_ok=True)
            raise

    def _read_marks(self) -> _Marks | None:
        """The newer whole header; None where there is no such file."""
        try:
            self._file = os.open(self._path, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        found = []
        for place in (0, _HEADER_BYTES):
            header = os.pread(self._file, len(_MAGIC) + _HEADER.size + _SUM.size, place)
            body, total = header[: -_SUM.size], header[-_SUM.size :]
            if header.startswith(_MAGIC) and total == _SUM.pack(zlib.crc32(body)):
                found.append(_Marks(*_HEADER.unpack(body[len(_MAGIC) :])))
        return max(found, key=lambda marks: marks.sequence, default=None)

    def _write_marks(self, marks: _Marks) -> None:
        if self._file is None:
            return
        marks = replace(marks, sequence=self._marks.sequence + 1)
        body = _MAGIC + _HEADER.pack(marks.sequence, marks.first, marks.end, marks.waiting, marks.dropped)
        os.pwrite(self._file, body + _SUM.pack(zlib.crc32(body)), _HEADER_BYTES * (marks.sequence % 2))
        self._marks = marks

    def _without_oldest(self, marks: _Marks) -> _Marks:
        record = self._record(marks.first) if marks.waiting else None
        if record is None:
            # Damaged, so that nobody knows where the next one begins.
            return replace(marks, first=marks.end, waiting=0, dropped=marks.dropped + marks.waiting)
        return replace(
            marks, first=marks.first + _RECORD.size + len(record), waiting=marks.waiting - 1, dropped=marks.dropped + 1
        )

    def _record(self, at: int) -> bytes | None:
        """The record at that position; None where it is damaged."""
        length, total = _RECORD.unpack(self._get(at, _RECORD.size))
        if length > self._marks.end - at - _RECORD.size:
            return None
        record = self._get(at + _RECORD.size, length)
        return record if zlib.crc32(record) == total else None

    def _get(self, at: int, length: int) -> bytes:
        assert self._file is not None
        place = at % self._capacity
        first = os.pread(self._file, min(length, self._capacity - place), _BEGIN + place)
        return first + (os.pread(self._file, length - len(first), _BEGIN) if len(first) < length else b"")

    def _put(self, at: int, data: bytes) -> None:
        assert self._file is not None
        place = at % self._capacity
        head = data[: self._capacity - place]
        os.pwrite(self._file, head, _BEGIN + place)
        if len(head) < len(data):
            os.pwrite(self._file, data[len(head) :], _BEGIN)

    def _close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None
