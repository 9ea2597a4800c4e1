"""Parameter counts of a model, by how a parallel strategy shards them."""

from __future__ import annotations

from collections import Counter

from cost_models.shapes.layer_keys import Floats, LayerKeys
from cost_models.shapes.strategy import StrategyBatch
from cost_models.shapes.workload import LocalAttention, ModelShape, MoeShape
from documents.late_methods import dataclass

GATED_MATRICES, PLAIN_MATRICES = 3, 2  # matrices of an MLP: gate, up and down, or up and down
MTP_NORMS = 3  # norms of the hidden state, of the embedding, and after the layer [deepseek-v3, eq. 21]


@dataclass(frozen=True)
class LayerParameters:
    """Parameters of one transformer layer, without the biases of its dense MLP (below 0.02 %)."""

    attention_sharded: int  # divided by tp
    attention_replicated: int  # MLA down-projections, an indexer, the norms inside attention, a bias of its output
    norms: int  # replicated
    mlp: int  # dense MLP, divided by tp
    router: int  # replicated
    shared_experts: int  # divided by tp
    experts: int  # divided by ep and etp

    @property
    def total(self) -> int:
        """Parameters of the whole layer."""
        return self.dense + self.experts

    @property
    def dense(self) -> int:
        """Parameters without the routed experts."""
        return self.attention_sharded + self.attention_replicated + self.norms + self.mlp + self.router + self.shared_experts

    @property
    def replicated(self) -> int:
        """Parameters that every tensor-parallel rank holds whole."""
        return self.attention_replicated + self.norms + self.router

    def chosen_experts(self, shape: MoeShape) -> int:
        """Parameters of the routed experts that one token passes."""
        return self.experts // shape.num_experts * shape.top_k


@dataclass(frozen=True)
class ParameterCounts:
    """Parameter totals of a model.

    ``total`` leaves the MTP module out. ``active`` counts the layers with ``top_k`` experts and the output head, not the input
    embedding: under this convention DeepSeek-V3 has 37 B and Pangu Ultra MoE 39 B.
    """

    total: int
    active: int
    embedding: int
    head: int  # 0 when tied to the embedding
    mtp: int


def linear_attention_weights(model: ModelShape, linear: LocalAttention) -> int:
    """Weights that a token passes in one layer's recurrence [gated-delta-net; minimax-01].

    They are the projections to queries, keys, values and gate, the output, step and decay, and the convolution. The decay of a
    state space follows from its step.
    """
    convolved = linear.conv_kernel * convolved_width(linear)
    return model.hidden_size * (2 * linear.query_key_width + 3 * linear.value_width + projected_steps(linear)) + convolved


def projected_steps(linear: LocalAttention) -> int:
    """Scalars of a token that are projected beside queries, keys, values and gate: step and decay, or the step alone."""
    if linear.is_state_space:
        return linear.num_value_heads
    return 2 * linear.num_value_heads if linear.is_delta_rule else 0


def convolved_width(linear: LocalAttention) -> int:
    """Channels of queries, keys and values, which pass the convolution if there is one."""
    return 2 * linear.query_key_width + linear.value_width


def _linear_attention(model: ModelShape, linear: LocalAttention) -> tuple[int, int]:
    """Sharded and replicated parameters of a recurrence, like ``_attention``.

    The norm of the output is included; under a delta rule also decay and bias, and the norm is that of one head. A state space
    has a decay, a bias of the step and a skip of each head, and a bias of the convolution; its norm is that of all heads
    [megatron-0.19, mamba_mixer.py].
    """
    weights = linear_attention_weights(model, linear)
    if linear.is_state_space:
        return weights + convolved_width(linear) + 3 * linear.num_value_heads + linear.value_width, 0
    if not linear.is_delta_rule:
        return weights + linear.value_width, 0
    return weights + 2 * linear.num_value_heads, linear.value_head_dim


def indexer_parameters(model: ModelShape) -> int:
    """Parameters of one layer's indexer, which every tensor-parallel rank holds whole; 0 without sparse attention.

    They are the projections to its queries, keys and weights of heads, and the norm of its keys with a bias
    [deepseek-v3.2, model.py; mindspeed-llm, dsa_indexer.py; megatron-0.19, dsa.py].
    """
    sparse, mla = model.sparse_attention, model.mla
    if sparse is None or mla is None:
        return 0
    projected = model.hidden_size * (sparse.index_head_dim + sparse.num_index_heads)
    return mla.q_lora_rank * sparse.index_width + projected + 2 * sparse.index_head_dim


