from __future__ import annotations

import json
from dataclasses import replace

import pytest

from cost_models.constants import prior_constants
from cost_models.shapes.flops import model_flops_per_step
from cost_models.shapes.recompute_modules import RecomputeModule
from cost_models.shapes.strategy import CpAlgo, Dispatcher, ParallelStrategy, Recompute, RecomputeMethod, Schedule, StrategyBatch
from cost_models.shapes.switches import Feature
from cost_models.shapes.workload import Software, Workload
from cost_models.step.composition import estimate
from documents.hashing import fingerprint
from hardware_profiles.schema import CollectiveCurve
from search.plans.plan import PRICED_PARTS, estimates_to_mappings, plan_id, strategy_to_mapping
from tests.search_workloads import DENSE, MOE, workload

STRATEGY = ParallelStrategy(
    tp=2,
    pp=2,
    dp=4,
    ep=8,
    vpp=4,
    sequence_parallel=True,
    schedule=Schedule.INTERLEAVED,
    dispatcher=Dispatcher.ALLTOALL,
    recompute=Recompute.SELECTIVE,
    recompute_modules=RecomputeModule.LAYERNORM | RecomputeModule.MLA_UP_PROJ,
    features=Feature.FLASH_ATTENTION | Feature.SWAP_OPTIMIZER,
)


def test_a_strategy_under_the_names_of_the_run_records() -> None:
    # 12 layers on 2 x 4 virtual stages: two slots each, 16 in all, so 4 no-op layers, one in each chunk of the last rank.
    assert strategy_to_mapping(workload(MOE, num_devices=16, global_batch_size=64), STRATEGY) == {
        "tp": 2,
        "sequence_parallel": True,
        "cp": 1,
        "cp_algo": None,
        "ulysses_degree": 1,
        "pp": 2,
        "vpp": 4,
        "ep": 8,
        "etp": 1,
        "dp": 4,
        "micro_batch_size": 1,
        "num_microbatches": 16,
        "schedule": "interleaved-1f1b",
        "microbatch_group_size_per_vp_stage": 2,
        "zero_stage": 1,
        "distributed_optimizer": True,
        "optimizer_shard_size": None,
        "moe_dispatcher": "alltoall",
        "recompute": {
            "granularity": "selective",
            "method": None,
            "num_layers": None,
            "modules": ["layernorm", "mla_up_proj"],
            "layers_per_stage": None,
        },
        "layer_layout": [[2, 1], [2, 1], [2, 1], [2, 1]],
        "noop_layers": 4,
        "mtp_before_head": 0,
        "features": ["flash_attention", "swap_optimizer"],
        "switches": dict.fromkeys(
            (
                "fused_norm",
                "fused_swiglu",
                "fused_rope",
                "overlap_grad_reduce",
                "overlap_param_gather",
                "overlap_p2p",
                "moe_grouped_gemm",
                "moe_permute_fusion",
            ),
            False,
        ),
    }


def test_full_recompute_and_context_parallelism_are_named() -> None:
    strategy = ParallelStrategy(
        cp=2,
        cp_algo=CpAlgo.ULYSSES,
        ulysses_degree=2,
        recompute=Recompute.FULL,
        recompute_method=RecomputeMethod.BLOCK,
        recompute_num_layers=3,
        zero_stage=0,
    )
    mapping = strategy_to_mapping(workload(DENSE), strategy)
    assert mapping["cp_algo"] == "ulysses"
    assert mapping["moe_dispatcher"] is None
    assert mapping["distributed_optimizer"] is False
    assert mapping["recompute"]["method"] == "block"
    assert mapping["recompute"]["num_layers"] == 3


