"""Arguments of the Megatron family for a model [megatron-0.12, arguments.py, transformer_config.py, moe_utils.py].

The facts are those of the newest release. ``ModelTable.unsayable`` lists those for which an older release has no argument.
"""

from __future__ import annotations

from math import isclose, sqrt
from typing import Any

from documents.sentences import Sentence
from frameworks.megatron_lm import hybrid
from frameworks.model_facts import Fact, Flat, ModelTable

SCALING = "constants.rope_scaling"
ROUTER = "constants.router"


def latent(flat: Flat) -> bool:
    """Whether attention is latent."""
    return bool(flat.get("mla"))


def routed(flat: Flat) -> bool:
    """Whether there are experts."""
    return bool(flat.get("moe.num_experts"))


def rotary(flat: Flat) -> bool:
    """Whether positions are rotary."""
    return flat.get("position") in ("rope", "yarn")


def heads_divide(flat: Flat) -> bool:
    """Whether the head width follows from the hidden size.

    Megatron rejects a remainder, even if latent attention has its own widths.
    """
    return (flat.get("hidden_size") or 0) % (flat.get("num_attention_heads") or 1) == 0


def scaled(kind: str, *, mla: bool) -> Any:
    """Whether rotary positions are scaled in one way, in latent attention or outside it."""
    return lambda flat: latent(flat) is mla and flat.get(f"{SCALING}.kind") == kind


def switch(path: str, argument: str, **more: Any) -> Fact:
    """A fact that a bare argument states."""
    return Fact(path, says={True: {argument: ()}, False: {}}, **more)


