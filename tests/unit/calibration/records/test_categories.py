from typing import Any

import pytest

from calibration.records.categories import CATEGORIES, run_category

FULL_DENSE: dict[str, Any] = {
    "framework": "MindSpeed-LLM",
    "num_layers": 32,
    "hidden_size": 4096,
    "is_moe": False,
    "seq_length": 4096,
    "num_devices": 8,
    "devices_per_node": 8,
}


@pytest.mark.parametrize(
    ("changes", "category"),
    [
        ({}, "dense_single"),
        ({"num_devices": 16}, "dense_multi"),
        ({"num_devices": 16, "devices_per_node": 16}, "dense_single"),
        ({"seq_length": 32_767}, "dense_single"),
        ({"seq_length": 32_768, "num_devices": 64}, "long"),
        ({"is_moe": True, "seq_length": 65_536}, "moe"),
        ({"framework": "MindSpeed-LLM CI", "is_moe": True}, "slice"),
        ({"framework": "magic"}, "dense_single"),
        ({"num_layers": 16}, "slice"),
        ({"num_layers": 17}, "dense_single"),
        ({"num_layers": 16, "hidden_size": 4095}, "dense_single"),
    ],
)
def test_the_first_category_that_applies_counts(changes: dict[str, Any], category: str) -> None:
    assert run_category(**{**FULL_DENSE, **changes}) == category
    assert category in CATEGORIES
