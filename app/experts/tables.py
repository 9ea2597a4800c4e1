"""A plan for experts, for a person."""

from __future__ import annotations

from rich.console import Console

from app.experts.schemas import ExpertPlanDocument, LayerPlan
from app.text.terminal import plain_table
from documents.quantities import column_seconds, gibibytes, percent, seconds
from documents.sentences import Sentence, joined, word

MAX_LAYERS = 12


def print_expert_plan(console: Console, document: ExpertPlanDocument) -> None:
    group = Sentence("{} experts on {} ranks", document.num_experts, document.num_ranks)
    nodes = Sentence(" in {} nodes", document.num_nodes) if document.num_nodes > 1 else ""
    console.print(Sentence("{}: {}{}.", document.strategy.name, group, nodes), markup=False)
    console.print(document.reason, markup=False)
    console.print(_forecast_text(document), markup=False)
    console.print()
    table = plain_table("", ">before", ">after")
    table.add_row(Sentence("fullest rank over the mean"), f"{document.load_before:.3f}", f"{document.load_after:.3f}")
    balanced_s = document.step_time_balanced_s
    times = [document.step_time_before_s, document.step_time_after_s]
    table.add_row(Sentence("exposed by imbalance"), *column_seconds(time_s - balanced_s for time_s in times))
    table.add_row(Sentence("step"), *column_seconds(times))
    console.print(table)
    console.print()
    _print_layers(console, document.layers)
    moves, copies = document.moves, document.copies
    if document.is_worth:
        break_even = "" if moves.break_even_steps is None else Sentence(", paid after {:,.1f} steps", moves.break_even_steps)
        console.print(
            Sentence(
                "Moves: {:,} experts inside a node, {:,} between nodes, {} each: {}, {} a step over {:,} steps{}.",
                moves.num_inside,
                moves.num_between,
                gibibytes(moves.bytes_per_expert),
                seconds(moves.time_s),
                seconds(moves.per_step_s),
                document.valid_steps,
                break_even,
            ),
            markup=False,
        )
    if document.replan is not None:
        after = document.replan.after_steps
        when: str = Sentence(", after about {:,.0f} steps", max(after, 1.0)) if after is not None else ""
        if after is None and document.forecast.num_held_back:
            when = Sentence("; held-back steps show no drift")
        trigger = Sentence("Plan again once the fullest rank has {:.3f} times the mean{}.", document.replan.above_load, when)
        console.print(trigger, markup=False)
    if copies.slots_per_rank:
        slots = Sentence("{} more slot{} a rank", copies.slots_per_rank, "s" * (copies.slots_per_rank > 1))
        console.print(
            Sentence(
                "Copies: {}, {} of memory, {} a step for gradients.",
                slots,
                gibibytes(copies.bytes_per_rank),
                seconds(copies.step_time_s),
            ),
            markup=False,
        )


def _forecast_text(document: ExpertPlanDocument) -> str:
    found = document.forecast
    if not found.num_held_back:
        return Sentence("Forecast: mean of {:,} step{}; too few to hold some back.", found.num_steps, "s" * (found.num_steps > 1))
    errors = joined(", ", (Sentence("{} {}", word(name), percent(error, 2)) for name, error in found.errors.items()))
    return Sentence(
        "Forecast of {:,} held-back steps, tokens at the wrong expert: {}. A plan made before would "
        "have taken their load from {:.3f} to {:.3f}: "
        "{} of its promise. Taken: {}, {} over {:,} steps.",
        found.num_held_back,
        errors,
        found.held_back_load_before,
        found.held_back_load_after,
        percent(found.realised_held_back_fraction or 0.0, 0),
        word(found.method),
        percent(found.realised_fraction, 0),
        found.horizon_steps,
    )


def _print_layers(console: Console, layers: list[LayerPlan]) -> None:
    shown = sorted(layers, key=lambda layer: -layer.exposed_before_s)[:MAX_LAYERS]
    table = plain_table("layer", ">load before", ">after", ">exposed before", ">after", ">moves", ">they take", ">net gain")
    before = column_seconds(layer.exposed_before_s for layer in shown)
    after = column_seconds(layer.exposed_after_s for layer in shown)
    for layer, before_text, after_text in zip(shown, before, after, strict=True):
        table.add_row(
            str(layer.layer),
            f"{layer.load_before:.3f}",
            f"{layer.load_after:.3f}",
            before_text,
            after_text,
            str(layer.num_moves),
            seconds(layer.move_s),
            seconds(layer.net_s) if layer.net_s >= 0.0 else f"-{seconds(-layer.net_s)}",
        )
    console.print(table)
    if len(layers) > len(shown):
        console.print(Sentence("The {} of {} layers that wait longest; --json has all.", len(shown), len(layers)))
    console.print()
