"""A daemon whose wall clock is another one and can be set while it runs; its monotonic clock stays the machine's.

Done by libfaketime (Debian: faketime), so that libraries and SQLite are deceived as well as acceptd.
"""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.acceptance.daemon import environ
from tests.faults.counted import CountedServer
from tests.faults.daemon import FaultyDaemon


def library() -> str:
    """Where libfaketime is; skips where it is not installed, which is an error in CI."""
    found = [*Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"), *Path("/usr/lib/faketime").glob("*MT.so.1")]
    if found:
        return str(found[0])
    why = "libfaketime is not installed (Debian: apt-get install faketime)"
    if os.environ.get("CI") == "true":
        pytest.fail(why)
    pytest.skip(why)


class ShiftedDaemon(FaultyDaemon):
    """A daemon with a clock of its own."""

    def __init__(self, folder: Path, *servers: CountedServer, **settings: object) -> None:
        super().__init__(folder, *servers, **settings)  # type: ignore[arg-type]
        self._library = library()
        self._offset = folder / "offset"
        self._off = timedelta(0)
        self.shift("+0")

    def environ(self) -> dict[str, str]:
        """The environment of its process, beside its clock."""
        return environ(self.folder)

    def time(self) -> datetime:
        """What its clock says now, where it was set by `shift_to`."""
        return datetime.now(UTC) + self._off

    def shift(self, offset: str) -> None:
        """Set its clock so far off the machine's: `+2h`, `-1d`, `+90` (seconds)."""
        # Replaced, so that it is never read half.
        fresh = self._offset.with_suffix(".new")
        fresh.write_text(offset + "\n")
        fresh.replace(self._offset)

    def shift_to(self, moment: datetime) -> None:
        """Set its clock to `moment`."""
        self._off = timedelta(seconds=round((moment - datetime.now(UTC)).total_seconds()))
        self.shift(f"{self._off.total_seconds():+.0f}")

    def spawn(self) -> subprocess.Popen[bytes]:
        """One more process of the command `acceptd run`, with that clock."""
        deceived = {
            "LD_PRELOAD": self._library, "FAKETIME_TIMESTAMP_FILE": str(self._offset), "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }  # fmt: skip
        with self.log.open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "monitor", "--config", str(self.config), "run"], stdout=log, stderr=log,
                stdin=subprocess.DEVNULL, env={**self.environ(), **deceived}, cwd=self.folder,
            )