LOCAL = {
    "window": Sentence("attention limited to a window"),
    "linear": Sentence("linear attention"),
    "state_space": Sentence("state spaces"),
}
LLAMA3, YARN_MLA = scaled("llama3", mla=False), scaled("yarn", mla=True)
WIDTHS = (
    Fact("hidden_size", "hidden-size"),
    Fact("ffn_hidden_size", "ffn-hidden-size"),
    Fact("num_attention_heads", "num-attention-heads"),
    switch("mla", "multi-latent-attention"),
    switch("grouped", "group-query-attention", unsaid=(None, False)),
    Fact("num_query_groups", "num-query-groups", only=lambda flat: bool(flat.get("grouped"))),
    Fact("kv_channels", "kv-channels", only=lambda flat: not latent(flat) or not heads_divide(flat)),
    Fact(
        "position",
        says={"learned": {"position-embedding-type": "learned_absolute"}, "rope": {"position-embedding-type": "rope"}},
        instead="rope",
        label=Sentence("positions by"),
    ),
    Fact(
        "constants.normalization",
        says={"rmsnorm": {"normalization": "RMSNorm"}, "layernorm": {"normalization": "LayerNorm"}},
        instead="rmsnorm",
    ),
    Fact(
        "mlp",
        says={
            "gated silu": {"swiglu": ()},
            "relu2": {"squared-relu": ()},
            "gelu": {"no-bias-gelu-fusion": ()},  # the fused kernel is the form with tanh
            "gelu_tanh": {},
        },
        instead=Sentence("gated silu"),
        label="activation",
    ),
    Fact("linear_bias", says={False: {"disable-bias-linear": ()}, True: {}}),
    switch("attention_bias", "add-qkv-bias", only=lambda flat: not flat.get("linear_bias")),
    Fact("tied_embeddings", says={False: {"untie-embeddings-and-output-weights": ()}, True: {}}),
    switch("qk_norm", "qk-layernorm"),
    Fact("mtp_num_layers", "mtp-num-layers", unsaid=(None, 0)),
    Fact("predicting", label=Sentence("multi-token prediction beside"), priced=True),
    Fact("mla.q_lora_rank", "q-lora-rank", only=latent, unsaid=(None, 0)),
    Fact("mla.kv_lora_rank", "kv-lora-rank", only=latent),
    Fact("mla.qk_nope_head_dim", "qk-head-dim", only=latent),
    Fact("mla.qk_rope_head_dim", "qk-pos-emb-head-dim", only=latent),
    Fact("mla.v_head_dim", "v-head-dim", only=latent),
    Fact("alibi", says={False: {}}, label=Sentence("a bias on scores in place of positions (alibi)"), priced=True),
    Fact("local_attention.kind", named=LOCAL, priced=True),
    Fact("sparse_attention", label=Sentence("sparse attention, whose tokens an indexer chooses"), priced=True),
    Fact("one_block", unsaid=(None, False), label=Sentence("layers of one block each"), priced=True),
    switch("attention_output_gate", "attention-output-gate", label=Sentence("a gate on attention's output"), priced=True),
)
CONSTANTS = (
    Fact("constants.norm_epsilon", "norm-epsilon", asked=True),
    switch("constants.norm_zero_centered", "apply-layernorm-1p"),
    Fact("constants.rotary_base", "rotary-base", only=rotary, asked=True),
    Fact("constants.local_rotary_base", only=rotary, constant=True),
    Fact("constants.rotary_fraction", "rotary-percent", only=lambda flat: rotary(flat) and not latent(flat), unsaid=(None, 1.0)),
    switch("constants.rotary_interleaved", "rotary-interleaved", only=lambda flat: rotary(flat) and not latent(flat)),
    Fact(
        f"{SCALING}.kind",
        says={"llama3": {"use-rope-scaling": ()}},
        only=lambda flat: rotary(flat) and not latent(flat),
        unsaid=(None, "yarn"),  # a kind of position
        label=Sentence("rotary positions scaled by"),
    ),
    # Latent attention always has YaRN, which a factor of 1 leaves without effect.
    Fact(f"{SCALING}.kind", says={"yarn": {}}, only=latent, label=Sentence("rotary positions of latent attention scaled by")),
    Fact(
        f"{SCALING}.factor",
        "rope-scaling-factor",
        only=LLAMA3,
        effective=(8.0,),
        label="rope-scaling-factor",
        because=Sentence("pretrain_gpt.py does not hand it on, and the factor stays 8"),
    ),
    Fact(f"{SCALING}.low_freq_factor", says={1.0: {}}, only=LLAMA3),
    Fact(f"{SCALING}.high_freq_factor", says={4.0: {}}, only=LLAMA3),
    Fact(f"{SCALING}.original_max_position_embeddings", says={8192: {}}, only=LLAMA3),
    Fact(f"{SCALING}.factor", "rotary-scaling-factor", only=YARN_MLA),
    Fact(f"{SCALING}.mscale", "mscale", only=YARN_MLA),
    Fact(f"{SCALING}.mscale_all_dim", "mscale-all-dim", only=YARN_MLA),
    Fact(f"{SCALING}.beta_fast", says={32.0: {}}, only=YARN_MLA),
    Fact(f"{SCALING}.beta_slow", says={1.0: {}}, only=YARN_MLA),
    Fact(f"{SCALING}.truncate", unsaid=(None, True), only=rotary, label=Sentence("YaRN without rounded bounds")),
    Fact("positions", "max-position-embeddings"),
    Fact("constants.attention_output_bias", says={False: {}}, only=lambda flat: not flat.get("linear_bias")),
    Fact("constants.activation_clamp", label=Sentence("activation clamped at")),
    Fact("constants.glu_linear_offset", unsaid=(None, 0.0), label=Sentence("offset of the gated linear unit")),
    Fact("constants.qk_norm_over_heads", says={False: {}}, label=Sentence("norm of queries and keys over all heads")),
    Fact("constants.post_norm_residual", label=Sentence("residual behind the norm, times")),
    Fact("constants.attention_scale"),
    Fact("constants.attention_softcap"),
    Fact("constants.logit_softcap"),
    Fact("constants.embedding_scale"),
    Fact("constants.attention_sinks", says={True: {"softmax-type": "learnable"}, False: {}}),
)
DIVIDED_SIGMOIDS = Fact(
    f"{ROUTER}.normalize_topk",
    says={True: {}},
    only=lambda flat: routed(flat) and flat.get(f"{ROUTER}.score_function") == "sigmoid",
    because=Sentence("weights of a sigmoid router are always divided by their sum"),
)
EXPERTS = (
    Fact("moe.num_experts", "num-experts", unsaid=(None, 0)),
    Fact("moe.top_k", "moe-router-topk", only=routed),
    Fact("moe.expert_ffn_hidden_size", "moe-ffn-hidden-size", only=routed),
    Fact("moe.shared_expert_ffn_hidden_size", "moe-shared-expert-intermediate-size", only=routed, unsaid=(None, 0)),
    Fact("moe.num_groups", "moe-router-num-groups", only=routed, unsaid=(None, 1)),
    Fact("moe.group_topk", "moe-router-group-topk", only=lambda flat: (flat.get("moe.num_groups") or 1) > 1),
    Fact("moe.capacity_factor", "moe-expert-capacity-factor", only=routed),
    Fact("moe.expert_biases", says={False: {}}, only=routed, label=Sentence("biases of the experts"), priced=True),
    Fact(
        f"{ROUTER}.score_function",
        says={name: {"moe-router-score-function": name} for name in ("sigmoid", "softmax")},
        only=routed,
        asked=True,
    ),
    Fact(
        f"{ROUTER}.normalize_topk",
        says={False: {"moe-router-pre-softmax": ()}, True: {}},
        only=lambda flat: routed(flat) and flat.get(f"{ROUTER}.score_function") != "sigmoid",
        instead=False,
        asked=True,
    ),
    DIVIDED_SIGMOIDS,
    Fact(f"{ROUTER}.topk_scale", "moe-router-topk-scaling-factor", only=routed, unsaid=(None, 1.0)),
    switch(f"{ROUTER}.expert_bias", "moe-router-enable-expert-bias", only=routed),
    switch(f"{ROUTER}.shared_expert_gate", "moe-shared-expert-gate", only=routed),
    Fact("group_choice", only=routed, label=Sentence("groups of experts:")),
)


