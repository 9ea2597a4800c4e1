"""Numbers of layers whose norms and activation functions MindSpeed recomputes, as a plan by tensor, and back.

``--recompute-norm-num-layers`` and ``--recompute-activation-function-num-layers`` count the first layers of every virtual stage,
the same on all of them [mindspeed, model/transformer.py; mindspeed-llm, mlp.py].
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from cost_models.shapes.strategy import LayerLayout, ParallelStrategy, StrategyBatch
from cost_models.shapes.switches import Feature
from cost_models.shapes.tensors import (
    LayerChoices,
    Tensor,
    TensorChoice,
    TensorPlan,
    TensorShare,
    dropped,
    drops_nothing,
    share_ends,
)
from cost_models.shapes.workload import LayerKind, ModelShape, Workload
from documents.sentences import Sentence
from frameworks.model_facts import Arguments
from frameworks.physics.memory import dropped_names
from frameworks.rule import Mask, Rule, layout_of, rules_in

NORMS, ACTIVATIONS = "recompute-norm", "recompute-activation-function"
NUMBERS = {NORMS: "recompute-norm-num-layers", ACTIVATIONS: "recompute-activation-function-num-layers"}
OF_NORMS = Tensor.NORM_OUTPUT
OF_ACTIVATIONS = Tensor.MLP_ACTIVATION | Tensor.EXPERT_ACTIVATION | Tensor.SHARED_ACTIVATION


def _of_kind(model: ModelShape, kind: LayerKind, tensors: Tensor) -> Tensor:
    """Those of the tensors that layers of a kind have."""
    if not kind.moe:
        return tensors & (OF_NORMS | Tensor.MLP_ACTIVATION)
    shared = model.moe is not None and model.moe.shared_expert_ffn_hidden_size > 0
    return tensors & (OF_NORMS | Tensor.EXPERT_ACTIVATION | (Tensor.SHARED_ACTIVATION if shared else Tensor(0)))


def plan_of(model: ModelShape, layout: LayerLayout, norms: int, activations: int) -> TensorPlan:
    """The plan in which the first ``norms`` layers of a virtual stage recompute norms, the first ``activations`` theirs."""
    kinds, plan, first = model.kinds_of_layers(), [], 0
    for row in layout:
        stages = []
        for layers in row:
            held = kinds[first : first + layers]
            first += layers
            stages.append(tuple(_shares(model, kind, held, norms, activations) for kind in model.layer_kinds()))
        plan.append(tuple(stages))
    return tuple(plan)


def _shares(model: ModelShape, kind: LayerKind, held: Sequence[LayerKind], norms: int, activations: int) -> LayerChoices:
    choices = [
        _of_kind(model, kind, (OF_NORMS if place < norms else Tensor(0)) | (OF_ACTIVATIONS if place < activations else Tensor(0)))
        for place, each in enumerate(held)
        if each == kind
    ]
    runs = [(TensorChoice(tensors), len(list(run))) for tensors, run in groupby(choices)] or [(TensorChoice(), 0)]
    return tuple(TensorShare(choice, number if place + 1 < len(runs) else 0) for place, (choice, number) in enumerate(runs))


def numbers_of(model: ModelShape, layout: LayerLayout, plan: TensorPlan) -> tuple[int, int] | None:
    """The layers of a virtual stage that recompute norms and activations under a plan; ``None`` if they do not say it."""
    again, moved = dropped(plan)
    if moved or again & ~(OF_NORMS | OF_ACTIVATIONS):
        return None
    found = [0, 0]
    kinds, first = model.kinds_of_layers(), 0
    for row, stages in zip(layout, plan, strict=True):
        for layers, choices in zip(row, stages, strict=True):
            held = kinds[first : first + layers]
            first += layers
            for number, tensors in enumerate((OF_NORMS, OF_ACTIVATIONS)):
                taken = [bool(tensors & choice.recompute) for choice in _in_order(model, held, choices)]
                found[number] = max(found[number], taken.index(False) if False in taken else len(taken))
    norms, activations = found
    return (norms, activations) if plan_of(model, layout, norms, activations) == plan else None


def _in_order(model: ModelShape, held: Sequence[LayerKind], choices: Sequence[LayerChoices]) -> list[TensorChoice]:
    """The choice of each layer of a virtual stage."""
    of_kind = {}
    for kind, shares in zip(model.layer_kinds(), choices, strict=True):
        ends = share_ends(shares, list(held).count(kind))
        of_kind[kind] = iter([choice for choice, start, end in ends for _ in range(start, end)])
    return [next(of_kind[kind], TensorChoice()) for kind in held]


def arguments_of(workload: Workload, s: ParallelStrategy) -> Arguments:
    """Arguments that say a strategy's plan."""
    layout = layout_of(workload, s)
    numbers = None if s.tensor_plan is None else numbers_of(workload.model, layout, s.tensor_plan)
    if numbers is None:
        return {}
    most = max(map(max, layout))
    written: Arguments = {}
    for name, layers in zip((NORMS, ACTIVATIONS), numbers, strict=True):
        written |= {name: ()} if layers else {}
        written |= {NUMBERS[name]: layers} if 0 < layers < most else {}
    return written


def forms(workload: Workload, whole: ParallelStrategy) -> Iterator[ParallelStrategy]:
    """A strategy that keeps everything, under each number of layers of one part, beside none or all of the other."""
    layout = layout_of(workload, whole)
    most = max(map(max, layout))
    for some, other in ((layers, other) for layers in range(1, most) for other in (0, most)):
        for norms, activations in ((some, other), (other, some)):
            plan = plan_of(workload.model, layout, norms, activations)
            if not drops_nothing(plan):
                yield replace(whole, tensor_plan=plan)


def is_counted(model: ModelShape, s: ParallelStrategy) -> bool:
    """Whether numbers of layers mean what a plan says.

    They do not in a V, whose no-op layers come first and are counted, nor where merged passes recompute norms themselves, nor
    with layers that predict further tokens, which have numbers of their own.
    """
    merged = Feature.MOE_COMM_OVERLAP in s.features and model.moe is not None
    return not (s.schedule.rules.is_vee or merged or model.mtp_num_layers)


def _refused(workload: Workload, batch: StrategyBatch) -> Mask:
    mask: Mask = batch.tensor_plan_index >= 0
    model, frozen = workload.model, workload.training.task.is_frozen
    for row in mask.nonzero()[0].tolist():
        s = batch.row(row)
        plan = s.tensor_plan or ()
        if not frozen and is_counted(model, s) and not s.recompute_modules and [len(stages) for stages in plan] == [s.pp] * s.vpp:
            numbers = numbers_of(model, layout_of(workload, s), plan)
            mask[row] = numbers is None or (numbers[0] > 0 and model.sandwich_norm)
    return mask


def _sentence(_workload: Workload, s: ParallelStrategy) -> str:
    return Sentence(
        "tensor_plan drops {} by virtual stage: MindSpeed-LLM takes modules, and numbers of layers of every virtual stage whose "
        "norms and activation functions are recomputed",
        dropped_names(s),
    )


TENSOR_PLAN = Rule(
    "mindspeed_tensor_plan",
    "[mindspeed, model/transformer.py; mindspeed-llm, mlp.py]",
    Sentence(
        "tensor_plan recomputes norms and activation functions of the first layers of every virtual stage, as many on each, "
        "without other recompute, moe_comm_overlap, dualpipev, multi-token-prediction layers and adapters"
    ),
    _refused,
    _sentence,
    reads_placement=True,
)

RULES = rules_in(globals())
