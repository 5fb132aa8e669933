"""From a configured address to a store. Opening touches neither file nor network: the first unit does."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError

from monitor.errors import StoreError
from monitor.store.postgres import PostgresDatabase
from monitor.store.schema import Schema
from monitor.store.sql import SqlStore
from monitor.store.sqlite import ReadonlySqliteDatabase, SqliteDatabase

_EXPECTED = "expected sqlite:////path/to/file.db or postgresql://user@host/database"


def open_store(
    url: str, *, password: str | None = None, migrations: Path | None = None, database_time: bool = True
) -> SqlStore:
    """The store at `url`: `sqlite:////path/local.db` or `postgresql://…`.

    `migrations` replaces the shipped revisions. With `database_time` leases on PostgreSQL go by the database's clock
    and not by `now`. Raises StoreError for an address that is neither; the text repeats no part of it but the first
    word, since the rest may hold a password.
    """
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError) as error:
        raise StoreError(f"the store's address cannot be read: {_EXPECTED}") from error
    schema = Schema(migrations)
    if parsed.get_backend_name() == "sqlite":
        if not parsed.database or parsed.database == ":memory:" or parsed.database.startswith("file:"):
            raise StoreError(f"the store's address names no file: {_EXPECTED}")
        return SqlStore(SqliteDatabase(Path(parsed.database)), schema)
    if parsed.get_backend_name() in ("postgresql", "postgres"):
        parsed = parsed.set(drivername="postgresql+psycopg")
        database = PostgresDatabase(parsed if password is None else parsed.set(password=password))
        return SqlStore(database, schema, database_time=database_time)
    raise StoreError(f"the store's address begins with {parsed.drivername}: {_EXPECTED}")


def open_readonly(path: Path | str) -> SqlStore:
    """The embedded store in the file at `path`, for reading only, with the daemon up or down."""
    return SqlStore(ReadonlySqliteDatabase(Path(path)), Schema())