def derived(flat: Flat) -> dict[str, Any]:
    """Values that follow from several fields."""
    gated, mla, moe = flat["gated_linear_unit"], bool(flat["mla"]), bool(flat["moe"])
    kind = flat.get(f"{SCALING}.kind")
    activation = flat["constants.activation"] or ("silu" if gated else None)
    scale, width = flat["constants.attention_scale"], flat["kv_channels"]
    found = {
        "grouped": not mla and flat["num_query_groups"] != flat["num_attention_heads"],
        "one_block": bool(flat["hybrid_layer_pattern"]),
        "position": position(flat, "yarn" if kind == "yarn" and not mla else "rope"),
        "mlp": activation and f"{'gated ' if gated else ''}{activation}",
        "predicting": Sentence("learned positions") if flat["learned_positions"] and flat["mtp_num_layers"] else None,
        "linear_bias": (not gated and not moe and not flat["hybrid_layer_pattern"]) or bool(flat.get("moe.expert_biases")),
        "qk_norm": flat["qk_layernorm"] or mla,
        "positions": positions(flat),
        "longest": longest(flat),
        "window": window(flat),
        "unequal_mscales": mscales(flat),
        "outgrown": outgrown(flat),
        "constants.normalization": flat["constants.normalization"] or ("rmsnorm" if gated else "layernorm"),
        "constants.attention_scale": None if scale is None or isclose(scale * sqrt(width), 1, rel_tol=1e-6) else scale,
    }
    if flat["local_attention"] and flat["local_attention.kind"] == "linear" and not flat["local_attention.conv_kernel"]:
        found["local_attention.kind"] = Sentence("linear recurrence of fixed decay")  # lightning attention: no release has it
    if flat.get("moe.expert_biases") and not (flat["attention_bias"] and flat["constants.attention_output_bias"]):
        found["moe.expert_biases"] = Sentence("without those of attention")  # one argument has all
    return found | (_router(flat) if moe else {})


