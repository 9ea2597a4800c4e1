"""Bytes a parameter, and which parameters a rank holds."""

from dataclasses import replace

import numpy as np
import pytest

from cost_models.memory.model_states import (
    ModelStates,
    StageParameters,
    edge_parameters,
    gradient_bytes,
    model_states,
    stage_parameters,
    trained_parameters,
)
from cost_models.memory.peak import gathered_bytes
from cost_models.pipeline.stages import stages_of
from cost_models.shapes.parameters import layer_rank_parameters, num_parameters
from cost_models.shapes.strategy import ParallelStrategy, Schedule, StrategyBatch
from cost_models.shapes.switches import DEFAULT_FEATURES, Feature
from cost_models.shapes.training_task import MEGATRON_MODULES, Adapters, BasePrecision, Task, TrainingTask
from cost_models.shapes.workload import LAYER_SYMBOLS, LocalAttention, ModelShape, MoeShape, Workload
from tests.networks import gpu
from tests.worked_examples import worked
from tests.workloads import DENSE, LATENT, SPARSE, batch, priced, workload

P = 1e9


def states(job: Workload | None = None, *, dense: float = P, experts: float = 0.0, **columns: object) -> ModelStates:
    held = StageParameters(*(np.array([[value]]) for value in (dense, experts, *[0.0] * 6)))
    return model_states(job or workload(), batch(**columns), held)


def total(value: ModelStates) -> float:
    return float(value.total[0, 0])


@pytest.mark.parametrize(
    ("columns", "bytes_each"),
    [
        ({"zero_stage": 0}, 18.0),
        ({"dp": 64}, 6 + 12 / 64),
        ({"dp": 32, "cp": 2}, 6 + 12 / 64),  # context parallelism folds into the data-parallel group
        ({"dp": 64, "optimizer_shard_size": 8}, 6 + 12 / 8),
        ({"dp": 64, "zero_stage": 2}, 2 + 16 / 64),
        ({"dp": 64, "zero_stage": 2, "pp": 2}, 6 + 12 / 64),  # stages add whole gradients up, as under ZeRO-1
        ({"dp": 64, "zero_stage": 3, "pp": 2}, 18 / 64),
        ({"dp": 64, "zero_stage": 3}, 18 / 64),
        ({"dp": 64, "features": DEFAULT_FEATURES | Feature.REUSE_FP32_PARAM}, 6 + 10 / 64),
        ({"zero_stage": 0, "features": DEFAULT_FEATURES | Feature.REUSE_FP32_PARAM}, 16.0),
        ({"dp": 64, "features": DEFAULT_FEATURES | Feature.GRAD_REDUCE_IN_BF16}, 4 + 12 / 64),
        ({"dp": 64, "features": DEFAULT_FEATURES | Feature.SWAP_OPTIMIZER}, 6.0),
        ({"dp": 64, "features": DEFAULT_FEATURES | Feature.OPTIMIZER_CPU_OFFLOAD}, 6.0),
        ({"dp": 64, "features": DEFAULT_FEATURES | Feature.BF16_MOMENTS}, 6 + 8 / 64),
    ],
)
def test_bytes_a_parameter(columns: dict[str, object], bytes_each: float) -> None:
    assert total(states(**columns)) == pytest.approx(P * bytes_each)


@pytest.mark.parametrize(
    ("stack", "columns", "bytes_each"),
    [
        ("megatron-lm", {"zero_stage": 0}, 20.0),  # FP8 weights and their transposes beside those in BF16
        ("megatron-lm", {"dp": 64}, 6 + 12 / 64),  # they are the weights
        ("fsdp", {"zero_stage": 0}, 16.0),  # no Transformer Engine: a copy lives while it is multiplied
    ],
)
def test_fp8_weights_are_kept_beside_those_in_16_bits_where_the_optimizer_is_not_sharded(
    stack: str, columns: dict[str, object], bytes_each: float
) -> None:
    assert total(states(workload(precision="fp8", stack=stack), **columns)) == pytest.approx(P * bytes_each)


def test_worked_bytes_a_parameter() -> None:
    assert total(states(dp=64)) / P == worked("state-bytes")


def test_half_precision_accumulates_in_half_precision() -> None:
    job = workload(precision="fp16")
    assert float(gradient_bytes(job, batch())[0]) == 2.0
    assert total(states(job, dp=64)) == pytest.approx(P * (4 + 12 / 64))


