"""Printing for people and for programs: rich tables, or one JSON document. It owns no data."""

from __future__ import annotations

import getpass
import json
import os
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

#: Tables keep whole words where the output is no terminal (a pipe, a test).
console = Console(width=None if os.isatty(1) else 160, highlight=False, emoji=False)
errors = Console(stderr=True, highlight=False, emoji=False)


def print_json(data: Any) -> None:
    """One JSON document on standard output; unknown numbers are null."""
    print(json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False, default=str))


def table(columns: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[int] = ()) -> Table:
    """A plain table; cells are text, never markup, since names come from servers."""
    made = Table(box=None, pad_edge=False, header_style="bold")
    for index, column in enumerate(columns):
        made.add_column(column, justify="right" if index in right else "left", overflow="fold")
    for row in rows:
        made.add_row(*(Text(cell) for cell in row))
    return made


def share(value: float | None) -> str:
    """A ratio in percent; a dash for no data."""
    return "–" if value is None else f"{value:.1%}"


def number(value: float | None, digits: int = 2) -> str:
    """A number; a dash for no data."""
    return "–" if value is None else f"{value:,.{digits}f}"


def milliseconds(value: float | None) -> str:
    """Seconds shown as milliseconds; a dash for no data."""
    return "–" if value is None else f"{value * 1000:,.1f} ms"


def signed(value: float | None) -> str:
    """A gain in percent with its sign; a dash for no data."""
    return "–" if value is None else f"{value:+.1%}"


def interval(value: float | None, low: float | None, high: float | None) -> str:
    """A gain with its interval."""
    return signed(value) + (f" ({signed(low)} to {signed(high)})" if low is not None and high is not None else "")


def ago(stamp: str | None, now: datetime) -> str:
    """How long ago an ISO time was, in the largest fitting unit."""
    if stamp is None:
        return "never"
    seconds = max(0.0, (now - datetime.fromisoformat(stamp).astimezone(UTC)).total_seconds())
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit} ago"
    return f"{seconds:.0f} s ago"


def sparkline(values: Sequence[float | None]) -> str:
    """A ratio's history as bars; a gap stays a space."""
    bars = "▁▂▃▄▅▆▇█"
    return "".join(" " if v is None else bars[min(7, max(0, int(v * 8)))] for v in values)


def who() -> str:
    """The person at the terminal, for records."""
    try:
        return os.environ.get("SUDO_USER") or getpass.getuser()
    except (OSError, KeyError):
        return f"uid {os.getuid()}"
