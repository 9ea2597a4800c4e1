"""A plan for sequences, for a person."""

from __future__ import annotations

from rich.console import Console

from app.answers.tables.estimate import strategy_text
from app.sequences.schemas import SequencePlanDocument
from app.text.quantities import column_seconds, percent, seconds
from app.text.terminal import plain_table


def print_sequence_plan(console: Console, document: SequencePlanDocument) -> None:
    drawn = "drawn from the lengths" if document.is_drawn else "of the file, in its order"
    console.print(
        f"{strategy_text(document.strategy)}: {document.num_replicas:,} replicas x {document.num_microbatches:,} micro batches; "
        f"{document.num_steps:,} step{'s' * (document.num_steps > 1)} of samples {drawn}, {document.mean_length:,.0f} tokens "
        f"long in the mean: mean_squared_length_fraction {document.mean_squared_length_fraction:.4f}.",
        markup=False,
    )
    console.print()
    table = plain_table("", ">as they come", ">rearranged")
    orders = (document.before, document.after)
    table.add_row("attention of the fullest replica over the mean", *(f"{one.replica_load:.3f}" for one in orders))
    table.add_row("attention of the fullest micro batch over the mean", *(f"{one.micro_batch_load:.3f}" for one in orders))
    table.add_row("exposed by imbalance", *column_seconds(one.exposed_s for one in orders))
    table.add_row("step", *column_seconds(one.step_time_s for one in orders))
    table.add_row("slowest step", *column_seconds(one.slowest_step_time_s for one in orders))
    console.print(table)
    console.print()
    if document.recovered_fraction is None:
        console.print("Attention lies evenly: there is nothing to recover.")
    else:
        gain = document.before.step_time_s / document.after.step_time_s - 1.0
        console.print(
            f"Rearranging recovers {percent(document.recovered_fraction)} of what imbalance exposes: {percent(gain)} more steps. "
            f"With attention spread evenly a step takes {seconds(document.balanced_step_time_s)}.",
            markup=False,
        )
