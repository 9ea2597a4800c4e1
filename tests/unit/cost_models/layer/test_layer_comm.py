"""Communication of a layer by hand: nodes of 8 in a mesh of 18.3 GB/s links, one 20 GB/s NIC a device."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from cost_models.layer.communication import (
    context_parallel_comm,
    expert_comm,
    exposed_tp_fraction,
    tensor_parallel_comm,
    weight_comm,
)
from cost_models.layer.costs import layer_costs
from cost_models.shapes.layer_keys import layer_keys
from cost_models.shapes.strategy import CpAlgo, Dispatcher
from cost_models.shapes.switches import Feature
from tests.networks import ascend_a2
from tests.worked_examples import worked
from tests.workloads import DENSE, GROUPED, LATENT, SPARSE, batch, constants, device, keys, network, workload

LINK, NIC = 18.3e9, 20e9
WIDE = replace(DENSE, hidden_size=8192, num_attention_heads=64, num_query_groups=64, ffn_hidden_size=28672)
HIDDEN = 2 * 2048 * 1024  # bytes of one micro batch's hidden states


def test_gathers_and_scatters_around_two_blocks() -> None:
    big = workload(replace(DENSE, hidden_size=8192), seq_length=4096)
    comm = tensor_parallel_comm(big, keys(tp=8, sequence_parallel=True), network(big), moe=False)
    assert float(comm.forward_s[0]) == worked("tp-layer-communication")
    assert float(comm.backward_s[0]) == pytest.approx(float(comm.forward_s[0]))
    # The saved inputs are sharded too: two more gathers beside the weight gradients.
    assert float(comm.regather_s[0]) == pytest.approx(float(comm.forward_s[0]) / 2)


def test_all_reduces_without_sequence_parallelism_move_as_much() -> None:
    job = workload()
    sp = tensor_parallel_comm(job, keys(tp=8, sequence_parallel=True), network(job), moe=False)
    plain = tensor_parallel_comm(job, keys(tp=8), network(job), moe=False)
    assert float(plain.forward_s[0]) == pytest.approx(float(sp.forward_s[0]))
    assert float(plain.regather_s[0]) == 0.0


def test_two_ranks_of_a_mesh_share_one_link() -> None:
    job = workload()
    two, eight = (tensor_parallel_comm(job, keys(tp=t, sequence_parallel=True), network(job), moe=False) for t in (2, 8))
    # An all-gather to S bytes takes S / t over each of t - 1 links.
    assert float(two.forward_s[0]) == pytest.approx(4 * HIDDEN / 2 / LINK)
    assert float(two.forward_s[0] / eight.forward_s[0]) == pytest.approx(4.0)


def test_latent_attention_gathers_latents() -> None:
    job = workload(LATENT)
    comm = tensor_parallel_comm(job, keys(tp=8, sequence_parallel=True), network(job), moe=False)
    latents = 2 * 2048 * (256 + 128 + 32)
    assert float(comm.forward_s[0]) == pytest.approx((latents + 3 * HIDDEN) / 8 / LINK)


def test_routed_experts_alone_need_no_tensor_parallel_block() -> None:
    assert SPARSE.moe is not None
    routed = replace(SPARSE, moe=replace(SPARSE.moe, num_shared_experts=0, shared_expert_ffn_hidden_size=0))
    job = workload(routed)
    comm = tensor_parallel_comm(job, keys(tp=8, ep=8, sequence_parallel=True), network(job), moe=True)
    assert float(comm.forward_s[0]) == pytest.approx(2 * HIDDEN / 8 / LINK)


def test_two_dimensional_tensor_parallelism_gathers_along_one_side_and_scatters_along_the_other() -> None:
    # tp 4 is a grid of 2 x 2: for each of two matmuls a block, a gather to H / 2 bytes over 2 ranks takes H / 4 over a link, and
    # a scatter the same.
    job = workload()
    comm = tensor_parallel_comm(job, keys(tp=4, features=Feature.TP_2D), network(job), moe=False)
    assert float(comm.forward_s[0]) == pytest.approx(2 * 2 * (HIDDEN / 4 + HIDDEN / 4) / LINK)
    assert float(comm.backward_s[0]) == pytest.approx(2 * float(comm.forward_s[0]))
    assert float(comm.regather_s[0]) == 0.0


@pytest.mark.parametrize(
    ("feature", "left"),
    [
        (Feature(0), 1.0),
        (Feature.MC2, 0.57),
        (Feature.COC, (1 + 0.57) / 2),
        (Feature.TP_COMM_OVERLAP, 0.8),
        (Feature.FINE_GRAIN_INTERLEAVE, 0.87),
        (Feature.MC2 | Feature.TP_COMM_OVERLAP, 0.57),
    ],
)
def test_communication_that_fused_kernels_leave(feature: Feature, left: float) -> None:
    values = constants(fused_tp_exposed_fraction=0.57, overlapped_tp_exposed_fraction=0.8)
    assert exposed_tp_fraction(keys(tp=8, features=feature), values)[0] == pytest.approx(left)


def test_ring_hops() -> None:
    job = workload(GROUPED)
    comm = context_parallel_comm(job, keys(cp=4, cp_algo=CpAlgo.RING), network(job))
    # 512 tokens of K and V, 2 groups of 128, 2 B, to a neighbour over one link
    assert float(comm.hop_s[0]) == worked("ring-hop")
    assert float(comm.num_hops[0]) == 3
    assert float(comm.all_to_all_s[0]) == 0.0


def test_ulysses_exchanges_queries_keys_values_and_output() -> None:
    job = workload(GROUPED)
    comm = context_parallel_comm(job, keys(cp=2, cp_algo=CpAlgo.ULYSSES, ulysses_degree=2), network(job))
    exchanged = 2 * 1024 * 128 * (8 + 2 * 2 + 8)
    assert float(comm.all_to_all_s[0]) == pytest.approx(exchanged / 2 / LINK)  # half of it stays
    assert float(comm.num_hops[0]) == 0
    repeated = context_parallel_comm(job, keys(cp=4, cp_algo=CpAlgo.ULYSSES, ulysses_degree=4), network(job))
    exchanged = 2 * 512 * 128 * (8 + 2 * 8 + 8)  # 2 groups for 4 ranks: keys and values of all heads
    assert float(repeated.all_to_all_s[0]) == pytest.approx(exchanged / 4 / LINK)  # a quarter to each, by links of their own


def test_hybrid_rings_join_ulysses_groups() -> None:
    job = workload(GROUPED)
    comm = context_parallel_comm(job, keys(cp=16, cp_algo=CpAlgo.HYBRID, ulysses_degree=2), network(job))
    assert float(comm.num_hops[0]) == 7
    # Eight ring members, 2 ranks apart: the ring leaves the node.
    assert float(comm.hop_s[0]) == pytest.approx(2 * 128 * 2 * 128 * 2 / NIC)


def test_latent_attention_moves_expanded_heads() -> None:
    job = workload(LATENT)
    comm = context_parallel_comm(job, keys(cp=4, cp_algo=CpAlgo.RING), network(job))
    assert float(comm.hop_s[0]) == pytest.approx(2 * 512 * 8 * (96 + 64) / LINK)


def test_expert_all_to_all_inside_a_node() -> None:
    job = workload(SPARSE)
    values = constants(expert_comm_factor=1.5)
    comm = expert_comm(job, keys(ep=8, dispatcher=Dispatcher.ALLTOALL), network(job), values)
    # 2 x 2048 copies of 2 KB, an eighth to each of seven peers over its own link
    assert float(comm.dispatch_s[0]) == pytest.approx(1.5 * 2 * 2048 * 2048 / 8 / LINK, rel=0.02)
    assert float(comm.combine_s[0]) == pytest.approx(float(comm.dispatch_s[0]), rel=0.02)


def test_the_busiest_rank_receives_more() -> None:
    even, uneven = (workload(SPARSE, expert_load_factor=f) for f in (1.0, 1.5))
    key = keys(ep=8, dispatcher=Dispatcher.ALLTOALL)
    slow, fast = (expert_comm(job, key, network(job), constants()).dispatch_s for job in (uneven, even))
    ratio = slow / fast
    assert 1.3 < float(ratio[0]) <= 1.5


def test_a_capacity_balances_what_is_received() -> None:
    assert SPARSE.moe is not None
    capped = replace(SPARSE, moe=replace(SPARSE.moe, capacity_factor=1.0))
    even, uneven = (workload(capped, expert_load_factor=f) for f in (1.0, 1.5))
    key = keys(ep=8, dispatcher=Dispatcher.ALLTOALL)
    np.testing.assert_array_equal(
        expert_comm(uneven, key, network(uneven), constants()).dispatch_s,
        expert_comm(even, key, network(even), constants()).dispatch_s,
    )


def test_zero3_gathers_weights_and_scatters_gradients() -> None:
    job = workload()
    gather, scatter = weight_comm(job, keys(dp=8, zero_stage=3), network(job), moe=False)
    layer = 1024 * 128 * 32 + 3 * 1024 * 4096 + 2 * 1024
    assert float(gather[0]) == pytest.approx(2 * layer / 8 / LINK)
    assert float(scatter[0]) == pytest.approx(4 * layer / 8 / LINK)


@pytest.mark.parametrize(("stack", "nic"), [("fsdp", 20e9), ("fsdp", 5e9), ("megatron-deepspeed", 20e9)])
def test_shards_inside_a_node_are_all_reduced_between_nodes(stack: str, nic: float) -> None:
    """Each of 8 shards over 4 nodes: a rank sends its eighth of the gradients twice, less its own quarter, through its NIC.

    PyTorch's FSDP does so beside the gather and the scatter over the links of the node, which take 6 / 8 of a layer at 18.3 GB/s:
    6 / 8 at 20 GB/s are hidden, at 5 GB/s all but that part. Others do it behind the scatter.
    """
    job = workload(stack=stack, cluster=replace(ascend_a2(), inter_node_bytes_per_s=nic))
    plans = (batch(dp=dp, zero_stage=3, optimizer_shard_size=size) for dp, size in ((32, 8), (8, 0)))
    hybrid, inside = (layer_keys(job, plan)[0] for plan in plans)
    gather, scatter = weight_comm(job, hybrid, network(job), moe=False)
    gather_inside, scatter_inside = weight_comm(job, inside, network(job), moe=False)
    layer = 1024 * 128 * 32 + 3 * 1024 * 4096 + 2 * 1024
    assert float(gather[0]) == float(gather_inside[0])
    all_reduce_s, hidden_s = 2 * 3 / 4 * 4 * layer / 8 / nic, 6 * layer / 8 / LINK if stack == "fsdp" else 0.0
    assert float(scatter[0] - scatter_inside[0]) == pytest.approx(max(all_reduce_s - hidden_s, 0.0))


@pytest.mark.parametrize(("stack", "ep", "calls"), [("fsdp", 1, 1), ("fsdp", 2, 2), ("megatron-lm", 1, 2)])
def test_experts_travel_with_their_layer_where_nothing_wraps_them_apart(stack: str, ep: int, calls: int) -> None:
    job = workload(SPARSE, stack=stack)
    of_calls = network(job, collective_latency_s=1000.0)
    gather, scatter = weight_comm(job, keys(dp=16, ep=ep, zero_stage=3), of_calls, moe=True)
    assert (int(gather[0]) // 1000, int(scatter[0]) // 1000) == (calls, calls)
    gather, scatter = weight_comm(job, keys(dp=16, ep=ep, zero_stage=3), of_calls, moe=False)
    assert (int(gather[0]) // 1000, int(scatter[0]) // 1000) == (1, 1)


def test_sharded_optimizer_gathers_nothing_a_layer() -> None:
    job = workload()
    gather, scatter = weight_comm(job, keys(dp=8, zero_stage=1), network(job), moe=False)
    assert float(gather[0]) == float(scatter[0]) == 0.0


@pytest.mark.parametrize(("stack", "left"), [("mindspeed-llm", 0.7), ("mindformers", 1.0)])
def test_only_a_stack_that_overlaps_weight_gradients_hides_collectives_of_the_backward(stack: str, left: float) -> None:
    job = workload(WIDE, stack=stack, seq_length=4096)
    values = constants(backward_tp_exposed_fraction=0.7)
    priced = replace(device(job), constants=values)
    costs = layer_costs(job, keys(tp=8, sequence_parallel=True), priced, network(job), moe=False)
    assert float(costs.backward["tp_comm"][0] / costs.forward["tp_comm"][0]) == pytest.approx(left)


@pytest.mark.parametrize("slower", [1, 10])
def test_matmuls_hide_collectives_of_the_backward_for_no_longer_than_they_take(slower: int) -> None:
    job = workload(WIDE, cluster=ascend_a2(link_bytes_per_s=LINK / slower), seq_length=4096)
    values = constants(backward_tp_exposed_fraction=0.7)
    costs = layer_costs(job, keys(tp=8, sequence_parallel=True), replace(device(job), constants=values), network(job), moe=False)
    # Into queries, keys and values, and into the MLP: 3,072 and 2 x 3,584 columns a rank, at 250 TFLOPS.
    window_s = 2 * 4096 * 8192 * (3072 + 2 * 3584) / 2.5e14
    pass_s = slower * 4 * 2 * 4096 * 8192 / 8 / LINK  # four collectives; two more gather the saved inputs again
    beyond_s = max(0.3 * pass_s - window_s, 0.0) + max(0.5 * pass_s - window_s, 0.0)
    assert (beyond_s > 0.0) == (slower > 1)
    assert float(costs.backward["tp_comm"][0]) == pytest.approx(0.7 * pass_s + beyond_s)
    assert float(costs.masked["tp_comm"][0]) == pytest.approx(0.8 * pass_s - beyond_s)


LAYER = 1024 * 128 * 32 + 3 * 1024 * 4096 + 2 * 1024
LINEARS = 1024 * 128 * 32 + 3 * 1024 * 4096


@pytest.mark.parametrize(
    ("made", "sent"),
    [
        ({"precision": "bf16"}, 4),
        ({"precision": "fp16"}, 2),  # DeepSpeed's and Megatron's gradients of FP16 weights have their type
        ({"precision": "fp16", "stack": "fsdp"}, 4),  # shards in FP32 have gradients in FP32
        ({"precision": "fp16", "stack": "mindformers", "fp32_parameters": True}, 4),
    ],
)
def test_gradients_of_sharded_layers_travel_in_their_own_type(made: dict[str, Any], sent: int) -> None:
    fp32 = made.pop("fp32_parameters", False)
    job = workload(**made)
    job = replace(job, software=replace(job.software, fp32_parameters=fp32))
    _, scatter = weight_comm(job, keys(dp=8, zero_stage=3), network(job), moe=False)
    assert float(scatter[0]) == pytest.approx(sent * LAYER / 8 / LINK)


@pytest.mark.parametrize(
    ("stack", "recipe", "kept", "linear_bytes"),
    [
        ("megatron-lm", "tensorwise", True, 1),
        ("megatron-lm", "mxfp8", True, 1),  # by rows in the forward, by columns in the backward
        ("megatron-lm", "tensorwise", False, 2),
        ("megatron-lm", "blockwise", None, 2),
        ("fsdp", "tensorwise", True, 2),
    ],
)
def test_megatron_fsdp_gathers_linear_weights_as_it_keeps_them(
    stack: str, recipe: str, kept: bool | None, linear_bytes: int
) -> None:
    job = workload(stack=stack, precision="fp8")
    training = replace(job.training, fp8_recipe=recipe, fp8_param_gather=kept)
    job = replace(job, training=training, software=replace(job.software, year=2026.63))
    gather, _ = weight_comm(job, keys(dp=8, zero_stage=3), network(job), moe=False)
    assert float(gather[0]) == pytest.approx((linear_bytes * LINEARS + 2 * (LAYER - LINEARS)) / 8 / LINK)
