"""Layers of each virtual stage that recompute selected operators, as a plan by tensor, and back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from cost_models.shapes.recompute_modules import RecomputeModule
from cost_models.shapes.strategy import LayerLayout
from cost_models.shapes.tensors import LayerChoices, Tensor, TensorChoice, TensorPlan, TensorShare, choices_of

Counts = Sequence[Sequence[int]]  # of layers, [chunk][stage]
GATHERED = Tensor.GATHERED_INPUT
BY_MODULE = {
    RecomputeModule.LAYERNORM: Tensor.NORM_OUTPUT,
    RecomputeModule.MLP_ACT: Tensor.MLP_ACTIVATION,
    RecomputeModule.MLP: Tensor.MLP_HIDDEN | Tensor.MLP_ACTIVATION,
}
# What a dense layer that is recomputed whole does not keep; of the inputs of its norms it keeps the first alone.
WHOLE = Tensor.NORM_OUTPUT | GATHERED | Tensor.ROTARY_INPUTS | Tensor.QUERY_KEY_VALUE | Tensor.ATTENTION_OUTPUT | BY_MODULE[
    RecomputeModule.MLP
]  # fmt: skip


def plan_of(counts: Mapping[Tensor, Counts], layout: LayerLayout) -> TensorPlan:
    """The plan of a model of dense layers alone; each set of tensors has the first layers of a virtual stage."""
    return tuple(
        tuple(
            (_shares({tensors: rows[chunk][stage] for tensors, rows in counts.items()}, held),) for stage, held in enumerate(row)
        )
        for chunk, row in enumerate(layout)
    )


def _shares(counts: Mapping[Tensor, int], layers: int) -> LayerChoices:
    ends = sorted({min(count, layers) for count in counts.values() if count} | {layers})
    shares: list[TensorShare] = []
    for start, end in pairwise([0, *ends]):
        tensors = Tensor(0)
        for each, count in counts.items():
            tensors |= each if count > start else Tensor(0)
        shares.append(TensorShare(TensorChoice(tensors), end - start if end < layers else 0))
    return tuple(shares)


def is_selected(plan: TensorPlan) -> bool:
    """Whether it takes ``select_recompute`` by stage or ``select_comm_recompute`` to say the plan, of dense layers.

    Modules of all layers alike need no plan.
    """
    choices = set(choices_of(plan))
    named = all(not each.swap and (each.recompute == WHOLE or _named(each.recompute) is not None) for each in choices)
    unlike = len(choices) > 1 or any(GATHERED in each.recompute for each in choices)
    return named and unlike and all(_is_nested(stage) for row in plan for stage in row)


def _is_nested(stage: Sequence[LayerChoices]) -> bool:
    """Whether a virtual stage has one kind of layer, whose later layers recompute no more than those before."""
    if len(stage) != 1:
        return False
    tensors = [share.choice.recompute for share in stage[0]]
    return all(not later & ~former for former, later in pairwise(tensors))


def _named(tensors: Tensor) -> RecomputeModule | None:
    """The modules that recompute exactly these tensors, gathered ones aside; ``None`` if there are none."""
    found, left = RecomputeModule(0), tensors & ~GATHERED
    for module in (RecomputeModule.MLP, RecomputeModule.MLP_ACT, RecomputeModule.LAYERNORM):
        if left and BY_MODULE[module] & ~left == Tensor(0):
            found, left = found | module, left & ~BY_MODULE[module]
    return None if left else found


def counts_of_plan(plan: TensorPlan, layout: LayerLayout) -> tuple[dict[RecomputeModule, Counts], Counts, Counts]:
    """Layers by module, layers that gather their inputs again, and layers that are recomputed whole, ``[chunk][stage]`` each."""

    def rows(takes: Iterable[Tensor]) -> Counts:
        taken = set(takes)
        return [
            [_first_layers(choices, taken, layers) for (choices,), layers in zip(stages, row, strict=True)]
            for stages, row in zip(plan, layout, strict=True)
        ]

    sets = {choice.recompute for choice in choices_of(plan)}
    named = {tensors: _named(tensors) or RecomputeModule(0) for tensors in sets - {WHOLE}}
    modules = [module for module in BY_MODULE if any(module in found for found in named.values())]
    whole = {WHOLE} & sets
    by_module = {module: rows({tensors for tensors, found in named.items() if module in found} | whole) for module in modules}
    return by_module, rows({tensors for tensors in named if GATHERED in tensors} | whole), rows(whole)


def _first_layers(choices: LayerChoices, taken: set[Tensor], layers: int) -> int:
    """Number of layers from the first on whose choice is among ``taken``."""
    count = 0
    for choice, number in choices:
        if choice.recompute not in taken:
            break
        count += number or layers - count
    return count
