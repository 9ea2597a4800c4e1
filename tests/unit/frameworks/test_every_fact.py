"""Every field of a model changes what each release is given, or a rule or a sentence of the release names it: none is dropped."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest

from app.catalogue.models.presets import model_preset
from cost_models.shapes.model_constants import ModelConstants, RopeScaling, RouterConstants
from cost_models.shapes.strategy import ParallelStrategy
from cost_models.shapes.workload import LocalAttention, MlaShape, ModelShape, MoeShape, Software, SparseAttention, Workload
from frameworks.framework import Framework
from frameworks.legality import own_rules, violations
from frameworks.registry import FRAMEWORKS
from tests.unit.frameworks.legality_workloads import job

PLAN = ParallelStrategy(dp=8, micro_batch_size=1)
WINDOW = LocalAttention("window", full_attention_every=4, window=1024)
DELTA = LocalAttention("linear", 4, 0, 16, 32, 128, 128, 4)
LLAMA3 = RopeScaling("llama3", 8.0, 8192, 1.0, 4.0)
YARN = RopeScaling("yarn", 40.0, 4096, beta_fast=32.0, beta_slow=1.0, mscale=1.0, mscale_all_dim=1.0)
DENSE, EXPERTS, LATENT, SPARSE = "qwen3-8b", "qwen3-30b-a3b", "deepseek-v3", "deepseek-v3.2"
HYBRID = "nemotron-h-8b"
# By path: the preset that a change is made to, parts that it is given first, and the values that the field then gets.
CHANGES: dict[str, tuple[str, dict[str, Any], tuple[Any, ...]]] = {
    "num_layers": (DENSE, {}, (12,)),
    "hidden_size": (DENSE, {}, (8192,)),
    "num_attention_heads": (DENSE, {}, (64,)),
    "num_query_groups": (DENSE, {}, (4, 32)),
    "kv_channels": (DENSE, {}, (64,)),
    "ffn_hidden_size": (DENSE, {}, (8192,)),
    "vocab_size": (DENSE, {}, (64000,)),
    "gated_linear_unit": (DENSE, {}, (False,)),
    "tied_embeddings": (DENSE, {}, (True,)),
    "mtp_num_layers": (LATENT, {}, (0, 2)),
    "sandwich_norm": (DENSE, {}, (True,)),
    "qk_layernorm": (DENSE, {}, (False,)),
    "attention_bias": (DENSE, {}, (True,)),
    "learned_positions": (DENSE, {}, (True,)),
    "alibi": (DENSE, {}, (True,)),
    "no_positions": (DENSE, {}, (True,)),
    "attention_output_gate": (DENSE, {}, (True,)),
    "hybrid_layer_pattern": (HYBRID, {}, ("*-M-" * 13,)),
    "mla": (DENSE, {}, (MlaShape(1536, 512, 128, 64, 128),)),
    "mla.q_lora_rank": (LATENT, {}, (0, 512)),
    "mla.kv_lora_rank": (LATENT, {}, (256,)),
    "mla.qk_nope_head_dim": (LATENT, {}, (64,)),
    "mla.qk_rope_head_dim": (LATENT, {}, (32,)),
    "mla.v_head_dim": (LATENT, {}, (64,)),
    "moe": (DENSE, {}, (MoeShape(64, 6, 1408),)),
    "moe.num_experts": (EXPERTS, {}, (64,)),
    "moe.top_k": (EXPERTS, {}, (4,)),
    "moe.expert_ffn_hidden_size": (EXPERTS, {}, (1024,)),
    "moe.shared_expert_ffn_hidden_size": (LATENT, {}, (4096,)),
    "moe.num_leading_dense_layers": (LATENT, {}, (0, 5)),
    "moe.moe_layer_freq": (EXPERTS, {}, (2,)),
    "moe.num_groups": (LATENT, {}, (16,)),
    "moe.group_topk": (LATENT, {}, (2,)),
    "moe.capacity_factor": (EXPERTS, {}, (1.25,)),
    "moe.expert_biases": (EXPERTS, {}, (True,)),
    "local_attention": (DENSE, {}, (WINDOW, DELTA)),
    "local_attention.kind": (DENSE, {"local_attention": DELTA}, ("window",)),
    "local_attention.full_attention_every": (DENSE, {"local_attention": WINDOW}, (0, 2)),
    "local_attention.window": (DENSE, {"local_attention": WINDOW}, (512,)),
    "local_attention.num_key_heads": (DENSE, {"local_attention": DELTA}, (8,)),
    "local_attention.num_value_heads": (DENSE, {"local_attention": DELTA}, (16,)),
    "local_attention.key_head_dim": (DENSE, {"local_attention": DELTA}, (64,)),
    "local_attention.value_head_dim": (DENSE, {"local_attention": DELTA}, (64,)),
    "local_attention.conv_kernel": (DENSE, {"local_attention": DELTA}, (0, 8)),
    "local_attention.chunk_size": (HYBRID, {}, (256,)),
    "sparse_attention": (LATENT, {}, (SparseAttention(64, 128, 2048),)),
    "sparse_attention.num_index_heads": (SPARSE, {}, (32,)),
    "sparse_attention.index_head_dim": (SPARSE, {}, (64,)),
    "sparse_attention.top_k": (SPARSE, {}, (1024,)),
    "constants.activation": (DENSE, {}, ("gelu_tanh", "relu2")),
    "constants.normalization": (DENSE, {}, ("layernorm",)),
    "constants.norm_epsilon": (DENSE, {}, (1e-5,)),
    "constants.norm_zero_centered": (DENSE, {}, (True,)),
    "constants.rotary_base": (DENSE, {}, (5e5,)),
    "constants.rotary_fraction": (DENSE, {}, (0.5,)),
    "constants.rotary_interleaved": (DENSE, {}, (True,)),
    "constants.local_rotary_base": (DENSE, {"local_attention": WINDOW}, (1e4,)),
    "constants.rope_scaling": (DENSE, {}, (LLAMA3, YARN, RopeScaling("linear", 4.0))),
    "constants.rope_scaling.kind": (LATENT, {"constants.rope_scaling": YARN}, ("linear",)),
    "constants.rope_scaling.factor": (LATENT, {"constants.rope_scaling": YARN}, (8.0,)),
    "constants.rope_scaling.original_max_position_embeddings": (LATENT, {"constants.rope_scaling": YARN}, (8192,)),
    "constants.rope_scaling.low_freq_factor": (DENSE, {"constants.rope_scaling": LLAMA3}, (2.0,)),
    "constants.rope_scaling.high_freq_factor": (DENSE, {"constants.rope_scaling": LLAMA3}, (8.0,)),
    "constants.rope_scaling.beta_fast": (LATENT, {"constants.rope_scaling": YARN}, (16.0,)),
    "constants.rope_scaling.beta_slow": (LATENT, {"constants.rope_scaling": YARN}, (2.0,)),
    "constants.rope_scaling.mscale": (LATENT, {"constants.rope_scaling": YARN}, (0.707,)),
    "constants.rope_scaling.mscale_all_dim": (LATENT, {"constants.rope_scaling": YARN}, (0.707,)),
    "constants.rope_scaling.truncate": (LATENT, {"constants.rope_scaling": YARN}, (False,)),
    "constants.max_position_embeddings": (DENSE, {}, (65536,)),
    "constants.attention_output_bias": (DENSE, {"attention_bias": True}, (True,)),
    "constants.attention_scale": (DENSE, {}, (0.05,)),
    "constants.attention_softcap": (DENSE, {}, (50.0,)),
    "constants.logit_softcap": (DENSE, {}, (30.0,)),
    "constants.embedding_scale": (DENSE, {}, (12.0,)),
    "constants.attention_sinks": (DENSE, {}, (True,)),
    "constants.router.score_function": (EXPERTS, {}, ("sigmoid",)),
    "constants.router.normalize_topk": (EXPERTS, {}, (False,)),
    "constants.router.topk_scale": (EXPERTS, {}, (2.5,)),
    "constants.router.expert_bias": (LATENT, {}, (False,)),
    "constants.router.shared_expert_gate": (LATENT, {}, (True,)),
    "constants.activation_clamp": (DENSE, {}, (7.0,)),
    "constants.glu_linear_offset": (DENSE, {}, (1.0,)),
    "constants.qk_norm_over_heads": (DENSE, {}, (True,)),
    "constants.post_norm_residual": (DENSE, {}, (3.5,)),
}
NAMES_ALONE = {"name", "constants", "constants.model_type", "constants.router"}
OF_VIEWS = {"has_mixer", "has_mlp"}  # of one kind of layer; a model has both
COUNTS_ALONE = {"moe.num_shared_experts"}  # the width is that of all together
PARTS = {"mla": MlaShape, "moe": MoeShape, "local_attention": LocalAttention, "constants": ModelConstants}
PARTS |= {"sparse_attention": SparseAttention}
PARTS |= {"constants.rope_scaling": RopeScaling, "constants.router": RouterConstants}


def put(section: Any, path: str, value: Any) -> Any:
    """A section with another value at a path."""
    head, _, rest = path.partition(".")
    return replace(section, **{head: put(getattr(section, head), rest, value) if rest else value})


def paths(kind: type, lead: str = "") -> set[str]:
    """Of all fields, those of the parts included."""
    found = set()
    for entry in fields(kind):
        path = lead + entry.name
        found |= {path, *(paths(PARTS[path], f"{path}.") if path in PARTS else ())}
    return found


def made(framework: Framework, model: ModelShape) -> Workload:
    drawn = job(model, 8, global_batch_size=64, family=framework.target.families[0])
    return replace(drawn, software=Software(framework.name, target=framework.target.label))


def refusals(framework: Framework, workload: Workload) -> tuple[str, ...]:
    own = {rule.name for rule in own_rules(framework.target)}
    broken = tuple(violation.sentence for violation in violations(workload, PLAN) if violation.rule in own)
    return broken + framework.untold(workload) + framework.misstated(workload)


def test_every_field_is_in_the_table() -> None:
    assert paths(ModelShape) - NAMES_ALONE - COUNTS_ALONE - OF_VIEWS == set(CHANGES)


@pytest.mark.parametrize("framework", FRAMEWORKS, ids=lambda framework: framework.target.label)
@pytest.mark.parametrize("path", CHANGES)
def test_a_field_of_a_model_is_told_or_named(framework: Framework, path: str) -> None:
    preset, parts, values = CHANGES[path]
    model = model_preset(preset).model
    for part, value in parts.items():
        model = put(model, part, value)
    for value in values:
        changed = put(model, path, value)
        assert changed != model, f"{path} is {value} already"
        workload = made(framework, changed)
        told = framework.write(workload, PLAN).arguments != framework.write(made(framework, model), PLAN).arguments
        assert told or refusals(framework, workload), f"{path} {value} is dropped"
