"""Parameter counts of a model, by how a parallel strategy shards them."""

from __future__ import annotations

from dataclasses import dataclass

from cost_models.shapes.layer_keys import Floats, LayerKeys
from cost_models.shapes.strategy import StrategyBatch
from cost_models.shapes.workload import ModelShape, MoeShape

GATED_MATRICES, PLAIN_MATRICES = 3, 2  # of an MLP: gate, up and down; up and down
MTP_NORMS = 3  # of the hidden state, of the embedding, and behind the layer [deepseek-v3, eq. 21]


@dataclass(frozen=True)
class LayerParameters:
    """Parameters of one transformer layer; biases of the matmuls are left out (below 0.02 %)."""

    attention_sharded: int  # divided by tp
    attention_replicated: int  # MLA down-projections and the norms inside attention
    norms: int  # replicated
    mlp: int  # dense MLP, divided by tp
    router: int  # replicated
    shared_experts: int  # divided by tp
    experts: int  # divided by ep and etp

    @property
    def total(self) -> int:
        """All of them."""
        return self.dense + self.experts

    @property
    def dense(self) -> int:
        """All but the routed experts."""
        return self.attention_sharded + self.attention_replicated + self.norms + self.mlp + self.router + self.shared_experts

    def chosen_experts(self, shape: MoeShape) -> int:
        """Routed experts that one token passes."""
        return self.experts // shape.num_experts * shape.top_k


@dataclass(frozen=True)
class ParameterCounts:
    """Totals of a model.

    ``total`` leaves the MTP module out; ``active`` counts the layers with ``top_k`` experts and the output
    head, not the input embedding: the convention under which DeepSeek-V3 has 37 B and Pangu Ultra MoE 39 B.
    """

    total: int
    active: int
    embedding: int
    head: int  # 0 when tied to the embedding
    mtp: int


def _attention(model: ModelShape) -> tuple[int, int]:
    """Parameters of the attention that tensor parallelism divides, and those that every rank holds whole.

    Returns
    -------
    tuple of int
    """
    h, heads = model.hidden_size, model.num_attention_heads
    if model.mla is None:
        d, groups = model.kv_channels, model.num_query_groups
        bias = (heads + 2 * groups) * d if model.attention_bias else 0
        return h * d * (2 * heads + 2 * groups) + bias, 2 * d if model.qk_layernorm else 0
    mla = model.mla
    kv = mla.qk_nope_head_dim + mla.v_head_dim
    if mla.q_lora_rank:
        sharded, replicated = mla.q_lora_rank * heads * mla.qk_head_dim, mla.q_lora_rank * (h + 1)
    else:
        sharded, replicated = h * heads * mla.qk_head_dim, 0
    sharded += mla.kv_lora_rank * heads * kv + heads * mla.v_head_dim * h
    replicated += mla.kv_lora_rank * (h + 1) + h * mla.qk_rope_head_dim
    return sharded, replicated


def layer_parameters(model: ModelShape, *, moe: bool) -> LayerParameters:
    """Parameters of a dense or a MoE layer [megatron-main, theoretical_memory_usage.py; deepseek-v2, section 2.1].

    Parameters
    ----------
    model : ModelShape
        Dimensions of the transformer.
    moe : bool
        A MoE layer, else a dense one; of a model without experts both are dense.

    Returns
    -------
    LayerParameters
        Of the whole layer, before any sharding.
    """
    h = model.hidden_size
    matrices = GATED_MATRICES if model.gated_linear_unit else PLAIN_MATRICES
    sharded, replicated = _attention(model)
    norms = 2 * (2 if model.sandwich_norm else 1) * h  # around the attention and around the MLP
    if moe and model.moe is not None:
        shape = model.moe
        return LayerParameters(
            attention_sharded=sharded,
            attention_replicated=replicated,
            norms=norms,
            mlp=0,
            router=h * shape.num_experts,
            shared_experts=matrices * h * shape.shared_expert_ffn_hidden_size,
            experts=matrices * h * shape.expert_ffn_hidden_size * shape.num_experts,
        )
    return LayerParameters(sharded, replicated, norms, matrices * h * model.ffn_hidden_size, 0, 0, 0)


def layer_rank_parameters(model: ModelShape, rows: StrategyBatch | LayerKeys, *, moe: bool) -> tuple[Floats, Floats]:
    """Dense and routed-expert parameters of one layer on one rank.

    Parameters
    ----------
    model : ModelShape
        Dimensions of the transformer.
    rows : StrategyBatch, ``[n]``, or LayerKeys, ``[k]``
        Whose degrees divide the layer.
    moe : bool
        A MoE layer, else a dense one.

    Returns
    -------
    tuple of Floats, ``[n]`` or ``[k]``, parameters
        Before sharding over data parallel. Key/value heads fewer than tp count as divided all the same.
    """
    parts = layer_parameters(model, moe=moe)
    sharded = (parts.attention_sharded + parts.mlp + parts.shared_experts) / rows.tp
    dense = sharded + parts.attention_replicated + parts.norms + parts.router
    return dense, parts.experts / (rows.ep * rows.etp)


def mtp_parameters(model: ModelShape) -> int:
    """One multi-token-prediction module: a layer of the last kind, a 2h x h projection, three norms [deepseek-v3, eq. 21].

    Parameters
    ----------
    model : ModelShape
        Dimensions of the transformer.

    Returns
    -------
    int
        Of one module, without its copy of the embedding and the head.
    """
    h = model.hidden_size
    return layer_parameters(model, moe=model.moe_layers()[-1]).total + 2 * h * h + MTP_NORMS * h


def num_parameters(model: ModelShape) -> ParameterCounts:
    """Counts of the whole model; see ``ParameterCounts`` for the conventions.

    Parameters
    ----------
    model : ModelShape
        Dimensions of the transformer.

    Returns
    -------
    ParameterCounts
    """
    h = model.hidden_size
    embedding = model.vocab_size * h
    head = 0 if model.tied_embeddings else embedding
    layers = active = 0
    for moe in model.moe_layers():
        parts = layer_parameters(model, moe=moe)
        layers += parts.total
        active += parts.dense
        if moe and model.moe is not None:
            active += parts.chosen_experts(model.moe)
    return ParameterCounts(
        total=layers + embedding + head + h,
        active=active + embedding + h,
        embedding=embedding,
        head=head,
        mtp=model.mtp_num_layers * mtp_parameters(model),
    )
