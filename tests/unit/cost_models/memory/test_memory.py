"""Peak memory by hand."""

from dataclasses import replace

import numpy as np
import pytest

from cost_models.layer.activations import layer_activations
from cost_models.memory.held_layers import kept_layers
from cost_models.memory.losses import logits_bytes
from cost_models.memory.peak import num_communicators
from cost_models.pipeline.stage_times import chunk_counts
from cost_models.pipeline.stages import stages_of
from cost_models.shapes.parameters import layer_rank_parameters, num_parameters
from cost_models.shapes.strategy import CpAlgo, Dispatcher, ParallelStrategy, Recompute, RecomputeMethod, Schedule
from cost_models.shapes.switches import DEFAULT_FEATURES, Feature
from cost_models.shapes.workload import ModelShape, Workload
from tests.networks import gpu
from tests.worked_examples import worked
from tests.workloads import DENSE, SPARSE, batch, keys, priced, workload

N = 2048.0
LONG = {"seq_length": 16384}  # activations outweigh the optimizer's transient
NONE_SHARED = replace(SPARSE, moe=replace(SPARSE.moe, num_shared_experts=0, shared_expert_ffn_hidden_size=0))  # type: ignore[type-var]
FEW_WORDS = replace(DENSE, vocab_size=512)  # the first pipeline rank is the worst, not the one with the logits


def memory(job: Workload, strategy: ParallelStrategy, **values: float) -> dict[str, float]:
    result = priced(job, strategy, **values)
    assert result.breakdown is not None
    return {name: float(value[0]) for name, value in result.breakdown.memory_bytes.items()}


def activations(job: Workload, *, moe: bool = False, **columns: object) -> float:
    return float(layer_activations(job, keys(**columns), moe=moe).saved_bytes[0])


def held(parts: dict[str, float]) -> float:
    return sum(value for name, value in parts.items() if name.startswith("activations_"))


def test_one_device_holds_every_layer_once() -> None:
    job = workload(**LONG)
    parts = memory(job, ParallelStrategy())
    count = num_parameters(DENSE).total
    assert (parts["weights"], parts["gradients"], parts["optimizer_master_weights"], parts["optimizer_moments"]) == (
        2 * count,
        4 * count,
        4 * count,
        8 * count,
    )
    assert held(parts) == pytest.approx(8 * activations(job))
    # 6 B a logit, the head's input, its gradient and what its norm takes, the gradient of its weights
    assert parts["logits"] == 6 * 16384 * 32000 + 6 * 16384 * 1024 + 2 * 32000 * 1024
    assert parts["working_set"] == 0.0  # the loss is over before the backward reaches a layer
    assert parts["runtime"] == 1e9


def test_fp32_doubles_what_16_bits_keep() -> None:
    plain = workload()
    rates = plain.cluster.profile.matmul_flops_per_s
    device = replace(plain.cluster.profile, matmul_flops_per_s={**rates, "fp32": 1e14})
    job = workload(precision="fp32", cluster=replace(plain.cluster, profile=device))
    short, wide = (memory(each, ParallelStrategy(tp=2, dp=8, pp=2)) for each in (plain, job))
    assert held(wide) == pytest.approx(2 * held(short))
    assert wide["logits"] + wide["working_set"] == pytest.approx(2 * (short["logits"] + short["working_set"]))
    assert wide["weights"] == 2 * short["weights"]
    assert (wide["gradients"], wide["optimizer_moments"]) == (short["gradients"], short["optimizer_moments"])
    assert wide["optimizer_master_weights"] == 0


def test_logits_of_deepseek_v3() -> None:
    job = workload(replace(DENSE, vocab_size=129280), seq_length=4096, stack="mindspeed-llm")
    assert memory(job, ParallelStrategy(tp=2))["logits"] == worked("logits-bytes")


