"""Rules of MindSpeed-LLM on the kernel of sparse attention."""

from __future__ import annotations

from cost_models.shapes.recompute_modules import RecomputeModule
from cost_models.shapes.switches import Feature
from documents.sentences import Sentence
from frameworks.rule import SwitchRule, has_effect, rules_in

ONE_KEY_HEAD = SwitchRule(
    "mindspeed_one_key_head",
    "[mindspeed, ulysses_context_parallel.py; mindspeed-llm, multi_latent_attention.py]",
    Sentence(
        "sparse_attention_kernel excludes context parallelism: all heads share one head of keys, which Ulysses cannot divide"
    ),
    lambda w, b: has_effect(w, b, Feature.SPARSE_ATTENTION_KERNEL) & (b.cp > 1),
    lambda w, s: Sentence(
        "sparse_attention_kernel with cp {}: Ulysses cannot divide its one head of keys, and kv_allgather has no price there",
        s.cp,
    ),
    subject=Feature.SPARSE_ATTENTION_KERNEL,
    reason=lambda w, s: Sentence("Ulysses cannot divide its one head of keys"),
)
ABSORBED_UP_PROJ = SwitchRule(
    "mindspeed_absorbed_up_proj",
    "[mindspeed-llm, multi_latent_attention.py]",
    Sentence("sparse_attention_kernel excludes recompute of mla_up_proj, which does nothing there"),
    lambda w, b: (
        has_effect(w, b, Feature.SPARSE_ATTENTION_KERNEL) & ((b.recompute_modules & int(RecomputeModule.MLA_UP_PROJ)) != 0)
    ),
    lambda w, s: Sentence(
        "recompute of mla_up_proj with sparse_attention_kernel: attention over latents multiplies its up-projections into "
        "queries and outputs, and MindSpeed-LLM computes nothing again there"
    ),
    reason=lambda w, s: Sentence("with sparse_attention_kernel no up-projection is computed again"),
)

RULES = rules_in(globals())
