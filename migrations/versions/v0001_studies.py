"""Studies with their plans, trials, rejections and events; measured runs, calibrations, keys and idempotency records."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

# SQLite numbers rows by themselves only where the type is INTEGER.
SERIAL = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "meshplan_api_keys",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("prefix", sa.String(length=16), nullable=False),
        sa.Column("secret_sha256", sa.String(length=64), nullable=False),
        sa.Column("scopes", sa.JSON(), nullable=False),
        sa.Column("created_at_s", sa.Float(), nullable=False),
        sa.Column("expires_at_s", sa.Float(), nullable=True),
        sa.Column("revoked_at_s", sa.Float(), nullable=True),
        sa.Column("last_used_at_s", sa.Float(), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_meshplan_api_keys"),
        sa.UniqueConstraint("secret_sha256", name="uq_meshplan_api_keys_secret_sha256"),
    )
    op.create_table(
        "meshplan_calibrations",
        sa.Column("number", SERIAL, autoincrement=True, nullable=False),
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("family", sa.String(length=32), nullable=False),
        sa.Column("constants", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("report", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("created_at_s", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("number", name="pk_meshplan_calibrations"),
        sa.UniqueConstraint("id", name="uq_meshplan_calibrations_id"),
    )
    op.create_table(
        "meshplan_idempotency",
        sa.Column("owner", sa.String(length=64), nullable=False),
        sa.Column("key", sa.String(length=255), nullable=False),
        sa.Column("body_sha256", sa.String(length=64), nullable=False),
        sa.Column("status_code", sa.Integer(), nullable=False),
        sa.Column("headers", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("body", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("study_id", sa.String(length=32), nullable=True),
        sa.Column("created_at_s", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("owner", "key", name="pk_meshplan_idempotency"),
    )
    op.create_index("ix_meshplan_idempotency_created_at_s", "meshplan_idempotency", ["created_at_s"])

    op.create_table(
        "meshplan_measured_runs",
        sa.Column("number", SERIAL, autoincrement=True, nullable=False),
        sa.Column("record_sha256", sa.String(length=64), nullable=False),
        sa.Column("record_id", sa.Text(), nullable=True),
        sa.Column("category", sa.String(length=32), nullable=True),
        sa.Column("record", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("created_at_s", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("number", name="pk_meshplan_measured_runs"),
        sa.UniqueConstraint("record_sha256", name="uq_meshplan_measured_runs_record_sha256"),
    )
    op.create_table(
        "meshplan_studies",
        sa.Column("number", SERIAL, autoincrement=True, nullable=False),
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("row_version", sa.BigInteger(), nullable=False),
        sa.Column("created_at_s", sa.Float(), nullable=False),
        sa.Column("started_at_s", sa.Float(), nullable=True),
        sa.Column("finished_at_s", sa.Float(), nullable=True),
        sa.Column("model_name", sa.Text(), nullable=False),
        sa.Column("hardware", sa.Text(), nullable=False),
        sa.Column("num_devices", sa.BigInteger(), nullable=False),
        sa.Column("objective", sa.Text(), nullable=False),
        sa.Column("sampler", sa.Text(), nullable=False),
        sa.Column("seed", sa.BigInteger(), nullable=False),
        sa.Column("job", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("assumptions", sa.JSON(), nullable=False),
        sa.Column("warnings", sa.JSON(), nullable=False),
        sa.Column("hardware_profile", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("space", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("calibration", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("cancel_requested", sa.Boolean(), nullable=False),
        sa.Column("attempts", sa.BigInteger(), nullable=False),
        sa.Column("attempts_without_progress", sa.BigInteger(), nullable=False),
        sa.Column("lease_owner", sa.Text(), nullable=True),
        sa.Column("lease_token", sa.BigInteger(), nullable=False),
        sa.Column("lease_expires_at_s", sa.Float(), nullable=True),
        sa.Column("heartbeat_at_s", sa.Float(), nullable=True),
        sa.Column("progress", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("checkpoint", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("result", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.CheckConstraint(
            "state in ('queued', 'running', 'completed', 'failed', 'cancelled')", name="ck_meshplan_studies_state"
        ),
        sa.PrimaryKeyConstraint("number", name="pk_meshplan_studies"),
        sa.UniqueConstraint("id", name="uq_meshplan_studies_id"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_meshplan_studies_state_number", "meshplan_studies", ["state", "number"])

    op.create_table(
        "meshplan_events",
        sa.Column("sequence", SERIAL, autoincrement=True, nullable=False),
        sa.Column("study_id", sa.String(length=32), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("data", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("at_s", sa.Float(), nullable=False),
        sa.ForeignKeyConstraint(["study_id"], ["meshplan_studies.id"], name="fk_meshplan_events_study_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("sequence", name="pk_meshplan_events"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_meshplan_events_study_id_sequence", "meshplan_events", ["study_id", "sequence"])

    op.create_table(
        "meshplan_plans",
        sa.Column("study_id", sa.String(length=32), nullable=False),
        sa.Column("rank", sa.Integer(), nullable=False),
        sa.Column("plan_id", sa.String(length=32), nullable=False),
        sa.Column("step_time_s", sa.Float(), nullable=False),
        sa.Column("peak_memory_bytes", sa.Float(), nullable=False),
        sa.Column("document", sa.JSON(none_as_null=True), nullable=False),
        sa.ForeignKeyConstraint(["study_id"], ["meshplan_studies.id"], name="fk_meshplan_plans_study_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("study_id", "rank", name="pk_meshplan_plans"),
        sa.UniqueConstraint("study_id", "plan_id", name="uq_meshplan_plans_study_id_plan_id"),
    )
    op.create_table(
        "meshplan_rejections",
        sa.Column("study_id", sa.String(length=32), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("rule", sa.String(length=128), nullable=False),
        sa.Column("count", sa.BigInteger(), nullable=False),
        sa.Column("example", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["study_id"], ["meshplan_studies.id"], name="fk_meshplan_rejections_study_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("study_id", "position", name="pk_meshplan_rejections"),
        sa.UniqueConstraint("study_id", "rule", name="uq_meshplan_rejections_study_id_rule"),
    )
    op.create_table(
        "meshplan_trials",
        sa.Column("study_id", sa.String(length=32), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("source", sa.String(length=16), nullable=False),
        sa.Column("outcome", sa.String(length=16), nullable=False),
        sa.Column("rule", sa.Text(), nullable=True),
        sa.Column("step_time_s", sa.Float(), nullable=True),
        sa.Column("peak_memory_bytes", sa.Float(), nullable=True),
        sa.Column("value", sa.Float(), nullable=True),
        sa.Column("best_value", sa.Float(), nullable=True),
        sa.Column("duplicate_of", sa.Integer(), nullable=True),
        sa.Column("strategy", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("sampler_state", sa.JSON(none_as_null=True), nullable=False),
        sa.CheckConstraint("outcome in ('fits', 'too_large', 'illegal')", name="ck_meshplan_trials_outcome"),
        sa.ForeignKeyConstraint(["study_id"], ["meshplan_studies.id"], name="fk_meshplan_trials_study_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("study_id", "number", name="pk_meshplan_trials"),
    )
    op.create_index("ix_meshplan_trials_study_id_outcome_value", "meshplan_trials", ["study_id", "outcome", "value"])


def downgrade() -> None:
    op.drop_table("meshplan_trials")
    op.drop_table("meshplan_rejections")
    op.drop_table("meshplan_plans")
    op.drop_table("meshplan_events")
    op.drop_table("meshplan_studies")
    op.drop_table("meshplan_measured_runs")
    op.drop_table("meshplan_idempotency")
    op.drop_table("meshplan_calibrations")
    op.drop_table("meshplan_api_keys")
