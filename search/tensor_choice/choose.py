"""The tensor plan of a strategy: what every virtual stage computes again or moves to the host so that all ranks fit."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from cost_models.constants import Constants
from cost_models.layer.activations import LayerActivations
from cost_models.layer.tensors import TensorCosts
from cost_models.memory.room import Room, room
from cost_models.pipeline.stages import by_rank
from cost_models.shapes.recompute_modules import RecomputeModule
from cost_models.shapes.strategy import IntColumn, ParallelStrategy, Recompute, RecomputeMethod, StrategyBatch
from cost_models.shapes.switches import Feature
from cost_models.shapes.tensors import TensorChoice, TensorPlan
from cost_models.shapes.workload import Workload
from cost_models.step.chosen_tensors import tensors_by_kind
from cost_models.step.group_memory import group_memory
from cost_models.step.priced_groups import PricedGroup, priced_batch
from search.tensor_choice.frontier import Options, layer_options, stage_options
from search.tensor_choice.solver import Chosen, Limits, cheapest

SAVES_OTHERWISE = Feature.SWAP_ATTENTION | Feature.MOE_ZERO_MEMORY  # switches in whose place tensors are chosen


@dataclass(frozen=True)
class TensorAnswer:
    """A strategy with its tensor plan, or without one where it fits as it is.

    ``added_s`` ``[chunk][stage]`` is what the plan adds to a micro batch on each virtual stage; together they are no more than
    ``gap_s`` above what any plan that fits must add.
    """

    strategy: ParallelStrategy
    added_s: tuple[tuple[float, ...], ...]
    gap_s: float


def keeping_all(strategy: ParallelStrategy) -> ParallelStrategy:
    """The strategy with nothing recomputed and no activation moved to the host."""
    return replace(
        strategy,
        recompute=Recompute.NONE,
        recompute_method=RecomputeMethod.NONE,
        recompute_num_layers=0,
        recompute_modules=RecomputeModule(0),
        recompute_layers_per_stage=None,
        tensor_plan=None,
        features=strategy.features & ~SAVES_OTHERWISE,
    )


def with_tensors(workload: Workload, strategy: ParallelStrategy, constants: Constants) -> TensorAnswer | None:
    """The strategy under the tensor plan of least time that fits; ``None`` where no choice of tensors makes it fit.

    Least is what all virtual stages of a rank take more for a micro batch, rank by rank. Recompute and swap that the strategy has
    are left out first.
    """
    whole = keeping_all(strategy)
    priced = priced_batch(workload, StrategyBatch.of([whole]), constants)
    ((_, group),) = priced.groups(merge=False, tables=True)
    memory = group_memory(workload, group, constants, breakdown=True)
    args = group.num_microbatches, group.priced.activations, group.sharded.parameters, memory, constants
    space = room(workload, group.stages, group.batch, *args)
    tensors = tensors_by_kind(workload, group.batch, priced.device, priced.network)
    found = _Pipeline(group, space).solved(tensors, group.priced.activations)
    if found is None:
        return None
    plan, seconds, gap_s = found
    nothing = all(choice == TensorChoice() for row in plan for stage in row for choice in stage)
    return TensorAnswer(whole if nothing else replace(whole, tensor_plan=plan), seconds, gap_s)


class _Pipeline:
    """The virtual stages of one strategy, with the limits of the ranks that hold them."""

    def __init__(self, group: PricedGroup, space: Room) -> None:
        stages = group.stages
        self._stages, self._space = stages, space
        numbered = np.arange(stages.pp * stages.vpp).reshape(1, stages.vpp, stages.pp).swapaxes(1, 2)
        self._of_rank = by_rank(numbered, stages.schedule)[0]  # [rank, chunk]: which virtual stage, in the order of a layout
        mtp = stages.has_mtp * stages.mtp_layers
        self._layers = stages.layers + (np.arange(len(stages.layers)) == stages.last_layer)[:, None, None] * mtp

    def solved(
        self, tensors: tuple[TensorCosts, ...], activations: tuple[LayerActivations, ...]
    ) -> tuple[TensorPlan, tuple[tuple[float, ...], ...], float] | None:
        """The plan, seconds by chunk and stage, and how far they can be above the least."""
        pp, vpp, none = self._stages.pp, self._stages.vpp, (TensorChoice(),) * len(tensors)
        sharing = self._sharing()
        crowded = [ranks for ranks in sharing if not self._fits_whole(tensors, activations, ranks)]
        in_flight = min((self._least_in_flight(ranks) for ranks in crowded), default=0.0)
        kinds = [
            layer_options(each, float(kept.transient_bytes[0]), in_flight)
            for each, kept in zip(tensors, activations, strict=True)
        ] if crowded else []
        options: dict[tuple[int, ...], Options] = {}
        plan, seconds, gap_s = [none] * (pp * vpp), [0.0] * (pp * vpp), 0.0
        for ranks in crowded:
            numbers = self._held_by(ranks)
            for number in numbers:
                counts = self._counts(number)
                if counts not in options:
                    options[counts] = stage_options(kinds, counts, in_flight)
            of_stages = [options[self._counts(number)] for number in numbers]
            chosen = cheapest(of_stages, self._limits(ranks, numbers))
            if chosen is None:
                return None
            gap_s += chosen.seconds - chosen.least_s
            for number, table, row in zip(numbers, of_stages, chosen.options, strict=True):
                plan[number], seconds[number] = table.choice(row), float(table.seconds[row])
        rows = range(0, pp * vpp, pp)
        return tuple(tuple(plan[row : row + pp]) for row in rows), tuple(tuple(seconds[row : row + pp]) for row in rows), gap_s

    def _sharing(self) -> list[tuple[int, ...]]:
        """Ranks that hold a virtual stage in common."""
        of_stage: dict[int, set[int]] = {}
        for rank, held in enumerate(self._of_rank.tolist()):
            for number in held:
                of_stage.setdefault(number, set()).add(rank)
        return sorted({tuple(sorted(ranks)) for ranks in of_stage.values()})

    def _held_by(self, ranks: tuple[int, ...]) -> list[int]:
        return sorted({number for rank in ranks for number in self._of_rank[rank].tolist()})

    def _counts(self, number: int) -> tuple[int, ...]:
        """Layers of each kind on a virtual stage, prediction layers included."""
        rank, chunk = np.argwhere(self._of_rank == number)[0]
        return tuple(self._layers[:, rank, chunk].tolist())

    def _limits(self, ranks: tuple[int, ...], numbers: list[int]) -> Limits:
        space, moments = self._space, len(self._space.in_flight)
        lines = []
        for rank in ranks:
            of_stage = np.zeros((moments, len(numbers)))
            for chunk, number in enumerate(self._of_rank[rank].tolist()):
                of_stage[:, numbers.index(number)] += space.in_flight[:, chunk, rank]
            each = (space.least_bytes[rank], space.beside_bytes[rank], space.most_bytes[rank])
            lines.append((of_stage, space.fixed_bytes[:, rank], *(np.full(moments, one) for one in each)))
        return Limits(*(np.concatenate(column) for column in zip(*lines, strict=True)))

    def _least_in_flight(self, ranks: tuple[int, ...]) -> float:
        return float(self._limits(ranks, self._held_by(ranks)).binding().in_flight.min())

    def _fits_whole(
        self, tensors: tuple[TensorCosts, ...], activations: tuple[LayerActivations, ...], ranks: tuple[int, ...]
    ) -> bool:
        numbers = self._held_by(ranks)
        counts = np.array([self._counts(number) for number in numbers])
        kept = np.array([float(each.saved_bytes[0]) for each in activations])
        works = np.array([float(each.transient_bytes[0]) for each in activations])
        limits = self._limits(ranks, numbers)
        held = limits.in_flight @ (counts @ kept)
        return bool(limits.fit(held[:, None], np.array([works[(counts > 0).any(axis=0)].max(initial=0.0)]))[0])


def batch_of(answers: list[TensorAnswer]) -> StrategyBatch:
    """The strategies of some answers."""
    return StrategyBatch.of([answer.strategy for answer in answers])
