"""What files of frameworks can state of a plan by tensor: of all recompute and swap that they take, the fastest that fits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from cost_models.constants import Constants
from cost_models.shapes.canonical import canonical
from cost_models.shapes.recompute_modules import RecomputeModule, names_of, present_modules
from cost_models.shapes.strategy import ParallelStrategy, Recompute, RecomputeMethod, StrategyBatch
from cost_models.shapes.switches import Feature
from cost_models.shapes.tensors import TensorPlan, dropped, tensor_names
from cost_models.shapes.workload import Workload
from cost_models.step.composition import estimate
from cost_models.step.result import Estimate
from documents.sentences import Sentence, joined
from frameworks.framework import Framework
from frameworks.legality import legal_mask, violations
from frameworks.registry import FRAMEWORKS, parse_target
from frameworks.rule import layout_of
from frameworks.target import ANY
from search.plans.estimator import Estimator
from search.plans.plan import estimates_to_mappings, strategy_to_mapping
from search.tensor_choice.tensor_plan import keeping_all

SIMULATED = 4  # forms of a file, the fastest in closed form, whose step is simulated


@dataclass(frozen=True)
class Export:
    """The plan nearest to one by tensor that the file of a framework can state.

    ``difference_fraction`` is its step time over that of the plan in the same release, minus 1. ``replaced`` lists settings
    beside recompute and swap that are not as planned. ``launch`` has the arguments, as ``frameworks.launch``. Without a strategy
    ``why`` says what the framework refuses.
    """

    target: str
    why: str
    strategy: Mapping[str, Any] | None = None
    estimate: Mapping[str, Any] | None = None
    difference_fraction: float | None = None
    replaced: tuple[str, ...] = ()
    launch: Mapping[str, Any] | None = None

    def to_mapping(self) -> dict[str, Any]:
        """The record as JSON."""
        return {**vars(self), "replaced": list(self.replaced)}


class _Written(NamedTuple):
    """What a file states, and sentences on its settings beside recompute and swap."""

    strategy: ParallelStrategy
    replaced: tuple[str, ...]


def exports(workload: Workload, plan: ParallelStrategy, constants: Constants, simulate: Estimator) -> tuple[Export, ...]:
    """The export of a plan by tensor to each framework of the devices, or to the job's target alone.

    Prices are those of the job's stack, in the framework's release where the job states none.
    """
    wanted = parse_target(workload.software.target)
    family = workload.cluster.profile.family
    takers = [each for each in FRAMEWORKS if family in each.target.families and wanted.name in (ANY.name, each.target.name)]
    return tuple(_export(each, _of_release(each, workload), plan, constants, simulate) for each in takers)


def _of_release(framework: Framework, workload: Workload) -> Workload:
    """The workload with the date of the framework's release, as a job of its file has it."""
    software, target = workload.software, framework.target
    dated = software.year is None and target.year is not None and target.priced_as == software.stack
    return replace(workload, software=replace(software, year=target.year)) if dated else workload


def _export(
    framework: Framework, workload: Workload, plan: ParallelStrategy, constants: Constants, simulate: Estimator
) -> Export:
    label = framework.target.label
    if untold := framework.untold(workload):
        return Export(label, untold[0])
    found = nearest_by_tensor(framework, workload, plan, constants, simulate)
    if found is None:
        drafted = canonical(workload, framework.nearest(workload, keeping_all(plan))[0])
        broken = violations(workload, drafted, framework.target)
        reason: str = broken[0].sentence if broken else Sentence("no recompute or swap that it takes makes it fit")
        return Export(label, Sentence("{} takes nothing near it that fits: {}.", label, reason.rstrip(".")))
    own = canonical(workload, plan)
    batch = StrategyBatch.of([found.strategy, own])
    numbers, planned = estimates_to_mappings(workload, simulate(workload, batch, constants, breakdown=True))
    difference = numbers["step_time_s"] / planned["step_time_s"] - 1.0
    written = framework.write(workload, found.strategy)
    return Export(
        label,
        _why(label, found.strategy, difference, is_plan=found.strategy == own),
        strategy_to_mapping(workload, found.strategy),
        numbers,
        difference,
        found.replaced,
        {
            "target": label,
            "launchable": True,
            "arguments": list(written.arguments),
            "environment": dict(written.environment),
            "notes": list(written.notes),
            "rules": [],
        },
    )


def _why(label: str, stated: ParallelStrategy, difference: float, *, is_plan: bool) -> str:
    if is_plan:
        return Sentence("{} takes the plan as it is.", label)
    change = Sentence("{:.1%} longer", difference) if difference >= 0.0 else Sentence("{:.1%} shorter", -difference)
    return Sentence("{} cannot state this plan. Its file states {}; a step is {}.", label, _stated(stated), change)


