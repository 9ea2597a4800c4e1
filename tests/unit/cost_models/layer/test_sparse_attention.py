"""Sparse attention with an indexer: time, bytes and exchanges by hand."""

from dataclasses import replace

import pytest

from cost_models.layer.activations import layer_activations
from cost_models.layer.attention_bytes import attention_bytes_per_token, swapped_bytes_per_token
from cost_models.layer.communication import context_parallel_comm, tensor_parallel_comm
from cost_models.layer.modules import LayerCompute, layer_compute
from cost_models.layer.sparse_attention import chosen_attention_s, indexer_s, indexer_transient_bytes
from cost_models.network.collectives import all_gather_s, all_to_all_s
from cost_models.shapes.flops import attention_score_flops_per_token, indexer_score_flops_per_token, layer_flops_per_token
from cost_models.shapes.layer_keys import LayerKeys
from cost_models.shapes.recompute_modules import RecomputeModule
from cost_models.shapes.strategy import CpAlgo
from cost_models.shapes.switches import DEFAULT_FEATURES, Feature
from cost_models.shapes.workload import ModelShape, Workload
from tests.networks import gpu
from tests.published_models import DEEPSEEK_V3_2
from tests.worked_examples import worked
from tests.workloads import LATENT, device, keys, network, workload

RATE = 0.5 * 3e14  # of fused attention, forward and backward
DENSE_MODEL = replace(DEEPSEEK_V3_2, sparse_attention=None)
MASKED = DEFAULT_FEATURES & ~Feature.SPARSE_ATTENTION_KERNEL
WRITTEN = DEFAULT_FEATURES & ~Feature.FUSED_INDEXER


def job(seq_length: int = 4096, **values: object) -> Workload:
    return workload(DEEPSEEK_V3_2, seq_length=seq_length, stack="mindspeed-llm", **values)


def compute(of: Workload, layer_keys: LayerKeys) -> LayerCompute:
    return layer_compute(of, layer_keys, device(of), moe=True)


def key(**columns: object) -> LayerKeys:
    """Keys for 4,096 tokens: those of the helper are for its own job, which has the same columns."""
    return keys(**columns)


def narrow_s(tokens: int, columns: int) -> float:
    """Time to read hidden states and weights, and to write few columns, at 1.6 TB/s: longer than the multiplication."""
    return 2 * (tokens * 7168 + 7168 * columns + tokens * columns) / 1.6e12


def test_a_token_attends_to_the_chosen_ones_and_is_scored_against_all() -> None:
    assert attention_score_flops_per_token(DEEPSEEK_V3_2, 131072) == worked("chosen-flops")
    assert indexer_score_flops_per_token(DEEPSEEK_V3_2, 131072) == worked("index-flops")
    # A choice as long as the sequence is dense attention, with the indexer on top: 2 FLOPs a parameter, and its scores.
    indexer = 2 * worked("indexer-parameters").expected + 64 * 128 * 2048
    extra = layer_flops_per_token(DEEPSEEK_V3_2, 2048, moe=True) - layer_flops_per_token(DENSE_MODEL, 2048, moe=True)
    assert extra == pytest.approx(indexer)


def test_the_kernel_reads_latents_of_the_chosen_tokens() -> None:
    forward, backward = chosen_attention_s(job(), key(tp=4), device(job()))
    assert forward * RATE == worked("sparse-kernel-flops")
    assert backward == pytest.approx(2.5 * forward)  # five matmuls against two, at the same rate here


def test_the_indexer_scores_all_pairs_and_learns_from_the_chosen_ones() -> None:
    # 2 FLOPs for each of 1536 x 8192 weights and token, at 2.5e14; keys and weights of heads wait for memory.
    projections = 2 * 4096 * 1536 * 8192 / 2.5e14 + narrow_s(4096, 128) + narrow_s(4096, 64)
    forward, backward = indexer_s(job(), key(tp=4), device(job()))
    assert forward == pytest.approx(projections + 4096**2 * 64 * 128 / RATE)
    assert (backward - (forward - 4096**2 * 64 * 128 / RATE)) * RATE == worked("index-loss-flops")