@pytest.mark.parametrize(("stack", "peak"), [("megatron-lm", "tf32"), ("fsdp", "fp32")])
def test_a_utilisation_is_of_the_peak_that_linear_layers_multiply_at(stack: str, peak: str) -> None:
    job = workload(DENSE, hardware="a100-sxm-80gb", num_devices=8, global_batch_size=64, seq_length=4096)
    job = replace(job, training=replace(job.training, precision="fp32"), software=Software(stack))
    priced = estimate(job, StrategyBatch.of([ParallelStrategy(dp=8)]), prior_constants("gpu"), breakdown=True)
    document = estimates_to_mappings(job, priced)[0]
    peak_flops_per_s = {"fp32": 19.5e12, "tf32": 156e12}[peak]
    expected = model_flops_per_step(job) / (document["step_time_s"] * 8 * peak_flops_per_s)
    assert document["mfu_fraction"] == pytest.approx(expected)
    assert document["mfu_fraction"] < 1.0


def test_an_estimate_holds_what_its_parts_add_up_to() -> None:
    job = workload(DENSE, num_devices=8, global_batch_size=64, seq_length=4096)
    batch = StrategyBatch.of([ParallelStrategy(dp=8)])
    priced = estimate(job, batch, prior_constants("ascend"), breakdown=True)
    document = estimates_to_mappings(job, priced)[0]
    step_time_s = document["step_time_s"]
    assert document["tokens_per_s"] == pytest.approx(64 * 4096 / step_time_s)
    assert document["tokens_per_s_per_device"] == pytest.approx(64 * 4096 / step_time_s / 8)
    peak_flops_per_s = job.cluster.profile.matmul_flops_per_s["bf16"]
    assert document["mfu_fraction"] == pytest.approx(model_flops_per_step(job) / (step_time_s * 8 * peak_flops_per_s))
    assert sum(document["time_breakdown_s"].values()) == pytest.approx(step_time_s, rel=1e-9)
    assert sum(document["memory_breakdown_bytes"].values()) == pytest.approx(document["peak_memory_bytes"], rel=1e-9)
    assert document["headroom_bytes"] == document["memory_limit_bytes"] - document["peak_memory_bytes"]
    assert document["fits"] is (document["headroom_bytes"] >= 0)
    assert document["time_breakdown_s"][document["bottleneck"]] == max(document["time_breakdown_s"].values())
    assert document["fidelity"] == "closed_form"
    assert json.loads(json.dumps(document, allow_nan=False)) == document


def test_an_estimate_without_a_breakdown_is_not_printed() -> None:
    job = workload(DENSE, num_devices=8)
    priced = estimate(job, StrategyBatch.of([ParallelStrategy(dp=8)]), prior_constants("ascend"))
    with pytest.raises(ValueError, match="breakdown=True"):
        estimates_to_mappings(job, priced)[0]


def test_a_plan_id_names_strategy_and_workload() -> None:
    job = workload(MOE)
    name = plan_id(job, STRATEGY)
    assert len(name) == 12
    assert name == plan_id(workload(MOE), replace(STRATEGY))
    priced = {part: getattr(job, part) for part in PRICED_PARTS}
    told = {field: value for field, value in strategy_to_mapping(job, STRATEGY).items() if field != "switches"}
    assert name == fingerprint({"workload": priced, "strategy": told})
    assert name != plan_id(job, replace(STRATEGY, micro_batch_size=2))
    assert name != plan_id(workload(MOE, num_devices=32), STRATEGY)
    # Words about a profile do not change the plan.
    reworded = replace(job, cluster=replace(job.cluster, profile=replace(job.cluster.profile, notes=("new",), title="New")))
    assert name == plan_id(reworded, STRATEGY)


def test_rewording_the_source_of_a_measured_curve_does_not_change_the_plan() -> None:
    job = workload(MOE)
    curve = CollectiveCurve("all_reduce", 8, (1.0, 2.0), (1.0, 2.0), "a log")

    def with_curve(curve: CollectiveCurve) -> Workload:
        inner, *outer = job.cluster.profile.tiers
        profile = replace(job.cluster.profile, tiers=(replace(inner, curves=(curve,)), *outer))
        return replace(job, cluster=replace(job.cluster, profile=profile))

    name = plan_id(with_curve(curve), STRATEGY)
    assert name == plan_id(with_curve(replace(curve, source="the same log")), STRATEGY)
    assert name != plan_id(with_curve(replace(curve, time_s=(1.0, 3.0))), STRATEGY)
