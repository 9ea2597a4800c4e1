"""Owners of measured runs and calibrations, and what lists of studies need to be fast."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

OWNED = (("measured_runs", "record_sha256"), ("calibrations", "id"))
LISTED = ["number", "archived", "owner", "visibility", "state", "kind"]
_PARTS = "\x1e"  # between the English text of a sentence and its parts
_MANY = 500  # studies of one statement


def upgrade() -> None:
    for name, column in OWNED:
        table, nobody = f"meshplan_{name}", sa.text("owner is null")
        # Whose a row is was not written down: what there is stays everybody's. No other table refers to these two.
        with op.batch_alter_table(table, table_kwargs={"sqlite_autoincrement": True}) as batch:
            batch.add_column(sa.Column("owner", sa.Text(), nullable=True))
            batch.add_column(sa.Column("visibility", sa.String(length=16), nullable=False, server_default="public"))
            batch.drop_constraint(f"uq_{table}_{column}", type_="unique")
        op.create_index(f"uq_{table}_owner_{column}", table, ["owner", column], unique=True)
        op.create_index(f"uq_{table}_{column}", table, [column], unique=True, sqlite_where=nobody, postgresql_where=nobody)
        op.create_index(f"ix_{table}_owner_number", table, ["owner", "number"])
        op.create_index(f"ix_{table}_created_at_s", table, ["created_at_s"])
    op.create_index("ix_meshplan_idempotency_study_id", "meshplan_idempotency", ["study_id"])
    op.create_index("ix_meshplan_studies_listed", "meshplan_studies", LISTED)
    op.create_table(
        "meshplan_study_texts",
        sa.Column("number", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=False, nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["number"], ["meshplan_studies.number"], name="fk_meshplan_study_texts_number", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("number", name="pk_meshplan_study_texts"),
    )
    _fill_texts(op.get_bind())


def _fill_texts(connection: sa.Connection) -> None:
    columns = ("number", "id", "name", "note", "model_name", "hardware", "error")
    studies = sa.table("meshplan_studies", *map(sa.column, columns))
    tags = sa.table("meshplan_tags", sa.column("study_id"), sa.column("tag"))
    texts = sa.table("meshplan_study_texts", sa.column("number"), sa.column("text"))
    after = 0
    while True:
        query = sa.select(studies).where(studies.c.number > after).order_by(studies.c.number).limit(_MANY)
        rows = connection.execute(query).all()
        if not rows:
            return
        tagged: dict[str, list[str]] = {}
        for study_id, tag in connection.execute(sa.select(tags).where(tags.c.study_id.in_([row.id for row in rows]))):
            tagged.setdefault(study_id, []).append(tag)
        filled = []
        for row in rows:
            error = (row.error or "").partition(_PARTS)[0]
            parts = (row.name, *sorted(tagged.get(row.id, [])), row.note, row.id, row.model_name, row.hardware, error)
            filled.append({"number": row.number, "text": "\n".join(parts).casefold()})
        connection.execute(sa.insert(texts), filled)
        after = rows[-1].number


def downgrade() -> None:
    op.drop_table("meshplan_study_texts")
    op.drop_index("ix_meshplan_studies_listed", "meshplan_studies")
    op.drop_index("ix_meshplan_idempotency_study_id", "meshplan_idempotency")
    for name, column in OWNED:
        table = f"meshplan_{name}"
        for index in (
            f"ix_{table}_created_at_s",
            f"ix_{table}_owner_number",
            f"uq_{table}_{column}",
            f"uq_{table}_owner_{column}",
        ):
            op.drop_index(index, table)
        op.execute(f"delete from {table} where number not in (select min(number) from {table} group by {column})")  # noqa: S608
        with op.batch_alter_table(table) as batch:
            batch.drop_column("visibility")
            batch.drop_column("owner")
            batch.create_unique_constraint(f"uq_{table}_{column}", [column])