def test_short_gradients_leave_a_full_precision_copy_of_the_shard() -> None:
    copies = states(dp=64, features=DEFAULT_FEATURES | Feature.GRAD_REDUCE_IN_BF16).gradient_copies
    assert float(copies[0, 0]) == pytest.approx(P * 4 / 64)
    assert float(states(dp=64).gradient_copies[0, 0]) == 0.0
    compiled = workload(precision="fp16", execution="graph")
    assert float(states(compiled, dp=64).gradient_copies[0, 0]) == 0.0


def test_full_precision_parameters_need_no_master_copy() -> None:
    # MindFormers: 4 B weights, 4 B gradients, 8 B moments; its parallel optimizer shards the weights too.
    job = workload(precision="fp16", fp32_parameters=True)
    assert total(states(job, zero_stage=0)) == pytest.approx(16 * P)
    assert total(states(job, dp=8)) == pytest.approx(P * (4 + 12 / 8))


def test_mindspore_shards_the_gradients_that_a_pipeline_accumulates() -> None:
    for job in (workload(stack="mindformers"), workload(sharded_accumulation=True)):
        assert total(states(job, dp=64, pp=2, zero_stage=2)) == pytest.approx(P * (2 + 16 / 64))


@pytest.mark.parametrize(
    ("columns", "bytes_each"),
    [
        ({"dp": 64}, 2 + 16 / 64),  # 64 sequences over 64 replicas
        ({"dp": 8, "micro_batch_size": 8}, 2 + 16 / 8),
        ({"dp": 32}, 6 + 12 / 32),  # two micro batches
        ({"dp": 64, "pp": 2}, 6 + 12 / 64),
        ({"dp": 64, "zero_stage": 0}, 18.0),
    ],
)
def test_mindspore_keeps_whole_gradients_only_to_add_them_up(columns: dict[str, object], bytes_each: float) -> None:
    assert total(states(workload(stack="mindformers"), **columns)) == pytest.approx(P * bytes_each)


def test_strategies_that_add_gradients_up_are_told_from_those_that_do_not() -> None:
    job = workload(stack="mindformers")
    both = [ParallelStrategy(dp=8, micro_batch_size=size) for size in (8, 4)]
    assert list(priced(job, *both).peak_memory_bytes) == [priced(job, one).peak_memory_bytes[0] for one in both]


def test_fsdp_casts_its_shards_and_keeps_no_others() -> None:
    job = workload()
    fsdp = replace(job, software=replace(job.software, stack="fsdp"))
    assert total(states(fsdp, dp=8, zero_stage=3)) == pytest.approx(16 * P / 8)
    assert total(states(job, dp=8, zero_stage=3)) == pytest.approx(18 * P / 8)
    assert total(states(fsdp, dp=8, zero_stage=2)) == pytest.approx(16 * P / 8)  # weights are gathered while a micro batch runs


def test_deepspeed_accumulates_short_gradients_in_full_precision_beside_them() -> None:
    job = workload()
    deepspeed = replace(job, software=replace(job.software, stack="megatron-deepspeed"))
    assert total(states(deepspeed, dp=8)) == pytest.approx(P * (2 + 6 + 12 / 8))
    half = replace(deepspeed, training=replace(deepspeed.training, precision="fp16"))
    assert total(states(half, dp=8)) == pytest.approx(P * (2 + 2 + 12 / 8))


def test_experts_are_sharded_over_their_own_replicas() -> None:
    # tp 2 x dp 32 = 64 ranks hold 16 experts' groups: 4 replicas of each expert
    both = states(dense=0.0, experts=P, tp=2, dp=32, ep=16)
    assert total(both) == pytest.approx(P * (6 + 12 / 4))


def test_swapped_states_are_counted_on_the_host() -> None:
    swapped = states(dp=64, features=DEFAULT_FEATURES | Feature.SWAP_OPTIMIZER)
    assert float(swapped.swapped[0, 0]) == pytest.approx(P * 12 / 64)
    assert float(swapped.moments[0, 0]) == float(swapped.master[0, 0]) == 0.0


def test_states_that_are_updated_on_the_host_stay_there() -> None:
    reduced = DEFAULT_FEATURES | Feature.GRAD_REDUCE_IN_BF16
    offloaded = states(dp=64, features=reduced | Feature.OPTIMIZER_CPU_OFFLOAD)
    assert float(offloaded.on_host[0, 0]) == pytest.approx(P * 12 / 64)
    assert float(offloaded.moments[0, 0]) == float(offloaded.master[0, 0]) == float(offloaded.swapped[0, 0]) == 0.0
    # gradients in 16 bits become FP32 on their way, so that no copy of them stays on the device
    assert float(offloaded.gradient_copies[0, 0]) == 0.0
    assert float(states(dp=64, features=reduced).gradient_copies[0, 0]) == pytest.approx(P * 4 / 64)


