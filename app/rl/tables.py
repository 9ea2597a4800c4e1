"""Post-training as tables."""

from __future__ import annotations

from rich.console import Console

from app.answers.tables.estimate import print_assumptions
from app.rl.schemas import RlDocument, RlPlan, RlSearchDocument, RlValidationDocument
from app.text.quantities import count, gibibytes, percent, seconds
from app.text.terminal import plain_table


def print_validation(console: Console, document: RlValidationDocument, *, with_rows: bool) -> None:
    """Errors by kind, and the rows where they are asked for."""
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
        console.print(f"\n{len(refused)} refused:", markup=False)
        for row in refused if with_rows else refused[:8]:
            console.print(f"  {row.id}: {row.refused}", markup=False)


def print_rl(console: Console, document: RlDocument) -> None:
    """A step for a person."""
    print_assumptions(console, document.assumptions, document.warnings)
    _print_step(console, document)


def print_rl_search(console: Console, document: RlSearchDocument) -> None:
    """The placements of a job for a person."""
    print_assumptions(console, document.assumptions, document.warnings)
    cut = "" if document.stopped_by is None else f" in {document.num_done} of {document.num_splits} splits, then cut"
    console.print(f"{document.priced:,} choices priced{cut}.", markup=False)
    for title, plans in (("Fastest", document.plans), ("Throughput against staleness", document.pareto)):
        table = plain_table(
            ">", "placement", ">roll out", ">train", ">stale", "training", "instance", ">step", ">tokens/s", title=title
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
                count(plan.tokens_per_s),
            )
        console.print(table)
        console.print()
    for sentence in document.refused:
        console.print(f"Refused: {sentence}", markup=False)
    _print_step(console, document.best)


def _layout(plan: RlPlan) -> str:
    chosen = plan.strategy
    text = f"tp{chosen.tp} pp{chosen.pp} ep{chosen.ep} dp{chosen.dp}"
    return text if plan.fits else f"{text} (too large)"


def _print_step(console: Console, document: RlDocument) -> None:
    console.print(
        f"{seconds(document.step_time_s)} a step ({seconds(document.step_time_low_s)} to {seconds(document.step_time_high_s)}), "
        f"{count(document.tokens_per_s)} tokens/s, {document.tokens_per_s_per_device:,.1f} for each of "
        f"{document.num_devices:,} devices "
        f"({document.tokens_per_s_definition}).",
        style="bold",
        markup=False,
    )
    table = plain_table("task", ">seconds", "waits for")
    for name, value in document.parts_s.items():
        table.add_row(name.replace("_", " "), seconds(value), document.blocked_by.get(name, "").replace("_", " "))
    console.print(table)
    rolled, moved = document.rollout, document.reshard
    console.print(
        f"\nRollout: {document.rollout_layout.instances} instances of "
        f"{document.rollout_layout.instance_devices} devices, "
        f"{rolled.in_flight:,} in flight, {rolled.preemptions:,} preemptions; answers of {rolled.mean_length:,.0f} tokens, "
        f"the longest "
        f"{rolled.longest_length:,}, {percent(rolled.truncated_fraction)} cut off; "
        f"the last tenth takes {seconds(rolled.tail_s)} alone.",
        markup=False,
    )
    console.print(
        f"Weights: {gibibytes(moved.device_bytes)} to a device in {seconds(moved.seconds)} ({moved.engine}; the wire alone "
        f"{seconds(moved.wire_s)}), offload {seconds(moved.offload_s)}, load {seconds(moved.onload_s)}; the sleeping side leaves "
        f"{gibibytes(moved.residual_bytes)}.",
        markup=False,
    )
    busy = ", ".join(f"{pool} {percent(share, 0)}" for pool, share in document.utilisation.items())
    console.print(f"Busy: {busy}.", markup=False)
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
        said = "; ".join(launch.refused) if launch.refused else f"--save-dir writes {launch.file_name}."
        console.print(f"{launch.framework} {launch.release}: {said}", markup=False, highlight=False)