def position(flat: Flat, rotary: str) -> str:
    """Kind of positions; ``rotary`` where they are."""
    return "none" if flat["no_positions"] else "learned" if flat["learned_positions"] else rotary


def positions(flat: Flat) -> int | None:
    """Maximum position embeddings: at least seq_length; the original length for YaRN with MLA."""
    if latent(flat) and flat.get(f"{SCALING}.kind"):
        stated = flat.get(f"{SCALING}.original_max_position_embeddings")
    else:
        stated = flat["constants.max_position_embeddings"]
    return max(stated or 0, flat.get("seq_length") or 0) or None


def _router(flat: Flat) -> dict[str, Any]:
    score, normalized = flat[f"{ROUTER}.score_function"], flat[f"{ROUTER}.normalize_topk"]
    bias, top_k, groups, chosen = (
        flat[name] for name in (f"{ROUTER}.expert_bias", "moe.top_k", "moe.num_groups", "moe.group_topk")
    )
    if top_k == 1:  # the weight of a single expert is its score, unless it is always 1
        normalized = None if score == "sigmoid" else Sentence("of one expert") if normalized else False
    per_group = top_k // max(chosen, 1)
    choice = None
    if groups > 1 and groups == chosen:
        choice = Sentence("as many experts of each of {}, where the framework chooses {} of all", groups, top_k)
    elif groups > 1 and per_group > 1 and bias is False:  # [deepseek-v2, section 2.2.2]
        choice = Sentence("chosen by their best expert, where the framework adds the best {}", per_group)
    return {
        f"{ROUTER}.normalize_topk": normalized,
        f"{ROUTER}.expert_bias": Sentence("beside a softmax") if bias and score != "sigmoid" else bias,
        "group_choice": choice,
    }


def undone(flat: Flat) -> dict[str, Any]:
    """Fields of a model, from facts that were read."""
    mla, heads = latent(flat), flat.get("num_attention_heads") or 1
    found: dict[str, Any] = {
        "learned_positions": flat.get("position") == "learned",
        "no_positions": flat.get("position") == "none",
        "gated_linear_unit": str(flat.get("mlp")).startswith("gated "),
        "constants": True,
        "constants.activation": str(flat.get("mlp") or "").removeprefix("gated ") or None,
        "constants.router": True,
        "qk_layernorm": bool(flat.get("qk_norm")) and not mla,
        "moe": routed(flat),
    }
    if not flat.get("grouped"):
        found["num_query_groups"] = heads
    if mla:
        found["kv_channels"] = flat["mla.qk_nope_head_dim"] + flat["mla.qk_rope_head_dim"]
        found["mla.q_lora_rank"] = flat.get("mla.q_lora_rank") or 0
    elif not flat.get("kv_channels"):
        found["kv_channels"] = (flat.get("hidden_size") or heads) // heads
    if found["gated_linear_unit"] and flat.get("linear_bias"):
        found |= {"attention_bias": True, "constants.attention_output_bias": True}
    if found["moe"]:
        shared, width = flat.get("moe.shared_expert_ffn_hidden_size") or 0, flat.get("moe.expert_ffn_hidden_size") or 1
        found[f"{ROUTER}.topk_scale"] = flat.get(f"{ROUTER}.topk_scale") or 1.0
        found["moe.num_shared_experts"] = max(round(shared / width), 1) if shared else 0
        found["moe.expert_biases"] = bool(flat.get("linear_bias"))
    if flat.get("window"):
        found |= {"local_attention": True, "local_attention.kind": "window"}
        found["local_attention.window"] = int(str(flat["window"]).strip("()").split(",")[0]) + 1
    elif flat.get("local_attention.kind"):
        found["local_attention"] = True
    if pattern := flat.get("hybrid_layer_pattern"):
        found["hybrid_layer_pattern"] = hybrid.plain(pattern)
        found["moe"] = found["moe"] and "E" in found["hybrid_layer_pattern"]
    return found | _scaling(flat)


