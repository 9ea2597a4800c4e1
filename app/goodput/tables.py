"""A delivery for a person."""

from __future__ import annotations

from rich.console import Console

from app.answers.tables.estimate import print_assumptions, print_title, strategy_text
from app.goodput.schemas import GoodputDocument
from app.text.quantities import count, days, percent, seconds
from app.text.terminal import plain_table

SHOWN_CHANGES = 8
LEAST_GAIN = 5e-4


def print_goodput(console: Console, document: GoodputDocument) -> None:
    job, estimate = document.job, document.estimate
    print_assumptions(console, document.assumptions, document.warnings)
    print_title(console, job, document.strategy)
    failing = "nothing fails" if document.mtbf_s is None else f"an interruption every {_span(document.mtbf_s)}"
    console.print(
        f"{count(document.delivered_tokens_per_day)} tokens a day delivered: {percent(document.effective_time_fraction)} of "
        f"{count(estimate.tokens_per_s)} tokens/s; {failing}.",
        markup=False,
    )
    month = document.delivered_tokens_per_day_by_month
    console.print(f"Of ten months nine deliver {count(month.p10)} a day or more, one {count(month.p90)} or more.")
    if document.days is not None:
        found, tokens = document.days, count(job["training"]["train_tokens"])
        console.print(
            f"{days(found.mean)} for {tokens} tokens, {days(found.p10)} to {days(found.p90)} with a probability of 80 %, "
            "as far as failures decide."
        )
    _print_checkpoint(console, document)
    console.print()
    table = plain_table("from the peak to what is delivered", ">tokens a day", ">left")
    for stage in document.waterfall:
        table.add_row(stage.stage.replace("_", " "), count(stage.tokens_per_day), percent(stage.of_the_one_before, 2))
    table.add_row("delivered", count(document.delivered_tokens_per_day), "", style="bold")
    console.print(table)
    console.print()
    table = plain_table("one change", ">delivered a day", ">gain")
    for row in [row for row in document.changes if row.gain_fraction >= LEAST_GAIN][:SHOWN_CHANGES]:
        table.add_row(row.change, count(row.delivered_tokens_per_day), f"+{percent(row.gain_fraction, 2)}")
    console.print(table)
    _print_costs(console, document)
    if document.plans:
        console.print()
        table = plain_table("plans of the search by what they deliver", ">step", ">effective", ">tokens a day")
        for plan in document.plans:
            delivered = count(plan.delivered_tokens_per_day)
            table.add_row(
                strategy_text(plan.strategy), seconds(plan.step_time_s), percent(plan.effective_time_fraction), delivered
            )
        console.print(table)


def _print_checkpoint(console: Console, document: GoodputDocument) -> None:
    found = document.checkpoint
    console.print(
        f"A checkpoint of {found.total_bytes / 1e12:,.2f} TB every {_span(found.interval_s)} blocks {seconds(found.blocking_s)} "
        f"and loads in {_span(found.load_s)}; {document.replicas:,} replicas; {document.site['spares']} spare nodes for "
        f"{document.nodes_in_repair:,.1f} in repair.",
        markup=False,
    )


def _print_costs(console: Console, document: GoodputDocument) -> None:
    energy, cost = document.energy, document.cost
    if energy is not None or cost is not None:
        console.print()
    if energy is not None:
        total = "" if energy.kwh is None else f", {energy.kwh / 1e3:,.0f} MWh for all tokens"
        co2 = "" if energy.co2_kg is None else f", {energy.co2_kg / 1e3:,.0f} t CO2"
        console.print(
            f"{energy.site_power_w / 1e6:,.2f} MW in the mean, {energy.kwh_per_billion_tokens:,.0f} kWh a billion "
            f"tokens{total}{co2}."
        )
    if cost is not None:
        total = "" if cost.usd is None else f", {cost.usd / 1e6:,.2f} M for all tokens"
        console.print(f"{cost.usd_per_trillion_tokens / 1e6:,.2f} M USD a trillion tokens{total} ({cost.basis}).", markup=False)


def _span(value_s: float) -> str:
    """A time as text, in days if it is long."""
    for size, name in ((86_400.0, "d"), (3_600.0, "h"), (60.0, "min")):
        if value_s >= 2 * size:
            return f"{value_s / size:,.1f} {name}"
    return seconds(value_s)
