"""Hardware profiles as tables and documents."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.table import Table

from app.reports.quantities import gibibytes, rate
from app.reports.terminal import plain_table
from hardware_profiles.schema import HardwareProfile


def summary(profile: HardwareProfile) -> dict[str, Any]:
    return {
        "name": profile.name,
        "title": profile.title,
        "family": profile.family,
        "status": str(profile.status),
        "device": profile.device,
        "matmul_flops_per_s": dict(profile.matmul_flops_per_s),
        "hbm_bytes": profile.hbm_bytes,
        "hbm_bytes_per_s": profile.hbm_bytes_per_s,
        "devices_per_node": profile.devices_per_node,
        "tiers": [
            {
                "name": tier.name,
                "domain_devices": tier.domain_devices,
                "bandwidth_bytes_per_s": tier.bandwidth_bytes_per_s,
                "latency_s": tier.latency_s,
            }
            for tier in profile.tiers
        ],
    }


def details(profile: HardwareProfile) -> dict[str, Any]:
    """Every field; ``provenance`` holds each number as its source states it."""
    provenance = {path: {**asdict(stated), "basis": str(stated.basis)} for path, stated in profile.provenance.items()}
    return {
        **summary(profile),
        "achievable_matmul_flops_per_s": dict(profile.achievable_matmul_flops_per_s),
        "vector_flops_per_s": profile.vector_flops_per_s,
        "num_matmul_cores": profile.num_matmul_cores,
        "usable_hbm_bytes": profile.usable_hbm_bytes,
        "host_link_bytes_per_s": profile.host_link_bytes_per_s,
        "context_bytes": profile.context_bytes,
        "communicator_bytes": profile.communicator_bytes,
        "sequential_tiers": profile.sequential_tiers,
        "power_w": profile.power_w,
        "price_usd": profile.price_usd,
        "notes": list(profile.notes),
        "provenance": provenance,
    }


def _peak(profile: HardwareProfile) -> str:
    precision = next((name for name in ("bf16", "fp16") if name in profile.matmul_flops_per_s), None)
    return f"{profile.matmul_flops_per_s[precision] / 1e12:,.0f} {precision}" if precision else ""


def list_table(profiles: list[HardwareProfile]) -> Table:
    table = plain_table("name", "device", ">TFLOPS", ">HBM", ">node", ">in node", ">between", "status")
    for profile in profiles:
        inner, outer = profile.tiers[0], profile.tiers[-1]
        table.add_row(
            profile.name,
            profile.device,
            _peak(profile),
            f"{profile.hbm_bytes / 2**30:,.0f} GiB",
            str(profile.devices_per_node),
            rate(inner.bandwidth_bytes_per_s, "B/s"),
            rate(outer.bandwidth_bytes_per_s, "B/s"),
            str(profile.status),
        )
    return table


def print_profile(console: Console, profile: HardwareProfile) -> None:
    console.print(f"[bold]{profile.name}[/bold]: {profile.title}, {profile.device}, {profile.status}", highlight=False)
    for note in profile.notes:
        console.print(f"  {note}", markup=False)
    table = plain_table("number", ">value", "unit", "basis", "source")
    for path, stated in profile.provenance.items():
        table.add_row(path, f"{stated.value:,.6g}", stated.unit, str(stated.basis), stated.source)
    console.print(table)
    console.print(f"usable memory of a device {gibibytes(profile.usable_hbm_bytes)} of {gibibytes(profile.hbm_bytes)}")