def test_parameters_of_a_layer_on_a_rank() -> None:
    dense, experts = layer_rank_parameters(SPARSE, batch(tp=4, ep=8, etp=2), moe=True)
    assert float(dense[0]) == (1024 * 128 * 32 + 3 * 1024 * 512) / 4 + 2 * 1024 + 1024 * 16
    assert float(experts[0]) == 3 * 1024 * 512 * 16 / 16


def test_latent_down_projections_are_replicated() -> None:
    one, four = (layer_rank_parameters(LATENT, batch(tp=t), moe=True)[0][0] for t in (1, 4))
    whole = 256 * 1025 + 128 * 1025 + 1024 * 32 + 2 * 1024 + 1024 * 16
    assert float(four) == (float(one) - whole) / 4 + whole


def edge(model: ModelShape, columns: StrategyBatch) -> tuple[float, ...]:
    return tuple(float(column[0]) for column in edge_parameters(workload(model), columns))


def test_embedding_at_one_end_and_head_at_the_other() -> None:
    table = 32000 * 1024
    assert edge(DENSE, batch(tp=2, pp=2)) == (table / 2, table / 2 + 1024, 0.0, 0.0)
    replicated = batch(tp=2, pp=2, features=DEFAULT_FEATURES | Feature.REPLICATED_EMBEDDING)
    assert edge(DENSE, replicated) == (table, table / 2 + 1024, 0.0, 0.0)


def test_tied_embeddings_have_a_copy_at_both_ends() -> None:
    tied = replace(DENSE, tied_embeddings=True)
    table = 32000 * 1024
    assert edge(tied, batch(pp=1)) == (table, 1024, 0.0, 0.0)
    assert edge(tied, batch(pp=2)) == (table, table + 1024, 0.0, 0.0)


def test_learned_positions_are_parameters() -> None:
    assert edge(replace(DENSE, learned_positions=True), batch())[0] == 32000 * 1024 + 2048 * 1024


def test_prediction_modules_bring_an_embedding_copy_wherever_the_embedding_is_not() -> None:
    model = replace(SPARSE, mtp_num_layers=1)
    dense, experts = layer_rank_parameters(model, batch(pp=2, ep=4), moe=True)
    norm = 1024  # the final one, which lies with the modules
    module, table = float(dense[0]) + 2 * 1024**2 + 3 * 1024 + norm, 32000 * 1024
    for columns, copy in (
        (batch(pp=2, ep=4), table),
        (batch(pp=4, ep=4, mtp_before_head=2), table),
        (batch(pp=2, ep=4, mtp_before_head=1), 0),
        (batch(pp=2, vpp=2, ep=4, mtp_before_head=2), table),
        (batch(ep=4), 0),
    ):
        first, last = edge(SPARSE, columns)[:2]
        assert edge(model, columns) == (first, last - norm, module + copy, float(experts[0]))
    assert edge(SPARSE, batch(pp=2, ep=4))[2:] == (0.0, 0.0)


@pytest.mark.parametrize(("schedule", "vpp"), [(Schedule.DUALPIPE, 1), (Schedule.DUALPIPE_V, 2), (Schedule.ZBV, 2)])
def test_prediction_modules_share_the_embedding_of_a_rank_with_both_ends(schedule: Schedule, vpp: int) -> None:
    model = replace(SPARSE, mtp_num_layers=1)
    apart, shared = edge(model, batch(pp=2, ep=4)), edge(model, batch(pp=2, ep=4, vpp=vpp, schedule=schedule))
    assert apart[2] - shared[2] == 32000 * 1024
    assert (*apart[:2], apart[3]) == (*shared[:2], shared[3])


def stage_sum(model: ModelShape, pp: int, vpp: int = 1) -> float:
    columns = batch(pp=pp, vpp=vpp)
    stages = stages_of(model, pp, vpp, merge=False)
    layers = tuple(of_kind.sum(axis=1)[:, None].astype(float) for of_kind in stages.layers)
    held = stage_parameters(workload(model), columns, layers, stages.is_first, stages.is_last, stages.is_mtp)
    return float((held.dense + held.experts).sum())


@pytest.mark.parametrize("model", [DENSE, SPARSE, LATENT])
@pytest.mark.parametrize(("pp", "vpp"), [(1, 1), (4, 1), (4, 2), (3, 1)])
def test_stages_hold_the_model_once(model: ModelShape, pp: int, vpp: int) -> None:
    assert stage_sum(model, pp, vpp) == pytest.approx(num_parameters(model).total, rel=1e-12)


