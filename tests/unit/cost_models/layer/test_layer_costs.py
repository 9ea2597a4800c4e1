"""One layer for one micro batch: its parts by hand, what hides behind what, what recompute repeats."""

from dataclasses import fields, replace
from typing import Any

import pytest

from cost_models.layer.communication import expert_comm, tensor_parallel_comm
from cost_models.layer.costs import LayerCosts, layer_costs
from cost_models.shapes.recompute_modules import RecomputeModule
from cost_models.shapes.strategy import CpAlgo, Dispatcher
from cost_models.shapes.switches import DEFAULT_FEATURES, Feature
from cost_models.shapes.workload import ModelShape, Workload
from tests.worked_examples import worked
from tests.workloads import DENSE, LATENT, SPARSE, constants, device, keys, network, workload

N = 2048.0
FLOPS, HBM = 2.5e14, 1.6e12
ATTENTION_RATE = 0.5 * 3e14


def cost(
    model: ModelShape = DENSE,
    *,
    moe: bool = False,
    values: dict[str, float] | None = None,
    job: Workload | None = None,
    **columns: object,
) -> LayerCosts:
    job = job or workload(model)
    priced = device(job, **(values or {}))
    return layer_costs(job, keys(**columns), priced, network(job), moe=moe)


def test_forward_parts_of_a_dense_layer() -> None:
    forward = {name: float(value[0]) for name, value in cost().forward.items() if value[0]}
    assert forward == pytest.approx(
        {
            "matmul": 2 * N * (4 * 1024**2 + 3 * 1024 * 4096) / FLOPS,
            "attention": 2 * N * N * 8 * 128 / ATTENTION_RATE,
            # norms 8 h, gated activation 6 f, rotary embedding 4 (H + Hk) d,
            # residual adds 12 h, split and transpose 4 (H + 2 Hk) d
            "vector": N * (8 * 1024 + 6 * 4096 + 4 * 16 * 128 + 12 * 1024 + 4 * 24 * 128) / HBM,
        }
    )


def test_a_position_bias_skips_no_block_on_ascend() -> None:
    plain, biased = cost(), cost(replace(DENSE, alibi=True))
    assert float(biased.forward["attention"][0]) == pytest.approx(2.0 * float(plain.forward["attention"][0]))


def test_backward_is_twice_the_matmuls_and_five_halves_of_the_attention() -> None:
    layer = cost()
    assert float(layer.backward["matmul"][0]) == pytest.approx(2 * float(layer.forward["matmul"][0]))
    assert float(layer.backward["attention"][0]) == pytest.approx(2.5 * float(layer.forward["attention"][0]))
    assert float(layer.weight_gradient_s[0]) == float(layer.forward["matmul"][0])


@pytest.mark.parametrize(("model", "moe"), [(DENSE, False), (SPARSE, False), (SPARSE, True), (LATENT, True)])
def test_parts_sum_to_the_pass(model: ModelShape, moe: bool) -> None:
    layer = cost(
        model,
        moe=moe,
        values={"host_kernel_s": 1e-5, "host_moe_sync_s": 1e-3, "hidden_stretch_fraction": 0.2},
        tp=2,
        cp=2,
        ep=4,
        dp=4,
        zero_stage=3,
        sequence_parallel=True,
        cp_algo=CpAlgo.RING,
        dispatcher=Dispatcher.ALLTOALL,
        recompute_modules=RecomputeModule.LAYERNORM,
    )
    assert float(sum(layer.forward.values())[0]) == pytest.approx(float(layer.forward_s[0]), rel=1e-12)
    assert float(sum(layer.backward.values())[0]) == pytest.approx(float(layer.backward_s[0]), rel=1e-12)
    for field in fields(layer):
        value = getattr(layer, field.name)
        for column in value.values() if isinstance(value, dict) else [value]:
            assert float(column[0]) >= 0.0


def test_experts_compute_the_rows_they_receive() -> None:
    forward = cost(SPARSE, moe=True, ep=8, dispatcher=Dispatcher.ALLTOALL).forward
    rows = 2 * N + 0.5 * 128 * 2  # two local experts pad half a tile of 128 rows each
    attention = 2 * N * 4 * 1024**2
    experts = 2 * rows * 3 * 1024 * 512
    shared = 2 * N * 3 * 1024 * 512
    # A router of 16 outputs fills a quarter tile at most and is bound by reading its input.
    router = 2 * (N * 1024 + 1024 * 16 + N * 16) / HBM
    assert float(forward["matmul"][0]) == pytest.approx((attention + experts + shared) / FLOPS + router, rel=1e-3)


