"""Layers under checkpoints by operator: what PyTorch kept and multiplied again, and what is priced."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cost_models.layer.activations import layer_activations
from cost_models.layer.costs import layer_costs
from cost_models.layer.modules import layer_compute
from cost_models.network.collectives import all_gather_s
from cost_models.shapes.recompute_modules import RecomputeModule
from cost_models.shapes.strategy import Dispatcher
from cost_models.shapes.switches import DEFAULT_FEATURES, FUSED_KERNELS
from cost_models.shapes.workload import MlaShape, ModelShape, Workload
from tests.networks import gpu
from tests.torchtitan_layers import EXPERT_WIDTH, LATENT, model_of
from tests.workloads import device, keys, network, workload

# Written by scripts/oracle/selective_checkpoints.py, which ran torchtitan 0.2.2 on PyTorch 2.13.
LINES = (Path(__file__).parents[3] / "oracle" / "selective_checkpoints.json").read_text(encoding="utf-8").splitlines()
CASES = [json.loads(line) for line in LINES]
# Written by scripts/oracle/selective_checkpoints_of_main.py, of main of August 2026: one matmul makes queries, keys and values.
NEWEST = [
    json.loads(line)
    for line in (Path(__file__).parents[3] / "oracle" / "selective_checkpoints_of_main.json")
    .read_text(encoding="utf-8")
    .splitlines()
]
SAMPLES, SEQUENCE = 2, 256
WIDER = 16  # so that matmuls fill their tiles, and times are in proportion to FLOPs
MODULE = RecomputeModule.EVERY_OTHER_MATMUL


def name_of(case: dict[str, Any]) -> str:
    kind = f"-{case['experts']['num_shared_experts']}-shared" if "experts" in case else ""
    kind += "-latent-queries" if case["args"].get("q_lora_rank") else ""
    return f"{case['family']}{kind}-tp{case['tp']}-{'compiled' if case['compiled'] else 'eager'}"


def wider(model: ModelShape) -> ModelShape:
    """The model with all widths multiplied, so that each matmul has as large a part of all FLOPs as before."""
    moe = model.moe and replace(
        model.moe,
        expert_ffn_hidden_size=WIDER * model.moe.expert_ffn_hidden_size,
        shared_expert_ffn_hidden_size=WIDER * model.moe.shared_expert_ffn_hidden_size,
    )
    return replace(
        model,
        hidden_size=WIDER * model.hidden_size,
        kv_channels=WIDER * model.kv_channels,
        ffn_hidden_size=WIDER * model.ffn_hidden_size,
        mla=model.mla and MlaShape(**{name: WIDER * getattr(model.mla, name) for name in LATENT}),
        moe=moe,
    )


def priced(case: dict[str, Any], *, wide: bool = False) -> tuple[Workload, Any]:
    job = workload(
        wider(model_of(case)) if wide else model_of(case),
        seq_length=WIDER * SEQUENCE if wide else SEQUENCE,
        global_batch_size=64,
        cluster=gpu(),
        stack="fsdp",
        torch_compile=case["compiled"],
    )
    features = DEFAULT_FEATURES | FUSED_KERNELS if case["compiled"] else DEFAULT_FEATURES & ~FUSED_KERNELS
    return job, keys(
        tp=case["tp"],
        ep=1,
        etp=case["tp"],
        micro_batch_size=SAMPLES,
        sequence_parallel=case["tp"] > 1,
        recompute_modules=MODULE,
        features=features,
    )


def test_the_record_has_both_ways_to_run_a_layer_and_all_kinds_of_mlps() -> None:
    assert {(case["tp"], case["compiled"]) for case in CASES} == {(1, False), (1, True), (2, False), (2, True)}
    shared = [case["experts"]["num_shared_experts"] for case in CASES if "experts" in case]
    assert min(shared) == 0 < max(shared)


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_a_layer_keeps_what_pytorch_kept(case: dict[str, Any]) -> None:
    job, key = priced(case)
    assert layer_activations(job, key, moe="experts" in case).saved_bytes[0] == pytest.approx(case["kept"], rel=0.01)


def attention_weights(model: ModelShape, *, projects: bool = True) -> tuple[int, int]:
    """Weights of attention that a backward multiplies again, and all of them."""
    h, heads, mla = model.hidden_size, model.num_attention_heads, model.mla
    if mla is None:
        d, groups = model.kv_channels, model.num_query_groups
        return groups * d * h + heads * d * h * projects, (2 * heads + 2 * groups) * d * h
    down = (mla.kv_lora_rank + mla.qk_rope_head_dim) * h
    up = heads * (mla.qk_nope_head_dim + mla.v_head_dim) * mla.kv_lora_rank
    queries, out = heads * (mla.qk_nope_head_dim + mla.qk_rope_head_dim), heads * mla.v_head_dim * h
    if mla.q_lora_rank == 0:
        return down + out, queries * h + down + up + out
    return queries * mla.q_lora_rank + up, (mla.q_lora_rank * h + queries * mla.q_lora_rank) + down + up + out


@pytest.mark.parametrize("case", [case for case in CASES if "experts" not in case], ids=name_of)
def test_a_layer_multiplies_again_what_pytorch_multiplied(case: dict[str, Any]) -> None:
    """Keys, the projection unless its reduce-scatter is kept by a compiled layer, and up: 2 x tokens x weights, over tp."""
    model, tokens = model_of(case), SAMPLES * SEQUENCE
    repeated, attention = attention_weights(model, projects=case["tp"] == 1 or not case["compiled"])
    weights = repeated + model.ffn_hidden_size * model.hidden_size
    assert case["again"] == 2 * tokens * weights // case["tp"]
    job, key = priced(case, wide=True)
    compute = layer_compute(job, key, device(job), moe=False)
    whole = attention + 3 * model.ffn_hidden_size * model.hidden_size
    again = (compute.selective_recompute - compute.vector.total) / compute.matmuls.total
    assert again[0] == pytest.approx(weights / whole, rel=0.03)


@pytest.mark.parametrize("case", NEWEST, ids=name_of)
def test_a_joined_matmul_is_kept_whole_and_keys_do_not_run_again(case: dict[str, Any]) -> None:
    (job, key), model = priced(case), model_of(case)
    newest = replace(job, software=replace(job.software, newest_layers=True))
    assert layer_activations(newest, key, moe=False).saved_bytes[0] == pytest.approx(case["kept"], rel=0.01)
    projection = model.num_attention_heads * model.kv_channels * model.hidden_size
    weights = projection + model.ffn_hidden_size * model.hidden_size
    assert case["again"] == 2 * SAMPLES * SEQUENCE * weights
    wide, key = priced(case, wide=True)
    compute = layer_compute(replace(wide, software=newest.software), key, device(wide), moe=False)
    groups = model.num_query_groups * model.kv_channels * model.hidden_size
    whole = 2 * projection + 2 * groups + 3 * model.ffn_hidden_size * model.hidden_size
    again = (compute.selective_recompute - compute.vector.total) / compute.matmuls.total
    assert again[0] == pytest.approx(weights / whole, rel=0.03)


@pytest.mark.parametrize("compiled", [False, True])
def test_an_eager_layer_of_main_runs_again_to_its_end(compiled: bool) -> None:
    """Its checkpoints do not stop early; a compiled layer drops the last matmul, which no gradient needs."""
    job, _ = priced({**CASES[0], "compiled": compiled})
    newest, key = replace(job, software=replace(job.software, newest_layers=True)), keys(tp=1, micro_batch_size=SAMPLES)
    usual_s, newest_s = (
        layer_costs(each, key, device(each), network(each), moe=False).full_recompute_s for each in (job, newest)
    )
    last_s = layer_compute(job, key, device(job), moe=False).matmuls.last
    assert newest_s[0] - usual_s[0] == pytest.approx(0.0 if compiled else last_s[0], abs=1e-12)
    assert last_s[0] > 0


@pytest.mark.parametrize("case", [case for case in CASES if "experts" in case], ids=name_of)
def test_experts_and_their_router_run_again_as_a_whole(case: dict[str, Any]) -> None:
    """PyTorch repeated keys, the projection, the router, three grouped matmuls of padded rows, and up of shared experts."""
    model, tokens = model_of(case), SAMPLES * SEQUENCE
    assert model.moe is not None
    h, moe = model.hidden_size, model.moe
    rows = moe.top_k * tokens + 8 * moe.num_experts
    repeated_attention, attention = attention_weights(model)
    plain = repeated_attention + h * moe.num_experts
    downs = 1 + (model.mla is not None and model.mla.q_lora_rank > 0)  # then down is the eighth matmul, and not kept
    plain += downs * moe.shared_expert_ffn_hidden_size * h
    assert case["again"] == 2 * tokens * plain + 2 * rows * 3 * h * EXPERT_WIDTH
    job, key = priced(case, wide=True)
    compute = layer_compute(job, key, device(job), moe=True)
    again = (compute.selective_recompute - compute.vector.total - compute.permute) / compute.matmuls.total
    # Without the rows that the grouped matmul pads, and with the router as narrow beside wider layers.
    router = h * moe.num_experts / WIDER
    repeated = plain - h * moe.num_experts + router + moe.top_k * 3 * h * EXPERT_WIDTH
    whole = attention + router + 3 * h * (moe.top_k * EXPERT_WIDTH + moe.shared_expert_ffn_hidden_size)
    assert again[0] == pytest.approx(repeated / whole, rel=0.03)


def test_tokens_travel_to_their_experts_once_more() -> None:
    (case, *_) = (case for case in CASES if "experts" in case)
    job, key = priced(case)
    spread = replace(key, ep=np.array([4]), etp=np.array([1]), dispatcher=np.array([Dispatcher.ALLTOALL]))
    plain = replace(spread, recompute_modules=np.array([0]))
    again, once = (layer_costs(job, each, device(job), network(job), moe=True) for each in (spread, plain))
    compute = layer_compute(job, spread, device(job), moe=True)
    added = again.backward["recompute"] - once.backward["recompute"] - compute.selective_recompute
    assert added[0] == pytest.approx(once.forward["ep_comm"][0])
    assert once.forward["ep_comm"][0] > 0.0


def test_latent_attention_keeps_what_its_experts_exchange() -> None:
    """As torchtitan's list for DeepSeek: what dispatch and combine make, 2 x tokens x top_k rows, and neither runs again."""
    case = next(case for case in CASES if "experts" in case and case["family"] == "deepseek_v3")
    job, key = priced(case)
    spread = replace(key, ep=np.array([4]), dispatcher=np.array([Dispatcher.ALLTOALL]))
    alone, kept = (layer_activations(job, each, moe=True).saved_bytes[0] for each in (key, spread))
    assert kept - alone == pytest.approx(2 * 2 * (SAMPLES * SEQUENCE * 2) * 256, rel=0.01)
    plain = replace(spread, recompute_modules=np.array([0]))
    again, once = (layer_costs(job, each, device(job), network(job), moe=True) for each in (spread, plain))
    compute = layer_compute(job, spread, device(job), moe=True)
    assert again.backward["recompute"] - once.backward["recompute"] == pytest.approx(compute.selective_recompute)
    assert once.forward["ep_comm"][0] > 0.0


