"""Layers of one block, and state spaces: parameters, FLOPs, kept bytes and traffic by hand."""

from dataclasses import replace

import numpy as np
import pytest

from cost_models.layer.activations import layer_activations
from cost_models.layer.attention_bytes import attention_bytes_per_token
from cost_models.layer.communication import context_parallel_comm, tensor_parallel_comm
from cost_models.layer.costs import LayerCosts, layer_costs
from cost_models.layer.host import host_s
from cost_models.layer.linear_attention import (
    linear_attention_exchanged,
    linear_attention_flops_per_token,
    linear_attention_kept_bytes,
    linear_attention_moved_bytes,
    linear_attention_states_bytes,
)
from cost_models.shapes.flops import layer_flops_per_token
from cost_models.shapes.parameters import layer_parameters, num_parameters
from cost_models.shapes.switches import DEFAULT_FEATURES, Feature
from cost_models.shapes.workload import LAYER_SYMBOLS, LayerKind, LocalAttention, ModelShape, MoeShape, Workload
from tests.networks import gpu
from tests.worked_examples import worked
from tests.workloads import DENSE, device, keys, network, workload

# Two groups with a state of 32, eight heads of 64 (512 channels), a convolution of 4 tokens, chunks of 128.
STATES = LocalAttention(
    "state_space", num_key_heads=2, num_value_heads=8, key_head_dim=32, value_head_dim=64, conv_kernel=4, chunk_size=128
)
NANO_STATES = LocalAttention(
    "state_space", num_key_heads=8, num_value_heads=64, key_head_dim=128, value_head_dim=64, conv_kernel=4, chunk_size=128
)
EXPERTS = MoeShape(num_experts=8, top_k=2, expert_ffn_hidden_size=256)
HYBRID = replace(
    DENSE,
    num_layers=4,
    hybrid_layer_pattern="M-*E",
    local_attention=STATES,
    moe=EXPERTS,
    gated_linear_unit=False,
    no_positions=True,
)
MAMBA, ATTENTION, MLP, EXPERT = (LAYER_SYMBOLS[symbol] for symbol in "M*-E")
H, N = 1024, 2048.0


def view(kind: LayerKind, model: ModelShape = HYBRID) -> Workload:
    return workload(model).of_kind(kind)


def cost(kind: LayerKind, model: ModelShape = HYBRID, **columns: object) -> LayerCosts:
    job = view(kind, model)
    return layer_costs(job, keys(**columns), device(job), network(job), moe=kind.moe, local=kind.local)


def test_each_symbol_is_a_layer_of_one_block() -> None:
    assert HYBRID.kinds_of_layers() == (MAMBA, MLP, ATTENTION, EXPERT)
    assert HYBRID.moe_layers() == (False, False, False, True)
    assert [kind.label for kind in (MAMBA, ATTENTION, MLP, EXPERT)] == ["recurrence", "attention", "mlp", "experts"]


def test_parameters_of_each_kind() -> None:
    # in 1024 x (512 + 512 + 64 + 64 + 8), out 512 x 1024, convolution (4 + 1) x 640, three vectors of 8, norm 512.
    mamba = 1024 * 1160 + 512 * 1024 + 5 * 640 + 3 * 8 + 512
    heads = DENSE.num_attention_heads + 2 * DENSE.num_query_groups
    attention = H * DENSE.kv_channels * (heads + DENSE.num_attention_heads)
    of_kind = {
        MAMBA: mamba + H,
        ATTENTION: attention + H,
        MLP: 2 * H * DENSE.ffn_hidden_size + H,
        EXPERT: 8 * 2 * H * 256 + 8 * H + H,
    }
    for kind, total in of_kind.items():
        assert layer_parameters(HYBRID.of_kind(kind), moe=kind.moe, local=kind.local).total == total
    embedding = DENSE.vocab_size * H
    assert num_parameters(HYBRID).total == sum(of_kind.values()) + (1 if DENSE.tied_embeddings else 2) * embedding + H


def test_a_model_of_single_blocks_is_asked_by_kind() -> None:
    with pytest.raises(ValueError, match="ask a view of their kind"):
        layer_parameters(HYBRID, moe=False)


