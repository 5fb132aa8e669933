"""The store over SQL: units of work on a database, whichever it is. It owns no table and no statement."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import TypeVar

from monitor.errors import StoreError
from monitor.store.api import Retention, Sizes, Unit
from monitor.store.contract.values import Age, Lag
from monitor.store.copying import copy
from monitor.store.database import Database
from monitor.store.edges import EdgesCache
from monitor.store.inspecting import ages, lags
from monitor.store.partitions import make_partitions
from monitor.store.refusals import StoreBusy
from monitor.store.retention import is_overdue, prune
from monitor.store.rolling import roll_up
from monitor.store.schema import Schema
from monitor.store.unit import SqlUnit

Result = TypeVar("Result")

#: A transaction that gave way to another is run so often before its error is passed on.
_RUNS = 3


class SqlStore:
    """A store in `database`; `database_time` lets leases run by the clock of PostgreSQL."""

    def __init__(self, database: Database, schema: Schema, *, database_time: bool = True) -> None:
        self._database = database
        self._schema = schema
        self._database_time = database_time
        self._edges = EdgesCache()
        self._thread = threading.local()

    @property
    def database(self) -> Database:
        """The database itself, for what copies rows as they are."""
        return self._database

    @property
    def name(self) -> str:
        """File or address for people."""
        return self._database.name

    @contextmanager
    def write(self, *, durable: bool = True) -> Iterator[SqlUnit]:
        """One transaction that commits at the end of the block."""
        if getattr(self._thread, "writing", False):
            raise StoreError(f"{self.name}: a unit that writes was opened within another of the same thread")
        self._thread.writing = True
        try:
            with self._database.writing(durable=durable) as connection:
                unit = SqlUnit(connection, self._edges, database_time=self._database_time)
                yield unit
            unit.edges.keep()
        finally:
            self._thread.writing = False

    @contextmanager
    def read(self) -> Iterator[SqlUnit]:
        """A view of one moment."""
        with self._database.reading() as connection:
            unit = SqlUnit(connection, self._edges, database_time=self._database_time)
            yield unit
        unit.edges.keep()

    def transact(self, work: Callable[[Unit], Result], *, durable: bool = True) -> Result:
        """Run `work` in one transaction, again where that gave way to another."""
        for left in reversed(range(_RUNS)):
            try:
                with self.write(durable=durable) as unit:
                    return work(unit)
            except StoreBusy:
                if not left:
                    raise
        raise AssertionError("unreachable")

    def upgrade(self) -> list[str]:
        """Bring the schema to the newest revision known."""
        self._database.create()
        with self._explained(), self._database.migrating() as connection:
            return self._schema.upgrade(connection, self._database.back_up)

    def revision(self) -> str | None:
        """Revision of the schema."""
        with self._database.reading() as connection:
            return self._schema.revision(connection)

    def check(self) -> None:
        """Raise StoreError unless the database is there and its schema fits."""
        with self._explained():
            self._schema.check(self.revision())

    def sizes(self) -> Sizes:
        """How big the store is."""
        return self._database.sizes()

    def faults(self) -> list[str]:
        """What is wrong with the data, a sentence each; empty where nothing is found."""
        return self._database.faults()

    def ages(self) -> tuple[Age, ...]:
        """Oldest and newest row of each table."""
        with self._database.reading() as connection:
            return ages(connection)

    def lags(self) -> tuple[Lag, ...]:
        """How far rollups are behind, by step."""
        with self._database.reading() as connection:
            return lags(connection)

    def copy_from(
        self, source: SqlStore, told: Callable[[str, int], None] = lambda table, rows: None
    ) -> dict[str, int]:
        """Take over all rows of another store that are not known here; how many, by table."""
        return copy(source.database, self._database, self._edges, told)

    def roll_up(self, now: datetime) -> int:
        """Bring rollups up to date."""
        return roll_up(self._database, self._edges, now)

    def is_overdue(self, now: datetime, keep: Retention) -> bool:
        """Whether the last nights' pruning is to be made up for."""
        return is_overdue(self._database, now, keep)

    def prune(self, now: datetime, keep: Retention) -> dict[str, int]:
        """Delete what is older than `keep` allows, once it is rolled up."""
        self.roll_up(now)
        deleted = prune(self._database, now, keep)
        self._database.give_back()
        return deleted

    def make_days(self, now: datetime) -> list[str]:
        """Make the partitions of the days to come where they are missing; the names of new ones."""
        with self._database.writing(durable=True) as connection:
            return make_partitions(connection, now)

    def close(self) -> None:
        """Let go of every connection."""
        self._database.close()

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Put the name of the store before errors that speak of its schema."""
        try:
            yield
        except StoreError as error:
            if self.name in str(error):
                raise
            raise StoreError(f"{self.name}: {error}") from error
