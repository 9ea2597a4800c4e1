"""The tensor plan of a strategy, from the job document."""

from __future__ import annotations

from functools import reduce
from operator import or_

from app.jobs.fields import StrategySection, TensorSections
from cost_models.shapes.layout import stage_table
from cost_models.shapes.strategy import ParallelStrategy
from cost_models.shapes.tensors import (
    KEEP_ALL,
    TENSOR_NAMES,
    LayerChoices,
    Tensor,
    TensorChoice,
    TensorPlan,
    TensorShare,
    drops_nothing,
)
from cost_models.shapes.workload import ModelShape
from documents.errors import InputError
from documents.sentences import Sentence
from frameworks.rule import either


def tensor_plan_of(
    given: list[list[dict[str, TensorSections]]], section: StrategySection, model: ModelShape
) -> TensorPlan | None:
    """The plan of a strategy section; ``None`` where it drops nothing.

    Raises ``InputError`` for another number of virtual stages, a kind of layer that the model lacks, and shares that leave open
    which layers take them.
    """
    if [len(row) for row in given] != [section.pp] * section.vpp:
        raise InputError(
            Sentence(
                "strategy.tensor_plan: has {} chunks of {} stages at most; give vpp {} lists of pp {} virtual stages.",
                len(given),
                max(map(len, given)),
                section.vpp,
                section.pp,
            )
        )
    kinds = {kind.label: number for number, kind in enumerate(model.layer_kinds())}
    plan = []
    for chunk, row in enumerate(given):
        stages = []
        for stage, named in enumerate(row):
            choices = [KEEP_ALL] * len(kinds)
            for name, tensors in named.items():
                if name not in kinds:
                    raise InputError(
                        Sentence(
                            "strategy.tensor_plan[{}][{}]: {} has no {!r} layers; give {}.",
                            chunk,
                            stage,
                            model.name,
                            name,
                            either(list(kinds)),
                        )
                    )
                choices[kinds[name]] = _layer_choices(tensors, _field(chunk, stage, name))
            stages.append(tuple(choices))
        plan.append(tuple(stages))
    return None if drops_nothing(tuple(plan)) else tuple(plan)


def check_shares(strategy: ParallelStrategy, model: ModelShape) -> None:
    """``InputError`` where a list of choices names more layers than its virtual stage has of the kind."""
    if strategy.tensor_plan is None:
        return
    table = stage_table(model, strategy.pp, strategy.vpp, strategy.layer_layout, strategy.schedule)
    for chunk, row in enumerate(strategy.tensor_plan):
        for stage, choices in enumerate(row):
            for kind, (label, shares) in enumerate(zip(model.layer_kinds(), choices, strict=True)):
                named, held = sum(share.num_layers for share in shares), int(table.layers[kind, stage, chunk])
                if named > held:
                    where = _field(chunk, stage, label.label)
                    raise InputError(
                        Sentence("{}: names {:,} layers, and the virtual stage has {:,}; give fewer.", where, named, held)
                    )


def _field(chunk: int, stage: int, kind: str) -> str:
    return f"strategy.tensor_plan[{chunk}][{stage}].{kind}"


def _layer_choices(given: TensorSections, name: str) -> LayerChoices:
    shares = given if isinstance(given, list) else [given]
    if any((share.layers is None) == (share is not shares[-1]) for share in shares):
        raise InputError(
            Sentence("{}.layers: give it for every choice of a list but the last, which all other layers of the kind take.", name)
        )
    return tuple(
        TensorShare(
            TensorChoice(
                *(reduce(or_, (TENSOR_NAMES[one] for one in names), Tensor(0)) for names in (share.recompute, share.swap))
            ),
            share.layers or 0,
        )
        for share in shares
    )
