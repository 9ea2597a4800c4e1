"""Bytes that a layer kept and sent when its framework ran it: Megatron-Core on CPU processes, transformers under FSDP2.

The model has 4 layers of 512 channels, 8 heads of 64, 4 of keys, 1,408 channels of its MLP and 256 tokens a micro batch.
Transformer Engine's kernels had stand-ins that keep what its source says. Each norm of the hidden state also keeps 1 / rms, 4
bytes a token, which is left out.
"""

from dataclasses import replace
from typing import Any

import pytest

from cost_models.layer.activations import layer_activations
from cost_models.layer.communication import expert_comm, tensor_parallel_comm
from cost_models.layer.tensors import tensor_costs
from cost_models.layer.unfused_bytes import expert_product_bytes
from cost_models.shapes.layer_keys import LayerKeys
from cost_models.shapes.recompute_modules import RecomputeModule
from cost_models.shapes.strategy import Dispatcher, ParallelStrategy, Recompute
from cost_models.shapes.switches import DEFAULT_FEATURES, FUSED_KERNELS, Feature
from cost_models.shapes.tensors import Tensor
from cost_models.shapes.workload import MlaShape, ModelShape, MoeShape, Workload
from cost_models.step.traffic import step_traffic
from tests.networks import ascend_a2, gpu
from tests.workloads import constants, device, keys, network, workload

LAYER = ModelShape(
    name="tiny",
    num_layers=4,
    hidden_size=512,
    num_attention_heads=8,
    num_query_groups=4,
    kv_channels=64,
    ffn_hidden_size=1408,
    vocab_size=2048,
)
QUERY_NORMS = replace(LAYER, qk_layernorm=True)
N = 256
RMS = 2 * 4 * N
MEGATRON = 4_007_936 - RMS
SCORES = 4 * 32 * N  # of the balancing loss, which launch files have and the small plans had not
EXPERTS = MoeShape(num_experts=32, top_k=2, expert_ffn_hidden_size=384)
# The model of the traffic: 8 layers of 256 channels, 4 heads of 64, 128 tokens, two micro batches.
SENT = replace(LAYER, num_layers=8, hidden_size=256, num_attention_heads=4, num_query_groups=4, ffn_hidden_size=704)


def on_gpu(model: ModelShape = LAYER, **values: Any) -> Workload:
    return workload(model, cluster=gpu(), seq_length=N, **values)


def kept(job: Workload, key: LayerKeys, *, moe: bool = False) -> float:
    return float(layer_activations(job, key, moe=moe).saved_bytes[0])


def selective(modules: RecomputeModule, **columns: Any) -> LayerKeys:
    return keys(recompute=Recompute.SELECTIVE, recompute_modules=modules, **columns)


def tp_bytes(model: ModelShape, strategy: ParallelStrategy, **values: Any) -> float:
    job = workload(model, cluster=gpu(), seq_length=128, global_batch_size=2, **values)
    (traffic,) = (group for group in step_traffic(job, strategy, constants()) if group.group == "tp")
    return sum(tier.bytes_moved for tier in traffic.tiers)


def test_a_layer_on_transformer_engine() -> None:
    assert kept(on_gpu(), keys()) == MEGATRON


@pytest.mark.parametrize("tp", [1, 2])
def test_norms_of_queries_and_keys_keep_their_inputs(tp: int) -> None:
    split = {"tp": tp, "sequence_parallel": tp > 1}
    assert kept(on_gpu(QUERY_NORMS), keys(**split)) - kept(on_gpu(), keys(**split)) == 405_504 / tp


def test_norms_of_heads_that_ranks_share_run_on_each() -> None:
    few = replace(QUERY_NORMS, num_query_groups=2)
    plain = kept(on_gpu(replace(few, qk_layernorm=False)), keys(tp=4))
    assert kept(on_gpu(few), keys(tp=4)) - plain == (8 / 4 + 1) * (2 * 64 + 4) * N  # two heads of queries and one of keys a rank


def test_norms_of_queries_and_keys_on_ascend_keep_the_projection_and_a_copy_of_the_queries() -> None:
    jobs = (workload(model, cluster=ascend_a2(), seq_length=N, stack="mindspeed-llm") for model in (LAYER, QUERY_NORMS))
    plain, normed = (kept(job, keys()) for job in jobs)
    assert normed - plain == 524_288 + 262_144 + 12_288  # and 1 / rms of each head


