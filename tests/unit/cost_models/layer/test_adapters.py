"""Adapters and frozen weights by hand: matmuls, operators, collectives, quantised weights, and a reference model."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cost_models.delivery.state import saved_state
from cost_models.layer.adapters import adapter_comm, adapter_times, dequantise_s
from cost_models.layer.communication import tensor_parallel_comm, weight_comm
from cost_models.layer.costs import layer_costs
from cost_models.layer.edges import edge_costs
from cost_models.network.collectives import all_gather_s, all_reduce_s, reduce_scatter_s
from cost_models.shapes.adapters import adapter_rank_parameters
from cost_models.shapes.flops import model_flops_per_step
from cost_models.shapes.strategy import ParallelStrategy
from cost_models.shapes.training_task import (
    MEGATRON_MODULES,
    Adapters,
    BasePrecision,
    Reference,
    Task,
    TrainingTask,
)
from cost_models.shapes.workload import ModelShape, Workload
from cost_models.step.priced_groups import priced_groups
from tests.networks import gpu
from tests.worked_examples import worked
from tests.workloads import DENSE, SPARSE, batch, constants, device, keys, network, workload

ALL = Adapters(16, 16.0, tuple(MEGATRON_MODULES))
LORA = TrainingTask(Task.LORA, ALL)
QLORA = TrainingTask(Task.QLORA, ALL, BasePrecision.NF4)
DPO = TrainingTask(Task.DPO, reference=Reference.MODEL)
N, H, F, R = 2048, 1024, 4096, 16


def job(model: ModelShape = DENSE, task: TrainingTask = LORA, **values: Any) -> Workload:
    return workload(model, cluster=gpu(), task=task, **values)


def test_a_frozen_matmul_runs_once_in_a_backward_and_an_adapters_twice() -> None:
    whole, frozen = (
        layer_costs(each, keys(), device(each), network(each), moe=False) for each in (job(task=TrainingTask()), job())
    )
    adapters = adapter_times(job(), keys(), device(job()), moe=False)
    low_rank = float((adapters.attention + adapters.mlp)[0])
    base = float(whole.forward["matmul"][0])
    assert float(frozen.forward["matmul"][0]) == pytest.approx(base + low_rank)
    assert float(frozen.backward["matmul"][0]) == pytest.approx(base + 2 * low_rank)
    assert float(frozen.weight_gradient_s[0]) == pytest.approx(low_rank)
    assert float(whole.backward["matmul"][0]) == pytest.approx(2 * base)


def test_an_adapters_operators_move_the_outputs_five_times_forward() -> None:
    # Outputs of a token: 3 x 1,024 of q, k and v, 1,024, 2 x 4,096 of gate and up, 1,024. The scale moves 4 bytes,
    # the sum 6: it reads two and writes one. Backward: the scale, and a sum of two gradients of each input (6).
    out, entering = 3 * H + H + 2 * F + H, H + H + H + F
    times = adapter_times(job(), keys(), device(job()), moe=False)
    rate = device(job()).hbm_bytes_per_s
    assert float(times.vector_forward[0]) == pytest.approx(10 * N * out / rate)
    assert float(times.vector_backward[0]) == pytest.approx((4 * N * out + 6 * N * entering) / rate)


@pytest.mark.parametrize(
    ("stack", "tp", "dense"),
    [
        # q, k, v: A 16 x 1,024, B 16 x 3,072; projection 16 x (1,024 + 1,024); MLP 16 x (1,024 + 8,192), 16 x (4,096 + 1,024).
        ("megatron-lm", 1, 16 * (1024 + 3072 + 1024 + 1024 + 1024 + 8192 + 4096 + 1024)),
        ("megatron-lm", 4, 16 * (1024 + 3072 + 1024 + 1024 + 1024 + 8192 + 4096 + 1024) / 4),  # Megatron Bridge divides both
        # PEFT divides B of the layers that enter a block, and A of those that leave it.
        ("mindspeed-llm", 4, 16 * (1024 + 3072 / 4 + 1024 / 4 + 1024 + 1024 + 8192 / 4 + 4096 / 4 + 1024)),
    ],
)
def test_tensor_parallelism_divides_adapters_as_the_framework_does(stack: str, tp: int, dense: float) -> None:
    found, experts, _ = adapter_rank_parameters(job(stack=stack), keys(tp=tp), moe=False)
    assert (float(found[0]), float(experts[0])) == (dense, 0.0)


@pytest.mark.parametrize(("stack", "copies"), [("megatron-lm", 1), ("mindspeed-llm", 4)])
def test_experts_of_a_rank_share_an_adapter_or_have_one_each(stack: str, copies: int) -> None:
    # 16 experts over ep 4, 512 channels wide with a gate: 16 x (1,024 + 1,024) and 16 x (512 + 1,024) each.
    _, experts, _ = adapter_rank_parameters(job(SPARSE, stack=stack), keys(ep=4), moe=True)
    assert float(experts[0]) == copies * 16 * (1024 + 1024 + 512 + 1024)


def test_adapters_send_low_ranks_and_megatron_bridge_whole_outputs_too() -> None:
    key = keys(tp=4, sequence_parallel=True)
    wires = network(job())
    low, hidden = 2 * N * R, 2 * N * H
    gather, scatter, reduce = (
        float(f(low, key.tp, key.tp // 4, wires)[0]) for f in (all_gather_s, reduce_scatter_s, all_reduce_s)
    )
    whole, back = (float(f(hidden, key.tp, key.tp // 4, wires)[0]) for f in (all_gather_s, reduce_scatter_s))
    forward, backward = adapter_comm(job(), key, wires, moe=False)
    assert float(forward[0]) == pytest.approx(2 * gather + 2 * (reduce + whole))
    assert float(backward[0]) == pytest.approx(4 * reduce + 2 * back + 2 * whole)
    forward, backward = adapter_comm(job(stack="mindspeed-llm"), key, wires, moe=False)
    assert float(forward[0]) == pytest.approx(2 * gather + 2 * scatter)
    assert float(backward[0]) == pytest.approx(2 * (scatter + gather) + 2 * gather)


def test_frozen_weights_need_no_input_in_a_backward() -> None:
    key = keys(tp=4, sequence_parallel=True)
    assert float(tensor_parallel_comm(job(), key, network(job()), moe=False).regather_s[0]) == 0.0
    assert float(tensor_parallel_comm(job(task=TrainingTask()), key, network(job()), moe=False).regather_s[0]) > 0.0


def test_nf4_takes_half_a_byte_and_its_scales() -> None:
    # 0.5 + 1 / 64 + 4 / (64 x 256) = 0.515869140625 bytes. Llama 2 70B: 68.98 B, of which 68.45 B in linear layers: 35 GB, as
    # MindSpeed-LLM's page says.
    assert QLORA.stored_bytes == 0.515869140625
    linears = 4 * H * H + 3 * H * F
    weights = {}
    for task in (LORA, QLORA):
        ((_, group),) = priced_groups(job(task=task), batch(zero_stage=0), constants(), merge=False, tables=True)
        weights[task.name] = float(group.sharded.states.weights[0, 0])
    assert weights[Task.LORA] - weights[Task.QLORA] == pytest.approx(8 * linears * (2 - QLORA.stored_bytes))


def test_each_pass_writes_quantised_weights_in_16_bits() -> None:
    linears = 4 * H * H + 3 * H * F
    quantised = job(task=QLORA)
    found = dequantise_s(quantised, keys(), device(quantised), moe=False, local=False)
    assert float(found[0]) == pytest.approx((0.515869140625 + 2) * linears / device(quantised).hbm_bytes_per_s)
    assert float(dequantise_s(job(), keys(), device(job()), moe=False, local=False)[0]) == 0.0


def test_zero_3_gathers_frozen_weights_and_scatters_gradients_of_adapters() -> None:
    key = keys(tp=1, dp=8, zero_stage=3)
    layer, low_rank = 4 * H * H + 3 * H * F + 2 * H, 16 * (1024 + 3072 + 1024 + 1024 + 1024 + 8192 + 4096 + 1024)
    gather, scatter = weight_comm(job(), key, network(job()), moe=False)
    shards = key.weight_shards
    assert float(gather[0]) == pytest.approx(float(all_gather_s(2 * (layer + low_rank), shards, key.tp, network(job()))[0]))
    assert float(scatter[0]) == pytest.approx(float(reduce_scatter_s(4 * low_rank, shards, key.tp, network(job()))[0]))


def test_a_frozen_head_has_no_weight_gradient_and_a_frozen_table_none_at_all() -> None:
    whole, frozen = (edge_costs(each, keys(), device(each), network(each)) for each in (job(task=TrainingTask()), job()))
    assert float(frozen.head_weight_gradient_s[0]) == float(frozen.embedding_backward_s[0]) == 0.0
    logits = float(whole.head_weight_gradient_s[0])
    assert float(whole.head_backward_s[0] - frozen.head_backward_s[0]) == pytest.approx(logits)


def test_a_reference_model_runs_every_forward_once_more_over_pairs() -> None:
    pairs, single = job(task=DPO), job(task=TrainingTask(Task.DPO, reference=Reference.PRECOMPUTED))
    with_reference, without = (layer_costs(each, keys(), device(each), network(each), moe=False) for each in (pairs, single))
    assert float(with_reference.forward_s[0]) == pytest.approx(2 * float(without.forward_s[0]))
    assert float(with_reference.backward_s[0]) == float(without.backward_s[0])
    once = layer_costs(job(task=TrainingTask()), keys(), device(pairs), network(pairs), moe=False)
    assert float(without.forward["vector"][0]) == pytest.approx(2 * float(once.forward["vector"][0]))  # two sequences a pair
    pretrained = model_flops_per_step(job(task=TrainingTask()))
    assert model_flops_per_step(single) == pytest.approx(2 * pretrained)
    assert model_flops_per_step(pairs) == pytest.approx(2 * pretrained * 4 / 3)


def test_a_reference_model_takes_its_weights_unless_the_adapters_are_all_that_differs() -> None:
    weights = {}
    for name, task in {
        "sft": TrainingTask(Task.SFT),
        "dpo": DPO,
        "precomputed": replace(DPO, reference=Reference.PRECOMPUTED),
        "lora": LORA,
        "lora dpo": replace(DPO, adapters=ALL),
    }.items():
        ((_, group),) = priced_groups(job(task=task), batch(zero_stage=0), constants(), merge=False, tables=True)
        weights[name] = float(group.sharded.states.weights[0, 0])
    assert weights["dpo"] == 2 * weights["sft"]
    assert weights["precomputed"] == weights["sft"]
    assert weights["lora dpo"] == weights["lora"]


QWEN = ModelShape("qwen3-8b", 36, 4096, 32, 8, 128, 12288, 151936)


def test_the_examples_of_the_page_are_those_of_the_code() -> None:
    found, _, _ = adapter_rank_parameters(job(QWEN), keys(), moe=False)
    assert float(found[0]) == worked("adapter-parameters")
    assert QLORA.stored_bytes == worked("nf4-weight")
    quantised = workload(QWEN, task=QLORA)
    of_page = replace(device(quantised), hbm_bytes_per_s=1.6e12)
    time_s = dequantise_s(quantised, keys(), of_page, moe=False, local=False)
    assert float(time_s[0]) == worked("nf4-dequantise")


def test_a_checkpoint_has_optimizer_states_of_adapters_alone() -> None:
    # Eight layers; adapters of a layer have 16 x 20,480 parameters, 2 + 4 + 8 bytes each. Frozen weights take 2 bytes.
    model = 8 * (4 * H * H + 3 * H * F + 2 * H) + 2 * 32000 * H + H
    adapters = 8 * 16 * (1024 + 3072 + 1024 + 1024 + 1024 + 8192 + 4096 + 1024)
    plan = ParallelStrategy(tp=1)
    assert saved_state(job(), plan, constants()).total_bytes == 2 * model + 14 * adapters
    assert saved_state(job(task=TrainingTask(Task.SFT)), plan, constants()).total_bytes == 14 * model