def test_losses_that_do_not_work_in_place_hold_another_copy() -> None:
    jobs = (workload(stack="mindspeed-llm", year=year, **LONG) for year in (2026.0, 2025.5))
    recent, older = (memory(job, ParallelStrategy())["logits"] for job in jobs)
    assert older - recent == 4 * 16384 * 32000
    # The loss is over when the head's backward starts: the head's input and what its norm takes are beside it.
    assert recent == 6 * 16384 * 32000 + 4 * 16384 * 1024


def test_losses_of_prediction_modules_wait_beside_that_of_the_model() -> None:
    plain, extra = (memory(workload(replace(DENSE, mtp_num_layers=k), **LONG), ParallelStrategy())["logits"] for k in (0, 2))
    # One head serves all, one after the other: what each leaves is the FP32 softmax, the head's input and its gradient. A module
    # keeps the hidden state and its embedding (2 bytes a channel each), both side by side (4), and what enters its last norm (2).
    assert extra - plain == 2 * (4 * 16384 * 32000 + 4 * 16384 * 1024 + 10 * 16384 * 1024)


def test_the_first_rank_holds_most_micro_batches_and_the_last_the_logits() -> None:
    job = workload(**LONG)
    result = priced(job, ParallelStrategy(pp=4))
    assert result.stage_peak_memory_bytes is not None
    peaks = result.stage_peak_memory_bytes[:, 0]
    inner = 2 * activations(job)  # two layers a stage, one micro batch fewer on each later rank
    assert peaks[1] - peaks[2] == pytest.approx(inner)
    assert float(result.peak_memory_bytes[0]) == peaks.max()


def test_interleaving_holds_more() -> None:
    job = workload(FEW_WORDS, **LONG)
    parts = memory(job, ParallelStrategy(pp=2, vpp=2, schedule=Schedule.INTERLEAVED))
    # 2 x 1 + 2 + 1 = 5 chunks of two layers in flight on the first rank; the last holds 3
    assert held(parts) == pytest.approx(5 * 2 * activations(job))


@pytest.mark.parametrize(("again", "expanded"), [(3, 0), (7, 0), (8, 1)])
def test_full_recompute_keeps_inputs_and_one_layer_where_no_other_was_freed(again: int, expanded: int) -> None:
    """The first layers of a chunk are computed again when the backward has freed the others."""
    job = workload(FEW_WORDS, **LONG)
    full = ParallelStrategy(recompute=Recompute.FULL, recompute_method=RecomputeMethod.BLOCK, recompute_num_layers=again)
    parts = memory(job, full)
    assert parts["recompute_checkpoints"] == again * 2 * 1024 * 16384
    assert held(parts) == pytest.approx((8 - again) * activations(job))
    plain = memory(job, ParallelStrategy())
    assert parts["working_set"] - plain["working_set"] == pytest.approx(expanded * activations(job), abs=1.0)


def test_waiting_weight_gradients_keep_the_layers_beside_a_recomputed_one() -> None:
    job = workload(FEW_WORDS, **LONG)
    full = ParallelStrategy(pp=2, recompute=Recompute.FULL, recompute_method=RecomputeMethod.BLOCK, recompute_num_layers=1)
    one, split = (memory(job, replace(full, schedule=schedule)) for schedule in (Schedule.ONE_F_ONE_B, Schedule.ZB1P))
    assert split["working_set"] - one["working_set"] == pytest.approx(activations(job))


def test_uniform_recompute_keeps_one_input_a_group() -> None:
    job = workload(FEW_WORDS, **LONG)
    uniform = ParallelStrategy(recompute=Recompute.FULL, recompute_method=RecomputeMethod.UNIFORM, recompute_num_layers=3)
    parts = memory(job, uniform)
    assert held(parts) == 0.0
    assert parts["recompute_checkpoints"] == 3 * 2 * 1024 * 16384  # ceil(8 / 3) groups
    plain = memory(job, ParallelStrategy())
    assert parts["working_set"] - plain["working_set"] == pytest.approx(3 * activations(job))