@pytest.mark.parametrize(("model", "bytes_seen"), [(LAYER, 5_777_408), (QUERY_NORMS, 6_969_344)], ids=["llama", "qwen3"])
def test_eager_layers_of_transformers(model: ModelShape, bytes_seen: int) -> None:
    plain = keys(features=DEFAULT_FEATURES & ~FUSED_KERNELS)
    assert kept(on_gpu(model, stack="fsdp"), plain) == bytes_seen - RMS


@pytest.mark.parametrize(
    ("values", "copies"),
    [
        ({}, 2),  # core 0.19 was run: 5,449,728 bytes
        ({"year": 2025.4}, 1),  # core 0.12 adds no offset
        ({"stack": "fsdp"}, 1),
    ],
)
def test_a_gated_activation_without_its_kernel(values: dict[str, Any], copies: int) -> None:
    plain = keys(features=DEFAULT_FEATURES & ~Feature.FUSED_SWIGLU)
    assert kept(on_gpu(**values), plain) == 5_449_728 - RMS - (2 - copies) * 2 * 1408 * N
    again = selective(RecomputeModule.MLP_ACT, features=DEFAULT_FEATURES & ~Feature.FUSED_SWIGLU)
    freed = (1 + copies) * 2 * 1408 * N if values.get("stack") == "fsdp" else 0  # Megatron's moe_act is of routed experts
    assert kept(on_gpu(**values), again) == kept(on_gpu(**values), plain) - freed
    parts = tensor_costs(on_gpu(**values), plain, device(on_gpu()), network(on_gpu()), moe=False).bytes
    assert parts[Tensor.MLP_HIDDEN][0] == 4 * 1408 * N
    assert parts[Tensor.MLP_ACTIVATION][0] == (1 + copies) * 2 * 1408 * N


def test_a_norm_without_its_kernel_keeps_its_input_alone_where_it_is_recomputed() -> None:
    plain, again = (
        selective(RecomputeModule.LAYERNORM, features=f) for f in (DEFAULT_FEATURES, DEFAULT_FEATURES & ~FUSED_KERNELS)
    )
    saved = [layer_activations(on_gpu(stack="fsdp"), key, moe=False).saved for key in (plain, again)]
    assert [float(each["residual"][0] + each["norm_output"][0]) for each in saved] == [2 * 2 * 512 * N] * 2


def test_norms_without_their_kernel_keep_an_fp32_copy_in_gated_models_of_eager_stacks() -> None:
    plain = keys(features=DEFAULT_FEATURES & ~Feature.FUSED_NORM)
    assert kept(on_gpu(), plain) - MEGATRON == 2 * (4 + 2 - 2) * 512 * N
    old = replace(LAYER, gated_linear_unit=False)  # layer norms are one kernel of PyTorch
    assert kept(on_gpu(old), plain) == kept(on_gpu(old), keys())
    compiled = on_gpu(stack="maxtext", execution="graph")
    assert kept(compiled, plain) == kept(compiled, keys())
    wide = on_gpu(precision="fp32")  # the input is the FP32 copy
    assert kept(wide, plain) - kept(wide, keys()) == 2 * 4 * 512 * N


def test_rotary_positions_without_their_kernel_keep_their_tables() -> None:
    apart = keys(features=DEFAULT_FEATURES & ~Feature.FUSED_ROPE)
    assert kept(on_gpu(), apart) == 4_139_008 - RMS
    assert kept(on_gpu(stack="fsdp"), apart) == kept(on_gpu(stack="fsdp"), keys())  # one table serves all layers


def test_recompute_of_the_core_of_fused_attention_keeps_the_whole_projection() -> None:
    assert kept(on_gpu(), selective(RecomputeModule.CORE_ATTN)) == pytest.approx(4_392_965 - RMS, abs=8)
    apart = keys(features=DEFAULT_FEATURES & ~Feature.FLASH_ATTENTION)
    dropped = selective(RecomputeModule.CORE_ATTN, features=DEFAULT_FEATURES & ~Feature.FLASH_ATTENTION)
    assert kept(on_gpu(), apart) == 5_310_464 - RMS
    assert kept(on_gpu(), dropped) == pytest.approx(4_392_966 - RMS, abs=8)
    older = workload(LAYER, cluster=ascend_a2(), stack="mindspeed-llm", year=2024.9)  # its rotary kernel keeps the projection
    assert kept(older, selective(RecomputeModule.CORE_ATTN)) == kept(older, keys())


