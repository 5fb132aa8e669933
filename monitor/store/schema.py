"""Which revision a database has and how it comes to the newest: Alembic, configured without a file.

Revisions are numbered 0001, 0002, …: from the number alone a daemon sees how much newer than itself a schema is. One
revision newer is fine (revisions first add, and take away a release later); more is refused. Alembic takes 8 MB, so
only what brings a database further loads it: a daemon that finds it at the newest revision never does.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Connection, inspect, text

from monitor.errors import StoreError
from monitor.shipped import migrations_folder

if TYPE_CHECKING:
    from alembic.config import Config

#: Where Alembic keeps the revision.
_TABLE = "alembic_version"


class Schema:
    """The migrations in `folder` (by default those shipped)."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder

    def revision(self, connection: Connection) -> str | None:
        """Revision of the database; None where it is empty."""
        if not inspect(connection).has_table(_TABLE):
            return None
        found: str | None = connection.execute(text(f"SELECT version_num FROM {_TABLE}")).scalar_one_or_none()
        return found

    def pending(self, current: str | None) -> list[str]:
        """Revisions that a database at `current` lacks, oldest first. Raises StoreError where it is too new."""
        known = self._known()
        if current is None:
            return known
        if current in known:
            return known[known.index(current) + 1 :]
        self._refuse_much_newer(current, known[-1])
        return []

    def check(self, current: str | None) -> None:
        """Raise StoreError, saying what to do, unless this version works with a database at `current`."""
        if current is None:
            raise StoreError("it has no tables yet: run `acceptd db upgrade`")
        missing = self.pending(current)
        if missing:
            raise StoreError(
                f"its schema is at revision {current}, this acceptd needs {missing[-1]}: run `acceptd db upgrade`"
            )

    def upgrade(self, connection: Connection, before: Callable[[str], None]) -> list[str]:
        """Apply what is pending within the connection's transaction and give it, oldest first.

        Where a database with a revision is about to change, `before` is called with that revision.
        """
        current = self.revision(connection)
        missing = self.pending(current)
        if not missing:
            return []
        if current is not None:
            before(current)
        # Here and below: see the module's own words.
        from alembic import command

        command.upgrade(self.config(connection), missing[-1])
        return missing

    def config(self, connection: Connection) -> Config:
        """Alembic's configuration for one connection."""
        from alembic.config import Config

        config = Config(stdout=io.StringIO())
        folder = self._folder or migrations_folder()
        config.set_main_option("script_location", str(folder).replace("%", "%%"))
        config.set_main_option("path_separator", "os")
        config.attributes["connection"] = connection
        return config

    def _known(self) -> list[str]:
        folder = self._folder or migrations_folder()
        return sorted(file.name.partition("_")[0] for file in (folder / "versions").glob("[0-9]*_*.py"))

    @staticmethod
    def _refuse_much_newer(current: str, newest: str) -> None:
        if not current.isdecimal():
            raise StoreError(f"its schema has the revision {current!r}, which is none of acceptd's")
        if int(current) - int(newest) != 1:
            raise StoreError(
                f"its schema is at revision {current}, but this acceptd knows {newest} and works with one newer at"
                " most: install a newer acceptd"
            )
