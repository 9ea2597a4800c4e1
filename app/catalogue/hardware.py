"""Hardware profiles as documents."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from app.catalogue.schemas import HardwareDetails, HardwareSummary
from hardware_profiles.schema import HardwareProfile


def summary(profile: HardwareProfile) -> HardwareSummary:
    return HardwareSummary.model_validate(_summary(profile))


def _summary(profile: HardwareProfile) -> dict[str, Any]:
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
                "wiring": str(tier.wiring),
                "domain_devices": tier.domain_devices,
                "bandwidth_bytes_per_s": tier.bandwidth_bytes_per_s,
                "latency_s": tier.latency_s,
            }
            for tier in profile.tiers
        ],
    }


def details(profile: HardwareProfile) -> HardwareDetails:
    """Every field; ``provenance`` holds each number as its source states it."""
    provenance = {path: {**asdict(stated), "basis": str(stated.basis)} for path, stated in profile.provenance.items()}
    document = {
        **_summary(profile),
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
        "collectives": [{"tier": tier.name, **asdict(curve)} for tier in profile.tiers for curve in tier.curves],
        "provenance": provenance,
    }
    return HardwareDetails.model_validate(document)
