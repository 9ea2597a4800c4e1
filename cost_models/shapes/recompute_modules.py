"""The parts of a layer that a selective recompute drops and computes again: one entry each.

An entry says which layers have the part and what recomputing it changes; the formulas are those of ``layer.activations`` (bytes)
and ``layer.costs`` (time), and tests hold them to the entry. Adding one is an entry and its formula (CONTRIBUTING.md).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntFlag, unique

from cost_models.shapes.workload import ModelShape


@dataclass(frozen=True)
class Module:
    """One entry. ``in_layer``: whether a layer of that model and kind (MoE or dense) has it.

    ``drops``: tensor classes of ``LayerActivations.saved`` that become smaller. ``whole``: all of an MLP or MoE block, so that
    what lies ``inside`` every such block needs no recompute of its own.
    """

    bit: int
    meaning: str
    source: str
    in_layer: Callable[[ModelShape, bool], bool]
    drops: frozenset[str]
    whole: bool
    inside: bool


_ENTRIES: list[Module] = []


def _module(
    bit: int,
    meaning: str,
    source: str,
    *,
    in_layer: Callable[[ModelShape, bool], bool],
    drops: set[str],
    whole: bool = False,
    inside: bool = False,
) -> int:
    _ENTRIES.append(Module(1 << bit, meaning, source, in_layer, frozenset(drops), whole, inside))
    return 1 << bit


@unique
class RecomputeModule(IntFlag):
    """The modules by name, as in jobs and run records."""

    CORE_ATTN = _module(
        0,
        "The core of attention: what is kept of its scores where no fused kernel computes them again anyway.",
        "[megatron-0.12, transformer_config.py]",
        in_layer=lambda model, moe: True,
        drops={"attention_scores"},
    )
    LAYERNORM = _module(
        1,
        "The norms: their outputs are computed again from the residual.",
        "[megatron-0.12, transformer_config.py]",
        in_layer=lambda model, moe: True,
        drops={"norm_output"},
    )
    MLP_ACT = _module(
        2,
        "The activation function of dense, routed and shared MLPs.",
        "[megatron-0.12, transformer_config.py]",
        in_layer=lambda model, moe: True,
        drops={"mlp", "routed_experts", "shared_experts"},
        inside=True,
    )
    MLA_UP_PROJ = _module(
        3,
        "The up-projections of latent attention, with the rotary positions.",
        "[megatron-0.12, transformer_config.py]",
        in_layer=lambda model, moe: model.mla is not None,
        drops={"attention"},
    )
    MLP = _module(
        4,
        "The whole dense MLP.",
        "[megatron-0.12, transformer_config.py]",
        in_layer=lambda model, moe: not moe,
        drops={"mlp"},
        whole=True,
    )
    MOE = _module(
        5,
        "The whole MoE block, its communication included.",
        "[megatron-0.12, transformer_config.py]",
        in_layer=lambda model, moe: moe,
        drops={"routed_experts", "shared_experts", "router"},
        whole=True,
    )


MODULES = {RecomputeModule(entry.bit): entry for entry in _ENTRIES}
if list(MODULES) != list(RecomputeModule):
    raise TypeError("every member of RecomputeModule is one entry: give it bit, meaning, source, in_layer and drops")


def _those(modules: list[RecomputeModule]) -> RecomputeModule:
    return RecomputeModule(sum(modules))


def present_modules(model: ModelShape) -> RecomputeModule:
    """The modules that some layer of the model has."""
    kinds = set(model.moe_layers())
    return _those([module for module, entry in MODULES.items() if any(entry.in_layer(model, kind) for kind in kinds)])


def effective_modules(model: ModelShape, modules: RecomputeModule) -> RecomputeModule:
    """Those of ``modules`` that change something: the model has them, and no block that is recomputed has them inside."""
    present = present_modules(model)
    blocks = _those([module for module, entry in MODULES.items() if entry.whole]) & present
    kept = modules & present
    return kept & ~_those([module for module, entry in MODULES.items() if entry.inside]) if kept & blocks == blocks else kept
