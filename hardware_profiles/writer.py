"""Writes a profile in its YAML form, to store it with a study or to edit it into a user's own profile."""

from __future__ import annotations

from typing import Any

from hardware_profiles.schema import HardwareProfile, NetworkTier


def profile_document(profile: HardwareProfile) -> dict[str, Any]:
    """The mapping that ``loader.parse_profile`` reads back to an equal profile, with each number as its source states it."""
    numbers = _stated_numbers(profile)
    tiers = numbers.pop("tiers")
    return {
        "name": profile.name,
        "title": profile.title,
        "family": profile.family,
        "status": str(profile.status),
        "device": profile.device,
        **numbers,
        "sequential_tiers": profile.sequential_tiers,
        "tiers": [_tier(tier, tiers[str(index)]) for index, tier in enumerate(profile.tiers)],
        "notes": list(profile.notes),
    }


def _tier(tier: NetworkTier, numbers: Any) -> Any:
    curves = numbers.pop("curves", {})
    result: dict[str, Any] = {"name": tier.name, "wiring": str(tier.wiring), **numbers}
    if tier.curves:
        result["curves"] = [_curve(curve.op, curves[str(index)]) for index, curve in enumerate(tier.curves)]
    return result


def _curve(op: str, numbers: Any) -> Any:
    result: dict[str, Any] = {"op": op, "group_size": numbers["group_size"]}
    for key in ("message_bytes", "time_s"):
        points = numbers[key]
        blocks = [block for block in points.values() if isinstance(block, dict)]
        result[key] = {**blocks[0], "value": [block["value"] for block in blocks]}
    return result


def _stated_numbers(profile: HardwareProfile) -> dict[str, Any]:
    """The provenance as nested mappings: each dotted path leads to its number."""
    root: dict[str, Any] = {}
    for path, stated in profile.provenance.items():
        *parents, last = path.split(".")
        here = root
        for part in parents:
            inner = here.setdefault(part, {})
            here = inner
        block: dict[str, Any] = {
            "value": stated.value,
            "unit": stated.unit,
            "source": stated.source,
            "basis": str(stated.basis),
        }
        here[last] = {**block, "note": stated.note} if stated.note else block
    return root
