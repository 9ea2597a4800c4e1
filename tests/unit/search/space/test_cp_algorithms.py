"""Algorithms of context parallelism that a space tries."""

from __future__ import annotations

import pytest

from cost_models.shapes.strategy import CpAlgo
from search.space.allowed_names import absent_algorithms
from search.space.limits import limits_from_mapping
from search.space.search_space import search_space
from tests.search_workloads import workload


@pytest.mark.parametrize(
    ("target", "gathers"), [("any", False), ("mindspeed-llm", False), ("mindformers", True), ("megatron-lm", True)]
)
def test_keys_are_gathered_where_the_target_does(target: str, gathers: bool) -> None:
    hardware = "h100-sxm-80gb" if target == "megatron-lm" else "atlas-800t-a2"
    assert (CpAlgo.KV_ALLGATHER in search_space(workload(hardware=hardware, target=target)).cp_algo) is gathers


@pytest.mark.parametrize(
    ("target", "asked", "said"),
    [
        (
            "mindspeed-llm",
            ["kv_allgather"],
            ["search.cp_algo: mindspeed-llm@master has no kv_allgather, so that no plan has cp above 1."],
        ),
        (
            "mindspeed-llm",
            ["ring", "kv_allgather"],
            ["search.cp_algo: kv_allgather has no effect: mindspeed-llm@master has none."],
        ),
        ("torchtitan", ["ulysses"], ["search.cp_algo: torchtitan@0.2.2 has no ulysses, so that no plan has cp above 1."]),
        ("torchtitan", ["kv_allgather"], []),
        ("any", ["ulysses"], []),
    ],
)
def test_a_cp_algorithm_that_the_target_lacks_is_named(target: str, asked: list[str], said: list[str]) -> None:
    hardware = "h100-sxm-80gb" if target == "torchtitan" else "atlas-800t-a2"
    limits = limits_from_mapping({"cp_algo": asked})
    job = workload(hardware=hardware, target=target)
    assert list(absent_algorithms(job, limits.cp_algo or ())) == said
