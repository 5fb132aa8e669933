"""The shared database: PostgreSQL through psycopg 3, also behind PgBouncer in its transaction mode.

Nothing outlives a transaction: no prepared statements, no session settings, no session locks. Every commit is durable
(PostgreSQL's own default), so `durable` makes no difference here.
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from requests.utils import DEFAULT_CA_BUNDLE_PATH
from sqlalchemy import URL, Connection, create_engine, event, text

from monitor.store.api import Sizes, TableSize
from monitor.store.database import transaction
from monitor.store.refusals import translate_errors
from monitor.store.tables import Base

#: Connections of one store: one that writes and one that reads. A thousand daemons share the server.
CONNECTIONS = 2
CONNECT_SECONDS = 5
#: Sent data that nobody acknowledges for so long (milliseconds) ends the connection: the host is gone.
TCP_TIMEOUT_MS = 15_000
#: No statement of ours takes seconds; without a limit a forgotten lock would hold the daemon for ever.
_LIMITS = text("SELECT set_config('lock_timeout', '10s', true), set_config('statement_timeout', '60s', true)")
_MIGRATION_LIMITS = text("SELECT set_config('lock_timeout', '60s', true), set_config('statement_timeout', '0', true)")
#: A partitioned table has no size of its own, and one that is not in parts has no tree.
_SIZE = text(
    "SELECT coalesce(sum(pg_total_relation_size(relid))::bigint, pg_total_relation_size(to_regclass(:name)))"
    " FROM pg_partition_tree(to_regclass(:name))"
)
#: Timescale knows which tables hold the compressed rows of a hypertable; null for another table.
_HYPERTABLE_SIZE = text("SELECT hypertable_size(to_regclass(:name))")
_HAS_TIMESCALE = text("SELECT to_regproc('hypertable_size') IS NOT NULL")
#: Key of the advisory lock under which schemas are changed: any number that no other program takes ("acceptd").
_MIGRATION_LOCK = 0x61636365707464


class PostgresDatabase:
    """The database at `url`, shared by all daemons of a fleet."""

    def __init__(self, url: URL) -> None:
        self.name = f"database {url.set(query={}).render_as_string(hide_password=True)}"
        self._engine = create_engine(
            url,
            pool_size=CONNECTIONS,
            max_overflow=0,
            pool_timeout=30,
            pool_recycle=1800,
            hide_parameters=True,
            connect_args={
                "prepare_threshold": None,
                "connect_timeout": CONNECT_SECONDS,
                "application_name": "acceptd",
                "keepalives_idle": 30,
                "keepalives_interval": 10,
                "keepalives_count": 3,
                "tcp_user_timeout": TCP_TIMEOUT_MS,
                **tls(url),
            },
        )
        translate_errors(self._engine, self.name)
        # A view of one moment, which one statement alone has but several have not.
        self._reader = self._engine.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
        self._migrator = self._engine.execution_options(limits=_MIGRATION_LIMITS)

        @event.listens_for(self._engine, "begin")
        def _begin(connection: Connection) -> None:
            # The first statement also shows whether the pooled connection still lives; if not, another is taken.
            connection.execute(connection.get_execution_options().get("limits", _LIMITS))

    @contextmanager
    def writing(self, *, durable: bool) -> Iterator[Connection]:
        """A transaction."""
        with transaction(self._engine) as connection:
            yield connection

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A view of one moment."""
        with transaction(self._reader) as connection:
            yield connection

    @contextmanager
    def migrating(self) -> Iterator[Connection]:
        """A transaction under the lock that only one migration holds."""
        with transaction(self._migrator) as connection:
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _MIGRATION_LOCK})
            yield connection

    def create(self) -> None:
        """Nothing: the database is made by its administrator."""

    def back_up(self, revision: str) -> None:
        """Nothing: backups of a shared database are its administrator's."""

    def give_back(self) -> None:
        """Nothing: days are dropped whole, and PostgreSQL's autovacuum sees to the rest."""

    def sizes(self) -> Sizes:
        """Size of the database and of each table, indexes included."""
        with self.reading() as connection:
            total = connection.execute(text("SELECT pg_database_size(current_database())")).scalar_one()
            ways = (_HYPERTABLE_SIZE, _SIZE) if connection.execute(_HAS_TIMESCALE).scalar() else (_SIZE,)
            found = []
            for name in Base.metadata.tables:
                taken = next((size for way in ways if (size := connection.execute(way, {"name": name}).scalar())), None)
                rows = connection.execute(text(f'SELECT count(*) FROM "{name}"')).scalar_one()
                found.append(TableSize(name=name, rows=rows, bytes=taken))
        return Sizes(total_bytes=total, tables=tuple(sorted(found, key=lambda it: (-(it.bytes or 0), it.name))))

    def faults(self) -> list[str]:
        """Indexes and constraints that PostgreSQL marks as not valid; it checks pages as it reads them."""
        with self.reading() as connection:
            index = text("SELECT indexrelid::regclass::text FROM pg_index WHERE NOT indisvalid")
            constraint = text("SELECT conname FROM pg_constraint WHERE NOT convalidated")
            return [
                *(f"index {name} is not valid: REINDEX INDEX {name}" for (name,) in connection.execute(index)),
                *(f"constraint {name} was never validated" for (name,) in connection.execute(constraint)),
            ]

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()


def tls(url: URL) -> dict[str, str]:
    """How libpq is to use TLS: over a network with a certificate that is verified, unless the operator says otherwise.

    Left alone libpq takes TLS where it is offered and verifies nothing (`sslmode=prefer`), so that whoever sits between
    could read along. `sslmode` and `sslrootcert` of the address, or libpq's own variables and file, come first.
    """
    given = url.query.get("host") or url.host or os.environ.get("PGHOST", "")
    hosts = given.split(",") if isinstance(given, str) else given
    if {"sslmode", "service"} & url.query.keys() or "PGSSLMODE" in os.environ or all(map(_is_here, hosts)):
        return {}
    known = "sslrootcert" in url.query or "PGSSLROOTCERT" in os.environ
    known = known or Path("~/.postgresql/root.crt").expanduser().is_file()
    return {"sslmode": "verify-full"} | ({} if known else {"sslrootcert": DEFAULT_CA_BUNDLE_PATH})


def _is_here(host: str) -> bool:
    """Whether it is this machine: a socket's folder, or loopback."""
    try:
        return host in ("", "localhost") or host[0] in "/@" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
