"""Copies what can still be read of a damaged database file into a fresh one. It changes nothing in the damaged one.

Each table is read from both of its ends up to the damage, so what is lost lies between. Rows that then refer to nothing
are left out. SQLite's own `.recover` needs a shell that not every host has, and that of Debian 12 failed on our files.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from monitor.errors import StoreError
from monitor.store.opening import open_store
from monitor.store.refusals import refusal

#: Rows that are written at once.
_BATCH = 500
#: Indexes are no way to read a damaged table: the table itself is read by its own key.
_INTERNAL = ("sqlite_", "alembic_version")

Row = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Salvaged:
    """What came over of one table; `whole` where no damage was met."""

    table: str
    rows: int
    whole: bool


def salvage(damaged: Path, fresh: Path) -> list[Salvaged]:
    """Make `fresh`, which must not exist, with the newest schema and what can be read of `damaged`.

    Raises StoreError where nothing can be read, or `fresh` cannot be made.
    """
    if fresh.exists():
        raise StoreError(f"{fresh} exists already: move it away")
    store = open_store(f"sqlite:///{fresh}")
    try:
        store.upgrade()
    finally:
        store.close()
    try:
        with closing(_open(damaged)) as source, closing(_open(fresh, "rw")) as target:
            target.execute("PRAGMA foreign_keys = OFF")
            found = [_copy(source, target, table) for table in _tables(source, target)]
            _drop_orphans(target)
            target.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            return found
    except sqlite3.Error as error:
        raise refusal(error, f"database file {damaged}") from error


def _open(path: Path, mode: str = "ro") -> sqlite3.Connection:
    connection = sqlite3.connect(f"file:{quote(str(path.absolute()))}?mode={mode}", uri=True, isolation_level=None)
    # Text of a damaged page need not be text.
    connection.text_factory = lambda raw: raw.decode(errors="replace")
    return connection


def _tables(source: sqlite3.Connection, target: sqlite3.Connection) -> list[str]:
    query = "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name"
    old, new = ({str(name) for (name,) in one.execute(query)} for one in (source, target))
    return [name for name in sorted(old & new) if not name.startswith(_INTERNAL)]


def _copy(source: sqlite3.Connection, target: sqlite3.Connection, table: str) -> Salvaged:
    known = {str(row[1]) for row in source.execute(f'PRAGMA table_info("{table}")')}
    columns = [str(row[1]) for row in target.execute(f'PRAGMA table_info("{table}")') if row[1] in known]
    key = _own_key(source, table)
    names = ", ".join(f'"{name}"' for name in columns)
    put = f'INSERT OR IGNORE INTO "{table}" ({names}) VALUES ({", ".join("?" * len(columns))})'
    whole = True
    for way in ("ASC", "DESC"):
        order = ", ".join(f"{name} {way}" for name in key)
        rows = _readable(source, f'SELECT {names} FROM "{table}" NOT INDEXED ORDER BY {order}')
        whole = _put_all(target, put, rows)
        if whole:
            break
    (count,) = target.execute(f'SELECT count(*) FROM "{table}"').fetchone()
    return Salvaged(table, int(count), whole and way == "ASC")


def _own_key(source: sqlite3.Connection, table: str) -> list[str]:
    """The key by which the table's own tree is ordered."""
    try:
        source.execute(f'SELECT rowid FROM "{table}" LIMIT 0')
        return ["rowid"]
    except sqlite3.OperationalError:
        parts = [(int(row[5]), str(row[1])) for row in source.execute(f'PRAGMA table_info("{table}")') if row[5]]
        return [f'"{name}"' for _, name in sorted(parts)]


def _readable(source: sqlite3.Connection, query: str) -> Iterator[Row | None]:
    """Rows up to the damage; a last None says that there was some."""
    try:
        yield from source.execute(query)
    except sqlite3.DatabaseError:
        yield None


def _put_all(target: sqlite3.Connection, put: str, rows: Iterator[Row | None]) -> bool:
    """Write rows in batches; whether the last one was reached."""
    whole, batch = True, []
    for row in rows:
        if row is None:
            whole = False
            break
        batch.append(row)
        if len(batch) >= _BATCH:
            _put(target, put, batch)
            batch = []
    _put(target, put, batch)
    return whole


def _put(target: sqlite3.Connection, put: str, batch: list[Row]) -> None:
    target.execute("BEGIN")
    target.executemany(put, batch)
    target.execute("COMMIT")


def _drop_orphans(target: sqlite3.Connection) -> None:
    """Leave out rows whose parents were lost, and then what refers to those."""
    gone = True
    while gone:
        gone = False
        for (table,) in target.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            for _, _, parent, own, key, *_ in target.execute(f'PRAGMA foreign_key_list("{table}")').fetchall():
                lost = f'NOT EXISTS (SELECT 1 FROM "{parent}" p WHERE p."{key}" = "{table}"."{own}")'
                done = target.execute(f'DELETE FROM "{table}" WHERE "{own}" IS NOT NULL AND {lost}')
                gone = gone or done.rowcount > 0
