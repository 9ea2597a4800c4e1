"""The parts of a layer that selective recompute drops and computes again, one entry each.

An entry says which layers have the part and what recomputing it changes. The formulas are in ``layer.activations`` (bytes),
``layer.modules`` (time) and ``layer.costs`` (communication); tests check them against the entry. A new module needs an entry
and its formula (CONTRIBUTING.md).
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntFlag, unique

from cost_models.shapes.workload import ModelShape
from documents.late_methods import dataclass
from documents.sentences import Sentence


@dataclass(frozen=True)
class Module:
    """One recomputable part. ``in_layer``: whether a layer of that model (a view of its kind) has it, MoE or dense.

    ``drops``: tensor classes of ``LayerActivations.saved`` that become smaller. ``whole``: it covers a whole MLP or MoE block, so
    the parts ``inside`` every such block need no separate recompute.
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
    in_layer: Callable[[ModelShape, bool], bool],
    *drops: str,
    source: str,
    meaning: str,
    whole: bool = False,
    inside: bool = False,
) -> int:
    _ENTRIES.append(Module(1 << bit, Sentence.whole(meaning), source, in_layer, frozenset(drops), whole, inside))
    return 1 << bit


def _every_layer(model: ModelShape, moe: bool) -> bool:
    return True


def _counts_matmuls(model: ModelShape, moe: bool) -> bool:
    """Whether a layer runs plain matmuls for attention and then a gated MLP or experts, without biases."""
    plain = model.sparse_attention is None and not model.hybrid_layer_pattern
    plain = plain and all(model.linear_attention(local=kind.local) is None for kind in model.layer_kinds())
    biased = (
        model.attention_bias
        or model.constants.attention_output_bias
        or (moe and model.moe is not None and model.moe.expert_biases)
    )
    return plain and model.has_mixer and model.has_mlp and model.gated_linear_unit and not (biased or model.attention_output_gate)


@unique
class RecomputeModule(IntFlag):
    """The recomputable parts by name, as in jobs and run records."""

    # fmt: off
    CORE_ATTN = _module(0, lambda model, moe: model.has_mixer, "attention_scores",
        source="[megatron-0.12, transformer_config.py]",
        meaning="The core of attention: what is kept of its scores where no fused kernel computes them again anyway.")
    LAYERNORM = _module(1, _every_layer, "norm_output",
        source="[megatron-0.12, transformer_config.py]",
        meaning="The norms: their outputs are computed again from the residual.")
    MLP_ACT = _module(2, lambda model, moe: model.has_mlp, "mlp", "routed_experts", "shared_experts", inside=True,
        source="[megatron-0.12, transformer_config.py]",
        meaning="The activation function of dense, routed and shared MLPs.")
    MLA_UP_PROJ = _module(3, lambda model, moe: model.mla is not None and model.has_mixer, "attention",
        source="[megatron-0.12, transformer_config.py]",
        meaning="The up-projections of latent attention, with the rotary positions.")
    MLP = _module(4, lambda model, moe: model.has_mlp and not moe, "mlp", whole=True,
        source="[megatron-0.12, transformer_config.py]",
        meaning="The whole dense MLP.")
    MOE = _module(5, lambda model, moe: moe, "routed_experts", "shared_experts", "router", whole=True,
        source="[megatron-0.12, transformer_config.py]",
        meaning="The whole MoE block, its communication included.")
    EVERY_OTHER_MATMUL = _module(6, _counts_matmuls,
        "residual", "norm_output", "attention", "mlp", "routed_experts", "shared_experts", "router",
        source="[torchtitan-0.2, activation_checkpoint.py:51]",
        meaning="The whole layer, but for what fused attention, every other plain matmul and reduce-scatters make. "
        "It stands alone.")
    # fmt: on


MODULES = {RecomputeModule(entry.bit): entry for entry in _ENTRIES}
MODULE_NAMES = {str(module.name).lower(): module for module in RecomputeModule}
if list(MODULES) != list(RecomputeModule):
    raise TypeError("every member of RecomputeModule is one entry: give it bit, in_layer, drops, source and meaning")


def _those(modules: list[RecomputeModule]) -> RecomputeModule:
    return RecomputeModule(sum(modules))


def repeats_exchange(model: ModelShape) -> RecomputeModule:
    """The modules whose recompute sends tokens to their experts once more.

    Of layers with latent attention, checkpoints by operator keep what was exchanged
    [torchtitan-0.2, models/deepseek_v3/infra/parallelize.py:38].
    """
    return RecomputeModule.MOE | (RecomputeModule(0) if model.mla is not None else RecomputeModule.EVERY_OTHER_MATMUL)


def names_of(modules: RecomputeModule) -> tuple[str, ...]:
    """The names of a set of modules, in the order of the entries."""
    return tuple(name for name, module in MODULE_NAMES.items() if module in modules)


def present_modules(model: ModelShape) -> RecomputeModule:
    """The modules that at least one layer of the model has."""
    views = [(model.of_kind(kind), kind.moe) for kind in model.layer_kinds()]
    return _those([module for module, entry in MODULES.items() if any(entry.in_layer(*view) for view in views)])


def effective_modules(model: ModelShape, modules: RecomputeModule) -> RecomputeModule:
    """The ``modules`` that have an effect: the model has them, and no recomputed block already contains them."""
    present = present_modules(model)
    blocks = _those([module for module, entry in MODULES.items() if entry.whole]) & present
    kept = modules & present
    return kept & ~_those([module for module, entry in MODULES.items() if entry.inside]) if kept & blocks == blocks else kept
