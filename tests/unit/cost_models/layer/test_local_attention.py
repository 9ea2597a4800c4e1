"""Layers with a window, a recurrence or a gate: their time, traffic and activations by hand."""

from dataclasses import replace

import numpy as np
import pytest

from cost_models.layer.activations import layer_activations
from cost_models.layer.attention_bytes import attention_bytes_per_token
from cost_models.layer.communication import context_parallel_comm, tensor_parallel_comm
from cost_models.layer.costs import LayerCosts, layer_costs
from cost_models.layer.linear_attention import (
    linear_attention_flops_per_token,
    linear_attention_kept_bytes,
    linear_attention_states_bytes,
)
from cost_models.layer.quantisation import quantise_s
from cost_models.network.collectives import all_to_all_s
from cost_models.shapes.recompute_modules import RecomputeModule
from cost_models.shapes.strategy import CpAlgo
from cost_models.shapes.switches import DEFAULT_FEATURES, Feature
from cost_models.shapes.workload import LocalAttention, ModelShape
from tests.networks import gpu
from tests.published_models import MINIMAX_TEXT_01, QWEN3_NEXT_80B
from tests.worked_examples import worked
from tests.workloads import DENSE, LATENT, device, keys, network, workload

N = 2048.0
FLOPS, HBM, ATTENTION_RATE = 2.5e14, 1.6e12, 0.5 * 3e14
WINDOWED = replace(DENSE, local_attention=LocalAttention("window", full_attention_every=2, window=512))
# Four key heads and eight value heads of 64: 256 channels of queries and of keys, 512 of values.
RECURRENT = replace(
    DENSE,
    local_attention=LocalAttention(
        "linear",
        full_attention_every=4,
        num_key_heads=4,
        num_value_heads=8,
        key_head_dim=64,
        value_head_dim=64,
        conv_kernel=4,
    ),
)
LIGHTNING = replace(
    DENSE, local_attention=LocalAttention("linear", num_key_heads=8, num_value_heads=8, key_head_dim=128, value_head_dim=128)
)
GATED = replace(DENSE, attention_output_gate=True)


def cost(model: ModelShape, *, local: bool = True, values: dict[str, float] | None = None, **columns: object) -> LayerCosts:
    job = workload(model)
    priced = device(job, **(values or {}))
    return layer_costs(job, keys(**columns), priced, network(job), moe=False, local=local)


def test_a_window_leaves_its_share_of_the_scores() -> None:
    # 2048 x 512 - 512^2 / 2 pairs of 2048^2 / 2: 7/16.
    full, local = cost(WINDOWED, local=False), cost(WINDOWED)
    assert local.forward["attention"] == pytest.approx(7 / 16 * full.forward["attention"])
    assert local.backward["attention"] == pytest.approx(7 / 16 * full.backward["attention"])
    assert local.forward["matmul"] == full.forward["matmul"]
    assert local.forward["vector"] == full.forward["vector"]


def test_a_window_is_a_short_sequence_to_the_kernel() -> None:
    # 896 tokens in the place of 2,048: a kernel that reaches half its rate at 896 takes twice as long for 7/16 of the work.
    values = {"attention_half_length": 896.0}
    assert cost(WINDOWED, values=values).forward["attention"] == pytest.approx(2 * 7 / 16 * 2 * N * N * 8 * 128 / ATTENTION_RATE)


def test_scores_that_are_written_out_are_all_computed() -> None:
    plain = DEFAULT_FEATURES & ~Feature.FLASH_ATTENTION
    full, local = cost(WINDOWED, local=False, features=plain), cost(WINDOWED, features=plain)
    assert local.forward["attention"] == full.forward["attention"]


def test_parts_of_a_layer_with_the_delta_rule() -> None:
    forward = {name: float(value[0]) for name, value in cost(RECURRENT).forward.items() if value[0]}
    weights = 1024 * (2 * 256 + 2 * 512 + 2 * 8) + 512 * 1024
    # In chunks of 64: 3 dk + 2 dv inside, 3 dk dv of the state; heads of 64 run at (64 / 128)^0.15 of the rate.
    core = 2 * 8 * (64 * (3 * 64 + 2 * 64) + 3 * 64 * 64)
    assert forward == pytest.approx(
        {
            "matmul": 2 * N * (weights + 3 * 1024 * 4096) / FLOPS,
            "attention": core * N / ATTENTION_RATE / 0.5**0.15,
            # norms 8 h, gated activation 6 f, residual adds 12 h; 1,024 channels through the convolution and split with 512 of
            # the gate, which the output is multiplied with
            "vector": N * (8 * 1024 + 6 * 4096 + 12 * 1024 + 4 * (2 * 1024 + 512) + 6 * 512) / HBM,
        }
    )


def test_a_recurrence_takes_the_same_time_a_token_at_any_length() -> None:
    short, long = (layer_costs(job, keys(), device(job), network(job), moe=False, local=True).forward["attention"]
                   for job in (workload(RECURRENT, seq_length=length) for length in (2048, 8192)))  # fmt: skip
    assert long == pytest.approx(4 * short)