def test_permutation_passes() -> None:
    columns = {"ep": 8, "dispatcher": Dispatcher.ALLTOALL}
    copies = 2 * 1024 * 2 * N
    fused = cost(SPARSE, moe=True, **columns).forward["permute"]
    assert float(fused[0]) == pytest.approx(6.0 / 3 * copies / HBM)  # fusion leaves a third of six passes
    plain = cost(SPARSE, moe=True, features=DEFAULT_FEATURES & ~Feature.MOE_PERMUTE_FUSION, **columns).forward["permute"]
    assert float(plain[0]) == pytest.approx(6.0 * copies / HBM)
    assert SPARSE.moe is not None
    capped = replace(SPARSE, moe=replace(SPARSE.moe, capacity_factor=1.0))
    padded = cost(capped, moe=True, features=DEFAULT_FEATURES | Feature.MOE_PAD_TO_CAPACITY, **columns).forward["permute"]
    assert float(padded[0]) == pytest.approx(4.0 * copies / HBM)


def test_tensor_parallel_communication_is_exposed_unless_fused() -> None:
    job = workload()
    comm = tensor_parallel_comm(job, keys(tp=8, sequence_parallel=True), network(job), moe=False)
    plain = cost(tp=8, sequence_parallel=True)
    assert float(plain.forward["tp_comm"][0]) == float(comm.forward_s[0])
    fused = cost(tp=8, sequence_parallel=True, features=DEFAULT_FEATURES | Feature.MC2)
    assert float(fused.forward["tp_comm"][0]) == pytest.approx(0.5 * float(comm.forward_s[0]))
    window_s = (
        2 * N * 1024 * (3 * 1024 + 2 * 4096) / 8 / FLOPS
    )  # of the gradients behind which the saved inputs are gathered again
    regather_s = window_s + 0.5 * (float(comm.regather_s[0]) - window_s)
    assert float(fused.masked["tp_comm"][0]) == pytest.approx(0.5 * float(comm.forward_s[0] + comm.backward_s[0]) + regather_s)


def test_ring_hops_hide_behind_the_attention_of_a_block() -> None:
    values = {"hidden_stretch_fraction": 0.25}
    short = workload(seq_length=256)  # too little attention to hide behind
    long = workload(seq_length=131072)
    columns = {"cp": 4, "cp_algo": CpAlgo.RING}
    exposed = cost(job=short, values=values, **columns)
    hop = 2 * 64 * 2 * 8 * 128 / 18.3e9
    block = float(exposed.forward["attention"][0]) / 4
    assert hop > block
    assert float(exposed.forward["cp_comm"][0]) == pytest.approx(3 * (hop - block))
    assert float(exposed.forward["contention"][0]) == pytest.approx(3 * 0.25 * block)
    hidden = cost(job=long, values=values, **columns)
    hops = 3 * 2 * 32768 * 2 * 8 * 128 / 18.3e9
    assert float(hidden.forward["cp_comm"][0]) == 0.0
    assert float(hidden.masked["cp_comm"][0]) == pytest.approx(3 * hops)  # the backward moves twice as much
    assert float(hidden.forward["contention"][0]) == pytest.approx(0.25 * hops)
    assert float(hidden.backward["contention"][0]) == pytest.approx(0.25 * 2 * hops)


def test_expert_communication_hides_only_where_a_switch_says_so() -> None:
    job = workload(SPARSE)
    columns = {"ep": 8, "dispatcher": Dispatcher.ALLTOALL}
    whole = expert_comm(job, keys(**columns), network(job), constants())
    plain = cost(SPARSE, moe=True, **columns)
    assert float(plain.forward["ep_comm"][0]) == pytest.approx(float(whole.dispatch_s[0] + whole.combine_s[0]))
    assert float(plain.masked["ep_comm"][0]) == 0.0
    hidden = cost(SPARSE, moe=True, features=DEFAULT_FEATURES | Feature.MOE_ALLTOALL_OVERLAP_COMM, **columns)
    assert float(hidden.forward["ep_comm"][0]) < float(plain.forward["ep_comm"][0])
    shared = cost(SPARSE, moe=True, features=DEFAULT_FEATURES | Feature.MOE_SHARED_EXPERT_OVERLAP, **columns)
    window = 2 * N * 3 * 1024 * 512 / FLOPS  # of the shared expert
    assert float(plain.forward["ep_comm"][0] - shared.forward["ep_comm"][0]) == pytest.approx(window, rel=1e-6)


