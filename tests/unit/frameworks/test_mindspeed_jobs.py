"""A script of MindSpeed-LLM as a whole job: what was written is read, and what its start would ignore is not there."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cost_models.shapes.canonical import canonical
from cost_models.shapes.model_constants import ModelConstants
from cost_models.shapes.recompute_modules import RecomputeModule
from cost_models.shapes.strategy import Dispatcher, ParallelStrategy, Recompute
from cost_models.shapes.workload import ModelShape
from frameworks.framework import ReadingError, ReadJob
from frameworks.mindspeed_llm.framework import MINDSPEED_LLM
from tests.unit.frameworks.legality_workloads import DENSE_PLAN, MIXTURE, MIXTURE_PLAN, job
from tests.unit.frameworks.megatron_models import DEEPSEEK_V3, GLM_4, LLAMA_31, QWEN_30B
from tests.unit.frameworks.published import megatron_arguments, rows

SMALL = "--num-layers 8 --hidden-size 64 --num-attention-heads 4 --max-position-embeddings 128 --vocab-size 1024"
LEADING = replace(MIXTURE, num_layers=23, moe=replace(MIXTURE.moe, num_leading_dense_layers=2) if MIXTURE.moe else None)


def read(arguments: list[str], num_devices: int | None = None) -> ReadJob:
    assert MINDSPEED_LLM.read_job is not None
    return MINDSPEED_LLM.read_job(arguments, num_devices)


def small(text: str) -> ReadJob:
    return read([*SMALL.split(), *text.split()])


BIASED = replace(LLAMA_31, attention_bias=True, constants=replace(LLAMA_31.constants, attention_output_bias=True))


@pytest.mark.parametrize(
    ("model", "plan"),
    [
        (LLAMA_31, DENSE_PLAN),
        (GLM_4, replace(DENSE_PLAN, tp=2, dp=8)),
        (QWEN_30B, replace(MIXTURE_PLAN, tp=1, dp=32, sequence_parallel=False)),
        (DEEPSEEK_V3, MIXTURE_PLAN),
        (LEADING, MIXTURE_PLAN),  # 23 layers: one no-op
        (replace(LLAMA_31, sandwich_norm=True), DENSE_PLAN),
        (BIASED, DENSE_PLAN),
    ],
)
def test_a_job_comes_back_from_its_arguments(model: ModelShape, plan: ParallelStrategy) -> None:
    made = job(model)
    written = MINDSPEED_LLM.write(made, plan)
    back = read(list(written.arguments), 64)
    assert back.not_understood == ()
    assert (back.seq_length, back.global_batch_size, back.precision) == (4096, 256, "bf16")
    meant, _ = MINDSPEED_LLM.nearest(made, plan)
    assert canonical(made, back.strategy) == canonical(made, meant)
    assert replace(back.model, constants=ModelConstants()) == replace(model, name="", constants=ModelConstants())
    if model in (LLAMA_31, GLM_4, QWEN_30B, DEEPSEEK_V3, BIASED):
        assert back.model.constants == model.constants


def test_no_op_layers_are_no_layers_and_positions_count_them() -> None:
    experts = "--num-experts 4 --moe-router-topk 2 --moe-ffn-hidden-size 32 --disable-bias-linear --moe-layer-freq 1"
    back = small(f"{experts} --noop-layers 1,7 --first-k-dense-replace 3 --pipeline-model-parallel-size 2 --n-shared-experts 2")
    assert back.model.num_layers == 6
    assert back.model.moe is not None
    # positions 0 and 2 are dense: position 1 is a no-op
    assert (back.model.moe.num_leading_dense_layers, back.model.moe.shared_expert_ffn_hidden_size) == (2, 64)
    assert small(f"{experts} --first-k-dense-replace -1").model.moe_layers() == (True,) * 8
    with pytest.raises(ReadingError, match="leave no layer"):
        small("--noop-layers 0,1,2,3,4,5,6,7")


def test_what_no_layer_specification_honours_is_not_there() -> None:
    plain = small("--qk-layernorm --post-norm --swiglu")
    assert (plain.model.qk_layernorm, plain.model.sandwich_norm) == (False, False)
    assert any("norms behind attention and MLP are not built: no spec is given that does" in n for n in plain.not_understood)
    tuned = small("--qk-layernorm --post-norm --swiglu --stage sft")  # posttrain_gpt.py hands the one on, and not the other
    assert (tuned.model.qk_layernorm, tuned.model.sandwich_norm) == (True, False)
    spec = "--spec mindspeed_llm.tasks.models.spec.{} layer_spec"
    assert small(f"--qk-layernorm {spec.format('qwen3_spec')}").model.qk_layernorm
    assert small(f"--post-norm {spec.format('grok_spec')}").model.sandwich_norm
    assert not small(f"--qk-layernorm {spec.format('qwen3_spec')}").model.constants.qk_norm_over_heads
    over_heads = small(f"--qk-layernorm {spec.format('minimax_spec')}")
    assert over_heads.model.qk_layernorm
    assert over_heads.model.constants.qk_norm_over_heads
    assert not small(spec.format("minimax_spec")).model.constants.qk_norm_over_heads
    unknown = small(f"--qk-layernorm {spec.format('longcat_spec')}")
    assert [entry.name for entry in unknown.unread] == ["spec"]
    assert "longcat_spec builds layers that are not known here" in unknown.unread[0].change


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("--swap-layer-input", "swap-layer-input: it changes step time and memory"),
        ("--optimizer dist_muon", "optimizer: it changes step time and memory"),
        ("--optimizer muon --muon-scalar-optimizer lion", "muon-scalar-optimizer: it changes step time and memory"),
        ("--lora-target-modules linear_qkv linear_proj", "lora-target-modules: it decides which weights are trained"),
        ("--enable-dsa-indexer --index-topk-freq 4", "index-topk-freq: it makes another model"),
        ("--use-sparse-flash-attn", "use-sparse-flash-attn: it is priced only where both stand, --enable-mla-absorb and --use"),
        ("--enable-mla-absorb", "enable-mla-absorb: it is priced only where both stand"),
        ("--recompute-mla-up-projection", "the nearest is recompute-mla-up-proj"),
        (
            "--context-parallel-size 2 --context-parallel-algo kvallgather_cp_algo",
            "context-parallel-algo: it changes the step time",
        ),
    ],
)
def test_nothing_that_changes_cost_is_passed_over(text: str, words: str) -> None:
    assert any(words in f"{name}: {change}" for name, change in small(text).unread)


def test_a_number_of_layers_with_recompute_is_that_of_modules_where_a_rank_has_no_more() -> None:
    eight = "--recompute-activation-function --recompute-activation-function-num-layers {}"
    whole, some = small(eight.format(8)), small(eight.format(3))
    assert (whole.unread, some.unread) == ((), ())
    assert (whole.strategy.recompute_modules, whole.strategy.tensor_plan) == (RecomputeModule.MLP_ACT, None)
    assert some.strategy.recompute_modules == RecomputeModule(0)
    assert some.strategy.tensor_plan is not None


def test_a_vocabulary_is_padded_to_what_is_stated() -> None:
    assert small("--pad-vocab-size-to 2048").model.vocab_size == 2048


def test_a_general_mask_is_refused_unless_samples_have_their_own() -> None:
    assert [entry.name for entry in small("--attention-mask-type general").unread] == ["attention-mask-type"]
    packed = small("--attention-mask-type general --reset-attention-mask")
    assert (packed.unread, packed.uneven) == ((), ("reset-attention-mask",))


def test_a_router_that_is_fixed_is_priced_as_balanced() -> None:
    experts = "--num-experts 8 --expert-model-parallel-size 2 --disable-bias-linear --fix-router"
    assert small(experts).router_balance == "forced"


def test_former_names_are_read() -> None:
    back = small(
        "--multi-head-latent-attention --q-lora-rank 32 --kv-lora-rank 16 --qk-nope-head-dim 16 --qk-rope-head-dim 8 "
        "--v-head-dim 16 --position-embedding-type rope "
        "--num-experts 8 --moe-router-topk 2 --moe-intermediate-size 48 --n-group 4 --topk-group 2 --routed-scaling-factor 2.5 "
        "--rope-scaling-type yarn --rope-scaling-factor 4 --rope-scaling-original-max-position-embeddings 32 "
        "--rope-scaling-beta-fast 16 --norm-topk-prob --moe-router-pre-softmax "
        "--spec mindspeed_llm.tasks.models.spec.deepseek_spec layer_spec"
    )
    assert back.model.mla is not None
    assert back.model.moe is not None
    assert (back.model.mla.qk_nope_head_dim, back.model.mla.qk_rope_head_dim) == (16, 8)
    assert (back.model.moe.expert_ffn_hidden_size, back.model.moe.num_groups, back.model.moe.group_topk) == (48, 4, 2)
    router, scaling = back.model.constants.router, back.model.constants.rope_scaling
    assert (router.topk_scale, router.normalize_topk) == (2.5, True)
    assert scaling is not None
    assert (scaling.factor, scaling.beta_fast, scaling.original_max_position_embeddings) == (4.0, 16, 32)


def test_a_frozen_frequency_is_the_length_over_the_original_one_outside_latent_attention() -> None:
    scaled = small("--rope-scaling-type yarn --rope-scaling-factor 9 --rope-scaling-original-max-position-embeddings 32 "
                   "--position-embedding-type rope").model.constants.rope_scaling  # fmt: skip
    assert scaled is not None
    assert scaled.factor == 4  # 128 over 32, whatever is given


def test_published_runs_give_the_shape_and_batch_of_their_record() -> None:
    kinds = {"dense": 0, "moe": 0, "recompute": 0}
    for row in rows("mindspeed-llm"):
        try:
            back = read(megatron_arguments(row), row["cluster"]["num_devices"])
        except ReadingError:
            continue  # layouts that no core release reads, each explained in docs/launch.md
        model = row["model"]
        assert (back.model.num_layers, back.model.hidden_size) == (model["num_layers"], model["hidden_size"]), row["id"]
        assert back.model.num_attention_heads == model["num_attention_heads"]
        assert (back.seq_length, back.global_batch_size) == (row["training"]["seq_length"], row["training"]["global_batch_size"])
        assert back.precision == row["training"]["precision"]
        if back.model.moe:
            assert (back.model.moe.num_experts, back.model.moe.top_k) == (model["moe"]["num_experts"], model["moe"]["top_k"])
            assert back.strategy.dispatcher is not Dispatcher.NONE
        kinds["moe" if back.model.moe else "dense"] += 1
        kinds["recompute"] += back.strategy.recompute is not Recompute.NONE
    assert kinds["dense"] + kinds["moe"] >= 95, kinds
    assert min(kinds.values()) >= 8, kinds


def test_layers_on_two_sites_are_refused_by_the_name_of_the_argument() -> None:
    with pytest.raises(ReadingError, match="layerwise-disaggregated-training places layers on devices of two sites"):
        small("--layerwise-disaggregated-training --num-layer-list 1,3,3,1 --pipeline-model-parallel-size 2")


@pytest.mark.parametrize(
    ("arguments", "modules", "refused"),
    [
        ("--recompute-activation-function", RecomputeModule.MLP_ACT, False),
        ("--recompute-activation-function --recompute-num-layers 0", RecomputeModule.MLP_ACT, False),
        # Two layers on each of two ranks' two virtual stages: the first counts for every stage, or once for a rank.
        ("--recompute-activation-function --recompute-num-layers 1", RecomputeModule.MLP_ACT, True),
        ("--recompute-norm --recompute-num-layers 2", RecomputeModule(0), False),
        ("--recompute-norm --recompute-num-layers 2 --enable-recompute-layers-per-pp-rank", RecomputeModule.LAYERNORM, True),
        ("--recompute-norm --recompute-num-layers 4 --enable-recompute-layers-per-pp-rank", RecomputeModule(0), False),
        (
            "--recompute-activation-function --recompute-granularity full --recompute-method block --recompute-num-layers 1",
            RecomputeModule.MLP_ACT,
            False,
        ),
    ],
)
def test_a_number_of_layers_without_full_recompute_leaves_them_out_of_the_rest(
    arguments: str, modules: RecomputeModule, refused: bool
) -> None:
    stages = "--pipeline-model-parallel-size 2 --num-layers-per-virtual-pipeline-stage 2"
    found = small(f"--swiglu {stages} {arguments}")
    assert found.strategy.recompute_modules == modules
    assert ["recompute-num-layers" for entry in found.unread if entry.name == "recompute-num-layers"] == (
        ["recompute-num-layers"] if refused else []
    )
    if refused:
        assert "recompute nothing" in found.unread[0].change