def test_a_plan_by_stage_is_split_over_chunks() -> None:
    job = workload(FEW_WORDS, **LONG)
    plan = ParallelStrategy(
        pp=2, vpp=2, schedule=Schedule.INTERLEAVED, recompute=Recompute.FULL, recompute_layers_per_stage=(3, 4)
    )
    parts = memory(job, plan)
    # The first rank recomputes 2 of 2 layers of its first chunk and 1 of 2 of its second; 3 and 2 chunks are in flight.
    assert parts["recompute_checkpoints"] == (3 * 2 + 2 * 1) * 2 * 1024 * 16384
    assert held(parts) == pytest.approx(2 * 1 * activations(job))


def test_the_optimizer_has_a_peak_of_its_own() -> None:
    job = workload(seq_length=32)  # hardly any activations
    parts = memory(job, ParallelStrategy())
    assert held(parts) == parts["logits"] == parts["working_set"] == 0.0
    assert parts["optimizer_transient"] == 4 * 32000 * 1024  # the embedding is the largest tensor


def test_pools_that_find_their_blocks_again_stay_at_the_least() -> None:
    """Megatron's micro batches repeat their sizes; FSDP's streams and dropless experts do not."""

    def pool_fraction(stack: str, model: ModelShape = DENSE) -> float:
        found = priced(workload(model, cluster=gpu(), stack=stack, **LONG), ParallelStrategy(), allocator_fraction=0.1)
        return float(found.reserved_peak_bytes[0] / found.allocated_peak_bytes[0]) - 1.0

    assert pool_fraction("megatron-lm") == pytest.approx(0.005)
    assert pool_fraction("fsdp") == pytest.approx(0.1)
    assert pool_fraction("megatron-lm", SPARSE) == pytest.approx(0.2)


def test_first_iteration_has_no_moments_before_the_optimizer() -> None:
    job = workload(**LONG)
    result = priced(job, ParallelStrategy())
    moments = 8 * num_parameters(DENSE).total
    assert float(result.allocated_peak_bytes[0] - result.allocated_first_iteration_bytes[0]) == pytest.approx(moments)
    small = priced(workload(seq_length=32), ParallelStrategy())
    assert float(small.allocated_peak_bytes[0]) == float(small.allocated_first_iteration_bytes[0])


def test_between_steps_only_states_stay() -> None:
    result = priced(workload(), ParallelStrategy())
    assert float(result.allocated_after_step_bytes[0]) == 18 * num_parameters(DENSE).total


def test_swapped_optimizer_visits_the_device_in_parts() -> None:
    job = workload(seq_length=32)
    swapped = ParallelStrategy(features=DEFAULT_FEATURES | Feature.SWAP_OPTIMIZER)
    parts = memory(job, swapped)
    assert parts["optimizer_moments"] == parts["optimizer_master_weights"] == 0.0
    assert parts["optimizer_transient"] == pytest.approx(4 * 32000 * 1024 + 12 * num_parameters(DENSE).total / 16)


def test_zero2_holds_the_gradients_of_a_layer_until_they_are_scattered() -> None:
    job = workload(FEW_WORDS, **LONG, year=2025.0)  # Megatron-FSDP has queues of them
    layer = float(layer_rank_parameters(FEW_WORDS, batch(), moe=False)[0][0])
    whole, scattered = memory(job, ParallelStrategy(dp=8)), memory(job, ParallelStrategy(dp=8, zero_stage=2))
    assert scattered["working_set"] - whole["working_set"] == pytest.approx(4 * layer)
    assert scattered["gradients"] == pytest.approx(whole["gradients"] / 8)


def test_zero3_gathers_two_layers_and_keeps_one_gradient() -> None:
    job = workload(FEW_WORDS, **LONG, year=2025.0)
    layer = float(layer_rank_parameters(FEW_WORDS, batch(), moe=False)[0][0])
    sharded, whole = memory(job, ParallelStrategy(dp=8, zero_stage=1)), memory(job, ParallelStrategy(dp=8, zero_stage=3))
    assert whole["working_set"] - sharded["working_set"] == pytest.approx((2 * 2 + 4) * layer)
    assert whole["weights"] == pytest.approx(sharded["weights"] / 8)