def test_a_pass_outside_of_merged_pairs_sends_and_waits() -> None:
    columns = {"ep": 8, "dp": 8, "dispatcher": Dispatcher.ALLTOALL, "features": DEFAULT_FEATURES | Feature.MOE_COMM_OVERLAP}
    whole = expert_comm(workload(SPARSE), keys(**columns), network(workload(SPARSE)), constants())
    dispatch, combine = float(whole.dispatch_s[0]), float(whole.combine_s[0])
    layer = cost(SPARSE, moe=True, **columns)
    shared = 2 * N * 3 * 1024 * 512 / FLOPS
    experts = float(layer.pieces["experts_weights"][0])
    assert dispatch > experts > 2 * shared  # two experts a token, the router, and rows that pad a tile
    assert float(layer.forward["ep_comm"][0]) == pytest.approx(dispatch - shared + combine)
    assert float(layer.backward["ep_comm"][0]) == pytest.approx(combine - 2 * shared + dispatch - experts)
    # Megatron's overlap runs shared experts in place.
    there = workload(SPARSE, cluster=replace(workload().cluster, profile=replace(workload().cluster.profile, family="gpu")))
    assert float(cost(SPARSE, moe=True, job=there, **columns).forward["ep_comm"][0]) == pytest.approx(dispatch + combine)


def test_a_layer_waits_for_the_host_that_dispatches_it() -> None:
    # 30 kernels, 12 fewer with the three fused operators, 1 ms each: more than the device needs
    layer = cost(values={"host_kernel_s": 1e-3})
    assert float(layer.forward_s[0]) == pytest.approx(18e-3)
    assert float(layer.backward_s[0]) == pytest.approx(36e-3)
    unfused = cost(values={"host_kernel_s": 1e-3}, features=Feature.FLASH_ATTENTION)
    assert float(unfused.forward_s[0]) == pytest.approx(30e-3)
    together = cost(values={"host_kernel_s": 1e-3}, tp=8, sequence_parallel=True)
    assert float(together.forward_s[0]) == worked("host-dispatch")
    captured = cost(values={"host_kernel_s": 1e-3}, features=DEFAULT_FEATURES | Feature.CUDA_GRAPH)
    assert float(captured.forward["host"][0]) == 0.0


def test_a_host_that_waits_for_every_kernel_adds_to_what_the_device_takes() -> None:
    free, blocked = (cost(job=workload(blocking_launches=blocks)) for blocks in (False, True))
    assert float(blocked.forward_s[0] - free.forward_s[0]) == pytest.approx(0.9e-3)
    assert float(blocked.backward_s[0] - free.backward_s[0]) == pytest.approx(1.8e-3)
    assert float(blocked.full_recompute_s[0] - free.full_recompute_s[0]) == pytest.approx(0.9e-3)


def test_latent_attention_and_shared_experts_dispatch_kernels_of_their_own() -> None:
    values = {"host_kernel_s": 1e-3}
    # Attention 20 and 45 more, experts 30, shared ones 10; less 12 that are fused.
    assert float(cost(LATENT, moe=True, values=values).forward_s[0]) == pytest.approx(93e-3)
    assert float(cost(SPARSE, moe=True, values=values).forward_s[0]) == pytest.approx(48e-3)
    assert SPARSE.moe is not None
    alone = replace(SPARSE, moe=replace(SPARSE.moe, shared_expert_ffn_hidden_size=0))
    assert float(cost(alone, moe=True, values=values).forward_s[0]) == pytest.approx(38e-3)


