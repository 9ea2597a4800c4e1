"""A simulated step as tables: comparison with the closed form, hidden communication, waits, memory peaks."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from app.answers.schemas import EstimateNumbers
from app.answers.step_schemas import Simulation
from app.text.terminal import plain_table
from documents.quantities import column_seconds, gibibytes, percent
from documents.sentences import Sentence, word


def print_simulation(console: Console, estimate: EstimateNumbers, simulation: Simulation) -> None:
    """Print the simulated part of an estimate."""
    for table in (_times(estimate, simulation), _communication(simulation), _ranks(estimate, simulation)):
        if table.row_count:
            console.print()
            console.print(table)


def _times(estimate: EstimateNumbers, simulation: Simulation) -> Table:
    step_time_s = estimate.step_time_s
    rows = {
        Sentence("closed form"): simulation.closed_form_step_time_s,
        Sentence("simulated"): step_time_s,
        Sentence("lower bound"): estimate.step_time_lower_bound_s,
    }
    table = plain_table("the step", ">time", ">of simulated")
    for (name, value), shown in zip(rows.items(), column_seconds(rows.values()), strict=True):
        table.add_row(name, shown, percent(value / step_time_s), style="bold" if name == "simulated" else "")
    return table


def _communication(simulation: Simulation) -> Table:
    kinds = {name: part for name, part in simulation.communication.items() if part.exposed_s or part.masked_s}
    times = iter(column_seconds(value for part in kinds.values() for value in (part.exposed_s, part.masked_s)))
    table = plain_table("communication, critical rank", ">exposed", ">masked", ">masked share", ">of a steady step")
    for name, part in kinds.items():
        share = part.masked_s / (part.exposed_s + part.masked_s)
        steady = "" if part.steady_masked_fraction is None else percent(part.steady_masked_fraction)
        table.add_row(word(name), next(times), next(times), percent(share), steady)
    return table


def _ranks(estimate: EstimateNumbers, simulation: Simulation) -> Table:
    ranks = simulation.ranks
    table = plain_table("pipeline rank", ">bubble", ">share", ">peak memory", ">peak at")
    at = iter(column_seconds(rank.peak_at_s for rank in ranks if rank.peak_at_s is not None))
    for rank, bubble in zip(ranks, column_seconds(rank.bubble_s for rank in ranks), strict=True):
        share = percent(rank.bubble_s / estimate.step_time_s)
        peak_at = "-" if rank.peak_at_s is None else next(at)
        table.add_row(str(rank.rank), bubble, share, gibibytes(rank.peak_memory_bytes), peak_at)
    return table
