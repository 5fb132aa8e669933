"""Draft the next revision from the tables in `monitor/store/tables/`: python -m migrations.draft "What it adds".

Read the file it makes, correct it (Alembic sees neither renames nor data), and say in it how the change is taken back.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from alembic import command

from monitor.store.schema import Schema
from monitor.store.sqlite import SqliteDatabase


def draft(message: str) -> None:
    """Write `versions/NNNN_message.py`: the difference between the newest revision and the tables."""
    with tempfile.TemporaryDirectory() as folder:
        database, schema = SqliteDatabase(Path(folder) / "draft.db"), Schema(Path(__file__).parent)
        database.create()
        with database.migrating() as connection:
            schema.upgrade(connection, before=lambda revision: None)
            number = int(schema.revision(connection) or 0) + 1
            command.revision(schema.config(connection), message, autogenerate=True, rev_id=f"{number:04d}")
        database.close()


if __name__ == "__main__":
    draft(" ".join(sys.argv[1:]))
