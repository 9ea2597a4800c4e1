"""Norms of a layer that stand alone, so that a recompute of norms runs them again."""

from __future__ import annotations

import numpy as np

from cost_models.shapes.layer_keys import Floats, LayerKeys
from cost_models.shapes.switches import Feature
from cost_models.shapes.workload import Workload


def lone_norms(workload: Workload, keys: LayerKeys, *, moe: bool, local: bool = False) -> tuple[Floats, Floats]:
    """Whether the norm before attention, and the one before the MLP, stands alone: 1 or 0, ``[k]`` each.

    Transformer Engine's linear layer contains the norm before it, which keeps its output whatever is recomputed. Norms before
    latent attention and before experts feed several layers and stand alone [megatron-0.12, gpt_layer_specs.py,
    transformer_layer.py]. Other stacks contain none. A block that the layer lacks has no norm.
    """
    inside = keys.has(Feature.FUSED_NORM) & workload.software_traits.norms_inside_linears
    model = workload.model
    latent = model.mla is not None and model.linear_attention(local=local) is None
    first, second = np.where(inside & (not latent), 0.0, 1.0), np.where(inside & (not moe), 0.0, 1.0)
    return first * model.has_mixer, second * model.has_mlp