@pytest.mark.parametrize(
    ("values", "bytes_seen"),
    [
        ({"year": 2026.6}, 2 * N * 2 * 512 + (17 * 32 + 24 * 2) * N),  # both norms' outputs, probabilities, maps, indices
        ({}, 2 * N * 2 * 512 + (17 * 32 + 24 * 2) * N),
        ({"year": 2025.4}, 262_144 + 524_288 + (17 * 32 + 24 * 2) * N),  # core 0.12: one norm's output and the copy in FP32
        ({"year": 2026.6, "stack": "mindspeed-llm"}, 2 * N * 2 * 512 + 8 * 32 * N),  # routes in 16 bits
    ],
)
def test_a_router_and_its_norm(values: dict[str, Any], bytes_seen: int) -> None:
    sparse = replace(LAYER, moe=EXPERTS)
    saved = layer_activations(on_gpu(sparse, **values), keys(), moe=True).saved
    assert float(saved["norm_output"][0] + saved["router"][0]) == bytes_seen


def test_a_router_of_core_0_12_in_16_bits_or_beside_shared_experts() -> None:
    few = replace(LAYER, moe=replace(EXPERTS, num_experts=8))
    assert float(layer_activations(on_gpu(few, year=2025.4), keys(), moe=True).saved["router"][0]) == (15 * 8 + 22 * 2) * N
    shared = replace(LAYER, moe=replace(EXPERTS, num_shared_experts=1, shared_expert_ffn_hidden_size=384))
    router = layer_activations(on_gpu(shared, year=2025.4), keys(), moe=True).saved["router"]
    assert float(router[0]) == (4 * 512 + 17 * 32 + 24 * 2) * N  # they need the norm's output itself


@pytest.mark.parametrize(
    ("year", "columns", "bytes_seen"),
    [
        (None, {}, SCORES + 4_096 + 2_048 + 32_768 + 8_192 + 65_536 + 4_096 + 2_048),  # sorted: 8 bytes a token and expert
        (2025.4, {}, SCORES + 524_288 - 262_144 + 4_096 + 2_048 + 32_768 + 2 * 8_192 + 4_096 + 32_768 + 2_048),
        (None, {"ep": 4, "dispatcher": Dispatcher.ALLGATHER}, SCORES + 4_096 + 2_048 + 2 * 8_192 + 4_096 + 32_768 + 2_048),
    ],
    ids=["0.19", "0.12", "all-gather"],
)
def test_a_plain_permutation_of_tokens(year: float | None, columns: dict[str, Any], bytes_seen: int) -> None:
    """Chosen experts and their weights, probabilities and map of all, rows: each tensor that a layer kept."""
    plain = keys(features=DEFAULT_FEATURES & ~Feature.MOE_PERMUTE_FUSION, **columns)
    saved = layer_activations(on_gpu(replace(LAYER, moe=EXPERTS), year=year), plain, moe=True).saved
    assert float(saved["router"][0]) == bytes_seen


def test_experts_of_mindspeed_keep_the_product_with_their_weights() -> None:
    """Qwen3-30B-A3B on 8,192 tokens: 100.7 MB, twice 768 channels of 8 rows a token; recompute of the activation drops it."""
    sparse = replace(LAYER, moe=replace(EXPERTS, num_experts=128, top_k=8, expert_ffn_hidden_size=768))
    job = workload(sparse, cluster=ascend_a2(), seq_length=8192, stack="mindspeed-llm")
    old = workload(sparse, cluster=ascend_a2(), seq_length=8192, stack="mindspeed-llm", year=2024.9)
    outputs = 2 * 512 * 8 * 8192  # which the old release multiplies, and keeps
    plain = DEFAULT_FEATURES & ~Feature.FUSED_ROPE
    key = keys(features=plain)
    assert kept(job, key, moe=True) - kept(old, key, moe=True) == 100_663_296 - outputs
    again = selective(RecomputeModule.MLP_ACT, features=plain)
    assert kept(job, again, moe=True) == kept(old, again, moe=True) - outputs
    apart = DEFAULT_FEATURES & ~Feature.FUSED_SWIGLU
    assert [float(expert_product_bytes(on_gpu(sparse), keys(features=f))[0]) for f in (DEFAULT_FEATURES, apart)] == [0.0, 2.0]


