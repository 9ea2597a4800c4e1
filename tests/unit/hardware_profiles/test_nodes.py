"""Nodes of fewer devices than a profile's: which tiers shrink, and which nodes are refused."""

import pytest

from hardware_profiles import catalogue
from hardware_profiles.nodes import in_nodes_of
from hardware_profiles.schema import HardwareProfile, ProfileError


def joined(profile: HardwareProfile) -> list[tuple[str, int | None]]:
    return [(tier.name, tier.domain_devices) for tier in profile.tiers]


def test_a_node_behind_a_switch_keeps_its_rates() -> None:
    usual = catalogue.profile("a100-sxm-80gb")
    small = in_nodes_of(usual, 4)
    assert small.devices_per_node == 4
    assert joined(small) == [("nvlink", 4), ("infiniband", None)]
    assert small.tiers[0].bandwidth_bytes_per_s == usual.tiers[0].bandwidth_bytes_per_s
    assert small.tiers[1] == usual.tiers[1]


def test_a_mesh_loses_links_and_the_curves_of_larger_groups() -> None:
    usual = catalogue.profile("atlas-800t-a2")
    small = in_nodes_of(usual, 4)
    assert small.tiers[0].bandwidth_bytes_per_s == pytest.approx(3 * 18.3e9)
    assert small.tiers[0].link_bytes_per_s == usual.tiers[0].link_bytes_per_s
    assert [curve.group_size for curve in usual.tiers[0].curves] == [8]
    assert small.tiers[0].curves == ()


def test_a_node_of_one_device_has_the_outer_network_alone() -> None:
    assert joined(in_nodes_of(catalogue.profile("h100-sxm-80gb"), 1)) == [("infiniband", None)]


def test_a_node_as_large_as_an_inner_group_has_that_tier_alone() -> None:
    supernode = catalogue.profile("atlas-900-a3-superpod")
    assert joined(in_nodes_of(supernode, 2)) == [("sio", 2), ("ub", 768), ("roce", None)]
    assert joined(in_nodes_of(supernode, 8)) == [("sio", 2), ("hccs", 8), ("ub", 768), ("roce", None)]


def test_a_rack_stays_whatever_its_nodes_hold() -> None:
    small = in_nodes_of(catalogue.profile("gb200-nvl72"), 2)
    assert (small.devices_per_node, joined(small)[0]) == (2, ("nvlink", 72))


@pytest.mark.parametrize("name", catalogue.names())
def test_the_usual_node_changes_nothing(name: str) -> None:
    profile = catalogue.profile(name)
    assert in_nodes_of(profile, profile.devices_per_node) is profile


@pytest.mark.parametrize(("name", "devices"), [("h100-sxm-80gb", 16), ("atlas-900-a3-superpod", 5), ("atlas-900-a3-superpod", 1)])
def test_a_node_that_cannot_be_is_refused(name: str, devices: int) -> None:
    with pytest.raises(ProfileError, match=rf"devices_per_node: {devices} is not possible; a node of {name} has"):
        in_nodes_of(catalogue.profile(name), devices)
