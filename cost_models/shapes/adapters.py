"""Low-rank adapters of a layer: their matrices, how tensor parallelism divides them, and how many parameters they have."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from cost_models.shapes.layer_keys import Floats, LayerKeys
from cost_models.shapes.parameters import layer_parameters
from cost_models.shapes.strategy import StrategyBatch
from cost_models.shapes.training_task import ADAPTED_MODULES, Adapters, Target
from cost_models.shapes.workload import ModelShape, Workload
from documents.late_methods import dataclass


@dataclass(frozen=True)
class AdaptedLinear:
    """One linear layer with an adapter, by the name of ``ADAPTED_MODULES``: channels in and out before any sharding.

    ``experts``: the layers of all routed experts, of one of which these are the channels. ``enters``: its input is whole on each
    tensor-parallel rank and its output divided, else the reverse. ``divided``: tensor parallelism divides it at all.
    """

    module: str
    inner: int
    outer: int
    enters: bool
    experts: bool = False
    divided: bool = True

    @property
    def target(self) -> Target:
        """Its place in the layer."""
        return ADAPTED_MODULES[self.module]


def adapted_linears(model: ModelShape, adapters: Adapters, *, moe: bool) -> Iterator[AdaptedLinear]:
    """The linear layers of one layer with adapters. The model has no linear attention.

    Megatron joins queries, keys and values, and gate and up projection [megatron-0.12, attention.py; mlp.py].
    """
    h, mla, shape = model.hidden_size, model.mla, model.moe if moe else None
    ways = 2 if model.gated_linear_unit else 1
    found = []
    if mla is None:
        width, keys = model.num_attention_heads * model.kv_channels, model.num_query_groups * model.kv_channels
        queries = 2 * width if model.attention_output_gate else width
        channels = {"linear_qkv": queries + 2 * keys, "q_proj": queries, "k_proj": keys, "v_proj": keys}
        found += [AdaptedLinear(name, h, outer, True) for name, outer in channels.items()]
    else:
        queries = mla.q_lora_rank or model.num_attention_heads * mla.qk_head_dim
        width = model.num_attention_heads * mla.v_head_dim
        found.append(AdaptedLinear("linear_qkv", h, queries + mla.kv_lora_rank + mla.qk_rope_head_dim, True, divided=False))
    found += [AdaptedLinear(name, width, h, False) for name in ("linear_proj", "o_proj")]
    mlps = [(model.ffn_hidden_size, False)]
    if shape is not None:
        mlps = [(shape.shared_expert_ffn_hidden_size, False), (shape.expert_ffn_hidden_size, True)]
    for width, experts in mlps:
        if width:
            channels = {"linear_fc1": ways * width, "gate_proj": (ways - 1) * width, "up_proj": width}
            found += [AdaptedLinear(name, h, outer, True, experts) for name, outer in channels.items() if outer]
            found += [AdaptedLinear(name, width, h, False, experts) for name in ("linear_fc2", "down_proj")]
    return (linear for linear in found if linear.module in adapters.modules)


def active_adapter_parameters(model: ModelShape, adapters: Adapters, *, moe: bool) -> int:
    """Parameters of adapters that one token passes in a layer."""
    top_k = model.moe.top_k if model.moe is not None else 1
    return sum(
        (top_k if linear.experts else 1) * adapters.rank * (linear.inner + linear.outer)
        for linear in adapted_linears(model, adapters, moe=moe)
    )


def adapter_parameters(workload: Workload, adapters: Adapters, *, moe: bool) -> int:
    """Parameters of all adapters of a layer before any sharding; experts that share an adapter count it once."""
    shape = workload.model.moe
    experts = 1 if shape is None or workload.software_traits.shares_expert_adapters else shape.num_experts
    return sum(
        (experts if linear.experts else 1) * adapters.rank * (linear.inner + linear.outer)
        for linear in adapted_linears(workload.model, adapters, moe=moe)
    )


def matrices(workload: Workload, linear: AdaptedLinear, rows: StrategyBatch | LayerKeys) -> tuple[Floats, Floats]:
    """Elements of A and of B of one adapter on a rank, ``[n]`` or ``[k]`` like ``rows``.

    Megatron Bridge divides both, a layer that tensor parallelism does not divide too [megatron-bridge, peft/utils.py]. PEFT
    divides the side that the layer itself divides, and every rank holds the other [peft, tp_layer.py].
    """
    adapters = workload.training.task.adapters
    assert adapters is not None
    ranks = (rows.etp if linear.experts else rows.tp).astype(np.float64)
    both, one = workload.software_traits.splits_adapters, float(linear.divided)
    entering = np.where(both, ranks, 1.0 if linear.enters else ranks**one)
    leaving = np.where(both, ranks, ranks**one if linear.enters else 1.0)
    return adapters.rank * linear.inner / entering, adapters.rank * linear.outer / leaving


def adapter_copies(workload: Workload, linear: AdaptedLinear, rows: StrategyBatch | LayerKeys) -> Floats:
    """Adapters of a layer on a rank: one for each expert that the rank has, or one that they share. ``[n]`` or ``[k]``

    Megatron Bridge shares one by default [megatron-bridge, peft/lora.py]; MindSpeed-LLM has one each
    [mindspeed-llm, lora/moe/experts.py].
    """
    one = np.ones(len(rows.tp))
    if not linear.experts or workload.software_traits.shares_expert_adapters or workload.model.moe is None:
        return one
    return workload.model.moe.num_experts / rows.ep * one


def adapter_rank_parameters(workload: Workload, rows: StrategyBatch | LayerKeys, *, moe: bool) -> tuple[Floats, Floats, Floats]:
    """Adapter parameters of one layer on one rank: of dense layers, of routed experts, and of the largest matrix.

    ``[n]`` or ``[k]`` like ``rows``; not yet sharded over data parallel.
    """
    dense = experts = largest = np.zeros(len(rows.tp))
    adapters = workload.training.task.adapters
    assert adapters is not None
    for linear in adapted_linears(workload.model, adapters, moe=moe):
        first, second = matrices(workload, linear, rows)
        copies = adapter_copies(workload, linear, rows)
        if linear.experts:
            experts = experts + copies * (first + second)
        else:
            dense = dense + copies * (first + second)
        largest = np.maximum(largest, copies * np.maximum(first, second))
    return dense, experts, largest


def trained_rank_parameters(
    workload: Workload, rows: StrategyBatch | LayerKeys, layer: tuple[Floats, Floats], *, moe: bool
) -> tuple[Floats, Floats]:
    """Dense and routed-expert parameters of one layer on one rank that are trained, ``[n]`` or ``[k]`` like ``rows``.

    Parameters
    ----------
    layer : ``[n]`` or ``[k]``
        All its parameters, from ``layer_rank_parameters``.
    """
    return layer if not workload.training.task.is_frozen else adapter_rank_parameters(workload, rows, moe=moe)[:2]


def layer_rank_linears(
    model: ModelShape, rows: StrategyBatch | LayerKeys, *, moe: bool, local: bool = False
) -> tuple[Floats, Floats]:
    """Parameters of one layer on one rank that a base precision applies to: of attention and MLPs, and of routed experts.

    ``[n]`` or ``[k]`` like ``rows``.
    """
    parts = layer_parameters(model, moe=moe, local=local)
    latent = parts.attention_replicated if model.mla is not None else 0
    dense = (parts.attention_sharded + parts.mlp + parts.shared_experts) / rows.tp + latent
    return dense, parts.experts / (rows.ep * rows.etp)