def test_tensor_parallelism_leaves_the_indexer_whole() -> None:
    assert indexer_s(job(), key(tp=8), device(job()))[0] == indexer_s(job(), key(), device(job()))[0]
    assert compute(job(), key(tp=8)).attention_forward < compute(job(), key()).attention_forward


def test_a_mask_in_place_of_a_choice_skips_nothing() -> None:
    # Every pair of 4,096 tokens: 2 (192 + 128) FLOPs in each of 32 heads, and a byte of mask read at 1.6 TB/s.
    scores = 32 * 4096**2
    masked, dense = (compute(job(), key(tp=4, features=f)) for f in (MASKED, DEFAULT_FEATURES))
    index = indexer_s(job(), key(tp=4, features=MASKED), device(job()))[0]
    # The mask is counted by the scores of heads of 192 channels: 2 x 320 / (4 x 192) of them.
    mask = scores * 2 * 320 / (4 * 192) / 1.6e12
    assert masked.attention_forward - index == pytest.approx(scores * 2 * 320 / RATE + mask)
    assert dense.attention_forward != masked.attention_forward


def test_written_scores_take_memory_and_time() -> None:
    fused, written = (key(tp=4, features=f) for f in (DEFAULT_FEATURES, WRITTEN))
    scores = 64 * 4096**2
    forward = [indexer_s(job(), k, device(job()))[0] for k in (fused, written)]
    # 256 FLOPs a score at a quarter of 2.5e14, and 24 bytes.
    slower = scores * (256 / 6.25e13 + 24 / 1.6e12) - scores * 128 / RATE
    assert forward[1] - forward[0] == pytest.approx(slower)
    kept = [attention_bytes_per_token(job(), k)[0] for k in (fused, written)]
    # FP32 queries and keys, a clipped score of each head and token, and five values of a choice, for gradients and the choice.
    more = 4 * (8192 + 128 + 64 * 4096) + 20 * 2048 - (2 * (8192 + 128 + 64) + 4 * 2048)
    assert kept[1] - kept[0] == pytest.approx(more)
    assert indexer_transient_bytes(job(), written) == 8 * scores
    # The loss as a kernel reads queries of 128 heads, gathered, and the indexer's own.
    assert indexer_transient_bytes(job(), fused) == 2 * 4096 * (128 * 576 + 64 * 128)
    assert indexer_transient_bytes(job(), key(features=DEFAULT_FEATURES)) == 2 * 4096 * 64 * 128


def test_kept_bytes_of_attention_and_indexer() -> None:
    # Without tensor parallelism the indexer's inputs are those of attention.
    gathered = 2 * (7168 + 1536)
    kept, reduced = attention_bytes_per_token(job(), key())
    assert kept + gathered == pytest.approx(worked("latent-activations").expected + worked("indexer-activations").expected)
    assert kept - reduced == pytest.approx(2 * 128 * (128 + 512 + 64))
    split = attention_bytes_per_token(job(), key(tp=4, sequence_parallel=True))[0]
    heads = 2 * 128 * (128 + 2 * 512 + 64 + 128) + 64 * 128
    latents = 2 * (2 * 1536 + 512 + 64)
    assert kept - (split - gathered) == pytest.approx(3 / 4 * (heads + latents))


def test_a_masked_layer_keeps_what_latent_attention_keeps_and_the_mask() -> None:
    masked, dense = (
        attention_bytes_per_token(job(), key(features=MASKED))[0],
        attention_bytes_per_token(workload(DENSE_MODEL, seq_length=4096, stack="mindspeed-llm"), key())[0],
    )
    # Keys in FP32, queries and keys of the indexer, five values of a choice, a byte of mask a token.
    assert masked - dense == pytest.approx(4 * 128 + 2 * (8192 + 128) + 20 * 2048 + 4096)