@pytest.mark.parametrize(
    ("model", "columns", "groups"),
    [
        (DENSE, {}, 1),  # world
        (DENSE, {"tp": 8}, 3),  # world, tp, model parallel
        (DENSE, {"tp": 8, "pp": 4, "dp": 2}, 5),  # world, tp, pp, model parallel, dp
        (replace(DENSE, tied_embeddings=True), {"pp": 2}, 4),  # world, pp, model parallel, both ends
        (DENSE, {"cp": 8}, 3),  # world, cp, dp with cp
        (DENSE, {"cp": 8, "ulysses_degree": 4, "cp_algo": CpAlgo.HYBRID}, 4),
        (SPARSE, {"dp": 16, "ep": 8}, 4),  # world, dp, ep, expert dp
        (SPARSE, {"tp": 2, "dp": 16, "ep": 8, "etp": 2}, 7),  # world, tp, dp, model parallel, ep, etp, expert dp
    ],
)
def test_communicators(model: ModelShape, columns: dict[str, object], groups: int) -> None:
    assert float(num_communicators(workload(model), batch(**columns))[0]) == groups


def test_every_communicator_has_buffers_and_neighbours_have_theirs() -> None:
    job = workload(**LONG)
    assert memory(job, ParallelStrategy(tp=8))["communicators"] == 3 * 4e8
    assert memory(job, ParallelStrategy(pp=2))["communicators"] == 3 * 4e8 + 2 * 20 * 2**20
    other = workload(cluster=gpu(), **LONG)
    assert memory(other, ParallelStrategy(pp=2))["communicators"] == 3 * 4e8


def test_the_pool_holds_more_than_is_allocated_and_more_so_for_dropless_experts() -> None:
    dense = priced(workload(stack="mindspeed-llm", **LONG), ParallelStrategy(), allocator_fraction=0.04)
    assert float(dense.reserved_peak_bytes[0]) == pytest.approx(1.04 * float(dense.allocated_peak_bytes[0]))
    sparse = priced(workload(SPARSE, **LONG), ParallelStrategy(), allocator_fraction=0.04)
    assert float(sparse.reserved_peak_bytes[0]) == pytest.approx(1.08 * float(sparse.allocated_peak_bytes[0]))


@pytest.mark.parametrize(
    ("spare", "pool", "fits"),
    [
        (0.50, 0.10, True),  # as much as it wants
        (0.04, 0.04, True),  # what is free
        (0.006, 0.006, True),
        (0.004, 0.005, False),  # what fragments keep even where memory runs out
    ],
)
def test_the_pool_takes_what_is_free_and_its_least_decides_what_fits(spare: float, pool: float, fits: bool) -> None:
    job = workload(stack="mindspeed-llm", **LONG)
    plain = priced(job, ParallelStrategy())
    allocated = float(plain.allocated_peak_bytes[0])
    outside = float(plain.pooled_peak_bytes[0]) - allocated
    profile = replace(job.cluster.profile, usable_hbm_bytes=outside + (1 + spare) * allocated)
    tight = replace(job, cluster=replace(job.cluster, profile=profile))
    result = priced(tight, ParallelStrategy(), allocator_fraction=0.1)
    assert float(result.reserved_peak_bytes[0]) == pytest.approx((1 + pool) * allocated)
    assert float(result.pooled_peak_bytes[0]) == pytest.approx((1 + pool) * allocated + outside)
    assert float(result.peak_memory_bytes[0]) == pytest.approx(1.005 * allocated + outside)
    assert bool(result.fits[0]) is fits


def test_modules_keep_the_last_input_of_a_stage_and_its_gradient() -> None:
    job = workload(**LONG)
    result = priced(job, ParallelStrategy(pp=2))
    stays = result.stage_allocated_after_step_bytes
    states = memory(job, ParallelStrategy(pp=2))
    assert stays is not None
    assert memory(job, ParallelStrategy())["module_buffers"] == 0.0
    # The second rank holds as many layers, the head and the final norm in place of the embedding.
    assert float(stays[1, 0] - stays[0, 0]) == pytest.approx(18 * 1024 + 2 * (2 * 1024 * 16384))
    graph = replace(job, software=replace(job.software, execution="graph"))
    assert memory(graph, ParallelStrategy(pp=2))["module_buffers"] == 0.0
    assert states["module_buffers"] in (0.0, 4 * 1024 * 16384)


