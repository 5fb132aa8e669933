"""The embedded database: one SQLite file in WAL mode, written by one connection and read by others.

Writers begin with BEGIN IMMEDIATE: they wait for their turn at the beginning, where waiting is harmless, and never fail
half-way because another one wrote meanwhile. `synchronous` is NORMAL for scraped rows and FULL for durable ones.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sqlalchemy import Connection, Engine, NullPool, Pool, QueuePool, create_engine, event

from monitor.errors import StoreError
from monitor.store.api import Sizes, TableSize
from monitor.store.database import transaction
from monitor.store.refusals import StoreBusy, refusal, translate_errors
from monitor.store.tables import Base

#: Wait for another process's transaction (seconds). Ours take milliseconds; a backup or a pruning a few hundred.
BUSY_SECONDS = 5.0
#: Wait for another thread's transaction (seconds): a migration of a large file may take that long.
TURN_SECONDS = 60.0
#: The WAL file is cut back to this size (bytes) after a long reader had let it grow.
WAL_LIMIT_BYTES = 64 * 1024 * 1024
#: The file is cut where one part in so many of it is free. What one night frees (a day of 35) the next day fills again.
_FREE_PART = 4
#: Pages cut off in one transaction: 2 MB, a few hundredths of a second.
_PAGES_AT_ONCE = 500
#: Owner writes, group reads: the CLI of people in the group works, prompts of log tails stay out of others' sight.
FILE_MODE = 0o640
FOLDER_MODE = 0o750

Connect = Callable[[], sqlite3.Connection]


class SqliteDatabase:
    """The file at `path`, which the daemon writes."""

    def __init__(self, path: Path, *, busy_seconds: float = BUSY_SECONDS) -> None:
        self.path = path
        self.name = f"database file {path}"
        self._busy_seconds = busy_seconds
        self._turn = threading.Lock()
        one = {"pool_size": 1, "max_overflow": 0}
        self._writer = _engine(self.name, self._connect_writer, "BEGIN IMMEDIATE", QueuePool, **one)
        # The last one used first: each that is used fills a cache of pages of its own, 2 MB.
        self._reader = _engine(
            self.name, self._connect_reader, "BEGIN", QueuePool, pool_size=4, max_overflow=4, pool_use_lifo=True
        )

    @contextmanager
    def writing(self, *, durable: bool) -> Iterator[Connection]:
        """A transaction of the only writer; `durable` waits for the disk."""
        level = "FULL" if durable else "NORMAL"
        with self._alone(), _synchronous(self._writer, level), transaction(self._writer) as connection:
            yield connection

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A view of one moment."""
        with transaction(self._reader) as connection:
            yield connection

    @contextmanager
    def migrating(self) -> Iterator[Connection]:
        """A durable transaction in which tables may be rebuilt: foreign keys are checked at its end, not in it."""
        with self._alone(), _synchronous(self._writer, "FULL"), _unchecked(self._writer):
            with transaction(self._writer) as connection:
                yield connection
                broken = connection.exec_driver_sql("PRAGMA foreign_key_check").fetchall()
                if broken:
                    raise StoreError(f"{self.name}: {len(broken)} rows would refer to nothing: the migration is undone")

    def create(self) -> None:
        """Make folder and file, with their modes whatever the umask, where they are not there."""
        try:
            if not self.path.parent.is_dir():
                self.path.parent.mkdir(parents=True, exist_ok=True)
                self.path.parent.chmod(FOLDER_MODE)
            with _locked(self.path.parent):
                if not self.path.exists():
                    os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, FILE_MODE))
                    self.path.chmod(FILE_MODE)
                    self._shape()
        except OSError as error:
            hint = "check owner and mode of the folder"
            raise StoreError(f"{self.name}: cannot be created ({error.strerror}): {hint}") from error

    def _shape(self) -> None:
        """Settle what a file keeps for good, which nobody else may hold open meanwhile."""
        with closing(self._connect("rw")) as connection:
            try:
                # `give_back` needs it, and after the first table it is too late.
                connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
                connection.execute("PRAGMA journal_mode = WAL")
            except sqlite3.Error as error:
                raise refusal(error, self.name) from error

    def back_up(self, revision: str) -> None:
        """Copy the file as it is before the running migration to `<file>.from-<revision>`, whole or not at all."""
        target = self.path.with_name(f"{self.path.name}.from-{revision}")
        unfinished = target.with_name(target.name + ".unfinished")
        try:
            unfinished.unlink(missing_ok=True)
            os.close(os.open(unfinished, os.O_CREAT | os.O_EXCL | os.O_RDWR, FILE_MODE))
            with closing(self._connect_reader()) as source, closing(sqlite3.connect(unfinished)) as copy:
                source.backup(copy)
            with unfinished.open("rb") as file:
                os.fsync(file.fileno())
            unfinished.replace(target)
        except (OSError, sqlite3.Error) as error:
            unfinished.unlink(missing_ok=True)
            hint = "so it is not upgraded: free some space, or check owner and mode of the folder"
            raise StoreError(f"{self.name}: no backup could be made at {target} ({error}), {hint}") from error

    def give_back(self) -> None:
        """Cut free pages off the file, some in each transaction, where they are a large part of it."""
        with self.reading() as connection:
            free = connection.exec_driver_sql("PRAGMA freelist_count").scalar_one()
            if free * _FREE_PART < connection.exec_driver_sql("PRAGMA page_count").scalar_one():
                return
        before = free + 1
        while 0 < free < before:
            before, free = free, self._cut()

    def _cut(self) -> int:
        """Cut some free pages off; how many are left. As a script: a cursor takes one step, which is one page."""
        with self._alone(), closing(self._writer.raw_connection()) as connection:
            cursor = connection.cursor()
            try:
                cursor.executescript(f"PRAGMA incremental_vacuum({_PAGES_AT_ONCE})")
                return int(cursor.execute("PRAGMA freelist_count").fetchone()[0])
            except sqlite3.Error as error:
                raise refusal(error, self.name) from error

    def sizes(self) -> Sizes:
        """Size of the file with its WAL, and of each table where SQLite was built with `dbstat`."""
        total = sum(file.stat().st_size for file in (self.path, Path(f"{self.path}-wal")) if file.exists())
        with self.reading() as connection:
            return Sizes(total_bytes=total, tables=_table_sizes(connection))

    def faults(self) -> list[str]:
        """What `integrity_check` and `foreign_key_check` find."""
        with self.reading() as connection:
            return _faults(connection)

    def close(self) -> None:
        """Close all connections; the last one folds the WAL into the file."""
        self._reader.dispose()
        self._writer.dispose()

    @contextmanager
    def _alone(self) -> Iterator[None]:
        if not self._turn.acquire(timeout=TURN_SECONDS):
            raise StoreBusy(f"{self.name}: another thread has been writing for more than {TURN_SECONDS:.0f} s")
        try:
            yield
        finally:
            self._turn.release()

    def _connect_writer(self) -> sqlite3.Connection:
        connection = self._connect("rw")
        try:
            # The first statement that reads the file: here a damaged one shows.
            mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
        except sqlite3.Error as error:
            connection.close()
            raise refusal(error, self.name) from error
        if mode != "wal":
            connection.close()
            raise StoreError(f"{self.name}: stays in journal mode {mode!r}, not WAL: is it on a network file system?")
        connection.execute(f"PRAGMA journal_size_limit = {WAL_LIMIT_BYTES}")
        connection.execute("PRAGMA synchronous = NORMAL")
        return connection

    def _connect_reader(self) -> sqlite3.Connection:
        connection = self._connect("rw")
        connection.execute("PRAGMA query_only = ON")
        return connection

    def _connect(self, mode: str) -> sqlite3.Connection:
        if not self.path.exists():
            raise StoreError(f"{self.name} does not exist: start the daemon, or run `acceptd db upgrade`")
        return connect(self.path, mode, self.name, self._busy_seconds)


