"""The launch file of one unit: the words that acceptd adds to its command line, as an environment file of systemd.

It owns the file, its key and the one before it. The key names the files that hold the operator's command, with their
checksums: the unit itself drops a launch file whose key no longer fits (`ExecStartPre=`), also when no daemon runs.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from monitor.drivers.record import write_durably
from monitor.drivers.unit_command import LAUNCH_FILE_ENDING, VARIABLE
from monitor.errors import ActionError
from monitor.launch.unit_text import env_line, quote_words, read_env, split_words

logger = logging.getLogger(__name__)

#: systemd reads it as root; people of the daemon's group may look.
_MODE = 0o640
_BASE = re.compile(r"^# base command: ([0-9a-f]+)$", re.MULTILINE)


class LaunchFile:
    """`UNIT.env` in `folder`, beside it `UNIT.key`, `UNIT.last.env` and, once void, `UNIT.void.env`.

    `outside` gives the path by which this process sees a file of the unit's machine.
    """

    def __init__(self, folder: Path, unit: str, *, outside: Callable[[Path], Path] = Path) -> None:
        self._folder = folder
        self._unit = unit
        self._outside = outside

    def words(self) -> tuple[str, ...] | None:
        """The words it gives; None where there is no such file, so that the operator's own are used."""
        text = self._text()
        return None if text is None else split_words(read_env(text).get(VARIABLE, ""))

    def base_hash(self) -> str:
        """Hash of the operator's command that it was written for; empty where there is none."""
        found = _BASE.search(self._text() or "")
        return found[1] if found else ""

    def write(self, words: Sequence[str], *, base_hash: str, sources: Sequence[Path], remark: str) -> None:
        """Replace it durably, whole before or after. What it held stays as `UNIT.last.env`, for the way back by hand.

        `remark` is one line for people. Raises ActionError (retryable) where the disk refuses, LaunchError for words
        that no such file can carry.
        """
        line = env_line(VARIABLE, quote_words(words))
        text = (
            f"# {self._unit}: {remark}. Written by acceptd at each start; edit the operator's command, not this file.\n"
            f"# base command: {base_hash}\n{line}"
        )
        before, last = self._text(), self._text(".last.env")
        try:
            # Going back: what is replaced has failed, and what came before it is worth keeping.
            if before is not None and before != text and (last is None or read_env(last) != read_env(text)):
                self._put(".last.env", before)
            # The key first: a file without its key is void.
            self._put(".key", self._key(sources))
            self._put(LAUNCH_FILE_ENDING, text)
        except OSError as error:
            raise self._refused(error) from error

    def remove(self) -> None:
        """Let the operator's own words be used again. Raises ActionError where the disk refuses."""
        self._drop(".last.env")

    def void(self) -> bool:
        """Put it aside as `UNIT.void.env`, since the operator's command was edited; whether there was one."""
        if self._text() is None:
            return False
        self._drop(".void.env")
        return True

    def _drop(self, ending: str) -> None:
        try:
            os.replace(self._path(LAUNCH_FILE_ENDING), self._path(ending))
        except FileNotFoundError:
            return
        except OSError as error:
            raise self._refused(error) from error

    def _key(self, sources: Sequence[Path]) -> str:
        lines = []
        for path in sources:
            try:
                digest = hashlib.sha256(self._outside(path).read_bytes()).hexdigest()
            except OSError:
                continue
            lines.append(f"{digest}  {path}\n")
        return "".join(lines)

    def _text(self, ending: str = LAUNCH_FILE_ENDING) -> str | None:
        try:
            return self._path(ending).read_text()
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            raise ActionError(f"{self._path(ending)}: cannot be read ({error})", reason="launch_file") from error

    def _put(self, ending: str, text: str) -> None:
        write_durably(self._path(ending), text.encode(), _MODE)

    def _path(self, ending: str) -> Path:
        return self._folder / f"{self._unit}{ending}"

    def _refused(self, error: OSError) -> ActionError:
        return ActionError(
            f"{self._path('.env')}: cannot be written ({error.strerror})", reason="launch_file", retryable=True
        )