def test_flops_of_a_state_space_are_those_of_the_convention_and_of_its_chunks() -> None:
    projections = 1024 * 1160 + 512 * 1024 + 4 * 640
    flops = layer_flops_per_token(HYBRID.of_kind(MAMBA), 2048.0, moe=False, local=True)
    assert flops == 2 * projections + 7 * 8 * 32 * 64
    # Queries and keys of a group 64 x 128; of a head 128 x 64 inside, 2 x 32 x 64 of the state.
    assert linear_attention_flops_per_token(STATES, np.ones(1))[0] == 2 * (64 * 128 + 8 * (128 * 64 + 2 * 32 * 64))
    assert linear_attention_flops_per_token(NANO_STATES, np.ones(1))[0] == worked("state-space-chunk-flops")


def test_repeated_groups_are_convolved_and_multiplied_on_each_rank() -> None:
    ranks = np.array([1.0, 8.0, 32.0, 64.0])
    flops, moved = linear_attention_flops_per_token(NANO_STATES, ranks), linear_attention_moved_bytes(NANO_STATES, ranks)
    assert flops.tolist() == [3_407_872, 3_407_872, 4_194_304, 5_242_880]
    # 6,144 channels pass a convolution and a split at 8 bytes, 4,096 a norm and a gate at 10; 12 bytes of 524,288 states in 128.
    assert moved.tolist() == [8 * 6144 + 10 * 4096 + 49_152] * 2 + [8 * (6144 + 2 * more * 128) + 90_112 for more in (24, 56)]
    divided, whole = cost(MAMBA, tp=2, cp=4, ulysses_degree=1), cost(MAMBA, tp=2, ulysses_degree=1)
    # Ranks of cp have a quarter of the tokens, and of its two groups eight copies.
    assert divided.forward["attention"][0] / whole.forward["attention"][0] == pytest.approx(
        (64 * 128 * 4 + 8 * (128 * 64 + 2 * 32 * 64)) / (64 * 128 + 8 * (128 * 64 + 2 * 32 * 64)) / 4
    )


def test_a_state_space_keeps_its_projection_three_outputs_and_the_norms_statistics() -> None:
    # Projection 1160; output before and behind the gate, and behind the norm: 3 x 512. Two groups of 4 bytes.
    kept = 2 * (1160 + 3 * 512) + 2 * 4
    assert linear_attention_kept_bytes(STATES, np.array([2.0])) == kept
    # Eight ranks: each of the two groups is there four times, queries and keys of six more.
    assert linear_attention_kept_bytes(STATES, np.array([8.0])) == kept + 2 * 2 * 6 * 32
    one, two = (attention_bytes_per_token(view(MAMBA), keys(tp=tp), local=True)[0][0] for tp in (1, 2))
    assert (one, two) == (kept, kept / 2)
    assert linear_attention_states_bytes(STATES) == 8 * 8 * 32 * 64 / 128


def test_context_parallel_ranks_exchange_all_that_is_projected_and_repeat_groups() -> None:
    assert linear_attention_exchanged(STATES, np.array([2.0]))[0] == 1160 + 512
    assert linear_attention_exchanged(STATES, np.array([8.0]))[0] == 1160 + 512 + 2 * 6 * 32
    job = view(MLP)
    comm = context_parallel_comm(job, keys(cp=2, ulysses_degree=2), network(job))
    assert float(comm.all_to_all_s[0]) == float(comm.hop_s[0]) == 0.0


def test_state_spaces_exchange_over_all_of_cp_beside_a_ring_of_attention() -> None:
    mamba, attention = view(MAMBA), view(ATTENTION)
    forms = {"ulysses": {"ulysses_degree": 4}, "ring": {"ulysses_degree": 1}, "hybrid": {"ulysses_degree": 2}}
    states = {name: context_parallel_comm(mamba, keys(cp=4, **form), network(mamba), local=True) for name, form in forms.items()}
    assert states["ulysses"].all_to_all_s[0] > 0.0
    for name, form in forms.items():
        assert states[name].all_to_all_s[0] == states["ulysses"].all_to_all_s[0]
        assert states[name].num_hops[0] == 0.0
        hops = context_parallel_comm(attention, keys(cp=4, **form), network(attention)).num_hops[0]
        assert hops == {"ulysses": 0.0, "ring": 3.0, "hybrid": 1.0}[name]


