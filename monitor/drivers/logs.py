"""A server's log file: the server writes to it by itself, so that it neither waits for acceptd nor dies with it.

It owns file names, rotation and tails, no content. At a start a grown file is moved aside. Under a running server,
which keeps its open file, it is copied and emptied instead (as logrotate's copytruncate): the server appends, so it
goes on at the new end; a line written between the two may be lost.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path

from monitor.errors import ActionError

#: Bytes read from the end for a tail: enough for 40 long lines of a traceback.
_TAIL_BYTES = 64 * 1024


class ServerLog:
    """The log of one server: `NAME.log`, older ones `NAME.log.1` (newest) and up.

    `size_limit` bytes: a larger file is rotated; `keep` is the number of older files.
    """

    def __init__(self, folder: Path, name: str, *, size_limit: int = 64 * 1024**2, keep: int = 5) -> None:
        self._name = name
        self._path = folder / f"{name}.log"
        self._size_limit = size_limit
        self._keep = keep

    @property
    def path(self) -> Path:
        """Where the server writes now."""
        return self._path

    def open(self, headline: str = "") -> int:
        """A descriptor to append to, after rotation and a headline, if any, that tells where this start begins.

        The caller closes it. Raises ActionError where it cannot be written.
        """
        try:
            return self._begin(headline)
        except OSError as error:
            raise ActionError(
                f"{self._name}: {self._path} cannot be written ({error.strerror})", reason="log", retryable=True
            ) from error

    def _begin(self, headline: str) -> int:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        if self._is_large():
            self._shift()
            os.replace(self._path, self._older(1))
        handle = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o640)
        if headline:
            os.write(handle, f"{_HEAD}{headline}\n".encode())
        return handle

    def tail(self, lines: int) -> str:
        """The last `lines` lines of the newest start; empty where there are none."""
        try:
            with self._path.open("rb") as file:
                file.seek(0, os.SEEK_END)
                size = file.tell()
                file.seek(max(0, size - _TAIL_BYTES))
                text = file.read().decode(errors="replace")
        except OSError:
            return ""
        rows = text.splitlines()
        starts = [index for index, row in enumerate(rows) if row.startswith(_HEAD)]
        if starts:
            rows = rows[starts[-1] + 1 :]
        return "\n".join(rows[-lines:])

    def trim(self) -> None:
        """Rotate the file of a running server when it is too large; a disk that refuses leaves it as it is."""
        with contextlib.suppress(OSError):
            if self._is_large():
                self._shift()
                shutil.copyfile(self._path, self._older(1))
                os.truncate(self._path, 0)

    def _is_large(self) -> bool:
        try:
            return self._path.stat().st_size >= self._size_limit
        except OSError:
            return False

    def _older(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}")

    def _shift(self) -> None:
        for number in range(self._keep, 1, -1):
            if self._older(number - 1).exists():
                os.replace(self._older(number - 1), self._older(number))


#: Begins the line that acceptd writes before each start.
_HEAD = "==== acceptd: "
