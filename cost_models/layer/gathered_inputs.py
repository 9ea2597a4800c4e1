"""Linear layers that keep the input that sequence parallelism gathered for them, in place of a rank's part of it."""

from __future__ import annotations

import numpy as np

from cost_models.layer.expert_rows import routes_own_part
from cost_models.layer.linear_inputs import linear_input_bytes, own_recipe
from cost_models.shapes.layer_keys import Floats, LayerKeys
from cost_models.shapes.recompute_modules import RecomputeModule
from cost_models.shapes.switches import Feature
from cost_models.shapes.workload import Workload


def kept_gathers(workload: Workload, keys: LayerKeys, *, moe: bool, local: bool = False) -> tuple[Floats, Floats]:
    """Numbers (0 or 1) of inputs that are kept as gathered: of attention, and of an MLP. ``[k]`` each

    A recomputed MLP gathers its input again. Latents, and the input of experts, are taken to be gathered again but where each
    gather is an operator of its own: no source shows them in a compiled graph. Where a rank routes its own
    part, shared experts alone gather.
    """
    model, apart = workload.model, workload.software_traits.gathers_apart
    splits = (keys.sequence_parallel != 0) & (keys.tp > 1) & ~keys.has(Feature.TP_2D)
    keeps = apart or workload.software_traits.keeps_gathered_inputs or own_recipe(workload) is not None
    kept = splits & keeps & (not workload.training.task.is_frozen)
    first, second = kept & model.has_mixer, kept & model.has_mlp
    latent = model.mla is not None and bool(model.mla.q_lora_rank) and model.linear_attention(local=local) is None
    again = keys.recomputes(RecomputeModule.MOE if moe else RecomputeModule.MLP)
    if moe:
        shared = model.moe is not None and model.moe.shared_expert_ffn_hidden_size > 0
        copied = workload.software.newest_layers and not workload.software.torch_compile  # the router keeps an FP32 copy alone
        second = second & apart & (shared | ~(routes_own_part(workload, keys) | copied))
    mlp = second & ~again
    return (first & (apart or not latent)).astype(np.float64), mlp.astype(np.float64)


def gathered_input_bytes(workload: Workload, keys: LayerKeys, *, moe: bool, local: bool = False) -> Floats:
    """Bytes that a layer keeps of gathered inputs beyond the rank's own part, which counts as the norm's output. ``[k]``"""
    training, gathers = workload.training, sum(kept_gathers(workload, keys, moe=moe, local=local), np.zeros(len(keys.tp)))
    others = keys.tokens(training) - keys.sharded_tokens(training)
    return gathers * linear_input_bytes(workload) * workload.model.hidden_size * others
