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
    fused, model = keys.has(Feature.FUSED_NORM), workload.model
    first, second = (np.where(fused & inside, 0.0, 1.0) for inside in norms_inside(workload, moe=moe, local=local))
    return first * model.has_mixer, second * model.has_mlp


def norms_inside(workload: Workload, *, moe: bool, local: bool = False) -> tuple[bool, bool]:
    """Whether the norm before attention, and the one before the MLP, is inside a linear layer where ``fused_norm`` is on."""
    inside, model = workload.software_traits.norms_inside_linears, workload.model
    latent = model.mla is not None and model.linear_attention(local=local) is None
    return inside and not latent, inside and not moe
