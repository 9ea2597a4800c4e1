"""Launch arguments say what the plan says: read back, they give the plan's degrees and shapes."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.jobs.job import parse_job
from cost_models.shapes.layout import default_layout
from cost_models.shapes.model_constants import RopeScaling
from cost_models.shapes.optimizers import Optimizer, TpMode
from cost_models.shapes.recompute_modules import RecomputeModule
from cost_models.shapes.strategy import CpAlgo, Dispatcher, ParallelStrategy, Recompute, RecomputeMethod, Schedule
from cost_models.shapes.switches import DEFAULT_FEATURES, Feature
from cost_models.shapes.workload import Software, Workload
from frameworks.framework import LaunchArguments
from frameworks.launch import launch_block, launch_blocks
from frameworks.legality import launchable_on, violations
from frameworks.mindspeed_llm import writer as mindspeed
from frameworks.mindspeed_llm.rules import noop_positions
from frameworks.registry import BY_LABEL, BY_NAME
from tests.unit.frameworks.legality_workloads import DENSE, DENSE_PLAN, MIXTURE, MIXTURE_PLAN, PANGU_JOB, PANGU_PLAN, job

megatron = BY_NAME["megatron-lm"].write
FLAT = replace(DENSE_PLAN, vpp=1, schedule=Schedule.ONE_F_ONE_B)
UNEVEN = replace(FLAT, layer_layout=((7, 9, 9, 7),))
NVIDIA = job(MIXTURE, family="nvidia")


def flags(launch: LaunchArguments) -> dict[str, list[str]]:
    """Each flag with its values; a flag given twice is an error."""
    read: dict[str, list[str]] = {}
    for argument in launch.arguments:
        if argument.startswith("--"):
            assert argument not in read, f"{argument} is given twice"
            last = read[argument] = []
        else:
            last.append(argument)
    return read


def number(read: dict[str, list[str]], name: str) -> int:
    (value,) = read[name]
    return int(value)


def layout_from(read: dict[str, list[str]]) -> tuple[tuple[int, ...], ...]:
    """The layers of each virtual stage that a Megatron-like framework builds from its flags, ``[chunk][stage]``."""
    total, pp = number(read, "--num-layers"), number(read, "--pipeline-model-parallel-size")
    noops = {int(x) for x in read["--noop-layers"][0].split(",")} if "--noop-layers" in read else set()
    if "--num-layers-per-virtual-pipeline-stage" in read:
        vpp = total // pp // number(read, "--num-layers-per-virtual-pipeline-stage")
    elif "--num-virtual-stages-per-pipeline-rank" in read:
        vpp = number(read, "--num-virtual-stages-per-pipeline-rank")
    else:
        vpp = 1
    ends = {
        stage: number(read, flag)
        for stage, flag in ((0, "--decoder-first-pipeline-num-layers"), (pp - 1, "--decoder-last-pipeline-num-layers"))
        if flag in read
    }
    inner, rest = divmod(total - sum(ends.values()), max(pp - len(ends), 1))
    assert rest == 0
    position, chunks = 0, []
    for _ in range(vpp):
        row = []
        for stage in range(pp):
            length = ends.get(stage, inner) // vpp
            row.append(sum(p not in noops for p in range(position, position + length)))
            position += length
        chunks.append(tuple(row))
    return tuple(chunks)


def assert_says(workload: Workload, plan: ParallelStrategy, read: dict[str, list[str]]) -> None:
    assert number(read, "--tensor-model-parallel-size") == plan.tp
    assert number(read, "--pipeline-model-parallel-size") == plan.pp
    assert number(read, "--context-parallel-size") == plan.cp
    assert number(read, "--micro-batch-size") == plan.micro_batch_size
    assert number(read, "--global-batch-size") == workload.training.global_batch_size
    assert number(read, "--seq-length") == workload.training.seq_length
    assert ("--sequence-parallel" in read) == plan.sequence_parallel
    assert ("--use-distributed-optimizer" in read) == (plan.zero_stage > 0)
    assert layout_from(read) == (plan.layer_layout or default_layout(workload.model, plan.pp, plan.vpp))
    if workload.model.moe is not None:
        ep, etp = number(read, "--expert-model-parallel-size"), number(read, "--expert-tensor-parallel-size")
        if "--moe-tp-extend-ep" in read:
            ep, etp = ep * plan.tp, 1
        assert (ep, etp) == (plan.ep, plan.etp)
        assert number(read, "--num-experts") == workload.model.moe.num_experts


@pytest.mark.parametrize(
    ("workload", "plan"),
    [
        (job(), FLAT),
        (job(), DENSE_PLAN),
        (job(), UNEVEN),
        (job(), replace(FLAT, pp=2, dp=8, layer_layout=((15, 17),))),
        (job(), replace(DENSE_PLAN, pp=2, dp=8, layer_layout=((7, 9), (7, 9)))),
        (job(), replace(DENSE_PLAN, layer_layout=((3, 5, 5, 3), (3, 5, 5, 3)))),
        (job(), ParallelStrategy(dp=64, zero_stage=0)),
        (job(replace(DENSE, num_layers=31)), FLAT),
        (job(replace(DENSE, num_layers=29)), FLAT),
        (job(replace(DENSE, num_layers=30)), replace(FLAT, layer_layout=((7, 8, 8, 7),))),
        (job(MIXTURE), MIXTURE_PLAN),
        (job(MIXTURE), replace(MIXTURE_PLAN, ep=16, etp=2)),
    ],
)
def test_both_frameworks_read_back_the_plan(workload: Workload, plan: ParallelStrategy) -> None:
    assert_says(workload, plan, flags(megatron(workload, plan)))
    assert_says(workload, plan, flags(mindspeed.arguments(workload, plan)))


def test_mindspeed_fills_virtual_stages_with_noop_layers() -> None:
    launch = mindspeed.arguments(PANGU_JOB, PANGU_PLAN)
    read = flags(launch)
    assert_says(PANGU_JOB, PANGU_PLAN, read)
    # 61 layers in 2 x 16 chunks of two: the empty slots end both chunks of rank 15, and the last of rank 14.
    assert read["--num-layers"] == ["64"]
    assert read["--noop-layers"] == ["31,61,63"]
    assert read["--num-layers-per-virtual-pipeline-stage"] == ["2"]
    # layers 0, 1 and 2 are dense and no no-op layer lies before them: the first MoE layer stands at position 3
    assert read["--first-k-dense-replace"] == ["3"]
    assert read["--multi-latent-attention"] == []
    assert read["--qk-head-dim"] == ["128"]
    assert read["--qk-pos-emb-head-dim"] == ["64"]
    assert read["--post-norm"] == []
    assert "3 no-op layers fill 61 layers up to 64" in " ".join(launch.notes)
    assert "core_r0.8.0" in " ".join(launch.notes)


def test_rotary_tables_of_latent_attention_are_as_wide_as_its_rope_key() -> None:
    # Without YaRN, MindSpeed-LLM's GPTModel makes them --kv-channels wide, as its scripts for GLM-5.2 and LongCat state.
    assert PANGU_JOB.model.constants.rope_scaling is None
    assert flags(mindspeed.arguments(PANGU_JOB, PANGU_PLAN))["--kv-channels"] == ["64"]
    yarn = RopeScaling(
        "yarn", 40.0, original_max_position_embeddings=4096, beta_fast=32.0, beta_slow=1.0, mscale=1.0, mscale_all_dim=1.0
    )
    constants = replace(PANGU_JOB.model.constants, rope_scaling=yarn)
    scaled = replace(PANGU_JOB, model=replace(PANGU_JOB.model, constants=constants))
    assert "--kv-channels" not in flags(mindspeed.arguments(scaled, PANGU_PLAN))


def test_a_stage_of_a_v_that_sends_ends_in_a_layer() -> None:
    # Three slots: chunks of 2, 3 and 3, 2 layers. The output of a no-op layer is a view, which MindSpeed cannot free once it is
    # sent; the model's last stage sends nothing.
    assert noop_positions(((2, 3), (3, 2)), vee=True) == (0, 11)
    assert noop_positions(((2, 3), (3, 2)), vee=False) == (2, 11)


def test_noop_layers_before_the_first_moe_layer_count() -> None:
    # Three slots a virtual stage: a no-op at position 2 moves the third dense layer to 3, and the first MoE layer to 4.
    plan = replace(PANGU_PLAN, layer_layout=((2, 3, *[2] * 14), (*[2] * 12, *[1] * 4)))
    read = flags(mindspeed.arguments(PANGU_JOB, plan))
    assert_says(PANGU_JOB, plan, read)
    assert read["--noop-layers"][0].startswith("2,8,11,")
    assert read["--first-k-dense-replace"] == ["4"]


def test_mindspeed_takes_a_layout_that_megatron_cannot_build() -> None:
    # 30 layers on 4 ranks as 8, 8, 7, 7, so that the two middle ranks differ; the default 7, 8, 8, 7 is Megatron's own.
    workload = job(replace(DENSE, num_layers=30))
    plan = replace(FLAT, layer_layout=((8, 8, 7, 7),))
    read = flags(mindspeed.arguments(workload, plan))
    assert_says(workload, plan, read)
    assert read["--noop-layers"] == ["23,31"]
    assert any(v.rule == "megatron_stages" for v in violations(workload, plan, "megatron-lm"))
    assert not any(v.rule == "megatron_stages" for v in violations(workload, FLAT, "megatron-lm"))


def test_mindspeed_counts_expert_ranks_outside_tp_when_tp_extends_ep() -> None:
    plan = replace(MIXTURE_PLAN, features=DEFAULT_FEATURES | Feature.MOE_TP_EXTEND_EP)
    read = flags(mindspeed.arguments(job(MIXTURE), plan))
    assert_says(job(MIXTURE), plan, read)
    assert read["--expert-model-parallel-size"] == ["16"]  # 32 expert ranks / tp 2
    assert read["--moe-token-dispatcher-type"] == ["alltoall_seq"]
    assert "--moe-permutation-async-comm" in read


def test_megatron_writes_the_pattern_of_moe_layers() -> None:
    model = replace(MIXTURE, moe=replace(MIXTURE.moe, num_leading_dense_layers=2, moe_layer_freq=11))
    read = flags(megatron(job(model), MIXTURE_PLAN))
    (pattern,) = read["--moe-layer-freq"]
    terms = re.findall(r"\[(\d)\]\*(\d+)", pattern)
    assert tuple(bool(int(kind)) for kind, times in terms for _ in range(int(times))) == model.moe_layers()
    assert read["--moe-router-dtype"] == ["fp32"]


def test_context_parallel_algorithms() -> None:
    ring = replace(FLAT, dp=1, cp=4, cp_algo=CpAlgo.RING, features=DEFAULT_FEATURES | Feature.CP_SEND_RECV_OVERLAP)
    ulysses = replace(ring, cp_algo=CpAlgo.ULYSSES, ulysses_degree=4)
    hybrid = replace(ring, cp_algo=CpAlgo.HYBRID, ulysses_degree=2)
    whole = job(replace(DENSE, num_query_groups=32))
    gathered = replace(ring, cp_algo=CpAlgo.KV_ALLGATHER)
    on_megatron = [flags(megatron(whole, plan)) for plan in (ring, ulysses, hybrid, gathered)]
    assert [read["--cp-comm-type"] for read in on_megatron] == [["p2p"], ["a2a"], ["a2a+p2p"], ["all_gather"]]
    assert on_megatron[2]["--hierarchical-context-parallel-sizes"] == ["2", "2"]
    refused = megatron(job(), ulysses)  # 8 query groups over tp 4 and a degree of 4, which asserts in the first forward
    assert flags(refused)["--cp-comm-type"] == ["p2p"]
    assert "cp_algo ulysses is written as ring: Transformer Engine repeats no query groups" in " ".join(refused.notes)
    other = mindspeed.arguments(job(), gathered)
    assert flags(other)["--context-parallel-algo"] == ["megatron_cp_algo"]
    assert "cp_algo kv_allgather is written as ring: kvallgather_cp_algo needs other layers" in " ".join(other.notes)
    on_mindspeed = [flags(mindspeed.arguments(job(), plan)) for plan in (ring, ulysses, hybrid)]
    algos = [["megatron_cp_algo"], ["ulysses_cp_algo"], ["hybrid_cp_algo"]]
    assert [read["--context-parallel-algo"] for read in on_mindspeed] == algos
    assert on_mindspeed[2]["--ulysses-degree-in-cp"] == ["2"]
    assert ["--use-cp-send-recv-overlap" in read for read in on_mindspeed] == [True, False, True]


def test_recompute_by_layer_and_by_module() -> None:
    block = replace(FLAT, recompute=Recompute.FULL, recompute_method=RecomputeMethod.BLOCK, recompute_num_layers=3)
    for export in (megatron, mindspeed.arguments):
        read = flags(export(job(), block))
        assert read["--recompute-granularity"] == ["full"]
        assert read["--recompute-method"] == ["block"]
        assert read["--recompute-num-layers"] == ["3"]
    modules = RecomputeModule.CORE_ATTN | RecomputeModule.LAYERNORM | RecomputeModule.MLP_ACT
    by_module = replace(MIXTURE_PLAN, recompute=Recompute.SELECTIVE, recompute_modules=modules)
    read = flags(megatron(NVIDIA, by_module))
    assert read["--recompute-granularity"] == ["selective"]
    assert read["--recompute-modules"] == ["core_attn", "layernorm", "moe_act"]
    assert "2 shared experts keep theirs" in " ".join(megatron(NVIDIA, by_module).notes)
    read = flags(mindspeed.arguments(job(MIXTURE), by_module))
    assert {"--recompute-norm", "--recompute-activation-function"} <= set(read)
    # MindSpeed-LLM takes modules or its own switches; flash attention keeps nothing that core_attn would drop.
    assert "--recompute-granularity" not in read
    by_layer = replace(by_module, recompute_modules=RecomputeModule.MLP | RecomputeModule.MOE | RecomputeModule.LAYERNORM)
    read = flags(mindspeed.arguments(job(MIXTURE), by_layer))
    assert read["--recompute-modules"] == ["mlp", "moe"]
    assert "--recompute-norm" not in read
    mixed = replace(block, recompute_modules=RecomputeModule.MLP_ACT)
    read = flags(mindspeed.arguments(job(), mixed))
    assert read["--recompute-num-layers"] == ["3"]
    assert "--recompute-activation-function" in read
    by_rank = replace(DENSE_PLAN, recompute=Recompute.FULL, recompute_layers_per_stage=(4, 4, 4, 4))
    read = flags(mindspeed.arguments(job(), by_rank))
    assert read["--recompute-num-layers"] == ["4"]
    assert "--enable-recompute-layers-per-pp-rank" in read
    alone = replace(by_module, recompute_modules=RecomputeModule.LAYERNORM)
    assert "--recompute-granularity" not in flags(mindspeed.arguments(job(MIXTURE), alone))


def test_optimizer_sharding() -> None:
    assert "--overlap-param-gather" not in flags(megatron(job(), replace(FLAT, zero_stage=0)))
    parts = flags(megatron(job(), replace(FLAT, optimizer_shard_size=2)))
    assert parts["--num-distributed-optimizer-instances"] == ["2"]  # dp 4 in groups of 2
    sharded = megatron(job(), ParallelStrategy(tp=4, dp=16, zero_stage=3))
    assert flags(sharded)["--data-parallel-sharding-strategy"] == ["optim_grads_params"]
    assert "CUDA_DEVICE_MAX_CONNECTIONS" not in sharded.environment
    assert megatron(job(), FLAT).environment == {"CUDA_DEVICE_MAX_CONNECTIONS": "1"}
    swapped = replace(FLAT, features=DEFAULT_FEATURES | Feature.SWAP_OPTIMIZER)
    assert "--swap-optimizer" in flags(mindspeed.arguments(job(), swapped))
    reused = replace(FLAT, features=DEFAULT_FEATURES | Feature.REUSE_FP32_PARAM)
    assert "--reuse-fp32-param" in flags(mindspeed.arguments(job(), reused))


@pytest.mark.parametrize(
    ("target", "family"), [("megatron-lm@0.12", "nvidia"), ("megatron-lm@0.19", "nvidia"), ("mindspeed-llm@master", "ascend")]
)
@pytest.mark.parametrize(
    "optimizer",
    [Optimizer(), Optimizer("sgd"), Optimizer("muon"), Optimizer("muon", TpMode.DUPLICATED, 7)],
    ids=lambda each: f"{each.name}-{each.tp_mode}",
)
def test_the_optimizer_is_written_and_read_back_or_refused(target: str, family: str, optimizer: Optimizer) -> None:
    made, framework = job(family=family), BY_LABEL[target]
    made = replace(made, training=replace(made.training, optimizer=optimizer))
    plan = replace(FLAT, zero_stage=int(optimizer.name != "sgd"))
    plan = replace(plan, features=plan.features if plan.zero_stage else plan.features & ~Feature.OVERLAP_PARAM_GATHER)
    if optimizer.name == "muon" and target == "megatron-lm@0.12":
        assert [each.rule for each in violations(made, plan, framework.target)] == ["megatron_optimizer"]
        return
    assert violations(made, plan, framework.target) == ()
    written = framework.write(made, plan)
    named = [name for name in flags(written) if name == "--optimizer" or name.startswith("--muon")]
    assert len(named) == {"adam": 0, "sgd": 1, "muon": 3}[optimizer.name]
    back = framework.read_job(written.arguments, 64)
    assert (back.optimizer, back.unread) == (optimizer, ())


def test_moments_in_16_bits_are_written_with_the_optimizer_that_has_them() -> None:
    made, short = job(family="nvidia"), replace(FLAT, features=DEFAULT_FEATURES | Feature.BF16_MOMENTS)
    early, late = (BY_LABEL[f"megatron-lm@{release}"] for release in ("0.12", "0.19"))
    written = flags(late.write(made, short))
    assert "--use-precision-aware-optimizer" in written
    assert (written["--exp-avg-dtype"], written["--exp-avg-sq-dtype"]) == (["bf16"], ["bf16"])
    assert violations(made, short, late.target) == ()
    assert [v.rule for v in violations(made, short, early.target)] == ["megatron_features"]  # core 0.12 has no bf16 there
    assert violations(made, replace(short, zero_stage=0, features=short.features & ~Feature.OVERLAP_PARAM_GATHER), late.target)
    plain = flags(late.write(made, FLAT))
    assert not {"--use-precision-aware-optimizer", "--exp-avg-dtype", "--exp-avg-sq-dtype"} & set(plain)


@pytest.mark.parametrize(
    ("recipe", "form", "gathers", "reuses"),
    [
        ("delayed", "hybrid", True, False),
        ("tensorwise", "hybrid", True, False),
        ("blockwise", "hybrid", False, False),  # gathered in 16 bits
        ("mxfp8", "e4m3", True, True),
    ],
)
def test_recipes_are_written_as_in_megatron_bridge(recipe: str, form: str, gathers: bool, reuses: bool) -> None:
    made = replace(job(precision="fp8", fp8_recipe=recipe, family="nvidia"), software=Software("megatron-lm"))
    written = flags(BY_LABEL["megatron-lm@0.19"].write(made, FLAT))
    assert (written["--fp8-format"], written["--fp8-recipe"]) == ([form], [recipe])
    assert ("--fp8-param-gather" in written) == gathers
    assert ("--reuse-grad-buf-for-mxfp8-param-ag" in written) == reuses


@pytest.mark.parametrize(
    ("precision", "recipe", "form"),
    [
        ("fp8", "mxfp8", "e4m3"),
        ("fp8", "mxfp8-32x32", "e4m3"),
        ("fp8", "blockwise", "e4m3"),
        ("fp8", "tensorwise", "hybrid"),
        ("fp8", "delayed", "hybrid"),
        ("hif8", "tensorwise", "hif8"),
    ],
)
def test_recipes_are_written_for_mindspeed_llm_and_read_back(precision: str, recipe: str, form: str) -> None:
    made = job(precision=precision, fp8_recipe=recipe)
    launch = mindspeed.arguments(made, FLAT)
    written = flags(launch)
    assert (written["--fp8-format"], written["--fp8-recipe"]) == ([form], [recipe])
    assert written["--transformer-impl"] == ["transformer_engine"]
    assert "--bf16" in written
    read = BY_LABEL["mindspeed-llm@master"].read_job(launch.arguments, 64)
    assert (read.precision, read.fp8_recipe, read.fp8_param_gather, read.unread) == (precision, recipe, None, ())


def test_experts_in_hif8_are_multiplied_in_groups() -> None:
    made = job(MIXTURE, precision="hif8", fp8_recipe="tensorwise")
    assert violations(made, MIXTURE_PLAN, BY_LABEL["mindspeed-llm@master"].target) == ()
    assert "--moe-grouped-gemm" in flags(mindspeed.arguments(made, MIXTURE_PLAN))


def test_a_script_in_8_bits_without_a_recipe_scales_as_its_framework_does() -> None:
    read = BY_LABEL["megatron-lm@0.19"].read_job
    launch = BY_LABEL["megatron-lm@0.19"].write(job(precision="fp8", family="nvidia"), FLAT)
    found = read(launch.arguments, 64)
    assert (found.fp8_recipe, found.fp8_param_gather, found.unread) == ("delayed", True, ())
    bare = read([word for word in launch.arguments if word != "--fp8-param-gather"], 64)
    assert (bare.fp8_recipe, bare.fp8_param_gather) == ("delayed", False)
    unshared = read([*launch.arguments, "--fp8-recipe", "mxfp8"], 64)
    assert [each.name for each in unshared.unread] == ["fp8-param-gather"]  # its weights have 16 bits of their own


def test_precision_and_kernels() -> None:
    fp8 = flags(megatron(job(precision="fp8", family="nvidia"), FLAT))
    assert "--bf16" in fp8
    assert fp8["--fp8-format"] == ["hybrid"]
    assert "--fp8-param-gather" in fp8  # weights in BF16 beside their FP8 copies would take twice the bytes that are priced
    whole = replace(FLAT, zero_stage=0, features=FLAT.features & ~Feature.OVERLAP_PARAM_GATHER)
    assert "--fp8-param-gather" not in flags(
        megatron(job(precision="fp8", family="nvidia"), whole)
    )  # only sharded states allow it
    assert "--fp8-param-gather" not in flags(megatron(job(family="nvidia"), FLAT))
    plain = flags(megatron(job(), replace(FLAT, features=Feature(0))))
    assert plain["--attention-backend"] == ["unfused"]
    assert {"--no-bias-swiglu-fusion", "--no-rope-fusion"} <= set(plain)
    fused = flags(mindspeed.arguments(job(), FLAT))
    assert {"--use-flash-attn", "--use-fused-rmsnorm", "--use-fused-swiglu", "--use-fused-rotary-pos-emb"} <= set(fused)
    assert "--no-rope-fusion" in flags(megatron(PANGU_JOB, PANGU_PLAN))  # refused with MLA otherwise


def test_mindspeed_leaves_out_the_fused_permutation_where_it_is_refused() -> None:
    launch = mindspeed.arguments(job(MIXTURE), replace(MIXTURE_PLAN, dispatcher=Dispatcher.ALLGATHER))
    assert "--moe-permute-fusion" not in flags(launch)
    assert "moe_permute_fusion is left out" in " ".join(launch.notes)
    assert "--moe-permute-fusion" in flags(mindspeed.arguments(job(MIXTURE), MIXTURE_PLAN))


def test_mindspeed_fuses_the_permutation_beside_overlapped_all_to_all() -> None:
    overlapped = replace(MIXTURE_PLAN, features=DEFAULT_FEATURES | Feature.MOE_ALLTOALL_OVERLAP_COMM)
    read = flags(mindspeed.arguments(job(MIXTURE), overlapped))
    assert {"--moe-permute-fusion", "--moe-alltoall-overlap-comm", "--moe-shared-expert-overlap"} <= set(read)


def test_vocabulary_is_padded_to_tp_and_no_further() -> None:
    read = flags(mindspeed.arguments(job(replace(DENSE, vocab_size=1001)), FLAT))
    assert read["--vocab-size"] == ["1001"]
    assert read["--padded-vocab-size"] == ["1004"]  # 251 rows on each of 4 ranks


def test_launch_block_tells_what_runs_where() -> None:
    block = launch_block(job(MIXTURE), MIXTURE_PLAN)
    assert block["mindspeed-llm"]["launchable"] is True
    assert block["mindspeed-llm"]["target"] == "mindspeed-llm@master"
    assert block["megatron-lm"]["arguments"] is None
    assert block["megatron-lm"]["notes"] == ["megatron-lm runs on nvidia and amd devices, not on ascend device."]
    on_gpus = launch_block(NVIDIA, MIXTURE_PLAN)
    assert on_gpus["megatron-lm"]["launchable"] is True
    assert on_gpus["mindspeed-llm"]["arguments"] is None


def test_launch_block_gives_the_closest_arguments_and_says_what_they_miss() -> None:
    block = launch_block(PANGU_JOB, PANGU_PLAN)["mindspeed-llm"]
    assert block["launchable"] is False
    assert block["arguments"]
    assert any("mindspeed_dispatcher" in note and "ep 32" in note for note in block["notes"])


PLANS = st.builds(
    ParallelStrategy,
    tp=st.sampled_from([1, 2, 4]), pp=st.sampled_from([1, 2, 4]), dp=st.sampled_from([1, 4]), ep=st.sampled_from([1, 2, 8]),
    vpp=st.sampled_from([1, 2, 3]), sequence_parallel=st.booleans(), dispatcher=st.sampled_from(Dispatcher),
    cp=st.sampled_from([1, 4]), cp_algo=st.sampled_from(CpAlgo), ulysses_degree=st.sampled_from([1, 2, 4]),
    zero_stage=st.integers(0, 3), recompute=st.sampled_from(Recompute), recompute_method=st.sampled_from(RecomputeMethod),
    recompute_modules=st.integers(0, 127).map(RecomputeModule), features=st.integers(0, 2**29 - 1).map(Feature),
    recompute_layers_per_stage=st.sampled_from([None, (1, 0)]), recompute_num_layers=st.integers(0, 4),
    schedule=st.sampled_from(Schedule), micro_batch_size=st.sampled_from([1, 2, 8]),
)  # fmt: skip


def parsed(model: str, target: str, hardware: str = "h100-sxm-80gb", **training: object) -> Workload:
    """A job of 64 devices, as a file says it."""
    given = {"seq_length": 4096, "global_batch_size": 64, **training}
    cluster = {"hardware": hardware, "num_devices": 64}
    return parse_job({"model": model, "cluster": cluster, "training": given, "software": {"target": target}}).workload


LORA = {"task": "lora", "adapter": {"rank": 16}}
JOBS = [
    job(), job(MIXTURE), NVIDIA, PANGU_JOB,
    parsed("llama-3.1-8b", "torchtitan"), parsed("nemotron-h-8b", "megatron-lm@0.19"),
    parsed("qwen3-30b-a3b", "megatron-lm@0.19", **LORA), parsed("qwen3-30b-a3b", "mindspeed-llm", "atlas-800t-a2", **LORA),
    parsed("qwen3-8b", "megatron-lm@0.19", precision="fp8"),
]  # fmt: skip


@given(PLANS, st.sampled_from(JOBS))
def test_any_plan_gives_a_json_block_without_repeated_flags(plan: ParallelStrategy, workload: Workload) -> None:
    block = launch_block(workload, plan)
    assert json.loads(json.dumps(block, allow_nan=False)) == block
    for entry in block.values():
        assert entry["notes"]
        if entry["arguments"] is not None:
            assert all(isinstance(argument, str) and argument for argument in entry["arguments"])
            if entry["arguments"][0].startswith("--"):
                flags(LaunchArguments(plan, tuple(entry["arguments"]), {}, ()))
            else:
                keys = [argument.partition("=")[0] for argument in entry["arguments"]]
                assert len(keys) == len({*keys})


@given(st.lists(PLANS, min_size=2, max_size=6), st.sampled_from(JOBS))
def test_plans_written_together_are_written_as_alone(plans: list[ParallelStrategy], workload: Workload) -> None:
    mixed = [MIXTURE_PLAN, *plans, replace(MIXTURE_PLAN, features=MIXTURE_PLAN.features | Feature.MC2)]
    assert launch_blocks(workload, mixed) == [launch_block(workload, plan) for plan in mixed]


@pytest.mark.parametrize(
    ("framework", "changes", "feature"),
    [
        ("megatron-lm", {}, Feature.FUSED_NORM),
        ("megatron-lm", {"zero_stage": 3}, Feature.OVERLAP_PARAM_GATHER),
        ("mindspeed-llm", {"cp": 2, "dp": 16, "cp_algo": CpAlgo.RING}, Feature.FLASH_ATTENTION),
    ],
)
def test_a_switch_that_the_framework_has_on_whatever_the_plan_says_is_said_and_not_as_planned(
    framework: str, changes: dict[str, object], feature: Feature
) -> None:
    made = job(DENSE, family="nvidia" if framework == "megatron-lm" else "ascend")
    plan = replace(DENSE_PLAN, tp=2, pp=1, vpp=1, dp=32, schedule=Schedule.NONE)
    plan = replace(plan, **changes)  # type: ignore[arg-type]
    plan = replace(plan, features=plan.features | feature)
    off = replace(plan, features=plan.features & ~feature)
    assert not violations(made, off, BY_NAME[framework].target)
    assert launch_block(made, plan)[framework]["launchable"]
    block = launch_block(made, off)[framework]
    assert not block["launchable"]
    assert f"Not as planned: {str(feature.name).lower()} is on: " in " ".join(block["notes"])
    assert not any(label.startswith(framework) for label in launchable_on(made, off))


def test_a_file_that_is_refused_as_well_has_no_price() -> None:
    other = launch_block(NVIDIA, replace(MIXTURE_PLAN, features=MIXTURE_PLAN.features | Feature.MC2))["megatron-lm"]
    assert any("of this file says it, and whether it fits" in note for note in other["notes"])
    refused = launch_block(job(replace(DENSE, constants=replace(DENSE.constants, model_type="llama"))), DENSE_PLAN)["mindformers"]
    assert refused["arguments"]
    assert any("refuses it too (mindformers_model" in note for note in refused["notes"])
    assert not any("says it, and whether it fits" in note for note in refused["notes"])
