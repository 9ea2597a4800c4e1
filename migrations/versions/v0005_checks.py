"""Checks that are kept: the histories of capacity checks."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    json = sa.JSON(none_as_null=True)
    op.create_table(
        "meshplan_checks",
        sa.Column("number", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False, autoincrement=True),
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("row_version", sa.BigInteger(), nullable=False),
        sa.Column("created_at_s", sa.Float(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=True),
        sa.Column("visibility", sa.String(length=16), nullable=False),
        sa.Column("archived", sa.Boolean(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("commit_id", sa.String(length=64), nullable=True),
        sa.Column("branch", sa.Text(), nullable=True),
        sa.Column("change_url", sa.Text(), nullable=True),
        sa.Column("taken_from", json, nullable=False),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("job_sha256", sa.String(length=64), nullable=True),
        sa.Column("model_name", sa.Text(), nullable=True),
        sa.Column("hardware", sa.Text(), nullable=True),
        sa.Column("num_devices", sa.BigInteger(), nullable=True),
        sa.Column("priced_with", json, nullable=True),
        sa.Column("metrics", json, nullable=False),
        sa.Column("lines", sa.JSON(), nullable=False),
        sa.Column("moved", json, nullable=True),
        sa.Column("document", json, nullable=False),
        sa.CheckConstraint("status in ('passed', 'broken', 'infeasible', 'cut')", name="ck_meshplan_checks_status"),
        sa.PrimaryKeyConstraint("number", name="pk_meshplan_checks"),
        sa.UniqueConstraint("id", name="uq_meshplan_checks_id"),
        sqlite_autoincrement=True,
    )
    for columns in (("name", "number"), ("owner", "number"), ("created_at_s",)):
        op.create_index(f"ix_meshplan_checks_{'_'.join(columns)}", "meshplan_checks", list(columns))


def downgrade() -> None:
    op.drop_table("meshplan_checks")
