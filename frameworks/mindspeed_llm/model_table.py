"""Arguments of MindSpeed-LLM for a model, if they differ from Megatron's.

Sources: [mindspeed-llm, rotary_pos_embedding.py, yarn_rope.py, router.py, custom_dot_product_attention.py, mlp.py, gpt_model.py].
"""

from __future__ import annotations

from math import isclose, sqrt
from typing import Any

from documents.sentences import Sentence
from frameworks.megatron_lm import model_table as megatron
from frameworks.megatron_lm.model_table import (
    DIVIDED_SIGMOIDS,
    LINEAR,
    LOCAL,
    ROUTER,
    SCALING,
    heads_divide,
    latent,
    rotary,
    routed,
    switch,
)
from frameworks.model_facts import Fact, Flat, ModelTable

BY_BEST = Sentence("by their best expert")
GROUPS = {"moe-router-load-balancing-type": "group_limited_greedy"}
SOFTMAX_FIRST = {"moe-router-load-balancing-type": "softmax_topk"}
YARN = "yarn"
LLAMA3 = "llama3"


def recurrent(flat: Flat) -> bool:
    """Whether some layers have linear attention, as far as is known: arguments say it by the interval of the others."""
    return flat.get("local_attention.kind") in (None, "linear")


def indexed(flat: Flat) -> bool:
    """Whether an indexer chooses the tokens that attention sees."""
    return bool(flat.get("sparse_attention"))


def stretched(kind: str) -> Any:
    """Whether rotary positions are scaled in one way."""
    return lambda flat: flat.get(f"{SCALING}.kind") == kind


def _states_width(flat: Flat) -> bool:
    """Whether ``--kv-channels`` is stated. Latent attention has tables of rotary positions as wide, unless YaRN makes them."""
    return not latent(flat) or flat.get(f"{SCALING}.kind") != YARN or not heads_divide(flat)


FACTS = (
    Fact("kv_channels", "kv-channels", only=_states_width),
    switch("sandwich_norm", "post-norm"),
    Fact(
        "mlp",
        says={
            "gated silu": {"swiglu": ()},
            "gated gelu": {"geglu": ()},
            "gated gelu_tanh": {"gelu-tanh": ()},
            "relu2": {"squared-relu": ()},
            "gelu": {"no-bias-gelu-fusion": ()},
            "gelu_tanh": {},
        },
        instead=Sentence("gated silu"),
        label="activation",
    ),
    Fact("local", says={"window": {}, "linear": {}}, label=Sentence("attention limited to a"), named=LOCAL, priced=True),
    Fact("local_attention.window", "sliding-window", only=lambda flat: flat.get("local") == "window", unsaid=(None, 0)),
    Fact("local_attention.full_attention_every", "full-attention-interval", only=recurrent, unsaid=(None, 0), priced=True),
    *(
        Fact(f"local_attention.{name}", f"linear-{name.replace('_', '-')}", only=recurrent, unsaid=(None, 0), priced=True)
        for name in LINEAR
    ),
    Fact("local_attention.conv_kernel", "mamba-d-conv", only=recurrent, unsaid=(None, 0), priced=True),
    Fact("attention_output_gate", says={False: {}, True: {}}, priced=True),  # of the specification with linear attention
    Fact("sparse_attention", says={True: {"enable-dsa-indexer": ()}}, priced=True),
    Fact("sparse_attention.num_index_heads", "index-n-heads", only=indexed, priced=True),
    Fact("sparse_attention.index_head_dim", "index-head-dim", only=indexed, priced=True),
    Fact("sparse_attention.top_k", "index-topk", only=indexed, priced=True),
    Fact("constants.qk_norm_over_heads", says={False: {}, True: {}}),  # of a specification of its own
    Fact("linear_rotary_fraction", "partial-rotary-factor", unsaid=(None, 0.0)),
    switch("constants.norm_zero_centered", "add-rmsnorm-offset"),
    Fact(
        "constants.attention_output_bias",
        says={True: {"add-dense-bias": ()}, False: {}},
        only=lambda flat: not flat.get("linear_bias"),
    ),
    Fact(
        "constants.rotary_interleaved",
        says={
            True: {"rotary-interleaved": (), "no-rope-fusion": ()},
            "glm": {"use-glm-rope": ()},  # the same, never fused: read alone
            False: {},
        },
        only=lambda flat: rotary(flat) and not latent(flat),
    ),
    Fact(
        f"{SCALING}.kind",
        says={LLAMA3: {"rope-scaling-type": LLAMA3}, YARN: {"rope-scaling-type": YARN}},
        only=rotary,
        label=Sentence("rotary positions scaled by"),
    ),
    *(Fact(f"{SCALING}.factor", "rope-scaling-factor", only=stretched(kind)) for kind in (LLAMA3, YARN)),
    Fact(f"{SCALING}.low_freq_factor", "low-freq-factor", only=stretched(LLAMA3)),
    Fact(f"{SCALING}.high_freq_factor", "high-freq-factor", only=stretched(LLAMA3)),
    Fact(f"{SCALING}.original_max_position_embeddings", "original-max-position-embeddings", only=stretched(LLAMA3)),
    Fact(f"{SCALING}.original_max_position_embeddings", "rope-scaling-original-max-position-embeddings", only=stretched(YARN)),
    Fact(f"{SCALING}.mscale", "rope-scaling-mscale", only=stretched(YARN)),
    Fact(f"{SCALING}.mscale_all_dim", "rope-scaling-mscale-all-dim", only=stretched(YARN)),
    Fact(f"{SCALING}.beta_fast", "beta-fast", only=stretched(YARN)),
    Fact(f"{SCALING}.beta_slow", "beta-slow", only=stretched(YARN)),
    Fact(
        "outgrown",
        constant=True,
        label=Sentence("a factor of YaRN for less than"),
        because=Sentence("outside latent attention the factor is --max-position-embeddings over the original length"),
    ),
    Fact("constants.attention_scale", "query-pre-attn-scalar", only=lambda flat: not latent(flat)),
    Fact("constants.attention_scale", only=latent),
    Fact("constants.attention_softcap", because=Sentence("its flash attention does not apply --attn-logit-softcapping")),
    Fact("constants.logit_softcap", "output-logit-softcapping"),
    Fact("constants.embedding_scale", "scale-emb"),
    switch("embeddings_by_width", "input-embeds-norm"),  # read alone
    Fact(
        f"{ROUTER}.normalize_topk",
        says={
            "divided": {"moe-router-pre-softmax": (), "norm-topk-prob": ()},  # read alone, as the next two
            "divided first": {**SOFTMAX_FIRST, "norm-topk-prob": ()},
            "first": SOFTMAX_FIRST,
            False: {"moe-router-pre-softmax": ()},
            True: {},
        },
        only=lambda flat: routed(flat) and flat.get(f"{ROUTER}.score_function") != "sigmoid",
        instead=False,
        asked=True,
    ),
    DIVIDED_SIGMOIDS,
    Fact(f"{ROUTER}.topk_scale", "moe-router-topk-scaling-factor", only=routed),
    switch(f"{ROUTER}.shared_expert_gate", "shared-expert-gate", only=routed),
    Fact("moe.expert_biases", says={False: {}}, only=routed, label=Sentence("biases of experts"), priced=True),
    Fact("group_choice", says={BY_BEST: GROUPS}, only=routed, label=Sentence("groups of experts:")),
)


