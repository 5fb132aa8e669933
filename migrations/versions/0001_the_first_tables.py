"""The first tables.

Back: `downgrade` drops them all, and with them everything acceptd remembers; restore a backup instead.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

#: Aware moments: whole microseconds since 1970 on SQLite.
MOMENT = sa.DateTime(timezone=True).with_variant(sa.BigInteger(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "alerts",
        sa.Column("fingerprint", sa.Text(), nullable=False),
        sa.Column("active_since", MOMENT, nullable=False),
        sa.Column("labels", sa.Text(), nullable=False),
        sa.Column("annotations", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("fired_at", MOMENT, nullable=True),
        sa.Column("resolved_at", MOMENT, nullable=True),
        sa.Column("last_true", MOMENT, nullable=True),
        sa.Column("evidence", sa.Text(), nullable=False),
        sa.Column("acknowledged_by", sa.Text(), nullable=True),
        sa.Column("notified_at", MOMENT, nullable=True),
        sa.Column("clear_since", MOMENT, nullable=True),
        sa.Column("incident", sa.Text(), nullable=False),
        sa.Column("refired", sa.Integer(), nullable=False),
        sa.Column("more", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("fingerprint", "active_since", name=op.f("pk_alerts")),
    )
    op.create_index(op.f("ix_alerts_state"), "alerts", ["state"])

    op.create_table(
        "audit",
        sa.Column("number", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("at", MOMENT, nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("what", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("sentence", sa.Text(), nullable=False),
        sa.Column("more", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_audit")),
    )
    op.create_index(op.f("ix_audit_at"), "audit", ["at"])
    op.create_index(op.f("ix_audit_subject"), "audit", ["subject"])

    op.create_table(
        "baselines",
        sa.Column("server", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("acceptance_length", sa.Double(), nullable=False),
        sa.Column("acceptance_rate", sa.Double(), nullable=False),
        sa.Column("first_position_rate", sa.Double(), nullable=True),
        sa.Column("num_drafts", sa.Double(), nullable=False),
        sa.Column("updated_at", MOMENT, nullable=False),
        sa.Column("windows", sa.Integer(), nullable=False),
        sa.Column("more", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("server", "key", name=op.f("pk_baselines")),
    )
    op.create_table(
        "commands",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("author", sa.Text(), nullable=False),
        sa.Column("asked_at", MOMENT, nullable=False),
        sa.Column("done_at", MOMENT, nullable=True),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("more", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_commands")),
    )
    op.create_index(op.f("ix_commands_done_at"), "commands", ["done_at"])

    op.create_table(
        "decisions",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("group_name", sa.Text(), nullable=False),
        sa.Column("servers", sa.Text(), nullable=False),
        sa.Column("rule", sa.Text(), nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("sentence", sa.Text(), nullable=False),
        sa.Column("current_setting", sa.Text(), nullable=False),
        sa.Column("proposed_setting", sa.Text(), nullable=False),
        sa.Column("precondition", sa.Text(), nullable=False),
        sa.Column("made_at", MOMENT, nullable=False),
        sa.Column("expires_at", MOMENT, nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("gain", sa.Double(), nullable=True),
        sa.Column("gain_low", sa.Double(), nullable=True),
        sa.Column("gain_high", sa.Double(), nullable=True),
        sa.Column("evidence", sa.Text(), nullable=False),
        sa.Column("window_seconds", sa.Double(), nullable=False),
        sa.Column("threshold", sa.Text(), nullable=True),
        sa.Column("note", sa.Text(), nullable=False),
        sa.Column("more", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_decisions")),
    )
    op.create_index(op.f("ix_decisions_group_name_made_at"), "decisions", ["group_name", "made_at"])
    op.create_index(op.f("ix_decisions_state"), "decisions", ["state"])

    op.create_table(
        "evidence",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("server", sa.Text(), nullable=False),
        sa.Column("at", MOMENT, nullable=False),
        sa.Column("what", sa.Text(), nullable=False),
        sa.Column("parts", sa.Text(), nullable=False),
        sa.Column("more", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_evidence")),
    )
    op.create_index(op.f("ix_evidence_server_at"), "evidence", ["server", "at"])

    op.create_table(
        "histogram_edges",
        sa.Column("number", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("edges", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_histogram_edges")),
        sa.UniqueConstraint("edges", name=op.f("uq_histogram_edges_edges")),
    )
    op.create_table(
        "interval_details",
        sa.Column("server", sa.Text(), nullable=False),
        sa.Column("life", sa.Text(), nullable=False),
        sa.Column("end_at", MOMENT, nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("server", "life", "end_at", name=op.f("pk_interval_details")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "last_good",
        sa.Column("server", sa.Text(), nullable=False),
        sa.Column("setting", sa.Text(), nullable=False),
        sa.Column("command_hash", sa.Text(), nullable=False),
        sa.Column("at", MOMENT, nullable=False),
        sa.Column("more", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("server", name=op.f("pk_last_good")),
    )
    op.create_table(
        "leases",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("holder", sa.Text(), nullable=False),
        sa.Column("fence", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("expires_at", MOMENT, nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_leases")),
    )
    op.create_table(
        "lives",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("server", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("engine", sa.Text(), nullable=False),
        sa.Column("first_seen", MOMENT, nullable=False),
        sa.Column("evidence", sa.Text(), nullable=False),
        sa.Column("counts_from_zero", sa.Boolean(), nullable=False),
        sa.Column("engine_version", sa.Text(), nullable=True),
        sa.Column("setting", sa.Text(), nullable=False),
        sa.Column("sources", sa.Text(), nullable=False),
        sa.Column("process_start", sa.Double(), nullable=True),
        sa.Column("created", sa.Double(), nullable=True),
        sa.Column("ended", MOMENT, nullable=True),
        sa.Column("more", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_lives")),
        sa.UniqueConstraint("server", "id", name=op.f("uq_lives_server_id")),
    )
    op.create_index(op.f("ix_lives_server_ended"), "lives", ["server", "ended"])

    op.create_table(
        "notices",
        sa.Column("number", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("dedupe_key", sa.Text(), nullable=False),
        sa.Column("thread", sa.Text(), nullable=False),
        sa.Column("severity", sa.Text(), nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("fields", sa.Text(), nullable=False),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.Column("labels", sa.Text(), nullable=False),
        sa.Column("annotations", sa.Text(), nullable=False),
        sa.Column("edits_root", sa.Boolean(), nullable=False),
        sa.Column("in_thread", sa.Boolean(), nullable=False),
        sa.Column("attachments", sa.Text(), nullable=False),
        sa.Column("simulated", sa.Boolean(), nullable=False),
        sa.Column("more", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_notices")),
        sa.UniqueConstraint("dedupe_key", name=op.f("uq_notices_dedupe_key")),
        sa.UniqueConstraint("id", name=op.f("uq_notices_id")),
    )
    op.create_index(op.f("ix_notices_thread"), "notices", ["thread"])

    op.create_table(
        "pauses",
        sa.Column("scope", sa.Text(), nullable=False),
        sa.Column("author", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("since_at", MOMENT, nullable=False),
        sa.Column("until_at", MOMENT, nullable=True),
        sa.Column("more", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("scope", name=op.f("pk_pauses")),
    )
    op.create_table(
        "readings",
        sa.Column("server", sa.Text(), nullable=False),
        sa.Column("scraped_at", MOMENT, nullable=False),
        sa.Column("last_ok", MOMENT, nullable=True),
        sa.Column("reading", sa.Text(), nullable=False),
        sa.Column("more", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("server", name=op.f("pk_readings")),
    )
    op.create_table(
        "rejections",
        sa.Column("number", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("group_name", sa.Text(), nullable=False),
        sa.Column("num_speculative_tokens", sa.Integer(), nullable=False),
        sa.Column("method", sa.Text(), nullable=True),
        sa.Column("at", MOMENT, nullable=False),
        sa.Column("until_at", MOMENT, nullable=False),
        sa.Column("times", sa.Integer(), nullable=False),
        sa.Column("sentence", sa.Text(), nullable=False),
        sa.Column("batch", sa.Double(), nullable=True),
        sa.Column("acceptance_length", sa.Double(), nullable=True),
        sa.Column("more", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_rejections")),
    )
    op.create_index(op.f("ix_rejections_group_name_at"), "rejections", ["group_name", "at"])

    op.create_table(
        "reports",
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("made_at", MOMENT, nullable=False),
        sa.Column("period_start", MOMENT, nullable=False),
        sa.Column("period_end", MOMENT, nullable=False),
        sa.Column("headline", sa.Text(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("files", sa.Text(), nullable=False),
        sa.Column("more", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_reports")),
    )
    op.create_table(
        "restarts",
        sa.Column("number", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("server", sa.Text(), nullable=False),
        sa.Column("at", MOMENT, nullable=False),
        sa.Column("why", sa.Text(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("more", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_restarts")),
    )
    op.create_index(op.f("ix_restarts_server_at"), "restarts", ["server", "at"])

    op.create_table(
        "rollouts",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("group_name", sa.Text(), nullable=False),
        sa.Column("decision", sa.Text(), nullable=False),
        sa.Column("current_setting", sa.Text(), nullable=False),
        sa.Column("proposed_setting", sa.Text(), nullable=False),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.Column("requested_by", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("finished_at", MOMENT, nullable=True),
        sa.Column("outcome", sa.Text(), nullable=True),
        sa.Column("sentence", sa.Text(), nullable=False),
        sa.Column("measured", sa.Text(), nullable=True),
        sa.Column("more", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_rollouts")),
    )
    op.create_index(op.f("ix_rollouts_group_name_created_at"), "rollouts", ["group_name", "created_at"])
    op.create_index(
        op.f("uq_rollouts_active_group"),
        "rollouts",
        ["group_name"],
        unique=True,
        sqlite_where=sa.text("state = 'active'"),
        postgresql_where=sa.text("state = 'active'"),
    )

    op.create_table(
        "rule_timers",
        sa.Column("rule", sa.Text(), nullable=False),
        sa.Column("scope", sa.Text(), nullable=False),
        sa.Column("held_since", MOMENT, nullable=True),
        sa.Column("last_true", MOMENT, nullable=True),
        sa.Column("last_outcome", sa.Text(), nullable=False),
        sa.Column("more", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("rule", "scope", name=op.f("pk_rule_timers")),
    )
    op.create_table(
        "silences",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("matchers", sa.Text(), nullable=False),
        sa.Column("author", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("starts_at", MOMENT, nullable=False),
        sa.Column("ends_at", MOMENT, nullable=False),
        sa.Column("more", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_silences")),
    )
    op.create_index(op.f("ix_silences_ends_at"), "silences", ["ends_at"])

    op.create_table(
        "changes",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("rollout", sa.Text(), nullable=False),
        sa.Column("server", sa.Text(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("current_setting", sa.Text(), nullable=False),
        sa.Column("proposed_setting", sa.Text(), nullable=False),
        sa.Column("entered_at", MOMENT, nullable=False),
        sa.Column("deadline", MOMENT, nullable=True),
        sa.Column("is_canary", sa.Boolean(), nullable=False),
        sa.Column("command_hash", sa.Text(), nullable=False),
        sa.Column("process", sa.Text(), nullable=False),
        sa.Column("models", sa.Text(), nullable=False),
        sa.Column("traffic_held", sa.Boolean(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("stop_asked_at", MOMENT, nullable=True),
        sa.Column("killed_at", MOMENT, nullable=True),
        sa.Column("retry_at", MOMENT, nullable=True),
        sa.Column("drained_at", MOMENT, nullable=True),
        sa.Column("stopped_at", MOMENT, nullable=True),
        sa.Column("started_at", MOMENT, nullable=True),
        sa.Column("ready_at", MOMENT, nullable=True),
        sa.Column("outcome", sa.Text(), nullable=True),
        sa.Column("sentence", sa.Text(), nullable=False),
        sa.Column("measured", sa.Text(), nullable=True),
        sa.Column("history", sa.Text(), nullable=False),
        sa.Column("more", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["rollout"], ["rollouts.id"], name=op.f("fk_changes_rollout_rollouts"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_changes")),
    )
    op.create_index(op.f("ix_changes_rollout_position"), "changes", ["rollout", "position"])
    op.create_index(op.f("ix_changes_server_entered_at"), "changes", ["server", "entered_at"])
    op.create_index(op.f("ix_changes_state"), "changes", ["state"])

    op.create_table(
        "deliveries",
        sa.Column("notice", sa.Text(), nullable=False),
        sa.Column("receiver", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("next_attempt_at", MOMENT, nullable=False),
        sa.Column("external_id", sa.Text(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("sent_at", MOMENT, nullable=True),
        sa.Column("more", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["notice"], ["notices.id"], name=op.f("fk_deliveries_notice_notices"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("notice", "receiver", name=op.f("pk_deliveries")),
    )
    op.create_index(op.f("ix_deliveries_state_next_attempt_at"), "deliveries", ["state", "next_attempt_at"])

    op.create_table(
        "heads",
        sa.Column("life", sa.Text(), nullable=False),
        sa.Column("at", MOMENT, nullable=False),
        sa.Column("monotonic", sa.Double(), nullable=False),
        sa.Column("boot_id", sa.Text(), nullable=False),
        sa.Column("counts", sa.Text(), nullable=False),
        sa.Column("more", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["life"], ["lives.id"], name=op.f("fk_heads_life_lives"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("life", name=op.f("pk_heads")),
    )
    op.create_table(
        "intervals",
        sa.Column("server", sa.Text(), nullable=False),
        sa.Column("life", sa.Text(), nullable=False),
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
        sa.ForeignKeyConstraint(
            ["server", "life"], ["lives.server", "lives.id"], name=op.f("fk_intervals_server_life_lives")
        ),
        sa.PrimaryKeyConstraint("server", "life", "end_at", name=op.f("pk_intervals")),
        sqlite_with_rowid=False,
    )


def downgrade() -> None:
    op.drop_table("intervals")
    op.drop_table("heads")
    op.drop_table("deliveries")
    op.drop_table("changes")
    op.drop_table("silences")
    op.drop_table("rule_timers")
    op.drop_table("rollouts")
    op.drop_table("restarts")
    op.drop_table("reports")
    op.drop_table("rejections")
    op.drop_table("readings")
    op.drop_table("pauses")
    op.drop_table("notices")
    op.drop_table("lives")
    op.drop_table("leases")
    op.drop_table("last_good")
    op.drop_table("interval_details")
    op.drop_table("histogram_edges")
    op.drop_table("evidence")
    op.drop_table("decisions")
    op.drop_table("commands")
    op.drop_table("baselines")
    op.drop_table("audit")
    op.drop_table("alerts")