class ReadonlySqliteDatabase:
    """The file at `path`, read by a user who may not write, whether the daemon runs or not."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = f"database file {path}"
        # A connection lasts one unit: one that was opened while no daemon ran would not see that one started.
        self._reader = _engine(self.name, self._connect, "BEGIN", NullPool)

    @contextmanager
    def writing(self, *, durable: bool) -> Iterator[Connection]:
        """Refused."""
        raise StoreError(f"{self.name}: is opened for reading only")
        yield  # type: ignore[unreachable]  # pragma: no cover

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A view of one moment."""
        with transaction(self._reader) as connection:
            yield connection

    @contextmanager
    def migrating(self) -> Iterator[Connection]:
        """Refused."""
        with self.writing(durable=True) as connection:
            yield connection

    def create(self) -> None:
        """Refused."""
        raise StoreError(f"{self.name}: is opened for reading only")

    def back_up(self, revision: str) -> None:
        """Refused."""
        raise StoreError(f"{self.name}: is opened for reading only")

    def give_back(self) -> None:
        """Refused."""
        raise StoreError(f"{self.name}: is opened for reading only")

    def sizes(self) -> Sizes:
        """Size of the file with its WAL, and of each table where SQLite was built with `dbstat`."""
        total = sum(file.stat().st_size for file in (self.path, Path(f"{self.path}-wal")) if file.exists())
        with self.reading() as connection:
            return Sizes(total_bytes=total, tables=_table_sizes(connection))

    def faults(self) -> list[str]:
        """What `integrity_check` and `foreign_key_check` find."""
        with self.reading() as connection:
            return _faults(connection)

    def close(self) -> None:
        """Nothing stays open between units."""
        self._reader.dispose()

    def _connect(self) -> sqlite3.Connection:
        """Open the file as a reader.

        While a daemon runs its `-shm` and `-wal` files are there and a plain read-only open works, also where we may
        not write them. When it has stopped in order they are gone, and SQLite would have to create them: where it may
        not, the file is opened `immutable`, which is right exactly then, since nobody writes it.
        """
        if not self.path.exists():
            raise StoreError(f"{self.name} does not exist (or its folder may not be entered): has the daemon ever run?")
        connection = connect(self.path, "ro", self.name)
        try:
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        except sqlite3.Error as error:
            connection.close()
            wal = Path(f"{self.path}-wal")
            if wal.exists() and wal.stat().st_size > 0:
                raise refusal(error, self.name) from error
            return connect(self.path, "ro&immutable=1", self.name)
        return connection


