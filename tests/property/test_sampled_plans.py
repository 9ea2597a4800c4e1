"""Lists of full-size jobs against random plans of their spaces; ``SAMPLED_PLANS`` is the number of plans for each job."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

from cost_models.constants import prior_constants
from search.space.search_space import search_space
from tests.oracle.sampled_plans import job, proved_list, sampled

NUMBER = int(os.environ.get("SAMPLED_PLANS", "2000"))
JOBS = (
    ("llama-2-70b", "atlas-800t-a2", 64, 256, "mindspeed-llm"),
    ("llama-3.1-70b", "h100-sxm-80gb", 64, 512, "megatron-lm@0.12"),
    ("qwen3-30b-a3b", "atlas-800t-a2", 64, 512, "mindformers"),
    ("deepseek-v3", "atlas-800t-a2", 256, 1024, "mindspeed-llm"),
    ("nemotron-3-nano-30b-a3b", "h100-sxm-80gb", 64, 512, "megatron-lm@0.19"),
)


@pytest.mark.slow
@pytest.mark.parametrize("case", JOBS, ids=[f"{case[0]}-{case[-1]}" for case in JOBS])
def test_no_random_plan_is_faster_than_the_list(case: tuple[str, str, int, int, str]) -> None:
    workload = job(*case)
    space, constants = search_space(workload), prior_constants(workload.cluster.profile.family)
    found = sampled(workload, space, constants, proved_list(workload, space, constants, 20), number=NUMBER)
    assert found.num_fitting > NUMBER // 100
    assert not found.faster


def test_a_list_that_is_too_slow_is_refuted() -> None:
    workload = job("qwen3-8b", "atlas-800t-a2", 8, 64, "mindspeed-llm")
    space, constants = search_space(workload), prior_constants(workload.cluster.profile.family)
    lattice = proved_list(workload, replace(space, recompute=space.recompute[-1:]), constants, 3)
    assert sampled(workload, space, constants, lattice, number=1000).faster
