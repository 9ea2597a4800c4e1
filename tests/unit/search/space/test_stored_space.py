from __future__ import annotations

import json
from typing import Any

import pytest

from search.errors import SearchError
from search.space.limits import limits_from_mapping
from search.space.search_space import search_space
from search.space.stored_space import space_from_mapping, space_to_mapping
from tests.search_workloads import DENSE, MOE, workload


@pytest.mark.parametrize(
    ("model", "limits"),
    [
        (DENSE, {}),
        (MOE, {}),
        (MOE, {"tp": {"max": 4}, "mc2": [True, False], "swap_optimizer": [True, False], "recompute": ["block:30%", "full:2"]}),
        (
            MOE,
            {
                "schedule": ["zbv", "dualpipev"],
                "microbatch_group_size_per_vp_stage": [0, 8],
                "dualpipev_dw_detach": [True, False],
            },
        ),
        (MOE, {"cp_algo": "hybrid", "zero_stage": [0, 3], "schedule": ["1f1b"], "sequence_parallel": [False, True]}),
    ],
)
def test_a_space_survives_as_json_in_every_value_and_its_order(model: Any, limits: dict[str, Any]) -> None:
    space = search_space(workload(model, num_devices=64), limits_from_mapping(limits))
    assert space_from_mapping(json.loads(json.dumps(space_to_mapping(space)))) == space


def test_a_space_of_another_making_is_refused() -> None:
    document = space_to_mapping(search_space(workload(DENSE)))
    with pytest.raises(SearchError, match="zigzag"):
        space_from_mapping({**document, "schedule": ["zigzag"]})
    with pytest.raises(SearchError, match="tp"):
        space_from_mapping({name: values for name, values in document.items() if name != "tp"})
