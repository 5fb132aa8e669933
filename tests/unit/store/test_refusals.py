"""Errors of drivers in words: which kind they are, and that they name the store and what to do."""

from __future__ import annotations

import sqlite3

import psycopg
import pytest
from psycopg import errors

from monitor.errors import StoreError
from monitor.store import StoreAway, StoreBusy
from monitor.store.refusals import refusal


def of_sqlite(name: str, text: str = "it says") -> sqlite3.Error:
    error = sqlite3.OperationalError(text)
    error.sqlite_errorname = name
    return error


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (of_sqlite("SQLITE_BUSY"), StoreBusy, "stays locked"),
        (of_sqlite("SQLITE_BUSY_SNAPSHOT"), StoreBusy, "stays locked"),
        (of_sqlite("SQLITE_FULL"), StoreAway, "disk is full"),
        (of_sqlite("SQLITE_READONLY_DBMOVED"), StoreError, "modes allow no writing"),
        (of_sqlite("SQLITE_CORRUPT_VTAB"), StoreError, "recover or replace it"),
        (of_sqlite("SQLITE_NOTADB"), StoreError, "no SQLite database"),
        (of_sqlite("SQLITE_CANTOPEN_ISDIR"), StoreAway, "cannot be opened"),
        (of_sqlite("SQLITE_IOERR_FSYNC"), StoreAway, "kernel's log"),
        (of_sqlite("SQLITE_CONSTRAINT_UNIQUE"), StoreError, "contradicts"),
        (of_sqlite("SQLITE_ERROR", "no such table: lives"), StoreError, "acceptd db upgrade"),
        (of_sqlite("SQLITE_ERROR", "table lives has no column named x"), StoreError, "acceptd db upgrade"),
        (of_sqlite("SQLITE_ERROR", "near x: syntax error"), StoreError, "refused the request"),
        (sqlite3.ProgrammingError("closed"), StoreError, "refused the request"),
        (errors.SerializationFailure("it says"), StoreBusy, "came first"),
        (errors.DeadlockDetected("it says"), StoreBusy, "came first"),
        (errors.LockNotAvailable("it says"), StoreBusy, "lock"),
        (errors.QueryCanceled("it says"), StoreBusy, "too long"),
        (errors.DiskFull("it says"), StoreAway, "disk"),
        (errors.TooManyConnections("it says"), StoreAway, "no more connections"),
        (errors.UndefinedTable("it says"), StoreError, "acceptd db upgrade"),
        (errors.UndefinedColumn("it says"), StoreError, "acceptd db upgrade"),
        (errors.InsufficientPrivilege("it says"), StoreError, "right"),
        (errors.ReadOnlySqlTransaction("it says"), StoreError, "standby"),
        (errors.UniqueViolation("it says"), StoreError, "contradicts"),
        (errors.InvalidPassword("it says"), StoreAway, "user and password"),
        (errors.InvalidCatalogName("it says"), StoreAway, "create it first"),
        (errors.AdminShutdown("it says"), StoreAway, "shutting down"),
        (errors.ConnectionFailure("it says"), StoreAway, "broke"),
        (psycopg.OperationalError("it says"), StoreAway, "cannot be reached"),
        (errors.DivisionByZero("it says"), StoreError, "refused the request"),
        (OSError("it says"), StoreError, "refused the request"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else None,
)
def test_an_error_says_where_and_what(error: Exception, kind: type[StoreError], words: str) -> None:
    found = refusal(error, "database file /x.db")
    assert type(found) is kind
    assert str(found).startswith("database file /x.db: ")
    assert words in str(found)
    assert str(error) in str(found)


def test_our_own_errors_stay_as_they_are() -> None:
    ours = StoreError("moment has no time zone")
    assert refusal(ours, "x") is ours


def test_long_and_broken_lines_are_cut() -> None:
    assert len(str(refusal(psycopg.OperationalError("line\n" * 999), "x"))) < 400
    assert "\n" not in str(refusal(psycopg.OperationalError("line\nline"), "x"))
    assert "(OperationalError)" in str(refusal(psycopg.OperationalError(), "x"))
