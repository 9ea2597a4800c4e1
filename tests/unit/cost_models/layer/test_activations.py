"""Bytes that a layer keeps, class by class, and against the published formulas."""

from dataclasses import replace
from pathlib import Path

import pytest

from app.catalogue.models.presets import model_preset
from app.jobs.job import load_job
from cost_models.layer.activations import LayerActivations, layer_activations
from cost_models.layer.attention_bytes import attention_bytes_per_token
from cost_models.layer.expert_bytes import expert_copies
from cost_models.layer.expert_rows import expert_rows, routed_copies
from cost_models.shapes.layer_keys import LayerKeys, layer_keys
from cost_models.shapes.recompute_modules import RecomputeModule
from cost_models.shapes.strategy import Dispatcher, Recompute, StrategyBatch
from cost_models.shapes.switches import DEFAULT_FEATURES, Feature
from cost_models.shapes.workload import ModelShape, Workload
from tests.networks import gpu
from tests.worked_examples import worked
from tests.workloads import DENSE, GROUPED, LATENT, SPARSE, keys, workload

FOLDER = Path(__file__).resolve().parents[3] / "fixtures/verification"
N = 2048.0  # tokens of a micro batch of one sequence


def total(job: Workload, key: LayerKeys, *, moe: bool = False) -> float:
    return float(layer_activations(job, key, moe=moe).saved_bytes[0])


def parts(job: Workload, key: LayerKeys, *, moe: bool = False) -> dict[str, float]:
    return {name: float(value[0]) for name, value in layer_activations(job, key, moe=moe).saved.items() if value[0]}


# Published models of [korthikanti2022, table 3]: heads, hidden, sequence 2048, micro batch, tp 8.
KORTHIKANTI = [
    ("megatron-22b", 64, 6144, 4),
    ("gpt3-175b", 96, 12288, 1),
    ("megatron-530b", 128, 20480, 1),
    ("megatron-1t", 160, 25600, 1),
]


@pytest.mark.parametrize(("name", "heads", "hidden", "micro_batch"), KORTHIKANTI)
@pytest.mark.parametrize("sequence_parallel", [False, True])
def test_published_formula_of_a_dense_layer(
    name: str, heads: int, hidden: int, micro_batch: int, sequence_parallel: bool
) -> None:
    """s b h (34 + 5 a s / h) / t with sequence parallelism, s b h (10 + 24 / t + 5 a s / (h t)) without.

    [korthikanti2022, eq. 2 and 4]. Ours keeps no masks of the two dropouts after attention and MLP (1 s b h each; models are
    trained without dropout today).
    """
    model = model_preset(name).model
    assert (model.num_attention_heads, model.hidden_size, model.gated_linear_unit) == (heads, hidden, False)
    s, t = 2048, 8
    sbh = s * micro_batch * hidden
    published = (
        sbh * (34 + 5 * heads * s / hidden) / t if sequence_parallel else sbh * (10 + 24 / t + 5 * heads * s / (hidden * t))
    )
    masks = 2 * sbh / (t if sequence_parallel else 1)
    job = workload(model, cluster=gpu(), seq_length=s)
    features = DEFAULT_FEATURES & ~Feature.FLASH_ATTENTION
    ours = total(job, keys(tp=t, micro_batch_size=micro_batch, sequence_parallel=sequence_parallel, features=features))
    assert ours == pytest.approx(published - masks, rel=1e-12)


@pytest.mark.parametrize(("name", "heads", "hidden", "micro_batch"), KORTHIKANTI)
def test_selective_recompute_of_the_attention_core_drops_the_quadratic_term(
    name: str, heads: int, hidden: int, micro_batch: int
) -> None:
    s, t = 2048, 8
    job = workload(model_preset(name).model, cluster=gpu(), seq_length=s)
    key = keys(
        tp=t,
        micro_batch_size=micro_batch,
        sequence_parallel=True,
        features=DEFAULT_FEATURES & ~Feature.FLASH_ATTENTION,
        recompute_modules=RecomputeModule.CORE_ATTN,
    )
    sbh = s * micro_batch * hidden
    assert total(job, key) == pytest.approx(sbh * 32 / t)


