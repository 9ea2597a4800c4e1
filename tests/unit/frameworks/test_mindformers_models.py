"""What MindFormers trains: the class of each model, the constants that its file holds, and a sentence for every other model."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest

from cost_models.shapes.model_constants import ModelConstants, RopeScaling, RouterConstants
from cost_models.shapes.strategy import Dispatcher, ParallelStrategy
from cost_models.shapes.switches import DEFAULT_FEATURES, Feature
from cost_models.shapes.workload import LocalAttention, ModelShape
from frameworks.launch import launch_block
from frameworks.legality import violations
from frameworks.mindformers.constants import MODEL_KEYS, ROUTER_KEYS
from frameworks.mindformers.models import CLASSES, NOT_COMPUTED, class_of, untrained
from frameworks.mindformers.table import MODEL, RELEASE
from frameworks.mindformers.writer import arguments
from frameworks.options import options_of
from tests.unit.frameworks.legality_workloads import DENSE, MIXTURE, PANGU, job
from tests.unit.frameworks.megatron_models import DEEPSEEK_V2_LITE, DEEPSEEK_V3, QWEN_30B, SILU

QWEN_8B = ModelShape(
    "qwen3-8b", 36, 4096, 32, 8, 128, 12288, 151936, qk_layernorm=True,
    constants=ModelConstants("qwen3", norm_epsilon=1e-6, rotary_base=1e6, max_position_embeddings=40960, **SILU),
)  # fmt: skip
PLAN = ParallelStrategy(tp=2, pp=1, dp=4, sequence_parallel=True)


def typed(model: ModelShape, model_type: str) -> ModelShape:
    return replace(model, constants=replace(model.constants, model_type=model_type))


QWEN_MOE, DEEPSEEK = typed(QWEN_30B, "qwen3_moe"), typed(DEEPSEEK_V3, "deepseek_v3")


def written(model: ModelShape, plan: ParallelStrategy = PLAN) -> dict[str, Any]:
    if model.moe is not None:
        plan = replace(plan, dispatcher=Dispatcher.ALLTOALL)
    options = options_of(arguments(job(model, 8), plan).arguments)
    return {name.removeprefix(f"{MODEL}."): value for name, value in options.items()}


def test_a_file_holds_the_class_and_every_constant_of_the_model() -> None:
    dense = written(QWEN_8B)
    assert (dense["model_type"], dense["architectures"]) == ("qwen3", ["Qwen3ForCausalLM"])
    assert (dense["rope_theta"], dense["rms_norm_eps"], dense["max_position_embeddings"]) == (1e6, 1e-6, 40960)
    assert (dense["position_embedding_type"], dense["vocab_size"], dense["qk_layernorm"]) == ("rope", 151936, True)
    assert {"num_experts", "n_routed_experts", "moe_layer_freq", "rotary_scaling_factor"}.isdisjoint(dense)
    routed = written(QWEN_MOE)
    assert (routed["model_type"], routed["num_experts"]) == ("qwen3_moe", 128)
    assert (routed["moe_router_score_function"], routed["norm_topk_prob"], routed["routed_scaling_factor"]) == (
        "softmax",
        True,
        1.0,
    )
    assert "n_routed_experts" not in routed  # the framework refuses both
    latent = written(DEEPSEEK)
    assert (latent["model_type"], latent["n_routed_experts"], latent["first_k_dense_replace"]) == ("deepseek_v3", 256, 3)
    assert (latent["moe_router_score_function"], latent["routed_scaling_factor"]) == ("sigmoid", 2.5)
    assert (latent["moe_router_enable_expert_bias"], latent["n_group"], latent["topk_group"]) == (True, 8, 4)
    assert latent["rope_scaling"] == {
        "type": "yarn", "factor": 40.0, "original_max_position_embeddings": 4096, "beta_fast": 32.0, "beta_slow": 1.0,
        "mscale": 1.0, "mscale_all_dim": 1.0,
    }  # fmt: skip
    assert "num_experts" not in latent


def test_what_a_class_has_by_default_is_taken_away_from_a_model_without() -> None:
    bare = written(replace(DEEPSEEK, moe=None, mtp_num_layers=0, mla=replace(DEEPSEEK_V2_LITE.mla or PANGU.mla, q_lora_rank=0)))
    assert bare["q_lora_rank"] is None
    assert bare["n_routed_experts"] is None
    assert (bare["n_shared_experts"], bare["first_k_dense_replace"], bare["topk_group"]) == (0, 0, 0)
    assert bare["num_nextn_predict_layers"] == 0
    plain = replace(DEEPSEEK, constants=replace(DEEPSEEK.constants, rope_scaling=None))
    # Scores of latent attention are scaled for a factor of 40 unless the file says another.
    assert (written(plain)["position_embedding_type"], written(plain)["rotary_scaling_factor"]) == ("rope", 1.0)


def test_constants_that_the_model_does_not_state_are_written_and_named() -> None:
    launch = launch_block(job(replace(QWEN_MOE, constants=ModelConstants("qwen3_moe")), 8), PLAN)["mindformers"]
    (note,) = [note for note in launch["notes"] if "does not state" in note]
    assert "norm_epsilon, rotary_base, router.score_function" in note
    assert "norm_epsilon 1e-06, rotary_base 10000.0, router.score_function softmax, router.normalize_topk false" in note
    assert written(typed(QWEN_30B, "qwen3_moe"))["routed_scaling_factor"] == 1.0
    assert not [n for n in launch_block(job(QWEN_MOE, 8), PLAN)["mindformers"]["notes"] if "does not state" in n]


def test_the_only_class_that_builds_a_model_of_unknown_type_trains_it() -> None:
    assert class_of(replace(DENSE, qk_layernorm=True)) == CLASSES["qwen3"]
    assert class_of(replace(MIXTURE, qk_layernorm=True)) == CLASSES["qwen3_moe"]
    assert class_of(replace(PANGU, sandwich_norm=False)) == CLASSES["deepseek_v3"]
    assert class_of(typed(DEEPSEEK_V3, "kimi_k2")) == CLASSES["deepseek_v3"]
    assert class_of(DENSE) is None  # Llama has no norms of queries and keys, which qwen3 always has


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (typed(DENSE, "llama"), "no training class for llama (it trains deepseek_v3, kimi_k2, qwen3 and qwen3_moe); release 1.8"),
        (typed(DENSE, "mixtral"), "release 1.7 with its legacy layers (use_legacy: True) has one"),
        (typed(DEEPSEEK_V2_LITE, "deepseek_v2"), "no training class for deepseek_v2"),
        (typed(DENSE, "PanguProMoE"), "no training class for PanguProMoE (it trains deepseek_v3, kimi_k2, qwen3 and qwen3_moe)"),
        (DENSE, "the nearest, qwen3, does not build attention without QK norm"),
        (typed(DENSE, "qwen3"), "Qwen3ForCausalLM of MindFormers 1.8 does not build attention without QK norm"),
        (replace(QWEN_8B, mtp_num_layers=1), "does not build multi-token prediction"),
        (replace(QWEN_8B, hidden_size=4100, num_attention_heads=24), "24 heads, which do not divide hidden_size 4100"),
        (replace(QWEN_8B, local_attention=LocalAttention("window", window=4096)), "layers with a window"),
        (replace(QWEN_8B, gated_linear_unit=False), "an MLP of ungated silu"),
        (replace(QWEN_8B, moe=MIXTURE.moe), "does not build experts"),
        (replace(QWEN_MOE, moe=None), "layers without experts"),
        (replace(QWEN_MOE, moe=replace(QWEN_MOE.moe or PANGU.moe, num_leading_dense_layers=1)), "dense layers beside"),
        (replace(QWEN_MOE, moe=replace(QWEN_MOE.moe or PANGU.moe, capacity_factor=1.5)), "a capacity of experts"),
        (replace(DEEPSEEK, tied_embeddings=True), "tied embeddings"),
        (replace(DEEPSEEK, moe=replace(DEEPSEEK.moe or PANGU.moe, group_topk=3)), "top 8 of 3 groups"),
    ],
)  # fmt: skip
def test_another_model_is_not_launchable_for_a_stated_reason(model: ModelShape, words: str) -> None:
    assert class_of(model) is None
    assert words in untrained(model)
    found = {violation.rule: violation.sentence for violation in violations(job(model, 8), PLAN, "mindformers")}
    assert found["mindformers_model"] == untrained(model)
    assert launch_block(job(model, 8), PLAN)["mindformers"]["launchable"] is False


@pytest.mark.parametrize(
    ("constants", "words"),
    [
        ({"rope_scaling": RopeScaling("yarn", 4.0, 40960)}, "rotary positions scaled by yarn without latent attention"),
        ({"rotary_interleaved": True}, "interleaved rotary positions"),
        ({"rotary_fraction": 0.5}, "a partial rotary embedding"),
        ({"norm_zero_centered": True}, "norms with a weight of 1 + w"),
        ({"attention_softcap": 50.0}, "soft-capped attention scores"),
        ({"normalization": "layernorm"}, "layernorm"),
        ({"attention_output_bias": True, "attention_sinks": True}, "a bias behind attention and attention sinks"),
    ],
)
def test_a_constant_that_no_class_computes_is_a_reason(constants: dict[str, Any], words: str) -> None:
    assert words in untrained(replace(QWEN_8B, constants=replace(QWEN_8B.constants, **constants)))


def test_every_constant_of_a_model_is_written_or_a_reason() -> None:
    built = {
        "model_type",
        "activation",
        "normalization",
        "rotary_interleaved",
        "rope_scaling",
        "max_position_embeddings",
        "router",
    }
    assert {field.name for field in fields(ModelConstants)} == built | set(NOT_COMPUTED) | set(MODEL_KEYS)
    assert {field.name for field in fields(RouterConstants)} == {"shared_expert_gate", *ROUTER_KEYS}


def test_the_router_and_yarn_of_a_class_have_limits() -> None:
    biased = replace(QWEN_MOE.constants, router=RouterConstants("softmax", expert_bias=True))
    assert "an expert bias without sigmoid scores" in untrained(replace(QWEN_MOE, constants=biased))
    scaling = DEEPSEEK.constants.rope_scaling
    assert scaling is not None
    twofold = replace(DEEPSEEK.constants, rope_scaling=replace(scaling, mscale=0.7))
    assert "YaRN with mscale 0.7 and mscale_all_dim 1.0" in untrained(replace(DEEPSEEK, constants=twofold))
    stretched = replace(DEEPSEEK.constants, rope_scaling=replace(scaling, kind="llama3"))
    unrounded = replace(DEEPSEEK.constants, rope_scaling=replace(scaling, truncate=False))
    assert "YaRN without whole channels" in untrained(replace(DEEPSEEK, constants=unrounded))
    assert "rotary positions scaled by llama3" in untrained(replace(DEEPSEEK, constants=stretched))


def test_a_file_for_a_model_without_a_class_does_not_train_another_one() -> None:
    assert (written(typed(DENSE, "llama"))["model_type"], written(DENSE)["model_type"]) == ("llama", "SET-ME")
    assert "architectures" not in written(DENSE)


def test_latent_attention_and_the_classes_own_kernels_are_written_as_they_are() -> None:
    latent = written(DEEPSEEK)
    assert "use_fused_rope" not in latent
    notes = launch_block(job(DEEPSEEK, 8), PLAN)["mindformers"]["notes"]
    assert any("no fused rotary embedding for latent attention" in note for note in notes)
    bare = replace(PLAN, features=DEFAULT_FEATURES & ~(Feature.FUSED_NORM | Feature.FLASH_ATTENTION))
    assert (written(QWEN_8B, bare)["fused_norm"], written(QWEN_8B, bare)["use_flash_attention"]) == (True, True)
    assert written(DEEPSEEK, bare)["fused_norm"] is False  # its block asks for the switch


def test_defaults_of_a_class_are_keys_of_the_release() -> None:
    for each in CLASSES.values():
        assert {f"{MODEL}.{key}" for key in each.defaults} <= set(RELEASE.arguments)
        assert not each.experts or f"{MODEL}.{each.experts}" in RELEASE.arguments
    assert set(RELEASE.elsewhere).isdisjoint(configuration for each in CLASSES.values() for configuration in each.configurations)
