"""The tensor plan of a strategy: the tensors that each virtual stage recomputes or swaps so that all ranks fit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from cost_models.constants import Constants
from cost_models.layer.activations import LayerActivations
from cost_models.layer.tensors import TensorCosts
from cost_models.memory.room import Room, room
from cost_models.pipeline.stages import by_rank
from cost_models.shapes.recompute_modules import RecomputeModule
from cost_models.shapes.strategy import ParallelStrategy, Recompute, RecomputeMethod, StrategyBatch
from cost_models.shapes.switches import Feature
from cost_models.shapes.tensors import KEEP_ALL, TensorPlan, drops_nothing, share_ends
from cost_models.shapes.workload import Workload
from cost_models.step.chosen_tensors import tensors_by_kind
from cost_models.step.group_memory import group_memory
from cost_models.step.priced_groups import PricedGroup, priced_batch
from search.tensor_choice.frontier import layer_options
from search.tensor_choice.mixtures import LayerPart, cheapest_mixtures
from search.tensor_choice.solver import Limits

WORTH = 1e-4  # minimum gain, as a fraction of a rank's time per micro batch
SAVES_OTHERWISE = Feature.SWAP_ATTENTION | Feature.MOE_ZERO_MEMORY  # switches that the choice of tensors replaces


@dataclass(frozen=True)
class TensorAnswer:
    """A strategy with its tensor plan, or without one where it fits without it.

    ``added_s`` ``[rank]`` is the time that the plan adds to a micro batch on all virtual stages of a rank. It is at most
    ``gap_s`` above the least. ``host_bytes`` is the most that a device has on its host.
    """

    strategy: ParallelStrategy
    added_s: tuple[float, ...]
    gap_s: float
    host_bytes: float


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

    The time is that added to a micro batch on all virtual stages of a rank, rank by rank. Recompute and swap of the strategy
    itself are left out first.
    """
    whole = keeping_all(strategy)
    priced = priced_batch(workload, StrategyBatch.of([whole]), constants)
    ((_, group),) = priced.groups(merge=False, tables=True)
    memory = group_memory(workload, group, constants, breakdown=True)
    parameters = group.sharded.parameters, group.sharded.trained
    args = group.num_microbatches, group.priced.activations, *parameters, memory, constants
    space = room(workload, group.stages, group.batch, *args)
    tensors = tensors_by_kind(workload, group.batch, priced.device, priced.network)
    pipeline = _Pipeline(group, space)
    found = pipeline.solved(tensors, group.priced.activations)
    if found is None:
        return None
    plan, seconds, gap_s = found
    chosen = whole if drops_nothing(plan) else replace(whole, tensor_plan=plan)
    return TensorAnswer(chosen, seconds, gap_s, pipeline.host_bytes(plan, tensors))


class _Layers(NamedTuple):
    """The layers of one kind on a virtual stage; prediction layers among them come last."""

    stage: int
    kind: int
    num_layers: int
    num_prediction_layers: int

    @property
    def num_all(self) -> int:
        return self.num_layers + self.num_prediction_layers