def _scaling(flat: Flat) -> dict[str, Any]:
    kind = "yarn" if flat.get("position") == "yarn" else flat.get(f"{SCALING}.kind")
    room = flat.get("longest", flat.get("positions"))
    if latent(flat) and flat.get(f"{SCALING}.factor") == 1.0:
        kind = None
    if not kind:
        return {SCALING: None, "constants.max_position_embeddings": room}
    if "longest" in flat or not latent(flat):
        return {SCALING: True, f"{SCALING}.kind": kind, "constants.max_position_embeddings": room}
    return {SCALING: True, f"{SCALING}.kind": kind, f"{SCALING}.original_max_position_embeddings": room}


def mscales(flat: Flat) -> str | None:
    """Both scales of YaRN, if they differ."""
    pair = (flat.get(f"{SCALING}.mscale"), flat.get(f"{SCALING}.mscale_all_dim"))
    return None if not latent(flat) or None in pair or pair[0] == pair[1] else Sentence("{} and {}", pair[0], pair[1])


def outgrown(flat: Flat) -> int | None:
    """Original positions of YaRN in latent attention, if a sequence is longer."""
    original = flat.get(f"{SCALING}.original_max_position_embeddings") if latent(flat) else None
    return original if original and original < (flat.get("seq_length") or 0) else None


def longest(flat: Flat) -> int | None:
    """Maximum position embeddings: at least seq_length."""
    return max(flat["constants.max_position_embeddings"] or 0, flat.get("seq_length") or 0) or None


def window(flat: Flat) -> str | None:
    """The window argument: tokens on either side of a token, itself not counted."""
    size = flat.get("local_attention.window")
    return f"{size - 1},0" if size and flat.get("local_attention.kind") == "window" else None


SHARED_MODEL = ModelTable((*WIDTHS, *CONSTANTS, *EXPERTS), derived, undone)
MODEL_0_12 = SHARED_MODEL.with_facts(
    Fact(
        "unequal_mscales",
        constant=True,
        label=Sentence("mscale and mscale_all_dim of"),
        because=Sentence("the scale of attention's scores follows mscale"),
    ),
    Fact(
        "outgrown",
        constant=True,
        label="original_max_position_embeddings",
        because=Sentence("YaRN takes it from --max-position-embeddings, which must hold the sequence"),
    ),
)


def windowed(flat: Flat) -> bool:
    """Whether some layers attend to a window."""
    return bool(flat.get("window"))


def linear(flat: Flat) -> bool:
    """Whether some layers have linear attention."""
    return flat.get("local_attention.kind") == "linear"


def state_spaced(flat: Flat) -> bool:
    """Whether some layers are state spaces."""
    return flat.get("local_attention.kind") == "state_space"


def stretched(flat: Flat) -> bool:
    """Whether positions are rotary with YaRN, outside latent attention."""
    return flat.get("position") == "yarn"


def either_yarn(flat: Flat) -> bool:
    """Whether positions use YaRN, in latent attention or outside it."""
    return stretched(flat) or bool(YARN_MLA(flat))


