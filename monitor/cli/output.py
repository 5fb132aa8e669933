"""Printing for people and for programs: rich tables, or one JSON document. It owns no data."""

from __future__ import annotations

import getpass
import json
import os
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from monitor.notify.words import printable
from monitor.show.figures import ago, number, share, signed
from monitor.show.figures import gain as interval
from monitor.show.figures import seconds as milliseconds
from monitor.show.small import spark_text as sparkline

__all__ = [
    "ago", "console", "errors", "interval", "milliseconds", "number", "print_json", "printable", "share", "signed",
    "sparkline", "table", "who",
]  # fmt: skip


class _Screen(Console):
    """A console that prints texts as texts, whoever wrote them."""

    def print(self, *objects: Any, **options: Any) -> None:
        super().print(*(printable(one) if isinstance(one, str) else one for one in objects), **options)


#: Tables keep whole words where the output is no terminal (a pipe, a test).
console = _Screen(width=None if os.isatty(1) else 160, highlight=False, emoji=False)
errors = _Screen(stderr=True, highlight=False, emoji=False)


def print_json(data: Any) -> None:
    """One JSON document on standard output; unknown numbers are null."""
    print(json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False, default=str))


def table(columns: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[int] = ()) -> Table:
    """A plain table; cells are text, never markup, since names come from servers."""
    made = Table(box=None, pad_edge=False, header_style="bold")
    for index, column in enumerate(columns):
        made.add_column(column, justify="right" if index in right else "left", overflow="fold")
    for row in rows:
        made.add_row(*(Text(printable(cell)) for cell in row))
    return made


def who() -> str:
    """The person at the terminal, for records."""
    try:
        return os.environ.get("SUDO_USER") or getpass.getuser()
    except (OSError, KeyError):
        return f"uid {os.getuid()}"