class _Pipeline:
    """The virtual stages of one strategy, with the limits of the ranks that hold them."""

    def __init__(self, group: PricedGroup, space: Room) -> None:
        stages = group.stages
        self._stages, self._space = stages, space
        numbered = np.arange(stages.pp * stages.vpp).reshape(1, stages.vpp, stages.pp).swapaxes(1, 2)
        self._of_rank = by_rank(numbered, stages.schedule)[0]  # [rank, chunk]: which virtual stage, in the order of a layout
        self._passes_s = np.broadcast_to(group.rank.whole, (stages.pp, 1))[:, 0]
        self._layers = stages.layers  # [kind, rank, chunk]
        self._mtp = (np.arange(len(stages.layers)) == stages.last_layer)[:, None, None] * (stages.has_mtp * stages.mtp_layers)

    def solved(
        self, tensors: tuple[TensorCosts, ...], activations: tuple[LayerActivations, ...]
    ) -> tuple[TensorPlan, tuple[float, ...], float] | None:
        """The plan, the seconds that it adds by rank, and how far they can be above the least."""
        pp, vpp = self._stages.pp, self._stages.vpp
        plan = [[KEEP_ALL] * len(tensors) for _ in range(pp * vpp)]
        seconds, gap_s = [0.0] * (pp * vpp), 0.0
        crowded = [ranks for ranks in self._sharing() if not self._fits_whole(activations, ranks)]
        kinds = {
            kind: layer_options(tensors[kind], float(activations[kind].transient_bytes[0]))
            for kind in {part.kind for ranks in crowded for part in self._parts(ranks)}
        }
        for ranks in crowded:
            parts = self._parts(ranks)
            layers = [LayerPart(kinds[part.kind], part.num_layers, part.num_prediction_layers) for part in parts]
            limits = self._limits(ranks, [part.stage for part in parts])
            chosen = cheapest_mixtures(layers, limits, WORTH * sum(float(self._passes_s[rank]) for rank in ranks))
            if chosen is None:
                return None
            gap_s = max(gap_s, chosen.gap_s)
            for part, choices, added_s in zip(parts, chosen.choices, chosen.seconds, strict=True):
                plan[part.stage][part.kind] = choices
                seconds[part.stage] += added_s
        whole = [tuple(choices) for choices in plan]
        of_rank = tuple(float(sum(seconds[number] for number in held)) for held in self._of_rank.tolist())
        return tuple(tuple(whole[row : row + pp]) for row in range(0, pp * vpp, pp)), of_rank, gap_s

    def host_bytes(self, plan: TensorPlan, tensors: tuple[TensorCosts, ...]) -> float:
        """The most bytes that micro batches of one rank have on the host at a moment."""
        flat = [stage for row in plan for stage in row]
        moved = np.zeros(self._of_rank.shape)
        all_layers = self._layers + self._mtp
        for (rank, chunk), number in np.ndenumerate(self._of_rank):
            of_kinds = zip(all_layers[:, rank, chunk].tolist(), tensors, flat[int(number)], strict=True)
            moved[rank, chunk] = sum(
                max(min(end, layers) - start, 0) * float(costs.bytes_of(choice.swap)[0])
                for layers, costs, choices in of_kinds
                for choice, start, end in share_ends(choices, layers)
            )
        return float(np.einsum("mcr,rc->mr", self._space.in_flight, moved).max())

    def _sharing(self) -> list[tuple[int, ...]]:
        """Groups of ranks that have a virtual stage in common."""
        of_stage: dict[int, set[int]] = {}
        for rank, held in enumerate(self._of_rank.tolist()):
            for number in held:
                of_stage.setdefault(number, set()).add(rank)
        return sorted({tuple(sorted(ranks)) for ranks in of_stage.values()})

    def _parts(self, ranks: tuple[int, ...]) -> list[_Layers]:
        """All layers of the ranks."""
        held = {int(number): (rank, chunk) for rank in ranks for chunk, number in enumerate(self._of_rank[rank])}
        counts = (
            (number, zip(self._layers[:, rank, chunk].tolist(), self._mtp[:, rank, chunk].tolist(), strict=True))
            for number, (rank, chunk) in sorted(held.items())
        )
        return [_Layers(number, kind, *pair) for number, pairs in counts for kind, pair in enumerate(pairs) if any(pair)]

    def _limits(self, ranks: tuple[int, ...], stages: list[int]) -> Limits:
        """The limits of parts on the given virtual stages."""
        space, moments = self._space, len(self._space.in_flight)
        lines = []
        for rank in ranks:
            of_part = np.zeros((moments, len(stages)))
            for chunk, number in enumerate(self._of_rank[rank].tolist()):
                of_part += space.in_flight[:, chunk, rank, None] * (np.array(stages) == number)
            each = (space.least_bytes[rank], space.beside_bytes[rank], space.most_bytes[rank])
            lines.append((of_part, space.fixed_bytes[:, rank], *(np.full(moments, one) for one in each)))
        return Limits(*(np.concatenate(column) for column in zip(*lines, strict=True)))

    def _fits_whole(self, activations: tuple[LayerActivations, ...], ranks: tuple[int, ...]) -> bool:
        parts = self._parts(ranks)
        limits = self._limits(ranks, [part.stage for part in parts])
        kept = np.array([part.num_all * float(activations[part.kind].saved_bytes[0]) for part in parts])
        works = max((float(activations[part.kind].transient_bytes[0]) for part in parts), default=0.0)
        return bool(limits.fit((limits.in_flight @ kept)[:, None], np.array([works]))[0])