def _stated(s: ParallelStrategy) -> str:
    """The recompute and swap of a file, in words."""
    modules = joined(" and ", names_of(s.recompute_modules))
    parts: list[str] = []
    if s.recompute is Recompute.FULL:
        layers = s.recompute_num_layers
        every = s.recompute_method is not RecomputeMethod.BLOCK
        some = Sentence("full recompute of {} layers of each virtual stage", layers)
        parts.append(Sentence("full recompute") if every else some)
    if modules:
        parts.append(Sentence("recompute of {} on all layers", modules))
    if s.tensor_plan is not None:
        again, moved = dropped(s.tensor_plan)
        parts += [Sentence("recompute of {} by layer", joined(" and ", tensor_names(again)))] * bool(again)
        parts += [Sentence("swap of {} on all layers", joined(" and ", tensor_names(moved)))] * bool(moved)
    if Feature.SWAP_ATTENTION in s.features:
        parts.append(Sentence("swap_attention"))
    return joined(", ", parts) if parts else Sentence("that all is kept")


def nearest_by_tensor(
    framework: Framework, workload: Workload, plan: ParallelStrategy, constants: Constants, simulate: Estimator
) -> _Written | None:
    """The plan itself, or else the fastest that fits of the structure with other recompute and swap; ``None`` without one.

    Where nothing fits beside the plan's switches, those give way that a form of recompute excludes.
    """
    own = canonical(workload, plan)
    if not violations(workload, own, framework.target):
        return _Written(own, ())
    drafted, replaced = framework.nearest(workload, keeping_all(plan))
    forms = [_Written(canonical(workload, form), replaced) for form in _forms(framework, workload, drafted)]
    found = _fastest(framework, workload, forms, constants, simulate)
    if found is not None:
        return found
    loose = []
    for form in forms:
        nearest, said = framework.nearest(workload, form.strategy)
        written = _Written(canonical(workload, nearest), tuple(dict.fromkeys((*replaced, *said))))
        if _dropped_by(written.strategy) == _dropped_by(form.strategy):  # else it is another form, under that one's recompute
            loose.append(written)
    return _fastest(framework, workload, loose, constants, simulate)


def _dropped_by(s: ParallelStrategy) -> tuple[RecomputeModule, Feature, TensorPlan | None]:
    """The modules that are recomputed, the swap, and the plan by tensor."""
    return s.recompute_modules, s.features & Feature.SWAP_ATTENTION, s.tensor_plan


def _forms(framework: Framework, workload: Workload, whole: ParallelStrategy) -> Iterator[ParallelStrategy]:
    """The strategy, which keeps everything, under each recompute and swap that the framework has words for."""
    modules = present_modules(workload.model) & ~framework.table.unnamed_modules
    names = [module for module in RecomputeModule if module in modules]
    most = max(map(max, layout_of(workload, whole)))
    for features in {whole.features, whole.features | (Feature.SWAP_ATTENTION & framework.table.offered)}:
        swapped = replace(whole, features=features)
        yield swapped
        for some in _subsets(names)[1:]:
            yield replace(swapped, recompute=Recompute.SELECTIVE, recompute_modules=some)
        blocks = [replace(swapped, recompute_method=RecomputeMethod.BLOCK, recompute_num_layers=n) for n in range(1, most + 1)]
        blocks += [replace(swapped, recompute_method=RecomputeMethod.UNIFORM, recompute_num_layers=1)]
        for some in _subsets([module for module in names if module in framework.table.module_switches]):
            yield from (replace(block, recompute=Recompute.FULL, recompute_modules=some) for block in blocks)
    yield from framework.by_tensor(workload, whole)


def _subsets(modules: list[RecomputeModule]) -> list[RecomputeModule]:
    """All sets of modules, the empty one first."""
    return [RecomputeModule(sum(some)) for size in range(len(modules) + 1) for some in combinations(modules, size)]


def _fastest(
    framework: Framework, workload: Workload, forms: list[_Written], constants: Constants, simulate: Estimator
) -> _Written | None:
    """The fastest legal form that fits, by simulation of those that are fastest in closed form."""
    fewest_last = sorted(forms, key=lambda form: -len(form.replaced))
    unlike = list({form.strategy: form for form in fewest_last}.values())
    legal = np.flatnonzero(legal_mask(workload, StrategyBatch.of([form.strategy for form in unlike]), framework.target))
    taken = [unlike[row] for row in legal.tolist()]
    if not taken:
        return None
    rough = estimate(workload, StrategyBatch.of([form.strategy for form in taken]), constants)
    fitting = np.flatnonzero(rough.fits)
    first = fitting[np.argsort(rough.step_time_s[fitting], kind="stable")][:SIMULATED].tolist()
    if not first:
        return None
    played: Estimate = simulate(workload, StrategyBatch.of([taken[row].strategy for row in first]), constants)
    best: int = first[int(np.argmin(played.step_time_s))]
    return taken[best]
