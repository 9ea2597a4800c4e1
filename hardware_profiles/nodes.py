"""A product in nodes of fewer devices than usual: the same devices and network, with a smaller tier inside the node."""

from __future__ import annotations

from typing import Any

from documents.sentences import Sentence
from hardware_profiles.loader import parse_profile
from hardware_profiles.schema import Basis, HardwareProfile, NetworkTier, ProfileError, Wiring
from hardware_profiles.writer import profile_document

SOURCE = "cluster.devices_per_node"


def in_nodes_of(profile: HardwareProfile, devices: int) -> HardwareProfile:
    """The profile with ``devices`` a node; the profile itself if its nodes have as many.

    The tier that joins a node joins fewer devices, in a mesh with fewer links. Measured curves of larger groups are dropped.
    Tiers that span nodes, such as a rack's, stay.

    Raises ``ProfileError`` for a larger node, whose wiring is unknown, and for one that divides a group of an inner tier.
    """
    usual = profile.devices_per_node
    if devices == usual:
        return profile
    joined = [tier.domain_devices or usual for tier in profile.tiers]
    group = max((size for size in joined if size < usual), default=1)
    if devices > usual or devices % group:
        raise ProfileError(
            Sentence(
                "cluster.devices_per_node: {} is not possible; a node of {} has {} devices in groups of {}. "
                "For another node give a profile of your own.",
                devices,
                profile.name,
                usual,
                group,
            )
        )
    document = profile_document(profile)
    count = {"value": devices, "unit": "1", "source": SOURCE, "basis": str(Basis.ASSUMED)}
    tiers = [
        _smaller(tier, written, count) if tier.domain_devices == usual else written
        for tier, written in zip(profile.tiers, document["tiers"], strict=True)
        if tier.domain_devices != usual or devices > group  # else an inner tier, or none, joins all devices of the node
    ]
    return parse_profile({**document, "devices_per_node": count, "tiers": tiers}, profile.name)


def _smaller(tier: NetworkTier, written: dict[str, Any], count: dict[str, Any]) -> dict[str, Any]:
    devices = count["value"]
    result = {**written, "domain_devices": count}
    if tier.wiring is Wiring.MESH and tier.link_bytes_per_s is not None:
        bytes_per_s = min((devices - 1) * tier.link_bytes_per_s, tier.bandwidth_bytes_per_s)
        result["bandwidth_bytes_per_s"] = {**written["bandwidth_bytes_per_s"], "value": bytes_per_s, "unit": "B/s"}
    curves = [curve for curve in written.get("curves", []) if curve["group_size"]["value"] <= devices]
    return {**result, "curves": curves}
