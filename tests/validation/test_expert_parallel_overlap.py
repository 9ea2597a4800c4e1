"""Expert-parallel overlap of Megatron-LM: a run that NVIDIA measured, and what each release takes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.calibrations.constants import constants_for
from app.jobs.job import parse_job
from cost_models.shapes.recompute_modules import RecomputeModule
from cost_models.shapes.strategy import ParallelStrategy, Recompute, RecomputeMethod, Schedule, StrategyBatch
from cost_models.shapes.switches import Feature
from cost_models.shapes.workload import Workload
from cost_models.step.composition import estimate
from frameworks.legality import violations
from frameworks.registry import BY_LABEL

GIB = 2**30
MEASURED_STEP_S, MEASURED_ALLOCATED_BYTES = 20.147, 62.166 * GIB  # [megatron-bridge, model card of Qwen3-30B-A3B]


def _plan(target: str) -> tuple[Workload, ParallelStrategy]:
    job = parse_job(
        {
            "model": "qwen3-30b-a3b",
            "cluster": {"hardware": "h100-sxm-80gb", "num_devices": 16},
            "training": {"seq_length": 4096, "global_batch_size": 1024, "precision": "bf16", "router_balance": "forced"},
            "strategy": {
                "ep": 16,
                "micro_batch_size": 1,
                "zero_stage": 1,
                "moe_dispatcher": "two_level",
                "switches": {"moe_comm_overlap": True, "grad_reduce_in_bf16": True},
            },
            "software": {"stack": "megatron-lm", "target": target},
        }
    )
    assert job.strategy is not None
    return job.workload, job.strategy


def test_the_measured_plan_is_priced_and_fits() -> None:
    workload, plan = _plan("megatron-lm@0.19")
    assert violations(workload, plan) == ()
    priced = estimate(workload, StrategyBatch.of([plan]), constants_for(workload))
    assert priced.step_time_s[0] == pytest.approx(MEASURED_STEP_S, rel=0.1)
    assert priced.allocated_peak_bytes[0] == pytest.approx(MEASURED_ALLOCATED_BYTES, rel=0.1)


def test_an_older_release_has_no_such_overlap() -> None:
    workload, plan = _plan("megatron-lm@0.12")
    assert [broken.rule for broken in violations(workload, plan)] == ["megatron_features"]


def test_the_file_sets_the_overlap_and_leaves_the_queues_open() -> None:
    workload, plan = _plan("megatron-lm@0.19")
    launch = BY_LABEL["megatron-lm@0.19"].write(workload, plan)
    assert "--overlap-moe-expert-parallel-comm" in launch.arguments
    assert launch.environment == {"CUDA_DEVICE_MAX_CONNECTIONS": "32"}


@pytest.mark.parametrize(
    "change",
    [
        {"recompute": Recompute.FULL, "recompute_method": RecomputeMethod.UNIFORM, "recompute_num_layers": 1},
        {"recompute": Recompute.SELECTIVE, "recompute_modules": RecomputeModule.MOE},
        {"pp": 2, "dp": 8, "ep": 8, "schedule": Schedule.ONE_F_ONE_B},
    ],
)
def test_what_the_release_asserts_against_is_refused(change: dict[str, object]) -> None:
    workload, plan = _plan("megatron-lm@0.19")
    assert "megatron_ep_overlap" in {broken.rule for broken in violations(workload, replace(plan, **change))}
    alone = replace(plan, features=plan.features & ~Feature.MOE_COMM_OVERLAP, **change)
    assert violations(workload, alone) == ()
