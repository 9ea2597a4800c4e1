"""Post-training as tables."""

from __future__ import annotations

from rich.console import Console

from app.rl.schemas import RlValidationDocument
from app.text.quantities import percent
from app.text.terminal import plain_table


def print_validation(console: Console, document: RlValidationDocument, *, with_rows: bool) -> None:
    """Errors by kind, and the rows where they are asked for."""
    table = plain_table("kind", ">predicted", ">median error", ">mean", ">bias", ">pairs", ">in order")
    for kind, found in document.summary.kinds.items():
        table.add_row(
            kind,
            str(found.count),
            *("-" if value is None else percent(value) for value in (
                found.median_abs_error_fraction, found.mean_abs_error_fraction, found.bias_fraction)),
            str(found.num_pairs),
            "-" if found.pairs_in_order_fraction is None else percent(found.pairs_in_order_fraction, 0),
        )
    console.print(table)
    if with_rows:
        listed = plain_table("record", "kind", ">predicted", ">measured", "unit", ">error")
        for row in document.rows:
            if row.refused is None:
                listed.add_row(
                    row.id,
                    row.kind,
                    f"{row.predicted:,.1f}",
                    "-" if row.measured is None else f"{row.measured:,.1f}",
                    row.unit,
                    "-" if row.error_fraction is None else percent(row.error_fraction),
                )
        console.print()
        console.print(listed)
    refused = [row for row in document.rows if row.refused is not None]
    if refused:
        console.print(f"\n{len(refused)} refused:", markup=False)
        for row in refused if with_rows else refused[:8]:
            console.print(f"  {row.id}: {row.refused}", markup=False)