def _attention(model: ModelShape, *, local: bool) -> tuple[int, int]:
    """Parameters of attention that tensor parallelism divides, and parameters that every rank holds whole."""
    h, heads = model.hidden_size, model.num_attention_heads
    linear = model.linear_attention(local=local)
    if linear is not None:
        return _linear_attention(model, linear)
    if model.mla is None:
        d, groups, constants = model.kv_channels, model.num_query_groups, model.constants
        gates = heads if model.attention_output_gate else 0
        bias = (heads + gates + 2 * groups) * d if model.attention_bias else 0
        sinks = heads if constants.attention_sinks else 0
        norms = 2 * d if model.qk_layernorm else 0
        return h * d * (2 * heads + gates + 2 * groups) + bias + sinks, norms + (h if constants.attention_output_bias else 0)
    mla = model.mla
    kv = mla.qk_nope_head_dim + mla.v_head_dim
    if mla.q_lora_rank:
        sharded, replicated = mla.q_lora_rank * heads * mla.qk_head_dim, mla.q_lora_rank * (h + 1)
    else:
        sharded, replicated = h * heads * mla.qk_head_dim, 0
    sharded += mla.kv_lora_rank * heads * kv + heads * mla.v_head_dim * h
    replicated += mla.kv_lora_rank * (h + 1) + h * mla.qk_rope_head_dim + indexer_parameters(model)
    return sharded, replicated


def layer_parameters(model: ModelShape, *, moe: bool, local: bool = False) -> LayerParameters:
    """Parameters of one layer of the given kind [megatron-main, theoretical_memory_usage.py; deepseek-v2, section 2.1].

    They count the whole layer before any sharding. In a model without experts, both kinds are dense. ``model`` is a view of the
    kind (``ModelShape.of_kind``) if its layers have one block each.
    """
    if model.hybrid_layer_pattern:
        raise ValueError("layers of one block: ask a view of their kind")
    h = model.hidden_size
    matrices = GATED_MATRICES if model.gated_linear_unit else PLAIN_MATRICES
    sharded, replicated = _attention(model, local=local)
    norms = model.num_blocks * (2 if model.sandwich_norm else 1) * h
    if moe and model.moe is not None:
        shape, biased = model.moe, int(model.moe.expert_biases)
        ways, gates = matrices - 1, h if model.constants.router.shared_expert_gate else 0
        biases = biased * (ways * shape.expert_ffn_hidden_size + h)
        return LayerParameters(
            attention_sharded=sharded,
            attention_replicated=replicated,
            norms=norms,
            mlp=0,
            router=(h + biased) * shape.num_experts + gates,
            shared_experts=matrices * h * shape.shared_expert_ffn_hidden_size,
            experts=(matrices * h * shape.expert_ffn_hidden_size + biases) * shape.num_experts,
        )
    return LayerParameters(sharded, replicated, norms, matrices * h * model.ffn_hidden_size, 0, 0, 0)


def layer_rank_parameters(
    model: ModelShape, rows: StrategyBatch | LayerKeys, *, moe: bool, local: bool = False
) -> tuple[Floats, Floats]:
    """Dense and routed-expert parameters of one layer on one rank, ``[n]`` or ``[k]`` like ``rows``.

    They are not yet sharded over data parallel. Fewer key/value heads than tp count as divided all the same.
    """
    parts = layer_parameters(model, moe=moe, local=local)
    dense = (parts.dense - parts.replicated) / rows.tp + parts.replicated
    return dense, parts.experts / (rows.ep * rows.etp)


def mtp_parameters(model: ModelShape) -> int:
    """Parameters of one MTP module: a layer of the last kind, a 2h x h projection, three norms [deepseek-v3, eq. 21].

    Its copy of the embedding and the head are left out.
    """
    h, last = model.hidden_size, model.kinds_of_layers()[-1]
    layer = layer_parameters(model.of_kind(last), moe=last.moe, local=last.local)
    return layer.total + 2 * h * h + MTP_NORMS * h


def num_parameters(model: ModelShape) -> ParameterCounts:
    """Parameter counts of the whole model; ``ParameterCounts`` has the conventions."""
    h = model.hidden_size
    embedding = model.vocab_size * h
    head = 0 if model.tied_embeddings else embedding
    layers = active = 0
    for kind, number in Counter(model.kinds_of_layers()).items():
        parts = layer_parameters(model.of_kind(kind), moe=kind.moe, local=kind.local)
        layers += number * parts.total
        active += number * parts.dense
        if kind.moe and model.moe is not None:
            active += number * parts.chosen_experts(model.moe)
    return ParameterCounts(
        total=layers + embedding + head + h,
        active=active + embedding + h,
        embedding=embedding,
        head=head,
        mtp=model.mtp_num_layers * mtp_parameters(model),
    )