def connect(path: Path, mode: str, name: str, busy_seconds: float = BUSY_SECONDS) -> sqlite3.Connection:
    """A connection in SQLite's own autocommit mode: transactions begin and end where we say so."""
    uri = f"file:{quote(str(path.absolute()))}?mode={mode}"
    try:
        connection = sqlite3.connect(
            uri, uri=True, timeout=busy_seconds, isolation_level=None, check_same_thread=False, cached_statements=256
        )
        connection.execute("PRAGMA foreign_keys = ON")
    except sqlite3.Error as error:
        raise refusal(error, name) from error
    return connection


def _engine(name: str, connect: Connect, begin: str, pool: type[Pool], **settings: Any) -> Engine:
    engine = create_engine("sqlite://", creator=connect, poolclass=pool, hide_parameters=True, **settings)
    translate_errors(engine, name)

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        connection.exec_driver_sql(begin)

    return engine


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """While nobody else makes a file in the folder."""
    held = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield
    finally:
        os.close(held)


@contextmanager
def _pragma(engine: Engine, change: str, back: str) -> Iterator[None]:
    """Run a pragma on the writer's only connection, which has no transaction now, and another one afterwards."""
    with closing(engine.raw_connection()) as connection:
        connection.cursor().execute(change)
    try:
        yield
    finally:
        with closing(engine.raw_connection()) as connection:
            connection.cursor().execute(back)


@contextmanager
def _synchronous(engine: Engine, level: str) -> Iterator[None]:
    """The level of the next transaction: it cannot be set once one has begun."""
    if level == "NORMAL":
        yield
        return
    with _pragma(engine, f"PRAGMA synchronous = {level}", "PRAGMA synchronous = NORMAL"):
        yield


@contextmanager
def _unchecked(engine: Engine) -> Iterator[None]:
    with _pragma(engine, "PRAGMA foreign_keys = OFF", "PRAGMA foreign_keys = ON"):
        yield


def _faults(connection: Connection) -> list[str]:
    found = [text for (text,) in connection.exec_driver_sql("PRAGMA integrity_check(20)") if text != "ok"]
    broken = connection.exec_driver_sql("PRAGMA foreign_key_check").fetchall()
    return found + [f"table {name}: row {row} refers to {parent}, which lacks it" for name, row, parent, _ in broken]


def _table_sizes(connection: Connection) -> tuple[TableSize, ...]:
    has_dbstat = connection.exec_driver_sql("SELECT 1 FROM pragma_module_list WHERE name = 'dbstat'").first()
    taken: dict[str, int] = {}
    if has_dbstat:
        query = "SELECT m.tbl_name, sum(s.pgsize) FROM dbstat s JOIN sqlite_master m ON m.name = s.name GROUP BY 1"
        taken = {name: size for name, size in connection.exec_driver_sql(query)}
    found = []
    for name in Base.metadata.tables:
        rows = connection.exec_driver_sql(f'SELECT count(*) FROM "{name}"').scalar_one()
        found.append(TableSize(name=name, rows=rows, bytes=taken.get(name)))
    return tuple(sorted(found, key=lambda table: (-(table.bytes or 0), -table.rows, table.name)))
