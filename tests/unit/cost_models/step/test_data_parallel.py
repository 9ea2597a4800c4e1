"""What a step does once, by hand."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from app.catalogue.models.presets import model_preset
from cost_models.memory.model_states import StageParameters
from cost_models.shapes.strategy import Schedule
from cost_models.shapes.switches import DEFAULT_FEATURES, Feature
from cost_models.shapes.workload import Workload
from cost_models.step.data_parallel import (
    GradientExchange,
    accumulation_s,
    exchange_beyond_compute_s,
    exchange_of_step_s,
    exposed_exchange_s,
    gradient_exchange,
    optimizer_s,
    replicated_sums_s,
    shared_table_s,
)
from cost_models.step.priced_groups import priced_batch
from tests.networks import gpu
from tests.worked_examples import worked
from tests.workloads import DENSE, SPARSE, batch, constants, device, network, workload

HBM, NIC, P = 1.6e12, 20e9, 1e9
NO_TABLE = np.zeros((1, 1))
ENDS = np.array([[1.0], [0.0]]), np.array([[0.0], [1.0]]), np.array([[0.0], [1.0]])  # embedding, head, MTP modules of two ranks


def parameters(dense: float = P, experts: float = 0.0) -> StageParameters:
    return StageParameters(*(np.array([[value]]) for value in (dense, experts, *[0.0] * 6)))


def exchange(stack: str = "megatron-lm", held: StageParameters | None = None, **columns: object) -> tuple[float, float]:
    job = workload(stack=stack)
    result = gradient_exchange(job, batch(**columns), held or parameters(), parameters(0.0), NO_TABLE, network(job))
    return float(result.reduce_s[0, 0]), float(result.gather_s[0, 0])


def test_distributed_optimizer_scatters_gradients_and_gathers_weights() -> None:
    # 16 replicas, one in each node of tp 8: every one sends over its own NIC
    reduce, gather = exchange(tp=8, dp=16)
    assert reduce == worked("gradient-scatter")
    assert gather == pytest.approx(15 / 16 * 2 * P / NIC)


def test_layers_of_pytorch_gather_and_scatter_each_with_a_call_of_its_own() -> None:
    """ZeRO-2 of 32 layers: 32 times the latency of one call; other stacks and ZeRO-1 have one, and bytes are the same."""
    step_s, plan = 1e-3, {"tp": 1, "dp": 8}  # one node, where nothing is a ring: log2 8 = 3 steps

    def times(stack: str, zero_stage: int, latency_s: float) -> tuple[float, float]:
        job = workload(stack=stack, cluster=gpu(latency_s=latency_s), global_batch_size=8)
        layers = np.array([[32.0]])
        found = gradient_exchange(
            job, batch(zero_stage=zero_stage, **plan), parameters(), parameters(0.0), NO_TABLE, network(job), None, layers
        )
        return float(found.reduce_s[0, 0]), float(found.gather_s[0, 0])

    for stack, zero_stage, calls in (("fsdp", 2, 32), ("fsdp", 1, 1), ("megatron-lm", 1, 1)):
        for with_steps, without in zip(times(stack, zero_stage, step_s), times(stack, zero_stage, 0.0), strict=True):
            assert with_steps - without == pytest.approx(calls * 3 * step_s)


def test_weights_in_fp32_are_gathered_in_fp32() -> None:
    job, held = workload(precision="fp32"), parameters()
    found = gradient_exchange(job, batch(tp=8, dp=16), held, parameters(0.0), NO_TABLE, network(job))
    assert float(found.reduce_s[0, 0]) == pytest.approx(15 / 16 * 4 * P / NIC)  # as in 16 bits
    assert float(found.gather_s[0, 0]) == pytest.approx(15 / 16 * 4 * P / NIC)


@pytest.mark.parametrize(
    ("recipe", "gathers", "bytes_of_linears"),
    [
        ("tensorwise", None, 1),  # the buffer of parameters is of bytes
        ("delayed", True, 1),
        ("tensorwise", False, 2),
        ("blockwise", None, 2),  # not asked for by default
        ("blockwise", True, 1),
        ("mxfp8", None, 2),  # through the buffer of gradients, in BF16
        (None, None, 2),  # a recipe that nobody stated may be any
    ],
)
def test_weights_of_linear_layers_are_gathered_in_8_bits_where_the_recipe_does_so(
    recipe: str | None, gathers: bool | None, bytes_of_linears: int
) -> None:
    job = workload(precision="fp8", cluster=gpu(), stack="megatron-lm")
    job = replace(job, training=replace(job.training, fp8_recipe=recipe, fp8_param_gather=gathers))
    linears = np.array([[0.75 * P]]), np.array([[0.0]])

    def of(given: Workload, zero_stage: int) -> tuple[float, float]:
        plan = batch(tp=8, dp=16, zero_stage=zero_stage)
        found = gradient_exchange(given, plan, parameters(), parameters(0.0), NO_TABLE, network(given), linears)
        return float(found.reduce_s[0, 0]), float(found.gather_s[0, 0])

    in_bf16 = replace(job, training=replace(job.training, precision="bf16", fp8_recipe=None, fp8_param_gather=None))
    reduce_s, gather_s = of(in_bf16, 1)
    assert of(job, 1) == (reduce_s, pytest.approx(gather_s * (0.25 * 2 + 0.75 * bytes_of_linears) / 2))
    assert of(job, 0) == of(in_bf16, 0)


def test_replicated_optimizer_reduces_gradients_everywhere() -> None:
    assert exchange(tp=8, dp=16, zero_stage=0) == (pytest.approx(2 * 15 / 16 * 4 * P / NIC), 0.0)


def test_gradients_in_half_precision_are_half_as_large() -> None:
    half = exchange(tp=8, dp=16, features=DEFAULT_FEATURES | Feature.GRAD_REDUCE_IN_BF16)
    assert half[0] == pytest.approx(15 / 16 * 2 * P / NIC)


def test_experts_are_reduced_over_their_own_replicas() -> None:
    # tp 8 x dp 16 = 128 ranks, experts over 32 of them: four replicas, 32 ranks apart
    reduce, _ = exchange(held=parameters(0.0, P), tp=8, dp=16, ep=32)
    assert reduce == pytest.approx(3 / 4 * 4 * P / NIC)


def test_experts_that_are_split_have_fewer_replicas_and_they_lie_further_apart() -> None:
    # 128 ranks, experts over 2 x 4 of them: 16 replicas, 8 ranks apart, so that each has a NIC of its own
    reduce, gather = exchange(held=parameters(0.0, P), tp=8, dp=16, ep=2, etp=4)
    assert reduce == pytest.approx(15 / 16 * 4 * P / NIC)
    assert gather == pytest.approx(15 / 16 * 2 * P / NIC)
    # Dense parameters do not notice.
    assert exchange(tp=8, dp=16, ep=2, etp=4) == exchange(tp=8, dp=16)


def test_zero2_scatters_after_every_micro_batch() -> None:
    # 64 sequences over 16 replicas: four micro batches
    assert exchange(tp=8, dp=16, zero_stage=2)[0] == pytest.approx(4 * exchange(tp=8, dp=16)[0])


def test_zero2_scatters_once_a_step_where_stages_add_gradients_up() -> None:
    # 64 sequences over 16 replicas are four micro batches; MindSpore scatters each into the shard, other stacks do not
    once = exchange(tp=8, dp=16)
    assert exchange(tp=8, dp=16, pp=2, zero_stage=2) == once
    assert exchange("mindformers", tp=8, dp=16, pp=2, zero_stage=2) == (pytest.approx(4 * once[0]), once[1])


def test_zero3_leaves_the_layers_to_themselves() -> None:
    assert exchange(tp=8, dp=16, zero_stage=3) == (0.0, 0.0)


def test_one_replica_exchanges_nothing() -> None:
    assert exchange(tp=8, dp=1) == (0.0, 0.0)


def left(
    reduce: list[float],
    gather: list[float],
    *,
    table: float = 0.0,
    copies: float = 0.0,
    apart: float = 0.0,
    fraction: float = 0.3,
    reductions: int = 1,
    gathers: int = 1,
    gathered: int = 1,
    slack: float = 0.0,
    **columns: object,
) -> tuple[float, float]:
    """Backward 2 s, forward 1 s on every stage; the second stage has ``slack`` before it."""
    slacks = np.array([[0.0], [slack]])
    columns_s = (
        np.array([[float(value)] for value in values]) for values in (reduce, gather, [table] * 2, [copies] * 2, [apart] * 2)
    )
    whole = GradientExchange(*columns_s, np.array([reductions]), np.array([gathers]), np.array([gathered]))
    beyond = exchange_beyond_compute_s(batch(**columns), whole, np.array([[1.0], [1.0]]), np.array([[2.0], [2.0]]), fraction)
    exposed, masked = exposed_exchange_s(exchange_of_step_s(batch(**columns), whole), *beyond, slacks, slacks)
    return float(exposed[0]), float(masked[0])


@pytest.mark.parametrize(("ep", "calls"), [(1, 8), (2, 8 + 6)])
def test_layers_without_experts_have_no_call_for_them(ep: int, calls: int) -> None:
    """Eight layers, six with experts, under ZeRO-2 of PyTorch's FSDP; embedding and head travel along."""
    job = workload(SPARSE, stack="fsdp", global_batch_size=16)
    plans = batch(dp=16, ep=ep, zero_stage=2)
    ((_, group),) = priced_batch(job, plans, constants(collective_latency_s=1000.0)).groups(merge=False, tables=False)
    exchange = group.sharded.exchange
    assert (int(exchange.reduce_s[0, 0]) // 1000, int(exchange.gather_s[0, 0]) // 1000) == (calls, calls)


def test_copies_of_shards_are_added_behind_the_last_backward_alone() -> None:
    assert left([0.0, 0.0], [0.0, 0.0], copies=5.0, reductions=4) == (pytest.approx(5.0 - 2.0), pytest.approx(2.0))
    assert left([0.0, 0.0], [0.0, 0.0], copies=1.0, reductions=4) == (pytest.approx(0.3), pytest.approx(0.7))


def test_copies_wait_in_line_with_the_reduction_of_the_last_backward_unless_they_have_links_of_their_own() -> None:
    assert left([8.0, 8.0], [0.0, 0.0], copies=1.5, reductions=8, fraction=0.01)[0] == pytest.approx(1.0 + 1.5 - 2.0)
    assert left([24.0, 24.0], [0.0, 0.0], copies=5.0, reductions=8)[0] == pytest.approx(24.0 + 5.0 - 8 * 2.0)
    assert left([8.0, 8.0], [0.0, 0.0], apart=1.5, reductions=8, fraction=0.01)[0] == pytest.approx(0.01 * (8.0 + 1.5))
    assert left([8.0, 8.0], [0.0, 0.0], apart=5.0, reductions=8, fraction=0.01)[0] == pytest.approx(0.01 * 8.0 + 5.0 - 2.0)


def test_each_optimizer_of_a_mixture_gathers_all_parameters_unless_the_next_forward_does() -> None:
    """Executed with core 0.19: two gathers of every buffer a step, one with overlap_param_gather."""
    alone = DEFAULT_FEATURES & ~Feature.OVERLAP_PARAM_GATHER
    assert left([0.0, 0.0], [0.5, 0.5], gathers=2, features=alone) == (1.0, 0.0)
    assert left([0.0, 0.0], [0.5, 0.5], gathers=2) == (pytest.approx(0.3 * 0.5), pytest.approx(0.7 * 0.5))

    def gathers(stack: str, year: float = 2026.0, **columns: object) -> int:
        job = workload(stack=stack)
        job = replace(job, software=replace(job.software, year=year))
        return int(gradient_exchange(job, batch(**columns), parameters(), parameters(), NO_TABLE, network(job)).num_gathers[0])

    assert [gathers("megatron-lm", dp=16, ep=ep) for ep in (1, 4)] == [1, 2]  # unsplit experts share the dense optimizer
    assert [gathers(stack, dp=16, ep=4) for stack in ("mindspeed-llm", "nemo", "mindformers", "fsdp")] == [1, 2, 1, 1]
    # MindSpeed since September 2025 [mindspeed, fix_duplicate_allgather.py].
    assert [gathers("mindspeed-llm", year, dp=16, ep=4) for year in (2025.7, 2025.8)] == [2, 1]
    assert gathers("megatron-lm", dp=16, ep=4, zero_stage=3) == 1


def test_every_forward_hides_what_it_gathers() -> None:
    assert left([0.0, 0.0], [4.0, 4.0], gathered=4) == (pytest.approx(0.3 * 4.0), pytest.approx(0.7 * 4.0))
    assert left([0.0, 0.0], [4.0, 4.0]) == (pytest.approx(3.0), pytest.approx(1.0))


def test_fully_sharded_pytorch_gathers_and_scatters_with_every_micro_batch() -> None:
    """Executed with transformers under FSDP2: two micro batches send twice what one does, of the ends or of all."""
    job = workload(stack="fsdp", global_batch_size=32)
    for zero_stage in (2, 3):
        ends = parameters(P / 4)
        twice, once = (
            gradient_exchange(
                replace_batch(job, size), batch(dp=16, zero_stage=zero_stage), parameters(), ends, NO_TABLE, network(job)
            )
            for size in (32, 16)
        )
        assert (twice.num_reductions[0], twice.num_gathered[0]) == (2, 2)
        assert twice.reduce_s[0, 0] == pytest.approx(2.0 * once.reduce_s[0, 0])
        assert twice.gather_s[0, 0] == pytest.approx(2.0 * once.gather_s[0, 0])
        assert once.gather_s[0, 0] > 0.0


def replace_batch(job: Workload, size: int) -> Workload:
    return replace(job, training=replace(job.training, global_batch_size=size))


def test_tensor_parallel_ranks_add_gradients_of_what_they_hold_whole() -> None:
    """Executed with core 0.19 on the first rank of DeepSeek-V3 at tp 2: an all-reduce of 249,823,232 bytes in FP32.

    By hand, of four layers of which one is a mixture: 7,168 x (1,536 + 512 + 64) of the down-projections, two norms of 7,168 and
    those of the latents, and 7,168 x 256 of the router.
    """
    job = workload(model_preset("deepseek-v3").model, cluster=gpu())
    layers = tuple(np.array([[float(number)]]) for number in (3, 1))
    none = np.zeros((1, 1))
    seconds = replicated_sums_s(job, batch(tp=2, sequence_parallel=True), layers, none, none, network(job))
    rate = network(job).tiers[0].bandwidth_bytes_per_s
    assert 4 * (4 * (7_168 * 2_112 + 2 * 7_168 + 2_048) + 7_168 * 256) == 249_823_232
    assert float(seconds[0, 0]) * rate == pytest.approx(249_823_232)
    assert replicated_sums_s(job, batch(tp=2, sequence_parallel=False), layers, none, none, network(job)) == 0.0


def test_nothing_hides_the_sum_of_shared_tables() -> None:
    assert left([1.0, 0.0], [0.0, 0.0], table=0.25) == (pytest.approx(0.3 * 1.0 + 0.25), pytest.approx(0.7 * 1.0))


@pytest.mark.parametrize(
    ("values", "columns", "bytes_seen"),
    [
        ({"mtp_num_layers": 1}, {"pp": 2}, 2_097_152),  # core 0.19 was run: 2,048 rows of 256 in FP32
        ({"tied_embeddings": True}, {"pp": 4, "tp": 2}, 2_097_152 / 2),
        ({"tied_embeddings": True, "mtp_num_layers": 1}, {"pp": 2}, 2_097_152),  # one sum of both copies
        ({"mtp_num_layers": 1}, {"pp": 2, "features": DEFAULT_FEATURES | Feature.GRAD_REDUCE_IN_BF16}, 2_097_152 / 2),
        ({"tied_embeddings": True}, {"pp": 1}, 0),
        ({"mtp_num_layers": 1}, {"pp": 1}, 0),
        ({}, {"pp": 2}, 0),
        ({"mtp_num_layers": 1}, {"pp": 2, "vpp": 2, "schedule": Schedule.ZBV}, 0),  # both ends on one rank
    ],
)
def test_tables_of_both_ends_are_summed(values: dict[str, Any], columns: dict[str, Any], bytes_seen: float) -> None:
    job = workload(replace(DENSE, vocab_size=2048, hidden_size=256, **values), cluster=gpu())
    counting = replace(network(job), call_latency_s=0.0)
    tiers = tuple(
        replace(tier, bandwidth_bytes_per_s=1.0, link_bytes_per_s=1.0, latency_s=0.0, curves={}) for tier in counting.tiers
    )
    sums = shared_table_s(job, batch(**columns), *ENDS, replace(counting, tiers=tiers))
    assert sums[:, 0] == pytest.approx([bytes_seen] * 2)


def test_the_shared_table_of_deepseek_v3() -> None:
    job = workload(replace(DENSE, vocab_size=129_280, hidden_size=7168, mtp_num_layers=1), cluster=gpu())
    far = network(job).tiers[1].bandwidth_bytes_per_s
    seconds = float(shared_table_s(job, batch(pp=16, dp=64), *ENDS, network(job))[0, 0])
    assert seconds * far / 50e9 == worked("shared-table")


def test_a_share_of_the_exchange_is_always_left() -> None:
    assert left([1.0, 1.0], [0.5, 0.5]) == (pytest.approx(0.3 * 1.5), pytest.approx(0.7 * 1.5))


def test_what_does_not_fit_beside_the_last_backward_is_left() -> None:
    assert left([5.0, 5.0], [0.0, 0.0])[0] == pytest.approx(5.0 - 2.0)


def test_without_overlap_all_of_it_is_left() -> None:
    assert left([1.0, 1.0], [0.5, 0.5], features=Feature.FLASH_ATTENTION) == (pytest.approx(1.5), 0.0)


def test_slack_of_a_later_stage_hides_more() -> None:
    assert left([0.0, 5.0], [0.0, 0.0], slack=1.0)[0] == pytest.approx(5.0 - 2.0 - 1.0)


def test_zero2_hides_beside_every_backward() -> None:
    # four reductions of 1.5 s in all, beside four backwards of 2 s
    assert left([6.0, 6.0], [0.0, 0.0], reductions=4)[0] == pytest.approx(0.3 * 6.0)
    assert left([20.0, 20.0], [0.0, 0.0], reductions=4)[0] == pytest.approx(20.0 - 4 * 2.0)


def optimizer(job: Workload | None = None, held: StageParameters | None = None, **columns: object) -> float:
    job = job or workload()
    return float(optimizer_s(job, batch(**columns), held or parameters(), device(job)).max())


def test_adam_on_a_shard_and_the_norm_over_all_gradients() -> None:
    assert optimizer(dp=16) == worked("optimizer-time")
    assert optimizer(dp=16, zero_stage=0) == pytest.approx(38 * P / HBM)
    assert optimizer(dp=16, zero_stage=2) == pytest.approx(38 * P / 16 / HBM)


def test_an_expert_is_updated_by_as_many_ranks_as_hold_it() -> None:
    # 128 ranks over ep 2 x etp 4: 16 hold the same part; context-parallel ranks are replicas, too
    assert optimizer(held=parameters(0.0, P), tp=8, dp=16, ep=2, etp=4) == pytest.approx((30 / 16 + 8) * P / HBM)
    assert optimizer(held=parameters(0.0, P), tp=8, dp=8, cp=2, ep=2, etp=4) == pytest.approx((30 / 16 + 8) * P / HBM)
    assert optimizer(held=parameters(P, 0.0), tp=8, dp=8, cp=2, ep=2, etp=4) == pytest.approx((30 / 16 + 8) * P / HBM)


def test_swapped_states_cross_the_host_link() -> None:
    # 24 B a parameter of the shard at 25 GB/s, slower than the update
    assert optimizer(dp=16, features=DEFAULT_FEATURES | Feature.SWAP_OPTIMIZER) == pytest.approx(24 * P / 16 / 25e9)


def test_moments_in_16_bits_are_half_the_traffic() -> None:
    # of 30 B, 16 are two moments read and written; of 24 over the host link, 16 as well
    moments = Feature.BF16_MOMENTS
    assert optimizer(dp=16, features=DEFAULT_FEATURES | moments) == pytest.approx((22 / 16 + 8) * P / HBM)
    swapped = DEFAULT_FEATURES | Feature.SWAP_OPTIMIZER | moments
    assert optimizer(dp=16, features=swapped) == pytest.approx(16 * P / 16 / 25e9)


def test_accumulation_touches_every_parameter_each_micro_batch() -> None:
    job = workload()
    time = accumulation_s(job, batch(), parameters(P, P), device(job, accumulation_bytes=10.0, cast_bytes=6.0))
    assert float(time[0, 0]) == pytest.approx(10 * 2 * P / HBM)
    cast = workload(fp32_parameters=True)
    time = accumulation_s(cast, batch(), parameters(P, P), device(cast, accumulation_bytes=10.0, cast_bytes=6.0))
    assert float(time[0, 0]) == pytest.approx(16 * 2 * P / HBM)


def test_a_rank_adds_up_its_share_of_split_experts_where_each_micro_batch_is_scattered() -> None:
    job = workload()
    rank = device(job, accumulation_bytes=10.0)
    time = accumulation_s(job, batch(tp=8, dp=16, ep=2, etp=4, zero_stage=2), parameters(0.0, P), rank)
    assert float(time[0, 0]) == pytest.approx(10 * P / 16 / HBM)
