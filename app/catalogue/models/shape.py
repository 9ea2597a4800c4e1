"""``ModelShape`` from a mapping with the product's own field names, and back."""

from __future__ import annotations

from app.catalogue.models.fields import Fields, ModelError
from cost_models.shapes.parameters import num_parameters
from cost_models.shapes.workload import MlaShape, ModelShape, MoeShape

MAX_LAYERS = 10_000
MAX_WIDTH = 1_000_000  # of a hidden, head, rank or expert dimension
MAX_FFN_WIDTH = 10_000_000
MAX_HEADS = 100_000
MAX_VOCAB = 100_000_000
MAX_EXPERTS = 100_000
MAX_MTP_LAYERS = 100
MAX_PARAMETERS = 10**16

MLA_FIELDS = ("q_lora_rank", "kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")
MOE_FIELDS = (
    "num_experts",
    "top_k",
    "expert_ffn_hidden_size",
    "num_shared_experts",
    "shared_expert_ffn_hidden_size",
    "num_leading_dense_layers",
    "moe_layer_freq",
    "num_groups",
    "group_topk",
    "capacity_factor",
)
MODEL_FIELDS = (
    "name",
    "family",
    "num_layers",
    "num_noop_layers",
    "hidden_size",
    "num_attention_heads",
    "num_query_groups",
    "kv_channels",
    "ffn_hidden_size",
    "gated_linear_unit",
    "vocab_size",
    "padded_vocab_size",
    "tied_embeddings",
    "mtp_num_layers",
    "sandwich_norm",
    "qk_layernorm",
    "attention_bias",
    "learned_positions",
    "mla",
    "moe",
)


def model_from_mapping(mapping: object, where: str = "model") -> ModelShape:
    """The shape that ``mapping`` describes; ``where`` names it in the ``ModelError`` it may raise."""
    fields = Fields(mapping, where)
    fields.refuse_unknown(MODEL_FIELDS)
    if fields.integer_or("num_noop_layers", 0, 0, MAX_LAYERS):
        raise fields.error("num_noop_layers", "no-op layers belong to a plan's layer layout: give the real layers only")
    hidden_size = fields.integer("hidden_size", 1, MAX_WIDTH)
    num_heads = fields.integer("num_attention_heads", 1, MAX_HEADS)
    num_layers = fields.integer("num_layers", 1, MAX_LAYERS)
    mla = _mla(fields.child("mla")) if "mla" in fields else None
    moe = _moe(fields.child("moe"), num_layers) if "moe" in fields else None
    model = ModelShape(
        name=fields.text_or("name", "inline"),
        num_layers=num_layers,
        hidden_size=hidden_size,
        num_attention_heads=num_heads,
        num_query_groups=fields.integer_or("num_query_groups", num_heads, 1, num_heads),
        kv_channels=_kv_channels(fields, hidden_size, num_heads, mla),
        ffn_hidden_size=_ffn_hidden_size(fields, num_layers, moe),
        vocab_size=_vocab_rows(fields),
        gated_linear_unit=fields.boolean_or("gated_linear_unit", True),
        tied_embeddings=fields.boolean_or("tied_embeddings", False),
        mtp_num_layers=fields.integer_or("mtp_num_layers", 0, 0, MAX_MTP_LAYERS),
        sandwich_norm=fields.boolean_or("sandwich_norm", False),
        qk_layernorm=fields.boolean_or("qk_layernorm", False),
        attention_bias=fields.boolean_or("attention_bias", False),
        learned_positions=fields.boolean_or("learned_positions", False),
        mla=mla,
        moe=moe,
    )
    check_shape(model, where)
    return model


def model_to_mapping(model: ModelShape) -> dict[str, object]:
    """The inverse of ``model_from_mapping``: JSON-ready, every field explicit."""
    mapping: dict[str, object] = {
        name: getattr(model, name)
        for name in MODEL_FIELDS
        if name not in ("family", "num_noop_layers", "padded_vocab_size", "mla", "moe")
    }
    mapping["mla"] = None if model.mla is None else {name: getattr(model.mla, name) for name in MLA_FIELDS}
    mapping["moe"] = None if model.moe is None else {name: getattr(model.moe, name) for name in MOE_FIELDS}
    return mapping


