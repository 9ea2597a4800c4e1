"""Verifications of plans."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "meshplan_verifications",
        sa.Column("study_id", sa.String(length=32), nullable=False),
        sa.Column("plan_id", sa.String(length=32), nullable=False),
        sa.Column("created_at_s", sa.Float(), nullable=False),
        sa.Column("document", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(
            ["study_id"], ["meshplan_studies.id"], name="fk_meshplan_verifications_study_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("study_id", "plan_id", name="pk_meshplan_verifications"),
    )


def downgrade() -> None:
    op.drop_table("meshplan_verifications")
