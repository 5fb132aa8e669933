from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from monitor.store import Store, open_store
from monitor.store.tables import Base
from tests.fakes.memory_store import MemoryStore
from tests.integration.postgres import PostgresServer

#: Partitions of days, without those for the rest.
_DAYS = b"SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhrelid::regclass::text ~ '_[0-9]{8}$'"


@pytest.fixture(scope="session")
def upgraded(postgres_server: PostgresServer) -> str:
    """A database with the newest schema, to be copied."""
    name = postgres_server.new_database()
    store = open_store(postgres_server.url(name))
    store.upgrade()
    store.close()
    return name


@pytest.fixture(scope="session")
def shared(postgres_server: PostgresServer, upgraded: str) -> str:
    """A database for the tests that empty it first."""
    return postgres_server.new_database(template=upgraded)


@pytest.fixture(params=["memory", "sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """An empty store of each kind. Leases of the PostgreSQL one go by `now`, as a test's clock needs it."""
    if request.param == "memory":
        yield MemoryStore()
        return
    if request.param == "sqlite":
        opened = open_store(f"sqlite:///{tmp_path}/local.db")
        opened.upgrade()
    else:
        server: PostgresServer = request.getfixturevalue("postgres_server")
        # Emptied and not made anew: a database is a thousand files.
        name: str = request.getfixturevalue("shared")
        with server.connect(name) as connection:
            connection.execute(f"TRUNCATE {', '.join(Base.metadata.tables)} RESTART IDENTITY".encode())
            # Days that a test before made: what is pruned depends on which there are.
            for (day,) in connection.execute(_DAYS).fetchall():
                connection.execute(f"DROP TABLE {day}".encode())
        opened = open_store(server.url(name), database_time=False)
    yield opened
    opened.close()
