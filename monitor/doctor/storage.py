"""The store: whether it can be opened, fits this version, is whole, and how much is in it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

from monitor.doctor.finding import Area, Finding, Subject
from monitor.errors import StoreError
from monitor.store import open_readonly
from monitor.store.schema import Schema

#: Largest file that is read whole to see whether it is damaged (bytes): a few seconds.
CHECKED_BYTES = 512 * 1024**2
_MIB = 1024.0**2


def check_store(path: Path, *, deep: bool) -> Iterator[Finding]:
    """The embedded store in the file at `path`; `deep` reads it whole, however large it is."""
    of = Subject(Area.STORE, str(path))
    if not path.is_file():
        yield of.note("is not there yet", "the daemon makes it at its first start")
        return
    store = open_readonly(path)
    try:
        found = store.revision()
        store.check()
        ahead = found is not None and found > Schema().pending(None)[-1]
        if ahead:
            yield of.note(f"schema {found} is of a newer acceptd, which this one can work with", "install that version")
    except StoreError as error:
        yield of.problem(_said(error, of.name), _todo(str(error)))
        return
    finally:
        store.close()
    size = path.stat().st_size
    if deep or size <= CHECKED_BYTES:
        yield _whole(of, path, size)
    else:
        yield of.note(f"{size / _MIB:,.0f} MiB, not looked through for damage", "acceptd doctor --deep does")


def _whole(of: Subject, path: Path, size: int) -> Finding:
    try:
        with closing(sqlite3.connect(f"file:{quote(str(path.absolute()))}?mode=ro", uri=True)) as connection:
            rows = [str(row[0]) for row in connection.execute("PRAGMA quick_check(3)")]
    except sqlite3.Error as error:
        rows = [str(error)]
    if rows == ["ok"]:
        return of.ok(f"{size / _MIB:,.0f} MiB, whole")
    return of.problem(f"is damaged: {'; '.join(rows)[:200]}", "stop the daemon, then acceptd db recover"
                      " (docs/operations.md, a damaged database file)")


def _said(error: StoreError, name: str) -> str:
    return str(error).removeprefix(f"database file {name}: ")


def _todo(text: str) -> str:
    """What to do about a refusal: most say it themselves after a colon."""
    if "damaged" in text:
        return "acceptd db recover (docs/operations.md, a damaged database file)"
    if "acceptd db upgrade" in text:
        return "start the daemon of this version, which upgrades it, or run acceptd db upgrade"
    if "newer acceptd" in text:
        return "install the acceptd that wrote it, or a newer one"
    return "see the sentence itself; docs/operations.md has more"