def test_worked_layer_of_the_22b_model() -> None:
    job = workload(model_preset("megatron-22b").model, cluster=gpu(), seq_length=2048)
    assert total(job, keys(tp=8, micro_batch_size=4, sequence_parallel=True)) == worked("dense-activations")


def test_worked_layer_whose_weight_gradients_wait() -> None:
    job = workload(model_preset("megatron-22b").model, cluster=gpu(), seq_length=2048)
    layer = layer_activations(job, keys(tp=8, micro_batch_size=4, sequence_parallel=True), moe=False)
    assert float(layer.waiting_bytes[0]) == worked("waiting-activations")
    for module in (RecomputeModule.MLP, RecomputeModule.LAYERNORM):  # computed again by then
        again = keys(tp=8, micro_batch_size=4, sequence_parallel=True, recompute=Recompute.SELECTIVE, recompute_modules=module)
        assert float(layer_activations(job, again, moe=False).waiting_bytes[0]) == float(layer.waiting_bytes[0])


def test_classes_of_a_gated_layer() -> None:
    assert parts(workload(GROUPED), keys(tp=2, sequence_parallel=True)) == {
        "residual": 4 * 1024 * N / 2,
        "norm_output": 4 * 1024 * N / 2,
        # q 8 heads, k and v 2 groups each, output 8 heads, 2 B; statistics 64 B a head; the projection that the rotary kernel
        # views; sines and cosines of 128 channels for queries and for keys, not shared by tp
        "attention": N / 2 * (2 * 128 * (8 + 2 * 2) + 2 * 128 * 8 + 2 * 128 * (8 + 2 * 2) + 64 * 8) + N * 4 * 2 * 128,
        "mlp": 6 * 4096 * N / 2,
    }


def test_without_sequence_parallelism_norms_stay_whole() -> None:
    saved = parts(workload(), keys(tp=4))
    assert saved["residual"] == saved["norm_output"] == 4 * 1024 * N
    assert saved["mlp"] == 6 * 4096 * N / 4


def test_a_grid_of_ranks_splits_what_is_held_between_blocks_and_fuses_no_norm() -> None:
    saved = parts(workload(), keys(tp=4, features=DEFAULT_FEATURES | Feature.TP_2D))
    # Before two norms the input in FP32, and normalised in 16 bits: 6 bytes a channel in place of 2.
    assert saved["norm_output"] == (4 + 2 * (6 - 2)) * 1024 * N / 4
    assert saved["residual"] == 4 * 1024 * N / 4


def test_sandwich_norm_doubles_norms() -> None:
    single, double = parts(workload(), keys()), parts(workload(replace(DENSE, sandwich_norm=True)), keys())
    assert (double["residual"], double["norm_output"]) == (2 * single["residual"], 2 * single["norm_output"])
    assert double["mlp"] == single["mlp"]


def test_key_and_value_heads_repeat_where_ranks_outnumber_them() -> None:
    job = workload(GROUPED)
    plain, tables = DEFAULT_FEATURES & ~Feature.FUSED_ROPE, 4 * 2 * 128
    assert (
        float(attention_bytes_per_token(job, keys(tp=4, features=plain))[0][0])
        == (2 * 128 * (8 + 2 * 4 + 8) + 64 * 8) / 4 + tables
    )
    ulysses = attention_bytes_per_token(job, keys(tp=2, cp=4, ulysses_degree=4, features=plain))[0][0]
    assert float(ulysses) == (2 * 128 * (8 + 2 * 8 + 2 * 8) + 64 * 8) / 2 + tables  # outputs before and after the exchange
    between = attention_bytes_per_token(job, keys(cp=4, ulysses_degree=4, features=plain))[0][0]
    assert float(between) == 2 * 128 * (8 + 2 * 8 + 2 * 8) + 64 * 8 + tables  # 2 groups on 4 ranks: for all 8 heads, not for 4
    old = replace(job, software=replace(job.software, legacy_layers=True))
    repeated = attention_bytes_per_token(old, keys(tp=1, features=plain))[0][0]
    assert float(repeated) == 2 * 128 * (8 + 2 * 8 + 8) + 64 * 8 + tables


