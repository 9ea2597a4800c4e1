"""Model presets as a table."""

from __future__ import annotations

from typing import Any

from rich.table import Table

from app.answers.quantities import count
from app.answers.terminal import plain_table


def list_table(rows: list[dict[str, Any]]) -> Table:
    table = plain_table("name", ">parameters", ">active", ">layers", ">hidden", "heads", "experts")
    table.columns[0].no_wrap = True
    for row in rows:
        experts = f"{row['top_k']} of {row['num_experts']}" if row["num_experts"] else ""
        table.add_row(
            row["name"],
            count(row["num_parameters"]),
            count(row["num_active_parameters"]),
            str(row["num_layers"]),
            str(row["hidden_size"]),
            f"{row['num_attention_heads']}/{row['num_query_groups']}",
            experts,
        )
    return table