def test_largest_tensor_and_layer() -> None:
    columns, ones, none = batch(tp=2, ep=4), np.ones((1, 1)), np.zeros((1, 1))
    dense = stage_parameters(workload(), columns, (ones,), none, none, none)
    assert float(dense.largest_tensor[0, 0]) == 2 * 1024 * 4096 / 2  # gate and up projection are one tensor
    assert float(dense.largest_layer[0, 0]) == float(layer_rank_parameters(DENSE, columns, moe=False)[0][0])
    sparse = stage_parameters(workload(SPARSE), columns, (none, ones), none, none, none)
    assert float(sparse.largest_tensor[0, 0]) == 2 * 1024 * 512 * 4  # four experts are one grouped tensor
    assert float(sparse.largest_layer[0, 0]) == float(sum(layer_rank_parameters(SPARSE, columns, moe=True))[0])
    first = stage_parameters(workload(stack="fsdp"), columns, (none,), ones, none, none)
    predicts = workload(replace(SPARSE, mtp_num_layers=1), stack="fsdp")
    alone = stage_parameters(predicts, columns, (none, none), none, none, ones)
    assert float(alone.largest_layer[0, 0]) == 32000 * 1024 / 2 > float(sparse.largest_layer[0, 0])  # its copy of the table
    assert float(alone.largest_tensor[0, 0]) == 32000 * 1024 / 2
    assert float(first.largest_tensor[0, 0]) == float(first.largest_layer[0, 0]) == 32000 * 1024 / 2
    kept = stage_parameters(workload(), columns, (none,), ones, none, none)
    assert (float(kept.largest_layer[0, 0]), float(kept.ends[0, 0])) == (0.0, 32000 * 1024 / 2)  # Megatron-FSDP gathers it once


def test_the_largest_tensor_of_layers_of_one_block_is_of_the_kinds_that_a_stage_has() -> None:
    states = LocalAttention("state_space", 0, 0, 2, 8, 32, 64, 4, 128)  # 2 groups of 32 channels, 8 heads of 64
    experts = MoeShape(num_experts=8, top_k=2, expert_ffn_hidden_size=256)
    plain = {"gated_linear_unit": False, "no_positions": True, "local_attention": states, "moe": experts}
    model = replace(DENSE, num_layers=4, hybrid_layer_pattern="M-*E", **plain)
    one, none = np.ones((1, 1)), np.zeros((1, 1))

    def largest(symbol: str) -> float:
        numbers = tuple(one if kind == LAYER_SYMBOLS[symbol] else none for kind in model.layer_kinds())
        return float(stage_parameters(workload(model), batch(tp=2, ep=4), numbers, none, none, none).largest_tensor[0, 0])

    assert largest("M") == 1024 * (2 * 2 * 32 + 2 * 8 * 64 + 8) / 2
    assert largest("*") == 1024 * 3 * 8 * 128 / 2
    assert largest("-") == 1024 * 4096 / 2
    assert largest("E") == 2 * 1024 * 256  # two experts a rank without a gate: one matrix of two


def test_a_quantised_matrix_in_16_bits_is_of_the_layers_that_a_stage_has() -> None:
    # Over tp 2: an MLP of 4,096, eight heads of 128, experts of 512 that are whole.
    model = replace(SPARSE, moe=replace(SPARSE.moe, num_leading_dense_layers=1)) if SPARSE.moe else SPARSE
    job = workload(model, task=TrainingTask(Task.QLORA, Adapters(16, 16.0, tuple(MEGATRON_MODULES)), BasePrecision.NF4))
    ones, none, columns = np.ones((1, 1)), np.zeros((1, 1)), batch(tp=2, ep=4)
    for numbers, width in (((ones, none), 4096 / 2), ((none, ones), 512), ((none, none), 0)):
        parameters = stage_parameters(job, columns, numbers, none, none, none)
        assert parameters.largest_matrix[0, 0] == 1024 * width
        trained = trained_parameters(job, columns, numbers, none, parameters)
        gradient = 2 * trained.largest_tensor[0, 0]
        assert gathered_bytes(job, columns, parameters, trained)[0, 0] == 2 * 1024 * width + gradient


