"""The setting that a loser was measured against: acceptance length is only comparable there.

Back: `downgrade` drops the column; a rejection is then lifted by any other acceptance length, whatever the setting.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("rejections", sa.Column("measured_at", sa.Integer(), nullable=True))


def downgrade() -> None:
    with op.batch_alter_table("rejections") as table:
        table.drop_column("measured_at")
