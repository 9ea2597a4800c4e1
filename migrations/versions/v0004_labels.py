"""What users call their studies: names, tags and notes, and which of them are put away."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Columns are added and no table is written anew: on SQLite that would cascade to all that belongs to a study.
    op.add_column("meshplan_studies", sa.Column("name", sa.Text(), nullable=False, server_default=""))
    op.add_column("meshplan_studies", sa.Column("note", sa.Text(), nullable=False, server_default=""))
    op.add_column("meshplan_studies", sa.Column("archived", sa.Boolean(), nullable=False, server_default=sa.false()))
    op.create_index("ix_meshplan_studies_archived_number", "meshplan_studies", ["archived", "number"])
    op.create_table(
        "meshplan_tags",
        sa.Column("study_id", sa.String(length=32), nullable=False),
        sa.Column("tag", sa.String(length=64), nullable=False),
        sa.ForeignKeyConstraint(["study_id"], ["meshplan_studies.id"], name="fk_meshplan_tags_study_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("study_id", "tag", name="pk_meshplan_tags"),
    )
    op.create_index("ix_meshplan_tags_tag_study_id", "meshplan_tags", ["tag", "study_id"])


def downgrade() -> None:
    op.drop_index("ix_meshplan_tags_tag_study_id", "meshplan_tags")
    op.drop_table("meshplan_tags")
    op.drop_index("ix_meshplan_studies_archived_number", "meshplan_studies")
    for name in ("archived", "note", "name"):
        op.drop_column("meshplan_studies", name)