def test_an_optimizer_has_of_a_tensor_at_most_what_its_rank_has_of_all() -> None:
    ones, none = np.ones((1, 1)), np.zeros((1, 1))

    def largest(**columns: object) -> float:
        return float(stage_parameters(workload(), batch(**columns), (ones,), ones, none, none).largest_shard[0, 0])

    table, layer = 32000 * 1024, float(layer_rank_parameters(DENSE, batch(), moe=False)[0][0])
    assert largest(dp=8, zero_stage=0) == table
    assert largest(dp=2) == (layer + table) / 2 < table
    assert largest(dp=16) == (layer + table) / 16

    def of_experts(features: Feature, **columns: object) -> float:
        columns = {"dp": 16, "features": features, **columns}
        held = stage_parameters(workload(SPARSE), batch(**columns), (none, ones), none, none, none)
        return float(held.largest_shard[0, 0])

    gate_and_up, grouped = 2 * 1024 * 512, DEFAULT_FEATURES | Feature.MOE_GROUPED_GEMM
    assert of_experts(DEFAULT_FEATURES & ~Feature.MOE_GROUPED_GEMM, ep=4) == gate_and_up
    assert of_experts(grouped, ep=16) == gate_and_up
    assert of_experts(grouped, ep=4) == 4 * 1.5 * gate_and_up / 4


def on_a_gpu(recipe: str, *, newest: bool = False, **values: object) -> Workload:
    made = gpu()
    rates = {"bf16": 3e14, "fp8": 6e14, **({"nvfp4": 1.2e15} if newest else {})}
    capability = 10.0 if newest else 9.0
    made = replace(made, profile=replace(made.profile, matmul_flops_per_s=rates, compute_capability=capability))
    return workload(cluster=made, precision="fp8", fp8_recipe=recipe, **values)


@pytest.mark.parametrize(
    ("job", "columns", "weight_bytes"),
    [
        (on_a_gpu("delayed"), {"zero_stage": 0}, 2 + 2),  # 16 bits, and 8 bits by rows and by columns
        (on_a_gpu("delayed"), {"dp": 64}, 2),  # gathered in 8 bits, and transposed
        (on_a_gpu("delayed", newest=True), {"dp": 64}, 1),  # Blackwell needs no transpose
        (on_a_gpu("delayed", fp8_param_gather=False), {"dp": 64}, 2 + 2),
        (workload(cluster=gpu(), precision="fp8", fp8_param_gather=False), {"dp": 64}, 2 + 2),  # no recipe
        (on_a_gpu("mxfp8", newest=True), {"zero_stage": 0}, 2 + 2 * 33 / 32),
        # Half a byte, and a scale of 8 bits for 16 weights, for each direction, beside 16 bits
        (workload(cluster=gpu(), precision="nvfp4"), {"dp": 64}, 2 + 2 * (0.5 + 1 / 16)),
        (workload(cluster=gpu(), stack="fsdp", precision="nvfp4"), {"zero_stage": 0}, 4),  # not Transformer Engine's
        (on_a_gpu("mxfp8", newest=True), {"dp": 64}, 2 * 33 / 32),  # a scale of 8 bits for 32 weights, for each direction
        (on_a_gpu("mxfp8", newest=True, year=2025.25), {"dp": 64}, 2 + 2 * 33 / 32),  # core 0.12 gathers 16 bits
        (on_a_gpu("blockwise"), {"dp": 64}, 2 + 2 * (1 + 4 / 16384)),  # a scale of 32 bits for 128 x 128
        (on_a_gpu("blockwise", fp8_param_gather=True), {"dp": 64}, 2 * (1 + 4 / 16384)),
        (workload(stack="mindspeed-llm", precision="fp8", fp8_recipe="mxfp8"), {"dp": 64}, 2),
        (workload(stack="mindspeed-llm", precision="fp8", fp8_recipe="mxfp8"), {"zero_stage": 0}, 2),
    ],
)
def test_weights_in_8_bits_by_recipe(job: Workload, columns: dict[str, object], weight_bytes: float) -> None:
    assert float(states(job, **columns).weights[0, 0]) == pytest.approx(P * weight_bytes)


def test_embedding_and_head_stay_in_16_bits() -> None:
    def weights(recipe: str) -> float:
        job = on_a_gpu(recipe, newest=True)
        found = priced(job, ParallelStrategy(dp=1, zero_stage=0))
        assert found.breakdown is not None
        return float(found.breakdown.memory_bytes["weights"][0])

    linear = 8 * (1024 * 128 * 32 + 3 * 1024 * 4096)  # eight layers; 2 x 32,000 x 1,024 of tables are left out
    assert weights("mxfp8") - weights("delayed") == pytest.approx(linear * (2 * 33 / 32 - 1))
