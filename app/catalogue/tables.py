"""Models and hardware profiles as tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from app.language.choice import said
from app.text.terminal import plain_table
from calibration.measurements.op_summaries import OperatorRate
from documents.quantities import GIB, count, percent
from documents.sentences import Sentence, word
from hardware_profiles.schema import HardwareProfile

SHOWN_RATES = 12


def models_table(rows: list[dict[str, Any]]) -> Table:
    table = plain_table("name", ">parameters", ">active", ">layers", ">hidden", "heads", "experts")
    table.columns[0].no_wrap = True
    for row in rows:
        experts = Sentence("{} of {}", row["top_k"], row["num_experts"]) if row["num_experts"] else ""
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


def _peak(profile: HardwareProfile) -> str:
    precision = next((name for name in ("bf16", "fp16") if name in profile.matmul_flops_per_s), None)
    return Sentence("{:,.0f} {}", profile.matmul_flops_per_s[precision] / 1e12, precision) if precision else ""


def hardware_table(profiles: list[HardwareProfile]) -> Table:
    table = plain_table("name", "chip", ">TFLOPS", ">HBM GiB", ">node", ">in GB/s", ">out GB/s", "status")
    table.columns[0].no_wrap = True
    for profile in profiles:
        table.add_row(
            profile.name,
            profile.device,
            _peak(profile),
            f"{profile.hbm_bytes / GIB:,.0f}",
            str(profile.devices_per_node),
            f"{profile.tiers[0].bandwidth_bytes_per_s / 1e9:,.4g}",
            f"{profile.tiers[-1].bandwidth_bytes_per_s / 1e9:,.4g}",
            word(profile.status),
        )
    return table


def print_rates(
    console: Console, profile: HardwareProfile, rates: Sequence[OperatorRate], written: Mapping[str, OperatorRate]
) -> None:
    """The operators with most work, and which rates went into the profile."""
    table = plain_table("operator", "shapes", ">rows", ">TFLOPS", ">of peak")
    for rate in rates[:SHOWN_RATES]:
        peak = profile.matmul_flops_per_s.get(rate.precision)
        share = percent(rate.flops_per_s / peak) if peak else ""
        kind = Sentence("{} {}", word(rate.kind), rate.precision)
        shapes = ";".join(rate.shapes.split(";")[:2])
        table.add_row(kind, Text(shapes), str(rate.count), f"{rate.flops_per_s / 1e12:,.1f}", share)
    console.print(table)
    for precision, rate in written.items():
        console.print(f"achievable_matmul_flops_per_s.{precision} = {rate.flops_per_s / 1e12:,.4g} TFLOPS", markup=False)
    if not written:
        console.print(
            Sentence("No matmul is large enough to say what the cores reach: the profile keeps its rates."), markup=False
        )


def print_profile(console: Console, profile: HardwareProfile) -> None:
    console.print(
        Sentence("{}: {}, {}", profile.name, Sentence.whole(profile.title), word(profile.status)), style="bold", markup=False
    )
    for note in profile.notes:
        console.print(Padding(Text(said(Sentence.whole(note))), (0, 0, 0, 2)))
    table = plain_table("number", ">value", "unit", "basis", "source")
    for path, stated in profile.provenance.items():
        if ".curves." not in path:
            table.add_row(path, f"{stated.value:,.6g}", stated.unit, word(stated.basis), Sentence.whole(stated.source))
    console.print(table)
    for tier in profile.tiers:
        for curve in tier.curves:
            low, high = curve.message_bytes[0] / 2**20, curve.message_bytes[-1] / 2**20
            console.print(
                Sentence(
                    "measured on {}: {} over {}, {} points, {:,.3g} to {:,.4g} MiB ({})",
                    tier.name,
                    curve.op,
                    curve.group_size,
                    len(curve.time_s),
                    low,
                    high,
                    curve.source,
                ),
                markup=False,
            )