def test_latents_are_whole_without_sequence_parallelism() -> None:
    mla = MlaShape(q_lora_rank=192, kv_lora_rank=128, qk_nope_head_dim=64, qk_rope_head_dim=32, v_head_dim=64)
    latent = on_gpu(replace(LAYER, mla=mla))
    split, whole = (
        float(layer_activations(latent, keys(tp=2, sequence_parallel=sp), moe=False).saved["attention"][0])
        for sp in (True, False)
    )
    assert whole - split == 4 * (192 + 128) / 2 * N


def test_recompute_of_an_mlp_repeats_its_collectives() -> None:
    """Two ranks: 212 collectives of 65,536 bytes in place of 180, each of which sends half."""
    plain = ParallelStrategy(tp=2, sequence_parallel=True)
    again = replace(plain, recompute=Recompute.SELECTIVE, recompute_modules=RecomputeModule.MLP)
    assert tp_bytes(SENT, again) - tp_bytes(SENT, plain) == 32 * 65_536 / 2
    whole = replace(SENT, moe=MoeShape(8, 2, 384, num_shared_experts=1, shared_expert_ffn_hidden_size=384))
    again = replace(again, recompute_modules=RecomputeModule.MOE)
    assert tp_bytes(whole, again) - tp_bytes(whole, plain) == 32 * 65_536 / 2
    alone = replace(whole, moe=MoeShape(8, 2, 384))  # no shared experts, no collective
    assert tp_bytes(alone, again) == tp_bytes(alone, plain)


def test_heads_that_ranks_share_are_gathered() -> None:
    """Four ranks on two heads of keys: a gather forward and a reduce-scatter backward of 131,072 bytes, 16 times each."""
    strategy = ParallelStrategy(tp=4, sequence_parallel=True)
    few, enough = (tp_bytes(replace(SENT, num_query_groups=groups), strategy) for groups in (2, 4))
    assert few - enough == 2 * 16 * 131_072 * 3 / 4


def test_an_all_gather_combines_in_the_precision_of_the_router() -> None:
    """Four ranks: 262,144 bytes of tokens are gathered, and 524,288 of outputs in FP32 scattered."""
    job = workload(replace(SENT, moe=EXPERTS), cluster=gpu(), seq_length=128)
    narrow = replace(job, model=replace(SENT, moe=replace(EXPERTS, num_experts=8)))
    key = keys(ep=4, dispatcher=Dispatcher.ALLGATHER)
    wide, plain = (expert_comm(each, key, network(each), constants()).combine_s[0] for each in (job, narrow))
    assert wide == pytest.approx(2.0 * plain)
    assert wide * network(job).tiers[0].bandwidth_bytes_per_s == pytest.approx(524_288 * 3 / 4)
    kept_in_16_bits = workload(replace(SENT, moe=EXPERTS), cluster=ascend_a2(), seq_length=128, stack="mindspeed-llm")
    ascend = expert_comm(kept_in_16_bits, key, network(kept_in_16_bits), constants())
    assert ascend.combine_s[0] < ascend.dispatch_s[0]  # which carries the map and the weights as well


def test_releases_before_core_0_12_route_in_16_bits() -> None:
    """Their option for FP32 does not exist yet [megatron-0.12, transformer_config.py]: no copy, and sums in 16 bits."""
    sparse = replace(LAYER, moe=EXPERTS)
    old, new = (workload(sparse, cluster=gpu(), seq_length=N, year=year) for year in (2024.9, 2025.4))
    key = keys(ep=4, dispatcher=Dispatcher.ALLGATHER)
    sums = [expert_comm(each, key, network(each), constants()).combine_s[0] for each in (old, new)]
    assert sums[1] == pytest.approx(2.0 * sums[0])
    routing = (15 * 32 + 22 * 2) * N
    assert float(layer_activations(old, keys(), moe=True).saved["router"][0]) == routing
    assert float(layer_activations(new, keys(), moe=True).saved["router"][0]) > routing + 2 * 512 * N


def test_gradients_of_latents_are_reduced_at_their_own_width() -> None:
    mla = MlaShape(q_lora_rank=192, kv_lora_rank=128, qk_nope_head_dim=64, qk_rope_head_dim=32, v_head_dim=64)
    job = on_gpu(replace(LAYER, mla=mla))
    comm = tensor_parallel_comm(job, keys(tp=2), network(job), moe=False)
    assert comm.forward_s[0] == pytest.approx(2.0 * comm.mlp_forward_s[0])
    # The rope key, 32 wide, enters no linear layer.
    assert comm.backward_s[0] / comm.mlp_forward_s[0] == pytest.approx(1.0 + (192 + 128) / 512)