def test_worked_chunks() -> None:
    assert QWEN3_NEXT_80B.local_attention is not None
    assert MINIMAX_TEXT_01.local_attention is not None
    assert linear_attention_flops_per_token(QWEN3_NEXT_80B.local_attention, np.ones(1))[0] == worked("delta-rule-chunk-flops")
    # Lightning attention, 64 heads of 128 in chunks of 256: queries with keys and with values, and twice the state.
    lightning = linear_attention_flops_per_token(MINIMAX_TEXT_01.local_attention, np.ones(1))
    assert lightning[0] == 2 * 64 * (256 * 2 * 128 + 2 * 128 * 128)
    assert linear_attention_kept_bytes(QWEN3_NEXT_80B.local_attention, np.ones(1))[0] == worked("delta-rule-activations")
    # A state of 128 x 128 for each of 32 heads and 64 tokens, and its gradient: 16,384 bytes a token each.
    assert linear_attention_states_bytes(QWEN3_NEXT_80B.local_attention) == 32_768


def test_a_recurrence_keeps_no_scores_and_no_statistics() -> None:
    job, key = workload(RECURRENT), keys(tp=2, features=DEFAULT_FEATURES & ~Feature.FLASH_ATTENTION)
    saved = layer_activations(job, key, moe=False, local=True).saved
    # 1,024 channels before and, with keys and queries of eight heads, 1,536 behind the convolution, the gate, its view, the
    # output three times, 512 queries and keys normalised; decay, step and 64 numbers of the inverse a head.
    kept = 2 * (1024 + 1536 + 5 * 512 + 512) + 8 * (2 * 4 + 2 * 64)
    assert float(saved["attention"][0]) == kept * N / 2
    assert float(saved["attention_scores"][0]) == 0
    assert float(layer_activations(job, key, moe=False).saved["attention_scores"][0]) > 0
    # Lightning attention: 3,072 channels before and behind the activation function, the gate and three outputs.
    lightning, _ = attention_bytes_per_token(workload(LIGHTNING), keys(), local=True)
    assert float(lightning[0]) == 2 * (3 * 1024 + 3 * 1024 + 4 * 1024)


def test_recompute_of_core_attention_repeats_no_recurrence() -> None:
    again = {"recompute_modules": RecomputeModule.CORE_ATTN}
    assert float(cost(RECURRENT, **again).backward["recompute"][0]) == 0
    assert cost(WINDOWED, **again).backward["recompute"] == pytest.approx(cost(WINDOWED).forward["attention"])


def test_ulysses_exchanges_what_a_recurrence_reads_and_writes() -> None:
    job, key = workload(RECURRENT), keys(cp=2, cp_algo=CpAlgo.ULYSSES, ulysses_degree=2)
    links = network(job)
    comm = context_parallel_comm(job, key, links, local=True)
    moved = 2 * N / 2 * (2 * 256 + 2 * 512 + 2 * 8)  # queries and keys, values and output, decay and step
    assert comm.all_to_all_s == pytest.approx(all_to_all_s(np.array([moved]), np.array([2]), np.array([1]), links))
    assert float(comm.num_hops[0]) == 0


def test_a_recurrence_beside_latent_attention_gathers_the_hidden_state() -> None:
    model = replace(LATENT, local_attention=RECURRENT.local_attention)
    job, key = workload(model), keys(tp=8, sequence_parallel=True)
    plain = tensor_parallel_comm(workload(), key, network(job), moe=False)
    assert tensor_parallel_comm(job, key, network(job), moe=False, local=True).forward_s == pytest.approx(plain.forward_s)
    assert (tensor_parallel_comm(job, key, network(job), moe=False).forward_s < plain.forward_s).all()


def test_a_gate_projects_queries_twice() -> None:
    plain, gated = cost(DENSE, local=False), cost(GATED, local=False)
    more = {name: float((gated.forward[name] - plain.forward[name])[0]) for name in ("matmul", "attention", "vector")}
    # The gate is split off (4 H d) and multiplied with the output (6 H d).
    assert more == pytest.approx({"matmul": 2 * N * 1024 * 1024 / FLOPS, "attention": 0.0, "vector": N * 10 * 1024 / HBM})
    kept = [float(attention_bytes_per_token(workload(model), keys())[0][0]) for model in (DENSE, GATED)]
    assert kept[1] - kept[0] == 4 * 1024  # itself, and the gated output


def test_casts_follow_the_projections() -> None:
    def cast_s(model: ModelShape, *, local: bool) -> float:
        cluster = gpu()
        profile = replace(cluster.profile, matmul_flops_per_s={**cluster.profile.matmul_flops_per_s, "fp8": 6e14})
        job = workload(model, precision="fp8", cluster=replace(cluster, profile=profile))
        return float(quantise_s(job, keys(), device(job), moe=False, local=local)[0][0])

    # Inputs: h of the entering projections, and of the output projection its own width, 512 in the place of 1,024.
    byte_s = 6.0 / (workload(cluster=gpu()).cluster.profile.hbm_bytes_per_s)
    assert cast_s(RECURRENT, local=False) - cast_s(RECURRENT, local=True) == pytest.approx(N * 512 * byte_s)
    assert cast_s(GATED, local=False) == pytest.approx(cast_s(DENSE, local=False))


def test_the_rate_is_that_of_attention_on_one_chunk() -> None:
    # A recurrence sees a chunk of 64 tokens: at a half length of 64 it takes twice as long.
    slow = cost(RECURRENT, values={"attention_half_length": 64.0}).forward["attention"]
    assert slow == pytest.approx(2 * cost(RECURRENT).forward["attention"])