def derived(flat: Flat) -> dict[str, Any]:
    """Values that follow from several fields."""
    found = megatron.derived(flat)
    mla, kind = latent(flat), flat.get(f"{SCALING}.kind")
    factor, original = flat.get(f"{SCALING}.factor"), flat.get(f"{SCALING}.original_max_position_embeddings")
    seq_length = flat.get("seq_length") or 0
    room = flat["constants.max_position_embeddings"]
    found |= {"position": megatron.position(flat, "rope"), "outgrown": None}
    if kind == YARN and not mla and original and factor:
        room = round(original * factor)  # the framework derives the factor from it
        found["outgrown"] = seq_length if room < seq_length else None
    found["positions"] = max(room or 0, seq_length) or None
    if mla and kind != YARN:
        found["kv_channels"] = flat["mla.qk_rope_head_dim"]
    scale = found["constants.attention_scale"]
    if scale and not mla and isclose(squared := 1 / scale**2, round(squared), rel_tol=1e-6):
        found["constants.attention_scale"] = round(squared)
    local, every = flat.get("local_attention.kind"), flat.get("local_attention.full_attention_every")
    found["local"] = Sentence("{} but in every {}th layer", local, every) if local == "window" and every else local
    if local == "linear":  # its attention reads a factor of its own
        found |= {"linear_rotary_fraction": flat["constants.rotary_fraction"], "constants.rotary_fraction": None}
    if found.get("local_attention.kind"):
        found["local"] = found["local_attention.kind"]
    if str(found.get("group_choice")).startswith("chosen by their best"):
        found["group_choice"] = BY_BEST
    return found


def undone(flat: Flat) -> dict[str, Any]:
    """Fields of a model, from facts that were read."""
    found = megatron.undone(flat)
    kind, original = flat.get(f"{SCALING}.kind"), flat.get(f"{SCALING}.original_max_position_embeddings")
    found |= {
        SCALING: bool(kind),
        f"{SCALING}.original_max_position_embeddings": original,
        "constants.max_position_embeddings": flat.get("positions"),
    }
    if kind == YARN and original and not latent(flat):
        found[f"{SCALING}.factor"] = (flat.get("positions") or original) / original
    if latent(flat):
        found["mla.q_lora_rank"] = flat.get("mla.q_lora_rank") or 0
    if flat.get("constants.rotary_interleaved") == "glm":
        found["constants.rotary_interleaved"] = True
    if flat.get("constants.attention_scale"):
        found["constants.attention_scale"] = 1 / sqrt(flat["constants.attention_scale"])
    if flat.get("embeddings_by_width"):
        found["constants.embedding_scale"] = sqrt(flat["hidden_size"])
    if flat.get("local_attention.window"):
        found |= {"local_attention": True, "local_attention.kind": "window", "local_attention.conv_kernel": None}
    if flat.get("local_attention.full_attention_every"):
        found |= {"local_attention": True, "local_attention.kind": "linear", "attention_output_gate": True}
    else:
        found["attention_output_gate"] = False
    if flat.get("linear_rotary_fraction"):
        found["constants.rotary_fraction"] = flat["linear_rotary_fraction"]
    normalized = flat.get(f"{ROUTER}.normalize_topk")
    if isinstance(normalized, str):
        found[f"{ROUTER}.normalize_topk"] = normalized.startswith("divided")
    return found


MODEL = ModelTable(
    megatron.SHARED_MODEL.with_facts(*FACTS, without=("local_attention.kind",)).facts,
    derived,
    undone,
)