@pytest.mark.parametrize(
    ("module", "kernels"),
    [
        (RecomputeModule.CORE_ATTN, 12),
        (RecomputeModule.LAYERNORM, 22),
        (RecomputeModule.MLP_ACT, 11),
        (RecomputeModule.MLA_UP_PROJ, 16),
        (RecomputeModule.MOE, 40),
        (RecomputeModule.MOE | RecomputeModule.MLP_ACT, 40),
        (RecomputeModule.MLP, 0),  # which a MoE layer has none of
    ],
)
def test_the_host_dispatches_what_is_computed_again(module: RecomputeModule, kernels: int) -> None:
    values = {"host_kernel_s": 1e-3}
    plain, again = (cost(LATENT, moe=True, values=values, recompute_modules=m) for m in (RecomputeModule(0), module))
    assert float(again.backward_s[0] - plain.backward_s[0]) == pytest.approx(kernels * 1e-3)
    assert float(again.host["backward"][0] - plain.host["backward"][0]) == pytest.approx(kernels * 1e-3)


def test_experts_of_unknown_sizes_wait_for_them() -> None:
    def waits(model: ModelShape = SPARSE, **changes: Any) -> tuple[float, ...]:
        priced = cost(model, **{"moe": True, "values": {"host_moe_sync_s": 3e-3}, "ep": 8, **changes})
        assert float(priced.forward["host"][0]) == 0.0 == float(priced.backward["host"][0])
        return tuple(float(part["size_synchronisation"][0]) for part in (priced.forward, priced.backward))

    assert waits() == (3e-3, 3e-3)
    assert waits(features=DEFAULT_FEATURES & ~Feature.MOE_GROUPED_GEMM) == (worked("expert-waits"),) * 2
    assert waits(moe=False) == (0.0, 0.0)
    assert waits(features=DEFAULT_FEATURES | Feature.CUDA_GRAPH) == (0.0, 0.0)  # counts stay on the device
    assert waits(job=workload(SPARSE, execution="graph")) == (0.0, 0.0)


def test_padding_to_a_capacity_makes_sizes_known_and_dropping_does_not() -> None:
    assert SPARSE.moe is not None
    capped = replace(SPARSE, moe=replace(SPARSE.moe, capacity_factor=1.25))
    pads = DEFAULT_FEATURES | Feature.MOE_PAD_TO_CAPACITY
    waits = {
        name: float(cost(model, moe=True, values={"host_moe_sync_s": 3e-3}, ep=8, features=f).forward["size_synchronisation"][0])
        for name, model, f in (
            ("dropless", SPARSE, DEFAULT_FEATURES),
            ("drop", capped, DEFAULT_FEATURES),
            ("drop and pad", capped, pads),
            ("pad to nothing", SPARSE, pads),
        )
    }
    assert waits == {"dropless": 3e-3, "drop": 3e-3, "drop and pad": 0.0, "pad to nothing": 3e-3}


def test_full_recompute_repeats_the_forward() -> None:
    layer = cost(tp=8, sequence_parallel=True)
    assert float(layer.full_recompute_s[0]) == pytest.approx(float(layer.forward_s[0]))
    # A compiled graph drops the second matmul of the MLP and the tensor-parallel collectives.
    graph = cost(job=workload(execution="graph"), tp=8, sequence_parallel=True)
    saved = 2 * N * 1024 * 4096 / 8 / FLOPS + float(layer.forward["tp_comm"][0])
    assert float(layer.full_recompute_s[0] - graph.full_recompute_s[0]) == pytest.approx(saved)


def test_a_checkpoint_of_pytorch_stops_at_what_the_backward_kept() -> None:
    dense = cost(job=workload(stack="fsdp"))
    assert float(dense.forward_s[0] - dense.full_recompute_s[0]) == pytest.approx(2 * N * 1024 * 4096 / FLOPS)
    old = cost(job=workload(stack="fsdp", year=2023.5))  # PyTorch 2.0
    assert float(old.forward_s[0]) == pytest.approx(float(old.full_recompute_s[0]))
    # Of experts the second matmuls are left out, of two copies a token with half a tile for either expert of the rank, of the
    # shared one, and the combine.
    job = workload(SPARSE, stack="fsdp")
    columns = {"ep": 8, "dp": 8, "dispatcher": Dispatcher.ALLTOALL}
    experts = cost(SPARSE, moe=True, job=job, **columns)
    combine = float(expert_comm(job, keys(**columns), network(job), constants()).combine_s[0])
    saved = 2 * (2 * N + 2 * 64 + N) * 1024 * 512 / FLOPS + combine
    assert combine > 0
    assert float(experts.forward_s[0] - experts.full_recompute_s[0]) == pytest.approx(saved)


