"""Memory and time of the parameters on each rank, for strategies that share a pipeline, priced once per distinct sharding."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from cost_models.layer.compute import Device
from cost_models.memory.model_states import (
    ModelStates,
    StageParameters,
    model_states,
    quantised_parameters,
    stage_parameters,
    trained_parameters,
)
from cost_models.network.tiers import Network
from cost_models.pipeline.stages import Stages
from cost_models.shapes.layer_keys import Floats, distinct_rows
from cost_models.shapes.strategy import IntColumn, StrategyBatch
from cost_models.shapes.switches import PRICED, Place
from cost_models.shapes.workload import Workload
from cost_models.step.data_parallel import (
    GradientExchange,
    accumulation_s,
    gradient_exchange,
    optimizer_s,
    replicated_sums_s,
    shared_table_s,
)
from cost_models.step.priced_keys import Costs, Rows, joined, numbered, taken

SHARDING_COLUMNS = ("tp", "sequence_parallel", "dp", "cp", "ep", "etp", "zero_stage", "optimizer_shard_size")
# All columns that the formulas read: those of a sharding, those that a group shares, and one that only ZeRO-2 needs.
SHARDING_FORMULAS_READ = (*SHARDING_COLUMNS, "pp", "vpp", "schedule", "mtp_before_head", "micro_batch_size")


@dataclass(frozen=True)
class Shardings:
    """Costs of the distinct shardings of one pipeline; each part is priced on first use. ``few`` has one strategy of each."""

    workload: Workload
    few: StrategyBatch
    stages: Stages
    device: Device
    network: Network

    @cached_property
    def parameters(self) -> StageParameters:
        """Parameters on a rank of each stage, before sharding."""
        return self._parameters_of(self._layers)

    @cached_property
    def trained(self) -> StageParameters:
        """Those of them that are trained."""
        return trained_parameters(self.workload, self.few, tuple(self._layers), self.stages.is_mtp, self.parameters)

    @cached_property
    def states(self) -> ModelStates:
        """Bytes of weights, gradients and optimizer states."""
        quantised = quantised_parameters(self.workload, self.few, tuple(self._layers), self.stages.is_mtp)
        return model_states(self.workload, self.few, self.parameters, self.trained, quantised)

    @cached_property
    def exchange(self) -> GradientExchange:
        """Gradient reduction and weight gathering."""
        unsharded = not (self.few.zero_stage == 3).any()
        edge_only = self.parameters if unsharded else self._parameters_of(np.zeros_like(self._layers))
        tables_s = shared_table_s(self.workload, self.few, *self._ends, self.network)
        sums_s = tables_s + replicated_sums_s(self.workload, self.few, tuple(self._layers), *self._ends[1:], self.network)
        return gradient_exchange(self.workload, self.few, self.trained, edge_only, sums_s, self.network)

    @cached_property
    def accumulation_s(self) -> Floats:
        """Seconds a micro batch to add gradients to the buffer, ``[stage, n]``."""
        return accumulation_s(self.workload, self.few, self.trained, self.device)

    @cached_property
    def optimizer_s(self) -> Floats:
        """Seconds a step of the optimizer, ``[n]``."""
        return optimizer_s(self.workload, self.few, self.trained, self.device)

    @property
    def _layers(self) -> Floats:
        """Layers ``[layer kind, stage, 1]``."""
        held: Floats = self.stages.of_model.layers.sum(axis=2, dtype=np.float64)[:, :, None]
        return held

    @property
    def _ends(self) -> tuple[Floats, Floats, Floats]:
        return self.stages.is_first, self.stages.is_last, self.stages.is_mtp

    def _parameters_of(self, layers: Floats) -> StageParameters:
        return stage_parameters(self.workload, self.few, tuple(layers), *self._ends)


@dataclass(frozen=True)
class PricedShardings:
    """``Shardings`` with all parts priced."""

    parameters: StageParameters
    trained: StageParameters
    states: ModelStates
    exchange: GradientExchange
    accumulation_s: Floats
    optimizer_s: Floats


@dataclass(frozen=True)
class ShardedModel:
    """Cost of the parameters on each rank, without the passes that use them: ``[stage, n]``, the optimizer ``[n]``.

    Each part is priced on first use, once per distinct sharding (``few``), and then gathered.
    """

    few: Shardings | PricedShardings
    of_row: IntColumn

    @cached_property
    def parameters(self) -> StageParameters:
        """Parameters on a rank of each stage, before sharding."""
        return self._gathered(self.few.parameters)

    @cached_property
    def trained(self) -> StageParameters:
        """Those of them that are trained."""
        return self._gathered(self.few.trained)

    @cached_property
    def states(self) -> ModelStates:
        """Bytes of weights, gradients and optimizer states."""
        return self._gathered(self.few.states)

    @property
    def least_bytes(self) -> tuple[Floats, Floats]:
        """Bytes that the fullest rank keeps between steps, and bytes of its weights and gradients, ``[n]`` each."""
        kept, weights = self.few.states.total, self.few.states.weights + self.few.states.gradients
        return kept.max(axis=0)[self.of_row], weights.max(axis=0)[self.of_row]

    @cached_property
    def exchange(self) -> GradientExchange:
        """Gradient reduction and weight gathering."""
        return self._gathered(self.few.exchange)

    @cached_property
    def accumulation_s(self) -> Floats:
        """Seconds a micro batch to add gradients to the buffer, ``[stage, n]``."""
        return self._gathered(self.few.accumulation_s)

    @cached_property
    def optimizer_s(self) -> Floats:
        """Seconds a step of the optimizer, ``[n]``."""
        return self._gathered(self.few.optimizer_s)

    def take(self, rows: IntColumn | NDArray[np.bool_]) -> ShardedModel:
        """The given rows, by index or by a mask over all rows; parts that are already priced stay priced."""
        return ShardedModel(self.few, self.of_row[rows])

    def _gathered(self, value: Costs) -> Costs:
        return taken(value, self.of_row, tables=True)


class KnownShardings:
    """Costs of the shardings under one pipeline; each distinct sharding is priced once, whatever the number of batches."""

    def __init__(self, workload: Workload, stages: Stages, device: Device, network: Network) -> None:
        self.stages = stages
        self._workload, self._device, self._network = workload, device, network
        self._number = Rows()
        self._known: PricedShardings | None = None

    def __len__(self) -> int:
        """Number of known shardings, times the ranks of each."""
        return len(self._number) * self.stages.num_kinds

    def of(self, batch: StrategyBatch) -> ShardedModel:
        """The sharded parameters of strategies of the pipeline."""
        try:
            return self._of(batch)
        except BaseException:  # also an interrupt: a numbered one without a price would get another's price
            self._number, self._known = Rows(), None
            raise

    def _of(self, batch: StrategyBatch) -> ShardedModel:
        columns, first, index = _distinct(batch)
        known = len(self._number)
        numbers = numbered([column[first] for column in columns], self._number)
        new = np.flatnonzero(numbers >= known)  # new shardings in the order of their numbers
        if len(new):
            few = _standing_for(batch, first[new])
            costs = Shardings(self._workload, few, self.stages, self._device, self._network)
            added = PricedShardings(**{field.name: getattr(costs, field.name) for field in fields(PricedShardings)})
            self._known = added if self._known is None else joined(self._known, added)
        assert self._known is not None  # a batch has a sharding
        return ShardedModel(self._known, numbers[index])


def _distinct(batch: StrategyBatch) -> tuple[list[IntColumn], IntColumn, IntColumn]:
    """The columns that decide a sharding's cost, the first row of each distinct sharding, and each row's sharding."""
    columns = [getattr(batch, name) for name in SHARDING_COLUMNS]
    columns.append(np.where(batch.zero_stage >= 2, batch.micro_batch_size, 0))  # scatters once a micro batch
    columns.append(batch.features & PRICED[Place.SHARDING])
    return columns, *distinct_rows(columns)


def _standing_for(batch: StrategyBatch, rows: IntColumn) -> StrategyBatch:
    return batch.standing_for(rows, Place.SHARDING, SHARDING_FORMULAS_READ)


def sharded_model(workload: Workload, batch: StrategyBatch, stages: Stages, device: Device, network: Network) -> ShardedModel:
    """The sharded parameters of strategies that share a pipeline."""
    _, first, index = _distinct(batch)
    return ShardedModel(Shardings(workload, _standing_for(batch, first), stages, device, network), index)
