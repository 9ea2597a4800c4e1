"""A delivery for a person."""

from __future__ import annotations

from rich.console import Console

from app.answers.step_interval import step_ratios
from app.answers.tables.estimate import print_doubts, print_title
from app.goodput.schemas import GoodputDocument
from app.text.terminal import plain_table
from documents.quantities import count, days, figures, percent, seconds
from documents.sentences import Sentence, word

SHOWN_CHANGES = 8
LEAST_GAIN = 5e-4
SURE = 0.8  # probability of the day that is printed


def print_goodput(console: Console, document: GoodputDocument, *, details: bool = False) -> None:
    job, estimate = document.job, document.estimate
    print_title(console, job, document.strategy)
    failing = (
        Sentence("nothing fails") if document.mtbf_s is None else Sentence("an interruption every {}", _span(document.mtbf_s))
    )
    console.print(
        Sentence(
            "{} tokens a day delivered{}: {} of {} tokens/s; {}.",
            count(document.delivered_tokens_per_day),
            _of_step(document, document.delivered_tokens_per_day, grows=False),
            percent(document.effective_time_fraction),
            count(estimate.tokens_per_s),
            failing,
        ),
        markup=False,
    )
    month = document.delivered_tokens_per_day_by_month
    console.print(
        Sentence(
            "Failures alone: of ten months nine deliver {} a day or more, one {} or more.", count(month.p10), count(month.p90)
        )
    )
    if document.days is not None and document.days_with_step is not None:
        found, whole, tokens = document.days, document.days_with_step, count(job["training"]["train_tokens"])
        sure = next(each.days for each in document.sure_by or () if each.probability == SURE)
        console.print(
            Sentence(
                "{} for {} tokens (80 %, step and failures: {} to {} d); 80 % sure by {}. Failures alone: {} to {}.",
                days(found.mean),
                tokens,
                figures(whole.p10),
                figures(whole.p90),
                days(sure),
                days(found.p10),
                days(found.p90),
            )
        )
    if document.loss_spikes is not None and document.loss_spikes.number is not None:
        spikes = document.loss_spikes
        console.print(
            Sentence(
                "Loss spikes: {} over all tokens; each goes back by {} or more, and {} tokens of data are left out.",
                figures(document.loss_spikes.number),
                _span(spikes.rollback_s),
                count(spikes.skipped_tokens or 0.0),
            ),
            markup=False,
        )
    _print_checkpoint(console, document)
    console.print()
    table = plain_table("from the peak to what is delivered", ">tokens a day", ">left")
    for stage in document.waterfall:
        table.add_row(word(stage.stage), count(stage.tokens_per_day), percent(stage.of_the_one_before, 2))
    table.add_row(Sentence("delivered"), count(document.delivered_tokens_per_day), "", style="bold")
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
            table.add_row(plan.strategy.name, seconds(plan.step_time_s), percent(plan.effective_time_fraction), delivered)
        console.print(table)
    print_doubts(console, document.assumptions, document.warnings, in_full=details)


def _print_checkpoint(console: Console, document: GoodputDocument) -> None:
    found = document.checkpoint
    console.print(
        Sentence(
            "A checkpoint of {:,.2f} TB every {} blocks {}, is safe {} later and loads in {}; {:,} replicas; "
            "{} spare nodes for {:,.1f} in repair.",
            found.total_bytes / 1e12,
            _span(found.interval_s),
            seconds(found.blocking_s),
            _span(found.drain_s),
            _span(found.load_s),
            document.replicas,
            document.site["spares"],
            document.nodes_in_repair,
        ),
        markup=False,
    )


def _print_costs(console: Console, document: GoodputDocument) -> None:
    energy, cost = document.energy, document.cost
    if energy is not None or cost is not None:
        console.print()
    if energy is not None:
        total = "" if energy.kwh is None else Sentence(", {:,.0f} MWh for all tokens", energy.kwh / 1e3)
        co2 = "" if energy.co2_kg is None else f", {energy.co2_kg / 1e3:,.0f} t CO2"
        console.print(
            Sentence(
                "{:,.2f} MW in the mean, {:,.0f} kWh a billion tokens{}{}{}.",
                energy.site_power_w / 1e6,
                energy.kwh_per_billion_tokens,
                _of_step(document, energy.kwh_per_billion_tokens),
                total,
                co2,
            )
        )
    if cost is not None:
        total = "" if cost.usd is None else Sentence(", {:,.2f} M for all tokens", cost.usd / 1e6)
        console.print(
            Sentence(
                "{:,.2f} M USD a trillion tokens{}{} ({}).",
                cost.usd_per_trillion_tokens / 1e6,
                _of_step(document, cost.usd_per_trillion_tokens / 1e6),
                total,
                cost.basis,
            ),
            markup=False,
        )


def _of_step(document: GoodputDocument, value: float, *, grows: bool = True) -> str:
    """The interval of a number that grows, or shrinks, with the step time."""
    ratios = step_ratios(vars(document.estimate))
    if ratios is None:
        return ""
    ends = [value * ratio if grows else value / ratio for ratio in (ratios if grows else reversed(ratios))]
    return Sentence(
        " (80 % of the step: {} to {})", *(count(float(f"{end:.3g}")) if end >= 1e4 else figures(end) for end in ends)
    )


def _span(value_s: float) -> str:
    """A time as text, in days if it is long."""
    for size, name in ((86_400.0, "d"), (3_600.0, "h"), (60.0, "min")):
        if value_s >= 2 * size:
            return Sentence("{:,.1f} {}", value_s / size, name)
    return seconds(value_s)