@pytest.mark.parametrize(
    ("module", "model", "moe", "repeated"),
    [
        (RecomputeModule.CORE_ATTN, DENSE, False, 2 * N * N * 8 * 128 / ATTENTION_RATE),
        (RecomputeModule.LAYERNORM, DENSE, False, 8 * 1024 * N / HBM),
        (RecomputeModule.MLP_ACT, DENSE, False, 6 * 4096 * N / HBM),
        (RecomputeModule.MLP, DENSE, False, 2 * N * 3 * 1024 * 4096 / FLOPS + 6 * 4096 * N / HBM),
        (
            RecomputeModule.MLA_UP_PROJ,
            LATENT,
            True,
            # queries 256 -> 8 x 96; keys and values 128 -> 8 x 128, so thin that they wait for memory;
            # rotary embedding of 8 x 32 and the shared 32
            2 * N * 256 * 768 / FLOPS + 2 * (N * 128 + 128 * 1024 + N * 1024) / HBM + 4 * 9 * 32 * N / HBM,
        ),
    ],
)
def test_what_a_selective_recompute_repeats(module: RecomputeModule, model: ModelShape, moe: bool, repeated: float) -> None:
    job = workload(model, stack="megatron-deepspeed")
    again = cost(job=job, moe=moe, ep=2, recompute_modules=module)
    assert float(again.backward["recompute"][0]) == pytest.approx(repeated, rel=1e-9)
    without = cost(job=job, moe=moe, ep=2)
    assert float(again.backward_s[0] - without.backward_s[0]) == pytest.approx(float(again.backward["recompute"][0]))


def test_recomputing_the_moe_module_communicates_again() -> None:
    columns = {"ep": 8, "dispatcher": Dispatcher.ALLTOALL}
    again = cost(SPARSE, moe=True, recompute_modules=RecomputeModule.MOE, **columns)
    assert float(again.backward["recompute"][0]) > float(again.forward["ep_comm"][0])


def test_full_recompute_covers_what_selective_recompute_repeats() -> None:
    plain, both = cost(), cost(recompute_modules=RecomputeModule.MLP)
    assert float(both.backward_s[0] + both.full_recompute_s[0]) == pytest.approx(
        float(plain.backward_s[0] + plain.full_recompute_s[0])
    )


def forward_compute_s(layer: LayerCosts) -> float:
    return float(sum(layer.forward[name][0] for name in ("matmul", "attention", "vector", "permute")))


def test_zero3_gathers_hide_behind_compute() -> None:
    layer = cost(dp=8, zero_stage=3)
    moved = 2 * (4 * 1024**2 + 3 * 1024 * 4096 + 2 * 1024) / 8 / 18.3e9
    compute = forward_compute_s(layer)
    assert float(layer.forward["weight_gather"][0]) == pytest.approx(max(moved - compute, 0.0))
    assert float(layer.masked["weight_gather"][0]) > 0.0


def test_compute_that_hides_a_ring_hides_no_weights() -> None:
    # 32 ranks in four nodes gather a layer for longer than it computes: all compute is used, once.
    columns = {"dp": 32, "zero_stage": 3, "cp": 4, "cp_algo": CpAlgo.RING}
    layer = cost(**columns)
    compute, exposed = forward_compute_s(layer), float(layer.forward["weight_gather"][0])
    assert exposed > 0.0
    ring_window = 0.75 * float(layer.forward["attention"][0])  # three hops of four blocks, all shorter than their transfer
    assert float(layer.forward["cp_comm"][0]) > 0.0
    alone = cost(dp=128, zero_stage=3)
    whole = float(alone.forward["weight_gather"][0]) + forward_compute_s(alone)
    assert exposed == pytest.approx(whole - (compute - ring_window), rel=1e-6)


def test_unfused_operators_move_more() -> None:
    fused, plain = cost(), cost(features=DEFAULT_FEATURES & ~Feature.FUSED_NORM)
    assert float(plain.forward["vector"][0] - fused.forward["vector"][0]) == pytest.approx(1.5 * 8 * 1024 * N / HBM)
