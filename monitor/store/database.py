"""What a store needs of a database: transactions of each kind. SQLite and PostgreSQL each have a module."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

from sqlalchemy import Connection, Engine

from monitor.store.api import Sizes
from monitor.store.refusals import StoreAway, StoreBusy

#: A transaction that could not begin (locked, or a pooled connection that broke meanwhile) is begun so often.
_ATTEMPTS = 3


class Database(Protocol):
    """One database and its connections."""

    @property
    def name(self) -> str:
        """File or address for people, never a password."""

    def writing(self, *, durable: bool) -> AbstractContextManager[Connection]:
        """A transaction that commits at the end of the block and is undone when the block raises."""

    def reading(self) -> AbstractContextManager[Connection]:
        """A view of one moment in which nothing can be written."""

    def migrating(self) -> AbstractContextManager[Connection]:
        """A transaction that changes the schema, alone."""

    def create(self) -> None:
        """Make the database itself where that is ours to do."""

    def back_up(self, revision: str) -> None:
        """Keep a copy of the database, which has this revision, where that is ours to do."""

    def give_back(self) -> None:
        """Give room that deleted rows have left back to the disk, where that is ours to do."""

    def sizes(self) -> Sizes:
        """How big it is."""

    def faults(self) -> list[str]:
        """What the database finds wrong with itself, a sentence each; every row is read, which may take minutes."""

    def close(self) -> None:
        """Close all connections."""


@contextmanager
def transaction(engine: Engine) -> Iterator[Connection]:
    """A transaction on a connection of `engine`; its beginning is tried again, since nothing has happened by then."""
    for left in reversed(range(_ATTEMPTS)):
        connection = engine.connect()
        try:
            connection.begin()
            break
        except (StoreBusy, StoreAway):
            connection.close()
            if not left:
                raise
        except BaseException:
            connection.close()
            raise
    try:
        yield connection
        connection.commit()
    finally:
        # Closing undoes what was not committed.
        connection.close()
