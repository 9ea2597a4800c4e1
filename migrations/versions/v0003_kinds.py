"""Kinds of studies, and the points of those that are sweeps."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # What there is are searches; no table is written anew: on SQLite that would cascade to all that belongs to a study.
    op.add_column("meshplan_studies", sa.Column("kind", sa.String(length=16), nullable=False, server_default="search"))
    op.create_table(
        "meshplan_points",
        sa.Column("study_id", sa.String(length=32), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("document", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("start", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(["study_id"], ["meshplan_studies.id"], name="fk_meshplan_points_study_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("study_id", "number", name="pk_meshplan_points"),
    )


def downgrade() -> None:
    op.drop_table("meshplan_points")
    op.drop_column("meshplan_studies", "kind")
