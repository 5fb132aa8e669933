"""What databases say when they refuse, in sentences for people that name what to do. It owns no connection."""

from __future__ import annotations

import sqlite3

from sqlalchemy import Engine, event
from sqlalchemy.engine import ExceptionContext

from monitor.errors import StoreError


class StoreBusy(StoreError):
    """The database gave way to another transaction and undid this one: running it again may work."""


class StoreAway(StoreError):
    """The database cannot be reached, the connection to it broke, or its disk is full: later it may be had again."""


_UPGRADE = "its schema does not fit this version of acceptd: run `acceptd db upgrade`"

_RECOVER = "recover or replace it (docs/operations.md, a damaged database file)"

#: By the beginning of SQLite's error name, the first that fits.
_SQLITE: tuple[tuple[str, type[StoreError], str], ...] = (
    ("SQLITE_BUSY", StoreBusy, "it stays locked: is a second acceptd, a backup or a shell holding it?"),
    ("SQLITE_LOCKED", StoreBusy, "it stays locked: is a second acceptd, a backup or a shell holding it?"),
    ("SQLITE_FULL", StoreAway, "the disk is full: free some space or shorten the retention"),
    ("SQLITE_READONLY", StoreError, "it is opened for reading, or user and file modes allow no writing"),
    ("SQLITE_CORRUPT", StoreError, f"the file is damaged: stop acceptd and {_RECOVER}"),
    ("SQLITE_NOTADB", StoreError, f"the file is no SQLite database, or its beginning is damaged: {_RECOVER}"),
    ("SQLITE_CANTOPEN", StoreAway, "it cannot be opened: may the folder be entered, are too many files open?"),
    ("SQLITE_PERM", StoreError, "access is denied: check owner and mode of the file"),
    ("SQLITE_AUTH", StoreError, "access is denied: check owner and mode of the file"),
    ("SQLITE_IOERR", StoreAway, "the disk reports an error: look at the kernel's log"),
    ("SQLITE_CONSTRAINT", StoreError, "the row contradicts what is stored"),
)

#: By the beginning of PostgreSQL's SQLSTATE, the first that fits.
_POSTGRES: tuple[tuple[str, type[StoreError], str], ...] = (
    ("40", StoreBusy, "another transaction came first"),
    ("55P03", StoreBusy, "a lock was not to be had in time: is a migration or a dump running?"),
    ("57014", StoreBusy, "the statement took too long and was cancelled"),
    ("53100", StoreAway, "the disk of the database server is full"),
    ("53300", StoreAway, "the database server takes no more connections"),
    ("42P01", StoreError, _UPGRADE),
    ("42703", StoreError, _UPGRADE),
    ("42501", StoreError, "the database user lacks a right: grant it, or run as the owner of the tables"),
    ("25006", StoreError, "the transaction, or the whole server, is read-only: is the address that of a standby?"),
    ("23", StoreError, "the row contradicts what is stored"),
    ("28", StoreAway, "the server does not accept user and password"),
    ("3D000", StoreAway, "the database does not exist on that server: create it first"),
    ("08", StoreAway, "the connection broke"),
    ("57P", StoreAway, "the server is shutting down or starting up"),
)


def refusal(error: BaseException, where: str) -> StoreError:
    """The StoreError for a driver's error at the store called `where`; one that is ours already stays as it is."""
    if isinstance(error, StoreError):
        return error
    kind, sentence = StoreError, "the database refused the request"
    if isinstance(error, sqlite3.Error):
        kind, sentence = _of_sqlite(error)
    elif hasattr(error, "sqlstate"):
        kind, sentence = _of_postgres(error, error.sqlstate)
    return kind(f"{where}: {sentence} ({_detail(error)})")


def translate_errors(engine: Engine, where: str) -> None:
    """Make every database error of `engine` a StoreError where it is raised."""

    @event.listens_for(engine, "handle_error")
    def _translate(context: ExceptionContext) -> None:
        raise refusal(context.original_exception, where)


def _of_sqlite(error: sqlite3.Error) -> tuple[type[StoreError], str]:
    name = getattr(error, "sqlite_errorname", "") or ""
    text = str(error)
    if "no such table" in text or "no such column" in text or "has no column" in text:
        return StoreError, _UPGRADE
    for beginning, kind, sentence in _SQLITE:
        if name.startswith(beginning):
            return kind, sentence
    return StoreError, "the database refused the request"


def _of_postgres(error: BaseException, state: str | None) -> tuple[type[StoreError], str]:
    # Here, where its error shows that it is loaded: a daemon without a database for the fleet goes without its 9 MB.
    import psycopg

    for beginning, kind, sentence in _POSTGRES:
        if (state or "").startswith(beginning):
            return kind, sentence
    if state is None and isinstance(error, psycopg.OperationalError):
        return StoreAway, "the server cannot be reached"
    return StoreError, "the database refused the request"


def _detail(error: BaseException) -> str:
    """The driver's own words on one line; drivers do not repeat passwords in them."""
    return " ".join(str(error).split())[:300] or type(error).__name__
