"""Intervals in partitions of a day each, on PostgreSQL, so that an old day is dropped and not deleted row by row.

Rows that are there go to the default partition, from which they are deleted when they are old. SQLite stays as it is.
Back: `downgrade` copies all rows into tables without partitions.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

TABLES = ("intervals", "interval_details")


def upgrade() -> None:
    if op.get_bind().dialect.name != "postgresql":
        return
    for table in TABLES:
        _rebuild(table, " PARTITION BY RANGE (end_at)")
        op.execute(sa.text(f"CREATE TABLE {table}_default PARTITION OF {table} DEFAULT"))
        op.execute(sa.text(f"INSERT INTO {table} SELECT * FROM {table}_old"))
        op.execute(sa.text(f"DROP TABLE {table}_old"))


def downgrade() -> None:
    if op.get_bind().dialect.name != "postgresql":
        return
    for table in TABLES:
        _rebuild(table, "")
        op.execute(sa.text(f"INSERT INTO {table} SELECT * FROM {table}_old"))
        op.execute(sa.text(f"DROP TABLE {table}_old"))


def _rebuild(table: str, parts: str) -> None:
    """The table once more beside the old one, with the same columns and keys; indexes keep their names."""
    op.execute(sa.text(f"ALTER TABLE {table} RENAME TO {table}_old"))
    op.execute(sa.text(f"ALTER TABLE {table}_old RENAME CONSTRAINT pk_{table} TO pk_{table}_old"))
    op.execute(sa.text(f"CREATE TABLE {table} (LIKE {table}_old INCLUDING DEFAULTS){parts}"))
    op.execute(sa.text(f"ALTER TABLE {table} ADD CONSTRAINT pk_{table} PRIMARY KEY (server, life, end_at)"))
    if table == "intervals":
        name = "fk_intervals_server_life_lives"
        op.execute(sa.text(f"ALTER TABLE {table}_old DROP CONSTRAINT {name}"))
        op.execute(
            sa.text(
                f"ALTER TABLE {table} ADD CONSTRAINT {name} FOREIGN KEY (server, life) REFERENCES lives (server, id)"
            )
        )
