"""HybridEP, the back end of two-level dispatch where an NVLink domain is larger than DeepEP's eight devices."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cost_models.shapes.strategy import Dispatcher, StrategyBatch
from cost_models.shapes.switches import Feature
from cost_models.shapes.workload import Workload
from frameworks.launch import launch_block
from frameworks.legality import violations
from frameworks.megatron_lm.dialect import CORE_0_19
from frameworks.megatron_lm.job_reader import read, read_job
from tests.unit.frameworks.legality_cases import NVIDIA, RACKS, with_features
from tests.unit.frameworks.legality_workloads import MIXTURE_PLAN

BACKEND = "--moe-flex-dispatcher-backend"
STAGED = replace(MIXTURE_PLAN, dispatcher=Dispatcher.TWO_LEVEL)


def on(workload: Workload, target: str) -> Workload:
    return replace(workload, software=replace(workload.software, target=target))


def written(workload: Workload) -> dict[str, Any]:
    return launch_block(on(workload, "megatron-lm@0.19"), STAGED)["megatron-lm"]


@pytest.mark.parametrize(("workload", "backend"), [(NVIDIA, "deepep"), (RACKS, "hybridep")])
def test_a_file_names_the_back_end_that_runs_on_the_devices(workload: Workload, backend: str) -> None:
    block = written(workload)
    arguments = block["arguments"]
    assert arguments[arguments.index(BACKEND) + 1] == backend
    assert read(CORE_0_19, arguments, workload.cluster.num_devices).dispatcher is Dispatcher.TWO_LEVEL


def test_hybridep_is_told_the_ranks_of_a_domain() -> None:
    """32 expert-parallel ranks over domains of 16."""
    assert written(RACKS)["environment"]["NUM_OF_HYBRID_EP_RANKS_PER_NVLINK_DOMAIN"] == "16"
    assert "USE_MNNVL" not in written(NVIDIA)["environment"]


def test_0_12_has_no_hybridep() -> None:
    assert "megatron_deepep_devices" in {each.rule for each in violations(on(RACKS, "megatron-lm@0.12"), STAGED)}
    assert not violations(on(RACKS, "megatron-lm@0.19"), STAGED)


def test_hybridep_pads_to_capacity_and_deepep_does_not() -> None:
    plan = with_features(STAGED, Feature.MOE_PAD_TO_CAPACITY)
    rule = CORE_0_19.by_name["megatron_deepep_capacity"]
    capped = [
        replace(each, model=replace(each.model, moe=replace(each.model.moe, capacity_factor=1.5))) for each in (NVIDIA, RACKS)
    ]
    assert [bool(rule.violates(each, StrategyBatch.of([plan]))[0]) for each in capped] == [True, False]


def test_nccls_back_end_is_not_priced() -> None:
    arguments = list(written(RACKS)["arguments"])
    arguments[arguments.index(BACKEND) + 1] = "ncclep"
    unread = read_job(CORE_0_19, arguments, RACKS.cluster.num_devices).unread
    assert [each.name for each in unread] == ["moe-flex-dispatcher-backend"]
