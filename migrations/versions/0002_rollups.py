"""Rollups of intervals over five minutes and an hour.

Back: `downgrade` drops the rollups; those of intervals that are still there are made again after the next upgrade.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

#: Aware moments: whole microseconds since 1970 on SQLite.
MOMENT = sa.DateTime(timezone=True).with_variant(sa.BigInteger(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "rollup_progress",
        sa.Column("server", sa.Text(), nullable=False),
        sa.Column("step", sa.Integer(), nullable=False),
        sa.Column("until_at", MOMENT, nullable=False),
        sa.PrimaryKeyConstraint("server", "step", name=op.f("pk_rollup_progress")),
    )
    op.create_table(
        "rollups",
        sa.Column("step", sa.Integer(), nullable=False),
        sa.Column("server", sa.Text(), nullable=False),
        sa.Column("life", sa.Text(), nullable=False),
        sa.Column("bucket", MOMENT, nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("end_at", MOMENT, nullable=False),
        sa.Column("start_at", MOMENT, nullable=False),
        sa.Column("elapsed_seconds", sa.Double(), nullable=False),
        sa.Column("speculation_seconds", sa.Double(), nullable=True),
        sa.Column("num_drafts", sa.Double(), nullable=True),
        sa.Column("num_draft_tokens", sa.Double(), nullable=True),
        sa.Column("num_accepted_tokens", sa.Double(), nullable=True),
        sa.Column("traffic_seconds", sa.Double(), nullable=True),
        sa.Column("generation_tokens", sa.Double(), nullable=True),
        sa.Column("prompt_tokens", sa.Double(), nullable=True),
        sa.Column("cached_prompt_tokens", sa.Double(), nullable=True),
        sa.Column("engine_steps", sa.Double(), nullable=True),
        sa.Column("step_tokens", sa.Double(), nullable=True),
        sa.Column("rejections", sa.Double(), nullable=True),
        sa.Column("preemptions", sa.Double(), nullable=True),
        sa.Column("latency_seconds", sa.Double(), nullable=True),
        sa.Column("gauges_seconds", sa.Double(), nullable=False),
        sa.Column("running_mean", sa.Double(), nullable=True),
        sa.Column("running_max", sa.Double(), nullable=True),
        sa.Column("waiting_mean", sa.Double(), nullable=True),
        sa.Column("waiting_max", sa.Double(), nullable=True),
        sa.Column("kv_usage_mean", sa.Double(), nullable=True),
        sa.Column("kv_usage_max", sa.Double(), nullable=True),
        sa.Column("flags", sa.Text(), nullable=True),
        sa.Column("is_gap", sa.Boolean(), nullable=False),
        sa.Column("partial", sa.Boolean(), nullable=False),
        sa.Column("body", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["server", "life"], ["lives.server", "lives.id"], name=op.f("fk_rollups_server_life_lives")
        ),
        sa.PrimaryKeyConstraint("step", "server", "life", "bucket", "kind", name=op.f("pk_rollups")),
        sqlite_with_rowid=False,
    )


def downgrade() -> None:
    op.drop_table("rollups")
    op.drop_table("rollup_progress")