POSITIONS = {name: {"position-embedding-type": value} for name, value in (("learned", "learned_absolute"), ("rope", "rope"))}
LINEAR = ("num_key_heads", "num_value_heads", "key_head_dim", "value_head_dim")
STATE_SPACE = {
    "num_key_heads": "mamba-num-groups",
    "num_value_heads": "mamba-num-heads",
    "key_head_dim": "mamba-state-dim",
    "value_head_dim": "mamba-head-dim",
}
MODEL_0_19 = SHARED_MODEL.with_facts(
    Fact(
        "mlp",
        says={
            "gated silu": {"swiglu": ()},
            "gated quick_gelu": {"quick-geglu": ()},
            "relu2": {"squared-relu": ()},
            "gelu": {"no-bias-gelu-fusion": ()},
            "gelu_tanh": {},
        },
        instead=Sentence("gated silu"),
        label="activation",
    ),
    Fact("constants.activation_clamp", "activation-func-clamp-value"),
    Fact("constants.glu_linear_offset", "glu-linear-offset", unsaid=(None, 0.0)),
    Fact("moe.expert_biases", says={False: {}, True: {}}, only=routed, label=Sentence("biases of the experts"), priced=True),
    Fact(
        "position",
        says={**POSITIONS, **{name: {"position-embedding-type": name} for name in ("yarn", "none")}},
        label=Sentence("positions by"),
    ),
    Fact("hybrid_layer_pattern", hybrid.PATTERN, unsaid=(None, ""), priced=True),
    *(fact for fact in SHARED_MODEL.facts if fact.path == f"{SCALING}.factor" and fact.number == "rope-scaling-factor"),
    Fact(f"{SCALING}.factor", "rotary-scaling-factor", only=either_yarn),
    Fact(f"{SCALING}.mscale", "mscale", only=either_yarn),
    Fact(f"{SCALING}.mscale_all_dim", "mscale-all-dim", only=either_yarn),
    Fact(f"{SCALING}.original_max_position_embeddings", says={8192: {}}, only=LLAMA3),
    Fact(f"{SCALING}.original_max_position_embeddings", says={4096: {}}, only=YARN_MLA),
    Fact(f"{SCALING}.original_max_position_embeddings", "yarn-original-max-position-embeddings", only=stretched),
    Fact(f"{SCALING}.beta_fast", says={32.0: {}}, only=YARN_MLA),
    Fact(f"{SCALING}.beta_fast", "yarn-beta-fast", only=stretched),
    Fact(f"{SCALING}.beta_slow", says={1.0: {}}, only=YARN_MLA),
    Fact(f"{SCALING}.beta_slow", "yarn-beta-slow", only=stretched),
    Fact("longest", "max-position-embeddings"),
    Fact(f"{SCALING}.truncate", unsaid=(None, True), only=YARN_MLA, label=Sentence("YaRN without rounded bounds")),
    Fact(f"{SCALING}.truncate", says={False: {"no-yarn-correction-range-round-to-int": ()}}, unsaid=(None, True), only=stretched),
    Fact(
        "local_attention.kind",
        says={"linear": {"experimental-attention-variant": "gated_delta_net"}},
        unsaid=(None, "window", "state_space"),  # windows and state spaces have arguments of their own
        named=LOCAL,
        priced=True,
    ),
    Fact(
        "sparse_attention",
        label=Sentence("the sparse attention that is priced (its own, dsa, keeps all scores or runs other kernels)"),
        priced=True,
    ),
    Fact("window", "window-size", priced=True),
    Fact("local_attention.full_attention_every", "window-attn-skip-freq", only=windowed, unsaid=(None, 0), priced=True),
    Fact("local_attention.full_attention_every", "linear-attention-freq", only=linear, priced=True),
    *(Fact(f"local_attention.{name}", f"linear-{name.replace('_', '-')}", only=linear, priced=True) for name in LINEAR),
    Fact("local_attention.conv_kernel", "linear-conv-kernel-dim", only=linear, priced=True),
    *(Fact(f"local_attention.{name}", argument, only=state_spaced, priced=True) for name, argument in STATE_SPACE.items()),
    Fact("local_attention.conv_kernel", says={hybrid.CONV_KERNEL: {}}, only=state_spaced, priced=True),
    Fact("local_attention.chunk_size", says={hybrid.CHUNK_SIZE: {}}, only=state_spaced, priced=True),
    without=("positions", "one_block"),
)
