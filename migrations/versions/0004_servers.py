"""Servers that are watched or were, with their groups: reports go on counting those that have gone.

Back: `downgrade` drops the table; servers that have gone are then missing in reports until they are watched again.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

#: Aware moments: whole microseconds since 1970 on SQLite.
MOMENT = sa.DateTime(timezone=True).with_variant(sa.BigInteger(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "servers",
        sa.Column("server", sa.Text(), nullable=False),
        sa.Column("group_name", sa.Text(), nullable=False),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("since_at", MOMENT, nullable=False),
        sa.Column("retired_at", MOMENT, nullable=True),
        sa.Column("more", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("server", name=op.f("pk_servers")),
    )


def downgrade() -> None:
    op.drop_table("servers")
