"""The baseline: the plan to beat, to measure the gain of a search.

It is the recipe that a vendor publishes for the job, if there is one that runs; otherwise the plan that an engineer would try
first.

Rule of thumb of [narayanan2021, takeaways 1 to 3]: as little model parallelism (tp pp) as fits, tensor parallelism up to a node
before pipeline stages, the rest data parallel. Here with full recompute, micro batch size 1 and no virtual stages. Experts are
spread over as few ranks as fit, at least over a node where there are that many.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from cost_models.constants import Constants
from cost_models.shapes.strategy import CpAlgo, Dispatcher, ParallelStrategy, StrategyBatch
from cost_models.shapes.switches import DEFAULT_FEATURES, Feature
from cost_models.shapes.workload import Workload
from cost_models.step.composition import fitting_rows
from frameworks.legality import violations
from frameworks.registry import usual_cp_algo
from search.space.enumeration import Rejections, charge_illegal, chunks, option_rules, placement_rules
from search.space.limits import Range, SearchLimits
from search.space.recompute_modes import recompute_mode
from search.space.search_space import search_space


@dataclass(frozen=True)
class PublishedPlan:
    """The plan of a vendor's recipe in a job, and what it was published for, with its source."""

    strategy: ParallelStrategy
    vendor: str
    title: str
    source: str
    date: str
    num_devices: int
    seq_length: int
    global_batch_size: int

    def publication(self) -> dict[str, str | int]:
        """What is published, and where."""
        return {name: value for name, value in vars(self).items() if name != "strategy"}

    def is_of(self, workload: Workload) -> bool:
        """Whether the recipe is for the job's number of devices and sequence length."""
        return (self.num_devices, self.seq_length) == (workload.cluster.num_devices, workload.training.seq_length)


def published_baseline(workload: Workload, constants: Constants, found: Sequence[PublishedPlan]) -> PublishedPlan | None:
    """The first plan that is legal and fits; of those published for this very size, a price that does not fit may be wrong."""
    for plan in found:
        if violations(workload, plan.strategy):
            continue
        if plan.is_of(workload) or len(fitting_rows(workload, StrategyBatch.of([plan.strategy]), constants)):
            return plan
    return None


def baseline_limits(workload: Workload) -> SearchLimits:
    """The limits of the space that holds the baseline."""
    num_devices, node = workload.cluster.num_devices, workload.cluster.profile.devices_per_node
    depths = (1 << exponent for exponent in range(min(workload.model.num_layers, num_devices).bit_length()))
    return SearchLimits(
        tp=Range(max=node),
        pp=tuple(pp for pp in depths if num_devices % pp == 0),
        vpp=(1,),
        etp=(1,),
        micro_batch_size=(1,),
        cp_algo=tuple(dict.fromkeys((CpAlgo.ULYSSES, usual_cp_algo(workload.software.target)))),
        dispatcher=(Dispatcher.ALLTOALL,) if workload.model.moe else None,
        recompute=(recompute_mode("full"),),
        switches={Feature.SWAP_OPTIMIZER: (False,)},
    )


def default_baseline(workload: Workload, constants: Constants) -> ParallelStrategy | None:
    """The first plan, by the rule of thumb, that is legal and fits; ``None`` if none does."""
    space = search_space(workload, baseline_limits(workload))
    space = replace(space, wanted=space.wanted & DEFAULT_FEATURES)
    node = workload.cluster.profile.devices_per_node
    best: tuple[tuple[int, ...], ParallelStrategy] | None = None
    for chunk in chunks(workload, space, Rejections()):
        rules = (*option_rules(workload), *placement_rules(workload))  # rules for the default placement
        legal = charge_illegal(workload, chunk.batch, rules, Rejections())
        if not len(legal):
            continue
        fitting = legal.take(fitting_rows(workload, legal, constants))
        if not len(fitting):
            continue
        far = np.maximum(fitting.ep - node, 0)
        near = np.maximum(node - fitting.ep, 0)
        keys = (fitting.cp, far, fitting.tp * fitting.pp, fitting.pp, near)
        row = int(np.lexsort(keys[::-1])[0])
        key = tuple(int(column[row]) for column in keys)
        if best is None or key < best[0]:
            best = (key, fitting.row(row))
    return best[1] if best else None
