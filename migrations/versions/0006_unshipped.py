"""What a local store has and the fleet's database lacks: the queue of a daemon that shares its history.

Back: `downgrade` drops the queue; what waits in it stays in the local store and does not reach the fleet's.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

#: Aware moments: whole microseconds since 1970 on SQLite.
MOMENT = sa.DateTime(timezone=True).with_variant(sa.BigInteger(), "sqlite")
#: Numbers given by the database.
NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "unshipped",
        sa.Column("number", NUMBER, nullable=False),
        sa.Column("server", sa.Text(), nullable=False),
        sa.Column("life", sa.Text(), nullable=False),
        sa.Column("end_at", MOMENT, nullable=True),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_unshipped")),
        sqlite_autoincrement=True,
    )


def downgrade() -> None:
    op.drop_table("unshipped")
