"""Recompute modules that change nothing in a model's layers under its software."""

from __future__ import annotations

from cost_models.layer.lone_norms import norms_inside
from cost_models.shapes.recompute_modules import RecomputeModule
from cost_models.shapes.switches import Feature
from cost_models.shapes.workload import LayerKind, Workload


def idle_modules(workload: Workload, features: Feature) -> RecomputeModule:
    """The modules that no layer of the model repeats, if these switches are on.

    Recompute of norms leaves those inside linear layers as they are, and recompute of activation functions may be of routed
    experts alone [megatron-0.12, transformer_layer.py, experts.py].
    """
    found = RecomputeModule(0)
    if Feature.FUSED_NORM in features and not any(_has_lone_norm(workload, kind) for kind in workload.model.layer_kinds()):
        found |= RecomputeModule.LAYERNORM
    if workload.software_traits.recomputes_routed_activations and workload.model.moe is None:
        found |= RecomputeModule.MLP_ACT
    return found


def _has_lone_norm(workload: Workload, kind: LayerKind) -> bool:
    view = workload.of_kind(kind)
    before_mixer, before_mlp = norms_inside(view, moe=kind.moe, local=kind.local)
    return (view.model.has_mixer and not before_mixer) or (view.model.has_mlp and not before_mlp)