def test_older_layers_keep_masks_and_position_biases_stay() -> None:
    old = replace(workload(), software=replace(workload().software, legacy_layers=True))
    assert memory(old, ParallelStrategy())["module_buffers"] == 8 * 2048**2
    biased = workload(replace(DENSE, alibi=True))
    parts = memory(biased, ParallelStrategy(tp=2, micro_batch_size=3))
    assert parts["module_buffers"] == 2 * (1 + 3) * 4 * 2048**2  # 16 bits, four heads a rank, once and for each sample


def test_a_graph_holds_the_mask_of_all_scores_once_for_all_layers() -> None:
    job = workload(stack="mindformers", execution="graph")
    assert memory(job, ParallelStrategy())["module_buffers"] == 2048**2
    assert memory(job, ParallelStrategy(pp=2, tp=2, micro_batch_size=4))["module_buffers"] == 4 * 2048**2
    assert memory(job, ParallelStrategy(cp=2, cp_algo=CpAlgo.RING))["module_buffers"] == 0.0  # compressed


def test_a_loss_of_plain_operators_keeps_fp32_logits() -> None:
    job = workload(cluster=gpu(), **LONG)
    plain = replace(job, software=replace(job.software, plain_cross_entropy=True))
    fused, apart = (memory(each, ParallelStrategy())["logits"] for each in (job, plain))
    # Its head's backward follows: neither the input's gradient nor that of the weights is beside the loss.
    assert apart - fused == (12 - 6) * 16384 * 32000 - 2 * 16384 * 1024 - 2 * 32000 * 1024
    few = replace(plain, training=replace(plain.training, seq_length=128))  # the gradient of the weights is more than the loss
    assert logits_bytes(few, batch(), np.zeros(1))[0] == 128 * (2 * 32000 + 4 * 1024) + 2 * 32000 * 1024


def test_a_loss_of_plain_operators_over_shards_holds_one_tensor_more() -> None:
    """``scripts.oracle.plain_loss``: 12 bytes a logit whole, 16 over 2 and over 8 shards of the vocabulary."""
    sharded, megatron = (workload(cluster=gpu(), stack=stack, **LONG) for stack in ("fsdp", "megatron-lm"))
    for job, most_bytes in ((sharded, {1: 12, 2: 16, 8: 16}), (megatron, {1: 12, 2: 12, 8: 12})):
        plain = replace(job, software=replace(job.software, plain_cross_entropy=True))
        for tp, most in most_bytes.items():
            held = logits_bytes(plain, batch(tp=tp), np.zeros(1))[0]
            assert held == 16384 * (most * 32000 / tp + 2 * 1024)


def test_a_compiled_loss_of_pytorch_reads_16_bit_logits_and_is_over_before_the_backward_of_the_head() -> None:
    """``scripts.oracle.plain_loss``: 4 bytes a logit whole, 10 over 2 and over 8 shards of the vocabulary."""
    job = workload(cluster=gpu(), stack="fsdp", compiled_loss=True, **LONG)
    for tp, most in {1: 4, 2: 10, 8: 10}.items():
        assert logits_bytes(job, batch(tp=tp), np.zeros(1))[0] == 16384 * (most * 32000 / tp + 2 * 1024)
    few = replace(job, training=replace(job.training, seq_length=128))  # the gradient of the head's weights is more than the loss
    assert logits_bytes(few, batch(), np.zeros(1))[0] == 128 * (2 * 32000 + 4 * 1024) + 2 * 32000 * 1024