def check_shape(model: ModelShape, where: str) -> None:
    """Raises ``ModelError`` where fields that are fine one by one do not fit together."""
    if model.num_attention_heads % model.num_query_groups:
        raise ModelError(
            f"{where}: num_query_groups is {model.num_query_groups}, "
            f"it must divide the {model.num_attention_heads} attention heads"
        )
    if model.moe is not None:
        _check_groups(model.moe, where)
    total = num_parameters(model).total
    if total > MAX_PARAMETERS:
        raise ModelError(f"{where}: the dimensions give {total:.3g} parameters, at most {MAX_PARAMETERS:.0e} are allowed")


def _check_groups(moe: MoeShape, where: str) -> None:
    if moe.num_experts % moe.num_groups:
        raise ModelError(f"{where}: num_groups is {moe.num_groups}, it must divide the {moe.num_experts} experts")
    reachable = moe.num_experts // moe.num_groups * moe.group_topk
    if moe.top_k > reachable:
        raise ModelError(
            f"{where}: top_k is {moe.top_k}, but {moe.group_topk} of {moe.num_groups} groups hold only {reachable} experts"
        )


def _mla(fields: Fields) -> MlaShape:
    fields.refuse_unknown(MLA_FIELDS)
    return MlaShape(
        q_lora_rank=fields.integer_or("q_lora_rank", 0, 0, MAX_WIDTH),
        kv_lora_rank=fields.integer("kv_lora_rank", 1, MAX_WIDTH),
        qk_nope_head_dim=fields.integer("qk_nope_head_dim", 1, MAX_WIDTH),
        qk_rope_head_dim=fields.integer("qk_rope_head_dim", 0, MAX_WIDTH),
        v_head_dim=fields.integer("v_head_dim", 1, MAX_WIDTH),
    )


def _moe(fields: Fields, num_layers: int) -> MoeShape:
    fields.refuse_unknown(MOE_FIELDS)
    num_experts = fields.integer("num_experts", 1, MAX_EXPERTS)
    expert_width = fields.integer("expert_ffn_hidden_size", 1, MAX_FFN_WIDTH)
    num_shared = fields.integer_or("num_shared_experts", 0, 0, MAX_EXPERTS)
    num_groups = fields.integer_or("num_groups", 1, 1, num_experts)
    # Run records write Megatron's -1 for "unset" here.
    leading_dense = fields.integer_or("num_leading_dense_layers", 0, -1, num_layers - 1)
    frequency = fields.integer_or("moe_layer_freq", 1, -1, num_layers)
    if frequency == 0:
        raise fields.error("moe_layer_freq", f"-1 (every layer) or an integer from 1 to {num_layers} is needed")
    return MoeShape(
        num_experts=num_experts,
        top_k=fields.integer("top_k", 1, num_experts),
        expert_ffn_hidden_size=expert_width,
        num_shared_experts=num_shared,
        shared_expert_ffn_hidden_size=fields.integer_or(
            "shared_expert_ffn_hidden_size", num_shared * expert_width, 0, MAX_EXPERTS * MAX_FFN_WIDTH
        ),
        num_leading_dense_layers=max(leading_dense, 0),
        moe_layer_freq=max(frequency, 1),
        num_groups=num_groups,
        group_topk=fields.integer_or("group_topk", num_groups, 1, num_groups),
        capacity_factor=fields.number_or_none("capacity_factor", 0.01, 1000.0),
    )


def _kv_channels(fields: Fields, hidden_size: int, num_heads: int, mla: MlaShape | None) -> int:
    if "kv_channels" in fields:
        return fields.integer("kv_channels", 1, MAX_WIDTH)
    if mla is not None:
        return mla.qk_nope_head_dim + mla.qk_rope_head_dim
    if hidden_size % num_heads:
        raise ModelError(
            f"{fields.where}: the field kv_channels is missing, and hidden_size {hidden_size} is no multiple of "
            f"the {num_heads} attention heads"
        )
    return hidden_size // num_heads


def _ffn_hidden_size(fields: Fields, num_layers: int, moe: MoeShape | None) -> int:
    all_moe = moe is not None and moe.num_leading_dense_layers == 0 and moe.moe_layer_freq == 1
    if moe is not None and all_moe and "ffn_hidden_size" not in fields:
        return moe.expert_ffn_hidden_size  # no dense layer: never priced
    return fields.integer("ffn_hidden_size", 1, MAX_FFN_WIDTH)


def _vocab_rows(fields: Fields) -> int:
    vocab_size = fields.integer("vocab_size", 1, MAX_VOCAB)
    return fields.integer_or("padded_vocab_size", vocab_size, vocab_size, MAX_VOCAB)
