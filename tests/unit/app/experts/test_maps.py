"""Maps are those of the frameworks, and are read back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.experts.maps import eplb_map, mindspeed_map, placement_of, read_map, write_maps
from documents.errors import InputError
from search.experts.placement import Placement
from tests.unit.app.experts.test_counts import MODEL

# Two layers of four experts on two devices, with a copy of expert 0 on both.
PLACEMENT = Placement(np.array([[[0, 1, 2], [0, 2, 3]], [[0, 1, 2], [0, 1, 3]]]))


def test_a_map_of_mindspeed_lists_the_experts_of_each_device() -> None:
    assert mindspeed_map(PLACEMENT) == {
        "moe_layer_count": 2,
        "layer_list": [
            {
                "layer_id": layer,
                "device_count": 2,
                "device_list": [{"device_id": 0, "device_expert": [0, 1, 2]}, {"device_id": 1, "device_expert": last}],
            }
            for layer, last in enumerate(([0, 2, 3], [0, 1, 3]))
        ],
    }


def test_a_map_of_eplb_is_what_rebalance_experts_returns() -> None:
    assert eplb_map(PLACEMENT, 4) == {
        "physical_to_logical_map": [[0, 1, 2, 0, 2, 3], [0, 1, 2, 0, 1, 3]],
        "logical_to_physical_map": [[[0, 3], [1, -1], [2, 4], [5, -1]], [[0, 3], [1, 4], [2, -1], [5, -1]]],
        "expert_count": [[2, 1, 2, 1], [2, 2, 1, 1]],
    }


def test_both_maps_are_read_back(tmp_path: Path) -> None:
    for path in write_maps(tmp_path / "new" / "maps", PLACEMENT, 4):
        np.testing.assert_array_equal(read_map(path, MODEL, 2).experts, PLACEMENT.experts)


def changed(change: dict[str, Any]) -> dict[str, Any]:
    return {**json.loads(json.dumps(eplb_map(PLACEMENT, 4))), **change}


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        ({}, "has neither"),
        ({"layer_list": 3}, "layer_list: 3"),
        ({"layer_list": [{"device_list": [{"device_expert": [0, 1]}]}] * 2}, "layer 0: give 2 devices"),
        (changed({"physical_to_logical_map": [[0, 1, 2, 3]]}), "1 MoE layers, but tiny has 2"),
        (changed({"physical_to_logical_map": [[0, 1, 2, 3, 0]] * 2}), "5 slots do not divide among 2 ranks"),
        (changed({"physical_to_logical_map": [[0, 1, 2, 4]] * 2}), "layer 0, device 1: 4 is not allowed"),
        (changed({"physical_to_logical_map": [[0, 1, 2, 3], [0, 1, 2.5, 3]]}), "layer 1, device 1: 2.5"),
        (changed({"physical_to_logical_map": [[0, 0, 2, 3]] * 2}), "layer 0, device 0: an expert occurs twice"),
        (changed({"physical_to_logical_map": [[0, 1, 2, 0]] * 2}), "layer 0: expert 3 is on no device"),
    ],
)
def test_maps_of_other_models_and_groups_are_refused(document: dict[str, Any], reason: str) -> None:
    with pytest.raises(InputError) as refused:
        placement_of(document, MODEL, 2, "placement")
    assert reason in str(refused.value)


def test_a_folder_that_cannot_be_made_is_bad_input(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(InputError, match="--write-maps"):
        write_maps(tmp_path / "file" / "maps", PLACEMENT, 4)
