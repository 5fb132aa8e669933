"""Checks of servers, answered and missed, counted by five minutes: what the uptime of an SLO is made of.

Back: `downgrade` drops the counts; uptime is then counted from the next upgrade on.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

#: Aware moments: whole microseconds since 1970 on SQLite.
MOMENT = sa.DateTime(timezone=True).with_variant(sa.BigInteger(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "checks",
        sa.Column("server", sa.Text(), nullable=False),
        sa.Column("end_at", MOMENT, nullable=False),
        sa.Column("answered", sa.Integer(), nullable=False),
        sa.Column("missed", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("server", "end_at", name=op.f("pk_checks")),
        sqlite_with_rowid=False,
    )


def downgrade() -> None:
    op.drop_table("checks")
