"""A plan for sequences, for a person."""

from __future__ import annotations

from rich.console import Console

from app.sequences.schemas import SequencePlanDocument
from app.text.terminal import plain_table
from documents.quantities import column_seconds, percent, seconds
from documents.sentences import Sentence


def print_sequence_plan(console: Console, document: SequencePlanDocument) -> None:
    drawn = Sentence("drawn from the lengths") if document.is_drawn else Sentence("of the file, in its order")
    console.print(
        Sentence(
            "{}: {:,} replicas x {:,} micro batches; "
            "{:,} step{} of samples {}, {:,.0f} tokens "
            "long in the mean: mean_squared_length_fraction {:.4f}.",
            document.strategy.name,
            document.num_replicas,
            document.num_microbatches,
            document.num_steps,
            "s" * (document.num_steps > 1),
            drawn,
            document.mean_length,
            document.mean_squared_length_fraction,
        ),
        markup=False,
    )
    console.print()
    table = plain_table("", ">as they come", ">rearranged")
    orders = (document.before, document.after)
    table.add_row(Sentence("attention of the fullest replica over the mean"), *(f"{one.replica_load:.3f}" for one in orders))
    table.add_row(
        Sentence("attention of the fullest micro batch over the mean"), *(f"{one.micro_batch_load:.3f}" for one in orders)
    )
    table.add_row(Sentence("exposed by imbalance"), *column_seconds(one.exposed_s for one in orders))
    table.add_row(Sentence("step"), *column_seconds(one.step_time_s for one in orders))
    table.add_row(Sentence("slowest step"), *column_seconds(one.slowest_step_time_s for one in orders))
    console.print(table)
    console.print()
    if document.recovered_fraction is None:
        console.print(Sentence("Attention lies evenly: there is nothing to recover."))
    else:
        gain = document.before.step_time_s / document.after.step_time_s - 1.0
        console.print(
            Sentence(
                "Rearranging recovers {} of what imbalance exposes: {} more steps. With attention spread evenly a step takes {}.",
                percent(document.recovered_fraction),
                percent(gain),
                seconds(document.balanced_step_time_s),
            ),
            markup=False,
        )