def test_the_fused_rotary_kernel_keeps_the_projection() -> None:
    fused, plain = keys(tp=2), keys(tp=2, features=DEFAULT_FEATURES & ~Feature.FUSED_ROPE)
    job = workload(GROUPED)
    assert total(job, fused) - total(job, plain) == N * 2 * 128 * (8 + 2 * 2) / 2
    # The tables serve all samples of a micro batch, with and without the kernel.
    four = keys(tp=2, micro_batch_size=4)
    assert 4 * total(job, fused) - total(job, four) == 3 * N * 4 * 2 * 128
    for other in (replace(GROUPED, learned_positions=True), replace(GROUPED, alibi=True)):
        assert total(workload(other), fused) == total(workload(other), plain)


def test_every_layer_keeps_a_position_bias_of_its_own() -> None:
    biased = parts(workload(replace(DENSE, alibi=True)), keys(tp=2, micro_batch_size=3))
    assert biased["attention_scores"] == 2 * 3 * (8 / 2) * 2048**2
    plain = keys(tp=2, features=DEFAULT_FEATURES & ~Feature.FLASH_ATTENTION)
    whole = parts(workload(replace(DENSE, alibi=True)), plain)
    assert whole["attention_scores"] == 2 * (8 / 2) * 2048**2  # scores are kept themselves


def test_scores_have_gradients_where_attention_is_not_fused() -> None:
    job = workload(cluster=gpu())
    plain = keys(features=DEFAULT_FEATURES & ~Feature.FLASH_ATTENTION)
    again = keys(features=DEFAULT_FEATURES & ~Feature.FLASH_ATTENTION, recompute_modules=RecomputeModule.CORE_ATTN)
    fused, kept, dropped = (float(layer_activations(job, key, moe=False).transient_bytes[0]) for key in (keys(), plain, again))
    attention = N * 2 * 128 * (3 * 8 + 8) / 2  # gradients of half of what attention keeps
    assert fused == 4 * 4096 * N  # of gate and up projection, the wider here
    assert kept == attention + 4 * 8 * N * 2048
    assert dropped == kept + 2 * 8 * N * 2048  # scores are back while the layer runs


def test_transformer_engine_keeps_inputs_of_linear_layers_in_eight_bits() -> None:
    wide, narrow = (parts(workload(SPARSE, cluster=gpu(), precision=p), keys(ep=4), moe=True) for p in ("bf16", "fp8"))
    assert narrow["norm_output"] == wide["norm_output"] / 2
    assert narrow["routed_experts"] == 2 * N * (1 * 1024 + 5 * 512)
    assert narrow["residual"] == wide["residual"]
    assert narrow["attention"] == wide["attention"]
    on_ascend = parts(workload(SPARSE, precision="fp8"), keys(ep=4), moe=True)
    assert on_ascend["routed_experts"] == wide["routed_experts"]


