"""Repositories of what was measured, intervals aside: lives, heads, newest readings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Select, or_, select

from monitor.model.life import CLOCKS_APART, Head, LastReading, Life, LifeId
from monitor.model.reading import Reading
from monitor.model.record import Watched
from monitor.model.server import ServerName
from monitor.store.records import Records
from monitor.store.tables.history import HeadRow, LifeRow, ReadingRow, WatchedRow


class SqlLives:
    """Process lives."""

    def __init__(self, connection: Connection) -> None:
        self._rows = Records(connection, Life, LifeRow)

    def add(self, life: Life) -> None:
        """Store a new life."""
        self._rows.insert([life])

    def update(self, life: Life) -> None:
        """Replace the life of that id."""
        self._rows.replace(life, f"life {life.id}")

    def put(self, lives: Iterable[Life]) -> None:
        """Store lives, each in place of the one with its id."""
        self._rows.put(lives)

    def get(self, life: LifeId) -> Life | None:
        """The life of that id."""
        return self._rows.one(LifeRow.id == life)

    def open_of(self, server: ServerName) -> list[Life]:
        """Lives of `server` that have not ended."""
        where = (LifeRow.server == server, LifeRow.ended.is_(None))
        return self._rows.many(*where, order=(LifeRow.first_seen, LifeRow.id))

    def of(self, server: ServerName | None, since: datetime, until: datetime) -> list[Life]:
        """Lives that overlap [since, until)."""
        where = [LifeRow.first_seen < until, or_(LifeRow.ended.is_(None), LifeRow.ended > since)]
        if server is not None:
            where.append(LifeRow.server == server)
        return self._rows.many(*where, order=(LifeRow.first_seen, LifeRow.id))


def lives_between(servers: Sequence[ServerName] | None, since: datetime, until: datetime) -> Select[Any]:
    """Server and id of the lives that may have intervals ending in (since, until].

    Their intervals are read through them, since each life is one range of the key.
    """
    statement = select(LifeRow.server, LifeRow.id).where(
        or_(LifeRow.ended.is_(None), LifeRow.ended > since - CLOCKS_APART), LifeRow.first_seen <= until + CLOCKS_APART
    )
    return statement if servers is None else statement.where(LifeRow.server.in_(servers))


class SqlHeads:
    """Last cumulative counts."""

    def __init__(self, connection: Connection) -> None:
        self._rows = Records(connection, Head, HeadRow)

    def get(self, life: LifeId) -> Head | None:
        """The head of that life."""
        return self._rows.one(HeadRow.life == life)

    def put(self, heads: Iterable[Head]) -> None:
        """Store the newest heads of lives."""
        self._rows.put(heads)

    def remove(self, lives: Iterable[LifeId]) -> None:
        """Forget the heads of these lives."""
        self._rows.remove(HeadRow.life.in_(list(lives)))

    def of_server(self, server: ServerName) -> dict[LifeId, Head]:
        """Heads of the server's open lives."""
        lives = select(LifeRow.id).where(LifeRow.server == server, LifeRow.ended.is_(None))
        return {head.life: head for head in self._rows.many(HeadRow.life.in_(lives), order=(HeadRow.life,))}


class SqlWatched:
    """Servers that are watched or were."""

    def __init__(self, connection: Connection) -> None:
        self._rows = Records(connection, Watched, WatchedRow)

    def put(self, servers: Iterable[Watched]) -> None:
        """Store each in place of what was known of it."""
        self._rows.put(servers)

    def all(self, retired_since: datetime) -> list[Watched]:
        """Those that are watched, and those that were until then or later."""
        kept = or_(WatchedRow.retired_at.is_(None), WatchedRow.retired_at >= retired_since)
        return self._rows.many(kept, order=(WatchedRow.server,))


@dataclass(frozen=True, slots=True)
class _Reading:
    """A row of newest readings; server and moment are copied out of the reading, for the key and for people."""

    server: ServerName
    scraped_at: datetime
    last_ok: datetime | None
    reading: Reading


class SqlReadings:
    """The newest reading of each server."""

    def __init__(self, connection: Connection) -> None:
        self._rows = Records(connection, _Reading, ReadingRow)

    def put(self, reading: LastReading) -> None:
        """Store it in place of the server's last."""
        newest = reading.reading
        self._rows.put([_Reading(newest.server, newest.scraped_at, reading.last_ok, newest)])

    def get(self, server: ServerName) -> LastReading | None:
        """The newest reading of `server`."""
        row = self._rows.one(ReadingRow.server == server)
        return LastReading(row.reading, row.last_ok) if row else None

    def all(self) -> list[LastReading]:
        """The newest reading of each server."""
        return [LastReading(row.reading, row.last_ok) for row in self._rows.many(order=(ReadingRow.server,))]