def test_fully_sharded_tables_stay_gathered_beside_the_loss() -> None:
    """One H100, torch 2.11: 4,096 and 8,192 tokens of 65,536 words need 0.63 and 0.69 GiB more than loss and head alone."""
    plain = workload(cluster=gpu(), stack="fsdp", **LONG)
    tied = replace(plain, model=replace(plain.model, tied_embeddings=True))
    whole, sharded = (logits_bytes(plain, batch(dp=8, zero_stage=stage), np.zeros(1))[0] for stage in (2, 3))
    assert sharded - whole == 2 * 2 * 32000 * 1024
    whole, sharded = (logits_bytes(tied, batch(dp=8, zero_stage=stage), np.zeros(1))[0] for stage in (2, 3))
    assert sharded - whole == 2 * 32000 * 1024
    megatron = workload(cluster=gpu(), stack="megatron-deepspeed", **LONG)
    assert len({logits_bytes(megatron, batch(dp=8, zero_stage=stage), np.zeros(1))[0] for stage in (2, 3)}) == 1


def test_fits_compares_the_peak_with_what_a_job_may_fill() -> None:
    result = priced(workload(**LONG), ParallelStrategy(), ParallelStrategy(micro_batch_size=32))
    np.testing.assert_array_equal(result.fits, result.peak_memory_bytes <= 60e9)
    assert result.fits.tolist() == [True, False]


def test_prediction_modules_keep_a_layer_more_on_the_last_rank() -> None:
    plain, extra = (workload(replace(SPARSE, mtp_num_layers=k), **LONG) for k in (0, 1))
    columns = {"ep": 4, "dp": 4, "dispatcher": Dispatcher.ALLTOALL}
    difference = held(memory(extra, ParallelStrategy(**columns))) - held(memory(plain, ParallelStrategy(**columns)))
    assert difference == pytest.approx(activations(extra, moe=True, **columns))


def test_merged_passes_hold_a_layer_more_and_not_a_micro_batch() -> None:
    # A pair keeps a layer's forward as it frees a layer's backward: what it adds does not grow with the model's depth, but for
    # the output of each layer's shared experts: 16,384 tokens of 1,024 channels in 16 bits.
    plan = ParallelStrategy(dp=8, ep=8, micro_batch_size=1, dispatcher=Dispatcher.ALLTOALL)
    merged = replace(plan, features=plan.features | Feature.MOE_COMM_OVERLAP)
    more = []
    for layers in (8, 16):
        job = workload(replace(SPARSE, num_layers=layers, vocab_size=1024), **LONG)
        alone, pair = (priced(job, each).allocated_peak_bytes[0] for each in (plan, merged))
        more.append(pair - alone)
    assert more[1] - more[0] == pytest.approx(8 * 2 * 16_384 * 1_024)
    assert more[0] >= activations(job, moe=True, dp=8, ep=8, dispatcher=Dispatcher.ALLTOALL)


@pytest.mark.parametrize(
    ("stack", "schedule", "model", "kept"),
    [
        ("megatron-lm", Schedule.INTERLEAVED, SPARSE, True),  # executed with DeepSeek-V3: one input more a layer
        ("mindspeed-llm", Schedule.INTERLEAVED, SPARSE, False),  # executed with DeepSeek-V2-Lite's layers
        ("megatron-lm", Schedule.DUALPIPE_V, SPARSE, False),  # which Megatron-Core does not have
        ("megatron-lm", Schedule.INTERLEAVED, NONE_SHARED, False),
    ],
)
def test_merged_passes_of_megatron_keep_outputs_of_shared_experts(
    stack: str, schedule: Schedule, model: ModelShape, kept: bool
) -> None:
    rows = batch(dp=8, ep=8, pp=2, vpp=2, micro_batch_size=1, schedule=schedule, dispatcher=Dispatcher.ALLTOALL)
    stages = stages_of(model, 2, 2, schedule=schedule, merge_pairs=True, merge=False)
    found = kept_layers(workload(model, stack=stack), stages, rows, chunk_counts(stages, rows))
    # Two layers in each of four chunks; those of the first are dense.
    assert found.inputs[..., 0].tolist() == ([[0.0, 2.0], [2.0, 2.0]] if kept else [[0.0, 0.0], [0.0, 0.0]])
