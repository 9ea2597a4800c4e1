"""Post-training as tables."""

from __future__ import annotations

from rich.console import Console

from app.answers.tables.estimate import print_doubts
from app.rl.schemas import RlDocument, RlPlan, RlSearchDocument, RlSwitchSeconds, RlValidationDocument
from app.text.terminal import plain_table
from documents.quantities import count, gibibytes, percent, seconds, span
from documents.sentences import Sentence, joined, word


def print_validation(console: Console, document: RlValidationDocument, *, with_rows: bool) -> None:
    """Print errors by kind, and the rows on request."""
    table = plain_table("kind", ">predicted", ">median error", ">mean", ">bias", ">pairs", ">in order")
    for kind, found in document.summary.kinds.items():
        table.add_row(
            kind,
            str(found.count),
            *(
                "-" if value is None else percent(value)
                for value in (found.median_abs_error_fraction, found.mean_abs_error_fraction, found.bias_fraction)
            ),
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
        console.print(Sentence("\n{} refused:", len(refused)), markup=False)
        for row in refused if with_rows else refused[:8]:
            console.print(Sentence("  {}: {}", row.id, row.refused), markup=False)


def print_rl(console: Console, document: RlDocument, *, details: bool = False) -> None:
    """A step for a person."""
    _print_step(console, document)
    print_doubts(console, document.assumptions, document.warnings, in_full=details)


def print_rl_search(console: Console, document: RlSearchDocument, *, details: bool = False) -> None:
    """The placements of a job for a person."""
    cut = "" if document.stopped_by is None else Sentence(" in {} of {} splits, then cut", document.num_done, document.num_splits)
    console.print(Sentence("{:,} choices priced{}.", document.priced, cut), markup=False)
    for title, plans in ((Sentence("Fastest"), document.plans), (Sentence("Throughput against staleness"), document.pareto)):
        table = plain_table(
            ">",
            "placement",
            ">roll out",
            ">train",
            ">stale",
            "training",
            "instance",
            ">step",
            ">switch",
            ">tokens/s",
            title=title,
        )
        for plan in plans:
            table.add_row(
                str(plan.rank),
                plan.placement,
                f"{plan.rollout_devices:,}",
                f"{plan.train_devices:,}",
                str(plan.staleness_steps),
                _layout(plan),
                f"tp{plan.rollout.tp} ep{plan.rollout.ep}" if plan.rollout.ep > 1 else f"tp{plan.rollout.tp}",
                seconds(plan.step_time_s),
                "" if plan.switch_s is None else seconds(plan.switch_s),
                count(plan.tokens_per_s),
            )
        console.print(table)
        console.print()
    for sentence in document.refused:
        console.print(Sentence("Refused: {}", sentence), markup=False)
    _print_step(console, document.best)
    print_doubts(console, document.assumptions, document.warnings, in_full=details)


def _layout(plan: RlPlan) -> str:
    chosen = plan.strategy
    text = f"tp{chosen.tp} pp{chosen.pp} ep{chosen.ep} dp{chosen.dp}"
    return text if plan.fits else Sentence("{} (too large)", text)


def _print_step(console: Console, document: RlDocument) -> None:
    console.print(
        Sentence(
            "{} a step ({} to {}), {} tokens/s, {:,.1f} for each of {:,} devices ({}).",
            seconds(document.step_time_s),
            seconds(document.step_time_low_s),
            seconds(document.step_time_high_s),
            count(document.tokens_per_s),
            document.tokens_per_s_per_device,
            document.num_devices,
            document.tokens_per_s_definition,
        ),
        style="bold",
        markup=False,
    )
    table = plain_table("task", ">seconds", "waits for")
    for name, value in document.parts_s.items():
        table.add_row(word(name), seconds(value), word(document.blocked_by.get(name, "")))
    console.print(table)
    trained = document.strategy
    console.print(
        Sentence(
            "\nTraining: tp{} pp{} vpp{} cp{} ep{} dp{}, micro batch {}, ZeRO-{}, {}.",
            trained.tp,
            trained.pp,
            trained.vpp,
            trained.cp,
            trained.ep,
            trained.dp,
            trained.micro_batch_size,
            trained.zero_stage,
            Sentence("recompute") if trained.recompute else Sentence("no recompute"),
        ),
        markup=False,
    )
    rolled = document.rollout
    console.print(
        Sentence(
            "Rollout: {} instances of "
            "{} devices, "
            "{:,} in flight, {:,} preemptions; answers of {:,.0f} tokens, "
            "the longest "
            "{:,}, {} cut off; "
            "the last tenth takes {} alone.",
            document.rollout_layout.instances,
            document.rollout_layout.instance_devices,
            rolled.in_flight,
            rolled.preemptions,
            rolled.mean_length,
            rolled.longest_length,
            percent(rolled.truncated_fraction),
            seconds(rolled.tail_s),
        ),
        markup=False,
    )
    _print_switches(console, document)
    busy = joined(", ", (Sentence("{} {}", pool, percent(share, 0)) for pool, share in document.utilisation.items()))
    console.print(Sentence("Busy: {}.", busy), markup=False)
    if document.variants:
        changed = plain_table("change", ">step", ">tokens/s", ">gain")
        for variant in document.variants:
            changed.add_row(
                variant.change, seconds(variant.step_time_s), count(variant.tokens_per_s), f"{variant.gain_fraction:+.1%}"
            )
        console.print()
        console.print(changed)
    console.print()
    for launch in document.launches:
        said = (
            joined("; ", (reason.rstrip(".") for reason in launch.refused))
            if launch.refused
            else Sentence("--save-dir writes {}.", launch.file_name)
        )
        console.print(Sentence("{} {}: {}", launch.framework, launch.release, said), markup=False, highlight=False)


def _print_switches(console: Console, document: RlDocument) -> None:
    """Both changes of layout by part, and the links of the weights."""
    moved, both = document.reshard, document.switches
    console.print(
        Sentence(
            "Weights: {} to a device in {} ({}; the wire alone {}), offload {}, load {}; the sleeping side leaves {}.",
            gibibytes(moved.device_bytes),
            seconds(moved.seconds),
            moved.engine,
            seconds(moved.wire_s),
            seconds(moved.offload_s),
            seconds(moved.onload_s),
            gibibytes(moved.residual_bytes),
        ),
        markup=False,
    )
    if both is None:
        return
    table = plain_table("change of layout", "part", ">each", ">range", ">the first", ">range", ">bytes of a device", ">count")
    for name, change in (("to rollout", both.to_rollout), ("to train", both.to_train)):
        for part in change.parts:
            table.add_row(
                word(name),
                word(part.part),
                *_with_ranges(part),
                gibibytes(part.device_bytes) if part.device_bytes else "",
                f"{part.count:,}" if part.count else "",
            )
        table.add_row(word(name), word("all"), *_with_ranges(change), "", "")
    console.print()
    console.print(table)
    links = plain_table("weights over", ">busiest device", ">mean device", ">seconds")
    for link in both.links:
        links.add_row(link.tier, gibibytes(link.device_bytes), gibibytes(link.mean_bytes), seconds(link.seconds))
    console.print()
    console.print(links)
    console.print(
        Sentence(
            "Ranks are {}: the busiest device keeps {} of its shard of {}. "
            "Kept communicators hold {} for training, {} for rollout.",
            word(both.rank_order),
            gibibytes(both.kept_bytes),
            gibibytes(both.shard_bytes),
            gibibytes(both.training_communicator_bytes),
            gibibytes(both.rollout_communicator_bytes),
        ),
        markup=False,
    )


def _with_ranges(of: RlSwitchSeconds) -> tuple[str, str, str, str]:
    """Seconds of every change and of the first, each with its range if it has one."""
    each = "" if of.low_s == of.high_s else span(of.low_s, of.high_s)
    first = "" if of.first_low_s == of.first_high_s else span(of.first_low_s, of.first_high_s)
    return seconds(of.seconds), each, seconds(of.first_s), first