@pytest.mark.parametrize(
    ("feature", "dispatcher", "kept", "copies"),
    [
        (Feature(0), Dispatcher.ALLTOALL, 0.0, 6.0),  # sent, received and sorted: 2 h each of 2 N rows
        (Feature.MOE_ALLTOALL_OVERLAP_COMM, Dispatcher.ALLTOALL, 2.0, 12.0),  # the experts' outputs; two exchanges at once
        (Feature.MOE_COMM_OVERLAP, Dispatcher.ALLTOALL, 0.0, 12.0),  # a forward's and a backward's
        (Feature(0), Dispatcher.ALLGATHER, 0.0, 8.0),  # 4 N gathered rows in place of 2 N sent
        (Feature.MOE_ALLGATHER_OVERLAP_COMM, Dispatcher.ALLGATHER, 0.0, 12.0),  # and their gradient
        (Feature.MOE_ALLTOALL_OVERLAP_COMM, Dispatcher.ALLGATHER, 0.0, 8.0),  # no effect
    ],
)
def test_overlapped_exchanges_hold_more(feature: Feature, dispatcher: Dispatcher, kept: float, copies: float) -> None:
    job, rows = workload(SPARSE), 2 * N
    key = keys(ep=4, dispatcher=dispatcher, features=DEFAULT_FEATURES | feature)
    layer, plain = layer_activations(job, key, moe=True), layer_activations(job, keys(ep=4), moe=True)
    without_maps = (float(each.saved_bytes[0] - each.saved["router"][0]) for each in (layer, plain))
    assert next(without_maps) - next(without_maps) == kept * 1024 * rows
    assert float(expert_copies(job, key, SPARSE.moe)[0]) == copies * 1024 * rows
    assert float(layer.transient_bytes[0] - plain.transient_bytes[0]) == float(
        expert_copies(job, key, SPARSE.moe)[0] - expert_copies(job, keys(ep=4), SPARSE.moe)[0]
    )


def test_statistics_follow_the_kernel() -> None:
    plain = keys(features=DEFAULT_FEATURES & ~Feature.FUSED_ROPE)
    ascend, other = (attention_bytes_per_token(workload(cluster=c), plain)[0][0] for c in (None, gpu()))
    assert float(ascend - other) == (64 - 4) * 8


def test_latent_attention_of_deepseek_v3() -> None:
    job = workload(model_preset("deepseek-v3").model, stack="mindspeed-llm")
    kept, reduced = attention_bytes_per_token(job, keys())
    assert float(kept[0]) == worked("mla-activations")
    # Recomputing the up-projections frees q and k, 128 heads x 4 x 192 B a token, what enters them, the latents behind their
    # norms, 2 x (1536 + 512) B, and sines and cosines, 4 x 2 x 64 B. Fused attention's copy of v stays.
    assert float(kept[0] - reduced[0]) == 128 * 768 + 4096 + 512
    # Every tensor-parallel rank keeps the tables, and without sequence parallelism the projection of latents and rope key.
    split, whole = (attention_bytes_per_token(job, keys(tp=8, sequence_parallel=sp))[0][0] for sp in (True, False))
    assert float(split) == pytest.approx((float(kept[0]) - 512) / 8 + 512)
    assert float(whole - split) == pytest.approx((4 * (1536 + 512) + 128) * 7 / 8)


def test_routed_experts_of_deepseek_v3() -> None:
    job = workload(model_preset("deepseek-v3").model, seq_length=1)
    assert parts(job, keys(ep=8), moe=True)["routed_experts"] == worked("expert-activations")


def test_activation_inputs_wait_in_8_bits() -> None:
    job, short = workload(SPARSE, cluster=gpu()), DEFAULT_FEATURES | Feature.FP8_ACTIVATION_INPUT
    saved = parts(job, keys(ep=2, features=short), moe=True)
    # gate and up in 1 byte each, their product in 2
    assert saved["routed_experts"] == 2 * N * (2 * 1024 + 4 * 512)
    assert saved["shared_experts"] == 4 * 512 * N
    assert parts(job, keys(features=short))["mlp"] == 4 * 4096 * N
    plain = replace(job, model=replace(DENSE, gated_linear_unit=False))
    assert parts(plain, keys(features=short)) == parts(plain, keys())