def test_recompute_of_the_core_repeats_attention_and_not_the_indexer() -> None:
    plain, again = (compute(job(), key(recompute_modules=m)) for m in (RecomputeModule(0), RecomputeModule.CORE_ATTN))
    core = chosen_attention_s(job(), key(), device(job()))[0]
    assert again.selective_recompute - plain.selective_recompute == pytest.approx(core)


def test_tensor_parallelism_gathers_the_indexers_inputs_and_the_queries_of_its_loss() -> None:
    of, layer = workload(DEEPSEEK_V3_2, cluster=gpu()), key(tp=4, sequence_parallel=True)
    without, with_indexer = (tensor_parallel_comm(w, layer, network(w), moe=True) for w in (replace(of, model=DENSE_MODEL), of))
    one = layer.tp * 0 + 1
    inputs = all_gather_s(2.0 * 2048 * (7168 + 1536), layer.tp, one, network(of))
    queries = all_gather_s(2.0 * 2048 * 128 * 576, layer.tp, one, network(of))
    assert with_indexer.forward_s - without.forward_s == pytest.approx(inputs)
    assert with_indexer.backward_s - without.backward_s == pytest.approx(queries)


def test_ulysses_exchanges_heads_and_gathers_what_all_ranks_score() -> None:
    of, layer = workload(DEEPSEEK_V3_2, cluster=gpu()), key(cp=4, cp_algo=CpAlgo.ULYSSES, ulysses_degree=4)
    n, rate = 512.0, network(of)
    exchanged = all_to_all_s(2 * n * 128 * (576 + 512), layer.cp, layer.tp, rate)
    gathered = all_gather_s(2 * n * 4 * (8192 + 128 + 7168 + 128 * 576 + 576), layer.cp, layer.tp, rate)
    found = context_parallel_comm(of, layer, rate)
    assert found.all_to_all_s == pytest.approx(exchanged + gathered)
    assert found.num_hops == 0
    # Each rank scores the whole sequence; it projects keys and queries of its own quarter alone.
    alone, shared = (indexer_s(job(), k, device(job())) for k in (key(), layer))
    own = 3 / 4 * 2 * 4096 * 1536 * 8192 / 2.5e14 + narrow_s(4096, 128) - narrow_s(1024, 128)
    assert [a - s for a, s in zip(alone, shared, strict=True)] == [pytest.approx(own)] * 2


def test_other_models_have_no_such_switch() -> None:
    of = workload(LATENT)
    both, neither = (
        layer_activations(of, key(features=f), moe=True).saved_bytes
        for f in (DEFAULT_FEATURES, DEFAULT_FEATURES & ~Feature.FUSED_INDEXER & ~Feature.SPARSE_ATTENTION_KERNEL)
    )
    assert both == neither


@pytest.mark.parametrize("tp", [1, 4])
@pytest.mark.parametrize("execution", ["eager", "graph"])
@pytest.mark.parametrize("model", [DEEPSEEK_V3_2, DENSE_MODEL], ids=["sparse", "dense"])
def test_a_swap_moves_nothing_that_recompute_drops(model: ModelShape, execution: str, tp: int) -> None:
    stack = "mindspeed-llm" if execution == "eager" else "mindformers"
    on = workload(model, seq_length=4096, stack=stack, execution=execution)
    again = key(tp=tp, recompute_modules=RecomputeModule.MLA_UP_PROJ)
    moved, left = swapped_bytes_per_token(on, again), attention_bytes_per_token(on, again)[1]
    if execution == "graph":
        assert moved == left  # all that is kept
    else:  # the output: of latents as wide as their rank, or of values
        assert moved == 2 * 128 * (512 if model is DEEPSEEK_V3_2 else 128) / tp < left
    assert moved < swapped_bytes_per_token(on, key(tp=tp))
