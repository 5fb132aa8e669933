"""Rows of spans of time that a store has not, among those of another: what overlaps is there already, in other pieces.

A file that was put back as it was a day ago counts that day in one long interval; the file that it replaced has the
same counts in short ones.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import Connection, TableClause, func, select

Row = dict[str, Any]


class Span(NamedTuple):
    """When something was, and its place in the key."""

    end: datetime
    start: datetime
    place: datetime


def without_overlaps(
    connection: Connection, plain: TableClause, rows: Sequence[Row], of: Sequence[str], place: str
) -> list[Row]:
    """The rows that overlap none of those in `plain`, but for what is at the same place.

    Columns `of` name what the spans belong to, `place` is the moment after them in the key, at or after their end.
    """
    whose: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        whose.setdefault(tuple(row[name] for name in of), []).append(row)
    known = {key: _known(connection, plain, zip(of, key, strict=True), own, place) for key, own in whose.items()}
    return [row for row in rows if not _overlaps(known[tuple(row[name] for name in of)], row, place)]


def _known(
    connection: Connection, plain: TableClause, of: Iterable[tuple[str, Any]], rows: Sequence[Row], place: str
) -> list[Span]:
    """Spans that may overlap the rows, by end: those up to their end, and the one after it."""
    at = plain.c[place]
    whose = [plain.c[name] == value for name, value in of]
    first, last = min(row["start_at"] for row in rows), max(row[place] for row in rows)
    beyond = select(func.min(at)).where(*whose, at > last).scalar_subquery()
    statement = select(plain.c.end_at, plain.c.start_at, at).where(
        *whose, at > first, at <= func.coalesce(beyond, last, type_=at.type)
    )
    return sorted(Span(*row) for row in connection.execute(statement))


def _overlaps(known: Sequence[Span], row: Row, place: str) -> bool:
    start, end = row["start_at"], row["end_at"]
    for span in known[bisect_right(known, start, key=lambda one: one.end) :]:
        if span.start < end and span.place != row[place]:
            return True
        if span.start >= end:
            return False
    return False