def test_gradients_that_wait_in_8_bits() -> None:
    job = workload(SPARSE, cluster=gpu(), precision="fp8")
    dense, sparse = (layer_activations(job, keys(ep=2), moe=moe).waiting for moe in (False, True))
    # what enters each linear layer and the gradient of what leaves it, 1 byte each: gate, up and down; the block's output
    assert float(dense["mlp"][0]) == (3 * 4096 + 1024) * N
    assert float(sparse["routed_experts"][0]) == 2 * N * (3 * 512 + 2 * 1024)
    assert float(sparse["shared_experts"][0]) == (3 * 512 + 1024) * N
    # heads of q, k, v and of the output; the block's output
    assert float(dense["attention"][0]) == (4 * 1024 + 1024) * N
    # What the router takes is not needed again: its own gradient does not wait. One norm is before q, k and v, the other before
    # the shared experts.
    assert float(sparse["router"][0]) == 0.0
    assert float(sparse["norm_output"][0]) == float(dense["norm_output"][0]) == 2 * 1024 * N
    assert job.model.moe is not None
    moe = replace(job.model.moe, num_shared_experts=0, shared_expert_ffn_hidden_size=0)
    alone = replace(job, model=replace(job.model, moe=moe))
    assert float(layer_activations(alone, keys(ep=2), moe=True).waiting["norm_output"][0]) == 1024 * N


@pytest.mark.parametrize("merged", [True, False])
def test_merged_passes_keep_the_inputs_of_activation_functions_alone(merged: bool) -> None:
    job = workload(SPARSE)
    features = Feature.MOE_ZERO_MEMORY | (Feature.MOE_COMM_OVERLAP if merged else Feature.MOE_ALLTOALL_OVERLAP_COMM)
    kept = parts(job, keys(ep=2, features=features), moe=True)["routed_experts"]
    # Two rows a token, gate and up of 512 channels in 16 bits; without merged passes the page's 30 % of the whole set.
    assert (kept == 2 * N * 2 * 2 * 512) == merged


@pytest.mark.parametrize(
    ("values", "columns", "channel_bytes"),
    [
        ({}, {}, 0),  # of a year that is not said: the newest
        ({"year": 2025.25}, {}, 4),
        ({"year": 2025.25}, {"recompute_modules": RecomputeModule.LAYERNORM}, 4),
        ({"year": 2025.5}, {}, 0),  # what the norm keeps anyway
        ({"year": 2026.0, "precision": "fp8"}, {}, 2),  # the linear layers keep 8 bits, the router 16
        ({"year": 2026.0, "precision": "fp8"}, {"recompute_modules": RecomputeModule.LAYERNORM}, 0),
        ({"year": 2025.25, "stack": "fsdp"}, {}, 0),  # routes in 16 bits
        ({"year": 2026.0, "stack": "megatron-deepspeed"}, {}, 4),
    ],
)
def test_what_a_router_keeps_by_release(values: dict[str, object], columns: dict[str, object], channel_bytes: int) -> None:
    many = replace(SPARSE, moe=replace(SPARSE.moe, num_experts=32))
    job = workload(many, cluster=gpu(), **values)
    selective = {"recompute": Recompute.SELECTIVE} if columns else {}
    of_stack = {None: 17 * 32 + 24 * 2, "fsdp": 4 * 32 + 32 * 2}  # torchtitan's: scores; three indices and two weights a choice
    routing_bytes = of_stack.get(values.get("stack"), 8 * 32)
    assert parts(job, keys(**selective, **columns), moe=True)["router"] == (channel_bytes * 1024 + routing_bytes) * N


def test_expert_tensors() -> None:
    saved = parts(workload(SPARSE), keys(tp=2, ep=8, sequence_parallel=True), moe=True)
    assert saved["routed_experts"] == 2 * N / 2 * (2 * 1024 + 6 * 512)
    assert saved["shared_experts"] == 6 * 512 * N / 2
    assert (
        saved["router"] == (15 * 16 + 22 * 2) * N / 2
    )  # in 16 bits: two bytes a probability, one of the map, eight of the order; four of the balancing loss
    assert "mlp" not in saved


def test_rows_of_the_busiest_rank() -> None:
    job = workload(SPARSE, expert_load_factor=1.5)
    shape = SPARSE.moe
    assert shape is not None
    assert float(routed_copies(keys(ep=4), shape, job.training)[0]) == 2 * N
    assert float(expert_rows(keys(ep=4), shape, job.training)[0]) == 1.5 * 2 * N
    assert float(expert_rows(keys(), shape, job.training)[0]) == 2 * N  # one rank cannot be uneven
    gathered = keys(tp=2, ep=4, etp=2, sequence_parallel=True)
    assert float(expert_rows(gathered, shape, job.training)[0]) == 1.5 * 2 * N  # N / 2 tokens from each of two ranks
    capacity = replace(shape, capacity_factor=1.25)
    assert float(expert_rows(keys(ep=4), capacity, job.training)[0]) == 1.25 * 2 * N