def test_tensor_parallel_ranks_gather_their_inputs_once_more() -> None:
    """As PyTorch's compiled graph of tp 2, whose backward gathers four times: twice for gradients, twice for the recompute."""
    (case, *_) = (case for case in CASES if case["tp"] == 2 and not case["compiled"])
    job, key = priced(case)
    again = layer_costs(job, key, device(job), network(job), moe=False).backward["recompute"]
    added = again - layer_compute(job, key, device(job), moe=False).selective_recompute
    gather = all_gather_s(np.array([2.0 * SAMPLES * SEQUENCE * 256]), np.array([2]), np.array([1]), network(job))
    assert added[0] == pytest.approx(2.0 * gather[0])
    assert gather[0] > 0.0


def test_a_backward_holds_the_whole_layer_beside_what_was_kept_for_nothing() -> None:
    """Queries before their positions, down, and over tp two reduce-scatters are no part of a layer without checkpoints."""
    (case, *_) = (case for case in CASES if case["tp"] == 2 and not case["compiled"])
    job, key = priced(case)
    plain = layer_activations(job, replace(key, recompute_modules=np.array([0])), moe=False)
    found = layer_activations(job, key, moe=False)
    tokens, h = SAMPLES * SEQUENCE, 256
    beside = 2 * tokens * (h / 2 + h + 2 * h / 2)
    held = found.saved_bytes + found.transient_bytes - plain.transient_bytes
    assert held[0] == pytest.approx(plain.saved_bytes[0] + beside)
