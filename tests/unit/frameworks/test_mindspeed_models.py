"""What MindSpeed-LLM is told of a model: every constant that it takes, and a sentence for what it does not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cost_models.shapes.model_constants import ModelConstants, RopeScaling, RouterConstants
from cost_models.shapes.strategy import CpAlgo, Dispatcher, ParallelStrategy
from cost_models.shapes.switches import DEFAULT_FEATURES, Feature
from cost_models.shapes.workload import LocalAttention, ModelShape, Workload
from frameworks.launch import launch_block
from frameworks.legality import launchable_on
from frameworks.mindspeed_llm.model_table import MODEL
from frameworks.mindspeed_llm.nearest import nearest
from frameworks.mindspeed_llm.table import RELEASE
from frameworks.mindspeed_llm.writer import arguments
from frameworks.release import problems, read_tokens
from tests.unit.frameworks.legality_workloads import job
from tests.unit.frameworks.megatron_models import DEEPSEEK_V2_LITE, DEEPSEEK_V3, GLM_4, GPT_3, LLAMA_31, QWEN_30B, STATED

PLAN = ParallelStrategy(tp=1, pp=1, dp=8, micro_batch_size=1)
EXPERT_PLAN = replace(PLAN, ep=8, dispatcher=Dispatcher.ALLTOALL)
YARN = RopeScaling("yarn", 4.0, 32768)
QWEN_LONG = replace(QWEN_30B, constants=replace(QWEN_30B.constants, rope_scaling=YARN))
MISTRAL = replace(LLAMA_31, local_attention=LocalAttention("window", window=4096))
DEEPSEEK_V2 = replace(
    DEEPSEEK_V2_LITE,
    moe=replace(DEEPSEEK_V2_LITE.moe, num_groups=8, group_topk=3) if DEEPSEEK_V2_LITE.moe else None,
    constants=replace(DEEPSEEK_V2_LITE.constants, router=RouterConstants("softmax", False, 16.0, expert_bias=False)),
)
GEMMA_1 = replace(
    LLAMA_31,
    constants=ModelConstants(activation="gelu_tanh", normalization="rmsnorm", norm_zero_centered=True, embedding_scale=64.0),
)


def made(model: ModelShape, seq_length: int = 4096) -> Workload:
    return job(model, 8, seq_length=seq_length, global_batch_size=64)


def plan_of(model: ModelShape) -> ParallelStrategy:
    return PLAN if model.moe is None else EXPERT_PLAN


def written(model: ModelShape, plan: ParallelStrategy | None = None, **given: int) -> dict[str, tuple[str, ...]]:
    read, _ = read_tokens(RELEASE, list(arguments(made(model, **given), plan or plan_of(model)).arguments))
    assert problems(RELEASE, read) == []
    return read


def told(model: ModelShape, **constants: Any) -> str:
    changed = replace(model, constants=replace(model.constants, **constants))
    block = launch_block(made(changed), plan_of(model))["mindspeed-llm"]
    return next((note for note in block["notes"] if note.startswith(("Not the same model", "Another constant"))), "")


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (LLAMA_31, {"rotary-base": "500000", "norm-epsilon": "1e-05", "rope-scaling-type": "llama3", "rope-scaling-factor": "8",
                    "low-freq-factor": "1", "high-freq-factor": "4", "original-max-position-embeddings": "8192"}),
        (QWEN_30B, {"rotary-base": "1000000", "norm-epsilon": "1e-06", "moe-router-score-function": "softmax",
                    "qk-layernorm": "", "max-position-embeddings": "40960", "padded-vocab-size": "151936"}),
        # outside latent attention the factor is the length over the original one
        (QWEN_LONG, {"rope-scaling-type": "yarn", "rope-scaling-factor": "4", "max-position-embeddings": "131072",
                     "rope-scaling-original-max-position-embeddings": "32768"}),
        (GLM_4, {"rotary-percent": "0.5", "rotary-interleaved": "", "no-rope-fusion": "", "norm-epsilon": "1.5625e-07",
                 "add-qkv-bias": ""}),
        (DEEPSEEK_V3, {"rope-scaling-type": "yarn", "rope-scaling-factor": "40", "rope-scaling-mscale": "1",
                       "rope-scaling-mscale-all-dim": "1", "rope-scaling-original-max-position-embeddings": "4096",
                       "beta-fast": "32", "beta-slow": "1", "max-position-embeddings": "163840",
                       "moe-router-score-function": "sigmoid", "moe-router-topk-scaling-factor": "2.5",
                       "moe-router-enable-expert-bias": "", "moe-router-num-groups": "8", "moe-router-group-topk": "4"}),
        (DEEPSEEK_V2_LITE, {"rope-scaling-mscale": "0.707", "rope-scaling-mscale-all-dim": "0.707",
                            "moe-router-pre-softmax": ""}),
        (DEEPSEEK_V2, {"moe-router-load-balancing-type": "group_limited_greedy", "moe-router-topk-scaling-factor": "16"}),
        (GPT_3, {"position-embedding-type": "learned_absolute", "normalization": "LayerNorm"}),
        (MISTRAL, {"sliding-window": "4096"}),
        (GEMMA_1, {"gelu-tanh": "", "add-rmsnorm-offset": "", "scale-emb": "64"}),
    ],
)  # fmt: skip
def test_the_constants_of_a_model_are_written(model: ModelShape, said: dict[str, str]) -> None:
    found = written(model)
    assert {name: " ".join(found.get(name, ("missing",))) for name in said} == said


@pytest.mark.parametrize("model", [*STATED, QWEN_LONG, MISTRAL, DEEPSEEK_V2, GEMMA_1])
def test_a_model_that_can_be_told_whole_is_launchable(model: ModelShape) -> None:
    plan, _ = nearest(made(model), plan_of(model))
    assert any(label.startswith("mindspeed-llm@") for label in launchable_on(made(model), plan))
    assert launch_block(made(model), plan)["mindspeed-llm"]["launchable"]


@pytest.mark.parametrize("model", [*STATED, QWEN_LONG, MISTRAL, DEEPSEEK_V2])
def test_arguments_that_were_written_give_the_facts_of_the_model_back(model: ModelShape) -> None:
    known = {"name": model.name, "num_layers": model.num_layers, "vocab_size": model.vocab_size}
    known |= {"moe.num_leading_dense_layers": model.moe.num_leading_dense_layers} if model.moe else {}
    read = MODEL.read(RELEASE, written(model, seq_length=2048), known)
    for name in ("num_query_groups", "kv_channels", "local_attention", "mla", "moe", "qk_layernorm", "attention_bias"):
        assert getattr(read, name) == getattr(model, name), name
    for name in ("norm_epsilon", "rotary_base", "rotary_fraction", "rotary_interleaved", "max_position_embeddings", "activation"):
        if name != "max_position_embeddings" or model is not QWEN_LONG:
            assert getattr(read.constants, name) == getattr(model.constants, name), name
    scaling, meant = read.constants.rope_scaling, model.constants.rope_scaling
    assert (scaling is None) == (meant is None)
    if scaling and meant:
        assert (scaling.kind, scaling.factor) == (meant.kind, meant.factor)
        assert scaling.original_max_position_embeddings == meant.original_max_position_embeddings
    if model.moe:
        router, wanted = read.constants.router, model.constants.router
        assert (router.score_function, router.topk_scale) == (wanted.score_function, wanted.topk_scale)


@pytest.mark.parametrize(
    ("model", "constants", "words"),
    [
        (LLAMA_31, {"rope_scaling": RopeScaling("linear", 4.0)}, "rotary positions scaled by linear"),
        (LLAMA_31, {"rope_scaling": RopeScaling("llama3", 32.0, 4096, 1.0, 4.0)}, ""),
        (LLAMA_31, {"rotary_base": 10000.5}, "rotary_base 10000.5"),
        (LLAMA_31, {"logit_softcap": 30.0, "embedding_scale": 64.0}, ""),
        (LLAMA_31, {"attention_softcap": 50.0}, "attention_softcap 50 (its flash attention does not apply"),
        (LLAMA_31, {"attention_scale": 0.1}, ""),  # 1 over the root of 100
        (LLAMA_31, {"attention_scale": 0.11}, "attention_scale 0.11"),
        (DEEPSEEK_V3, {"attention_scale": 0.1}, "attention_scale 0.1"),
        (LLAMA_31, {"attention_output_bias": True}, ""),
        (LLAMA_31, {"local_rotary_base": 10000.0}, "local_rotary_base 10000"),
        (DEEPSEEK_V3, {"router": RouterConstants("sigmoid", normalize_topk=False)}, "normalize_topk False"),
        (DEEPSEEK_V3, {"router": RouterConstants("softmax", expert_bias=True)}, "expert_bias beside a softmax"),
        (DEEPSEEK_V3, {"rope_scaling": RopeScaling("yarn", 40.0, 4096, mscale=1.0, mscale_all_dim=0.5)}, ""),
    ],
)
def test_a_constant_without_an_argument_is_named(model: ModelShape, constants: dict[str, Any], words: str) -> None:
    assert words in told(model, **constants)
    assert bool(told(model, **constants)) == bool(words)


def test_yarn_outside_latent_attention_must_stretch_as_far_as_the_sequence() -> None:
    short = replace(QWEN_30B, constants=replace(QWEN_30B.constants, rope_scaling=RopeScaling("yarn", 2.0, 1024)))
    assert "a factor of YaRN for less than 4096" in told(short)


def test_windows_in_some_layers_only_and_linear_attention_cannot_be_told() -> None:
    mixed = replace(MISTRAL, local_attention=LocalAttention("window", full_attention_every=6, window=1024))
    notes = launch_block(made(mixed), PLAN)["mindspeed-llm"]["notes"]
    assert any("window but in every 6th layer" in note for note in notes)
    wide = replace(PLAN, dp=4, cp=2, cp_algo=CpAlgo.RING)
    assert launchable_on(made(MISTRAL), wide)
    assert not any("mindspeed-llm" in label for label in launchable_on(made(MISTRAL, 8192), wide))


def test_the_fused_activation_is_left_out_where_it_is_another() -> None:
    assert DEFAULT_FEATURES & Feature.FUSED_SWIGLU
    assert "use-fused-swiglu" in written(LLAMA_31)
    assert "use-fused-swiglu" not in written(GEMMA_1)


def test_what_a_model_does_not_state_is_named_with_the_frameworks_default() -> None:
    notes = arguments(made(replace(QWEN_30B, constants=ModelConstants())), EXPERT_PLAN).notes
    (note,) = [note for note in notes if "does not state" in note]
    assert "norm_epsilon (1e-05), rotary_base (10000), score_function (softmax) and normalize_topk (True)" in note