@pytest.mark.parametrize(
    ("module", "model", "moe", "freed"),
    [
        (RecomputeModule.LAYERNORM, DENSE, False, 4 * 1024 * N),
        (RecomputeModule.MLP_ACT, DENSE, False, 2 * 4096 * N),
        (RecomputeModule.MLP, DENSE, False, 6 * 4096 * N),
        (RecomputeModule.MLP_ACT, SPARSE, True, 2 * 512 * (2 * N) + 2 * 512 * N),
        (RecomputeModule.MLA_UP_PROJ, LATENT, True, (4 * 8 * 96 + 2 * 8 * 64 + 2 * (256 + 128)) * N),
    ],
)
def test_what_a_selective_recompute_frees(module: RecomputeModule, model: ModelShape, moe: bool, freed: float) -> None:
    job = workload(model, stack="megatron-deepspeed")
    assert total(job, keys(ep=2), moe=moe) - total(job, keys(ep=2, recompute_modules=module), moe=moe) == freed


def test_recomputing_the_moe_module_frees_all_of_it() -> None:
    job = workload(SPARSE)
    assert set(parts(job, keys(ep=2, recompute_modules=RecomputeModule.MOE), moe=True)) == {
        "residual",
        "norm_output",
        "attention",
    }


@pytest.mark.parametrize(
    ("plan", "kind", "plain", "swapped"),
    [
        ("llama-3.1-70b-a2", "dense", 312_483_840, 260_055_040),
        ("qwen3-30b-a3b-a2", "moe", 1_136_985_348, 885_327_108),
    ],
)
def test_swap_frees_what_executed_mindspeed_frees(plan: str, kind: str, plain: int, swapped: int) -> None:
    """Bytes that MindSpeed-LLM c77308a1 keeps of a layer without recompute, 8,192 tokens, without and with --swap-attention."""
    job = load_job(str(FOLDER / f"{plan}.job.yaml"), {}, {})
    assert job.strategy is not None
    own = replace(
        job.strategy,
        recompute=Recompute.NONE,
        recompute_modules=RecomputeModule(0),
        micro_batch_size=8192 // job.workload.training.seq_length,
    )
    rows = StrategyBatch.of([own, replace(own, features=own.features | Feature.SWAP_ATTENTION)])
    found, of_row = layer_keys(job.workload, rows)
    kept = layer_activations(job.workload, found, moe=kind == "moe").saved_bytes[of_row]
    assert kept[0] - kept[1] == pytest.approx(plain - swapped, rel=1e-5)


def test_a_fully_recomputed_layer_keeps_its_input() -> None:
    layer: LayerActivations = layer_activations(workload(), keys(tp=2, sequence_parallel=True), moe=False)
    assert float(layer.input_bytes[0]) == 2 * 1024 * N / 2
    assert float(layer.unreduced_bytes[0]) == float(layer.saved_bytes[0])
    lighter = layer_activations(workload(), keys(recompute_modules=RecomputeModule.MLP), moe=False)
    assert float(lighter.unreduced_bytes[0]) > float(lighter.saved_bytes[0])


def test_context_parallelism_divides_everything() -> None:
    whole, half = total(workload(), keys()), total(workload(), keys(cp=2))
    assert half == whole / 2


def test_models_without_a_gate_keep_what_dropout_made_of_their_scores() -> None:
    plain = keys(features=DEFAULT_FEATURES & ~Feature.FLASH_ATTENTION)
    gated, ungated = (
        parts(workload(replace(DENSE, gated_linear_unit=gate)), plain)["attention_scores"] for gate in (True, False)
    )
    assert (gated, ungated) == (2 * 8 * N * 2048, 5 * 8 * N * 2048)
