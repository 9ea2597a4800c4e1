"""Extra cost of 8- and 4-bit matmuls: their operands must first be scaled and cast."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from cost_models.layer.compute import ELEMENT_BYTES, Device, vector_s
from cost_models.layer.expert_rows import expert_rows
from cost_models.layer.linear_inputs import own_recipe
from cost_models.shapes.adapters import layer_rank_linears
from cost_models.shapes.layer_keys import Floats, LayerKeys
from cost_models.shapes.precision import QUANTISED_PRECISIONS
from cost_models.shapes.switches import Feature
from cost_models.shapes.workload import ModelShape, Workload

UNSTATED_BYTES = 6  # reads for the scale and for the cast, 2 each, and two copies
SHORTENING_BYTES = 3  # reads 16 bits and writes 8, or the reverse


def quantise_s(workload: Workload, keys: LayerKeys, device: Device, *, moe: bool, local: bool = False) -> tuple[Floats, Floats]:
    """Time to cast activations, and their gradients, for the linear layers of one layer and micro batch. [s] ``[k]``

    The forward casts the input of every linear layer and the backward the gradient of its output. Each cast includes the
    transpose that the backward matmuls need [transformer-engine]. Weights are cast once a step and not counted, but where every
    forward casts them (``SoftwareTraits.own_eight_bit_layers``). In 16 and 32 bits only ``fp8_activation_input`` casts.
    """
    linears = workload.training.precision in QUANTISED_PRECISIONS
    pairs = list(_linear_elements(workload, keys, moe=moe, local=local)) if linears else []
    each = device.constants.quantise_bytes * _of_unstated(workload)
    forward, backward = (sum((pair[i] for pair in pairs), np.zeros(len(keys.tp))) for i in (0, 1))
    if own_recipe(workload) is not None:
        forward = forward + sum(layer_rank_linears(workload.model, keys, moe=moe, local=local), np.zeros(len(keys.tp)))
    shortened = SHORTENING_BYTES * _shortened_elements(workload, keys, moe=moe)
    return vector_s(each * forward + shortened, device), vector_s(each * backward + shortened, device)


def _of_unstated(workload: Workload) -> float:
    """Traffic of a cast under the job's recipe over that of an unstated one, which ``quantise_bytes`` gives."""
    recipe = workload.training.recipe
    if recipe is None:
        return 1.0
    written = workload.operand_copies * (1.0 + recipe.scale_bytes)
    return (recipe.reads * ELEMENT_BYTES + written) / UNSTATED_BYTES


def _shortened_elements(workload: Workload, keys: LayerKeys, *, moe: bool) -> Floats:
    """Elements of the activation functions' inputs in one layer, if they are kept in 8 bits."""
    if not workload.model.gated_linear_unit:
        return np.zeros(len(keys.tp))
    entering = 2.0 * sum((channels for _, channels in _mlp_rows(workload, keys, moe=moe)), np.zeros(len(keys.tp)))
    shortened: Floats = np.where(keys.has(Feature.FP8_ACTIVATION_INPUT), entering, 0.0)
    return shortened


def _linear_elements(workload: Workload, keys: LayerKeys, *, moe: bool, local: bool) -> Iterator[tuple[Floats, Floats]]:
    """Elements of the input and of the output of each linear layer on a rank. Yields two ``[k]``."""
    model, training, t = workload.model, workload.training, keys.tp
    n, n_l, h = keys.tokens(training), keys.sharded_tokens(training), model.hidden_size
    yield from _attention_elements(model, n, n_l, np.asarray(t, dtype=np.float64), local=local)
    ways = 2 if model.gated_linear_unit else 1
    for rows, channels in _mlp_rows(workload, keys, moe=moe):
        yield rows * h, ways * channels
        yield channels, rows * h


def _mlp_rows(workload: Workload, keys: LayerKeys, *, moe: bool) -> Iterator[tuple[Floats, Floats]]:
    """Rows into each MLP of a layer (dense or shared, then routed experts), and elements after its activation, ``[k]`` each."""
    model, training = workload.model, workload.training
    shape = model.moe if moe else None
    width = model.ffn_hidden_size if shape is None else shape.shared_expert_ffn_hidden_size
    if width:
        yield keys.sharded_tokens(training), width * keys.tokens(training) / keys.tp
    if shape is not None:
        rows = expert_rows(keys, shape, training)
        yield rows, shape.expert_ffn_hidden_size / keys.etp * rows


def _attention_elements(model: ModelShape, n: Floats, n_l: Floats, t: Floats, *, local: bool) -> Iterator[tuple[Floats, Floats]]:
    """Elements of the input and of the output of each projection of attention. Yields two ``[k]``.

    Parameters
    ----------
    n : ``[k]``, tokens
    n_l : ``[k]``, tokens
        Between the tensor-parallel blocks.
    t : ``[k]``
        Tensor-parallel ranks.
    """
    h, heads, mla, linear = model.hidden_size, model.num_attention_heads, model.mla, model.linear_attention(local=local)
    if not model.has_mixer:
        return
    if linear is not None:
        yield n_l * h, 2 * (linear.query_key_width + linear.value_width) * n / t
        yield linear.value_width * n / t, n_l * h
        return
    if mla is None:
        d = model.kv_channels
        queries = heads * (2 if model.attention_output_gate else 1)
        yield n_l * h, (queries + 2 * np.maximum(model.num_query_groups, t)) * d * n / t
        yield heads * d * n / t, n_l * h
        return
    yield n_l * h, (mla.kv_lora_rank + mla.qk_rope_head_dim) * n_l
    yield mla.kv_lora_rank * n_l, heads * (mla.qk_nope_head_dim + mla.v_head_dim) * n / t
    if mla.q_lora_rank:
        yield n_l * h, mla.q_lora_rank * n_l
    yield (mla.q_lora_rank or h) * n_l, heads * mla.qk_head_dim * n / t
    yield heads * mla.v_head_dim * n / t, n_l * h