def test_gated_delta_nets_exchange_over_all_of_cp_and_lightning_attention_inside_ulysses() -> None:
    for kernel, under_ring in ((4, True), (0, False)):
        linear = LocalAttention("linear", 2, 0, 8, 8, 64, 64, kernel)
        job = workload(replace(DENSE, local_attention=linear))
        ring, ulysses = (
            context_parallel_comm(job, keys(cp=4, ulysses_degree=degree), network(job), local=True) for degree in (1, 4)
        )
        assert ulysses.all_to_all_s[0] > 0.0
        assert ring.all_to_all_s[0] == (ulysses.all_to_all_s[0] if under_ring else 0.0)


@pytest.mark.parametrize("ulysses_degree", [1, 4])
def test_ranks_of_context_parallelism_keep_repeated_groups_and_one_copy_of_the_output(ulysses_degree: int) -> None:
    # tp 2 x cp 4 = 8 ranks for two groups: six more of queries and keys, 32 channels each.
    kept = 2 * (1160 + 3 * 512 + 2 * 6 * 32) + 2 * 4
    found = attention_bytes_per_token(view(MAMBA), keys(tp=2, cp=4, ulysses_degree=ulysses_degree), local=True)[0][0]
    assert found == kept / 2


def test_a_block_that_is_not_there_takes_and_keeps_nothing() -> None:
    mixer, mlp = cost(ATTENTION), cost(MLP)
    both = cost(LayerKind(), replace(HYBRID, hybrid_layer_pattern="", local_attention=None, moe=None))
    for name in ("matmul", "attention", "vector"):
        assert mixer.forward[name] + mlp.forward[name] == pytest.approx(both.forward[name], rel=1e-12), name
        assert mixer.backward[name] + mlp.backward[name] == pytest.approx(both.backward[name], rel=1e-12), name
    assert float(mlp.forward["attention"][0]) == 0.0


@pytest.mark.parametrize("sequence_parallel", [False, True])
def test_one_block_has_half_of_the_collectives_and_of_the_norms(sequence_parallel: bool) -> None:
    dense = replace(HYBRID, hybrid_layer_pattern="", local_attention=None, moe=None)
    columns = {"tp": 4, "sequence_parallel": sequence_parallel}
    job = workload(dense, cluster=gpu())
    parts = [job.of_kind(kind) for kind in (ATTENTION, MLP)]
    whole = tensor_parallel_comm(job, keys(**columns), network(job), moe=False)
    halves = [tensor_parallel_comm(part, keys(**columns), network(part), moe=False) for part in parts]
    for name in ("forward_s", "backward_s", "regather_s"):
        assert sum(getattr(half, name)[0] for half in halves) == pytest.approx(getattr(whole, name)[0], rel=1e-12), name
        assert getattr(halves[0], name)[0] == pytest.approx(getattr(whole, name)[0] / 2, rel=1e-12), name
    kept = [layer_activations(part, keys(**columns), moe=False).saved for part in (job, *parts)]
    for name in ("residual", "norm_output"):
        assert kept[1][name][0] == kept[2][name][0] == pytest.approx(kept[0][name][0] / 2), name
    for name in ("attention", "mlp"):
        assert kept[1][name][0] + kept[2][name][0] == pytest.approx(kept[0][name][0]), name


def test_attention_without_positions_rotates_nothing() -> None:
    rotary = replace(HYBRID, no_positions=False)
    assert float(cost(ATTENTION).forward["vector"][0]) < float(cost(ATTENTION, rotary).forward["vector"][0])
    assert float(cost(MAMBA).forward["vector"][0]) == float(cost(MAMBA, rotary).forward["vector"][0])


def test_layers_without_rotation_launch_no_kernels_of_it_and_save_none() -> None:
    def kernels(kind: LayerKind, features: Feature, model: ModelShape = HYBRID) -> float:
        job, constants = view(kind, model), replace(device(workload()).constants, host_kernel_s=1.0)
        dispatch, _ = host_s(job, keys(features=features), constants, moe=kind.moe, local=kind.local)
        return float(dispatch[0])

    fused, apart = DEFAULT_FEATURES | Feature.FUSED_ROPE, DEFAULT_FEATURES & ~Feature.FUSED_ROPE
    for kind in (MAMBA, ATTENTION, MLP, EXPERT):
        assert kernels(kind, fused) == kernels(kind, apart), kind
    rotary = replace(HYBRID, no_positions=False)
    assert kernels(ATTENTION, apart, rotary) == pytest.approx(kernels(ATTENTION, fused, rotary) + 4)
    assert kernels(ATTENTION, fused, rotary) == kernels(ATTENTION, fused)
    assert kernels(MAMBA, apart, rotary) == kernels(MAMBA, apart)
