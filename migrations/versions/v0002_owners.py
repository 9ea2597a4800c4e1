"""Owners and limits of keys, who may see a study and when it is its turn, and the log of what keys did."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

SERIAL = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    # Columns are added and no table is written anew: on SQLite that would cascade to all that belongs to a study.
    op.add_column("meshplan_api_keys", sa.Column("owner", sa.Text(), nullable=True))
    op.execute("update meshplan_api_keys set owner = name")
    for name, kind in (
        ("rotated_at_s", sa.Float()),
        ("previous_sha256", sa.String(length=64)),
        ("previous_until_s", sa.Float()),
        ("requests_a_minute", sa.BigInteger()),
        ("max_unfinished", sa.BigInteger()),
        ("max_stored", sa.BigInteger()),
    ):
        op.add_column("meshplan_api_keys", sa.Column(name, kind, nullable=True))
    op.create_index("ix_meshplan_api_keys_previous_sha256", "meshplan_api_keys", ["previous_sha256"])

    # Whose a study is was not written down: what there is stays everybody's, and waits in the order in which it came.
    op.add_column("meshplan_studies", sa.Column("owner", sa.Text(), nullable=True))
    op.add_column("meshplan_studies", sa.Column("visibility", sa.String(length=16), nullable=False, server_default="public"))
    op.add_column("meshplan_studies", sa.Column("priority", sa.Integer(), nullable=False, server_default="0"))
    op.add_column("meshplan_studies", sa.Column("turn", sa.BigInteger(), nullable=False, server_default="0"))
    op.add_column("meshplan_studies", sa.Column("queued_at_s", sa.Float(), nullable=True))
    op.execute("update meshplan_studies set turn = number, queued_at_s = created_at_s where state = 'queued'")
    op.create_index("ix_meshplan_studies_state_turn_number", "meshplan_studies", ["state", "turn", "number"])
    op.create_index("ix_meshplan_studies_owner_state_turn", "meshplan_studies", ["owner", "state", "turn"])

    op.create_table(
        "meshplan_audit",
        sa.Column("number", SERIAL, autoincrement=True, nullable=False),
        sa.Column("at_s", sa.Float(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=True),
        sa.Column("key_id", sa.String(length=32), nullable=True),
        sa.Column("key_name", sa.Text(), nullable=True),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("status", sa.Integer(), nullable=True),
        sa.Column("address", sa.Text(), nullable=True),
        sa.Column("request_id", sa.String(length=64), nullable=True),
        sa.PrimaryKeyConstraint("number", name="pk_meshplan_audit"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_meshplan_audit_at_s", "meshplan_audit", ["at_s"])
    op.create_index("ix_meshplan_audit_owner_number", "meshplan_audit", ["owner", "number"])


def downgrade() -> None:
    op.drop_table("meshplan_audit")
    op.drop_index("ix_meshplan_studies_owner_state_turn", "meshplan_studies")
    op.drop_index("ix_meshplan_studies_state_turn_number", "meshplan_studies")
    for name in ("queued_at_s", "turn", "priority", "visibility", "owner"):
        op.drop_column("meshplan_studies", name)
    op.drop_index("ix_meshplan_api_keys_previous_sha256", "meshplan_api_keys")
    for name in (
        "max_stored",
        "max_unfinished",
        "requests_a_minute",
        "previous_until_s",
        "previous_sha256",
        "rotated_at_s",
        "owner",
    ):
        op.drop_column("meshplan_api_keys", name)
