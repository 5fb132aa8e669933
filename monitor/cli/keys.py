"""Single keys of a terminal, without waiting for Enter. It owns no meaning of them."""

from __future__ import annotations

import os
import select
import sys
import termios
import tty
from types import TracebackType
from typing import Self

#: What arrow keys and their like send, by the name used here.
_SEQUENCES = {"[A": "up", "[B": "down", "[5~": "page up", "[6~": "page down", "[H": "home", "[F": "end"}


class Keys:
    """While it is entered, keys are read as they are pressed; the terminal is put back afterwards, whatever happens."""

    def __init__(self, descriptor: int | None = None) -> None:
        self._in = sys.stdin.fileno() if descriptor is None else descriptor
        self._before: list[object] | None = None

    def __enter__(self) -> Self:
        if os.isatty(self._in):
            self._before = termios.tcgetattr(self._in)
            tty.setcbreak(self._in)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._before is not None:
            termios.tcsetattr(self._in, termios.TCSADRAIN, self._before)  # type: ignore[arg-type]

    def pressed(self, seconds: float) -> str | None:
        """The next key within so many seconds: a character, or a name such as `up`; None where none was pressed."""
        if not select.select([self._in], [], [], seconds)[0]:
            return None
        read = os.read(self._in, 16).decode(errors="ignore")
        if read.startswith("\x1b"):
            return _SEQUENCES.get(read[1:], "escape")
        return read[:1] or None
