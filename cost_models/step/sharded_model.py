"""Memory and time of the parameters on each rank, for strategies that share a pipeline, priced once per distinct sharding."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import cached_property
from typing import NamedTuple

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
from cost_models.memory.whole_tensors import Matrix, Taken, Tensors, WholeTensors, stage_tensors, whole_tensors
from cost_models.network.tiers import Network
from cost_models.pipeline.stages import Stages
from cost_models.shapes.layer_keys import Floats, distinct_rows
from cost_models.shapes.record_copies import varied
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
from documents.late_methods import dataclass

SHARDING_COLUMNS = ("tp", "sequence_parallel", "dp", "cp", "ep", "etp", "zero_stage", "optimizer_shard_size")
# All columns that the formulas read: those of a sharding, those that a group shares, and one that only ZeRO-2 needs.
SHARDING_FORMULAS_READ = (*SHARDING_COLUMNS, "pp", "vpp", "schedule", "mtp_before_head", "micro_batch_size")


class StageContents(NamedTuple):
    """Contents of ranks that decide the cost of their parameters: ``layers`` ``[layer kind, stage, 1]``, ends ``[stage, 1]``.

    The ranks may be of several placements of one pipeline.
    """

    layers: Floats
    is_first: Floats
    is_last: Floats
    is_mtp: Floats

    @classmethod
    def of(cls, stages: Stages) -> StageContents:
        """Contents of the ranks of one pipeline."""
        held: Floats = stages.of_model.layers.sum(axis=2, dtype=np.float64)[:, :, None]
        return cls(held, stages.is_first, stages.is_last, stages.is_mtp)

    @property
    def table(self) -> Floats:
        """All numbers as one table, ``[number, stage]``."""
        return np.concatenate([self.layers, np.stack(self[1:])])[:, :, 0]

    @classmethod
    def of_table(cls, table: Floats) -> StageContents:
        """The inverse of ``table``."""
        *layers, first, last, mtp = table[:, :, None]
        return cls(np.stack(layers), first, last, mtp)


@dataclass(frozen=True)
class Shardings:
    """Costs of the distinct shardings of one pipeline; each part is priced on first use. ``few`` has one strategy of each."""

    workload: Workload
    few: StrategyBatch
    stages: StageContents
    device: Device
    network: Network
    layer_by_layer: bool = True  # whether stacks that gather each layer with a call of its own are priced so

    @cached_property
    def parameters(self) -> StageParameters:
        """Parameters on a rank of each stage, before sharding."""
        return self._parameters_of(self.stages.layers)

    @cached_property
    def trained(self) -> StageParameters:
        """Those of them that are trained."""
        return trained_parameters(self.workload, self.few, tuple(self.stages.layers), self.stages.is_mtp, self.parameters)

    @cached_property
    def whole(self) -> WholeTensors | None:
        """Tensors that an optimizer which orthogonalises updates whole."""
        if not self.workload.training.optimizer.rules.orthogonalises:
            return None
        tensors = stage_tensors(self.workload, self.few, tuple(self.stages.layers), *self.stages[1:])
        return whole_tensors(self.few, tensors, (self.trained.dense, self.trained.experts))

    @cached_property
    def states(self) -> ModelStates:
        """Bytes of weights, gradients and optimizer states."""
        return self.states_of(Taken.FULLEST)

    def states_of(self, rank: Taken) -> ModelStates:
        """Those of one of the ranks that share whole tensors."""
        return model_states(self.workload, self.few, self.parameters, self.trained, self._quantised, self.whole, rank)

    @cached_property
    def _quantised(self) -> tuple[Floats, Floats]:
        return quantised_parameters(self.workload, self.few, tuple(self.stages.layers), self.stages.is_mtp)

    @cached_property
    def exchange(self) -> GradientExchange:
        """Gradient reduction and weight gathering."""
        unsharded = not (self.few.zero_stage == 3).any()
        edge_only = self.parameters if unsharded else self._parameters_of(np.zeros_like(self.stages.layers))
        tables_s = shared_table_s(self.workload, self.few, *self.stages[1:], self.network)
        sums_s = tables_s + replicated_sums_s(self.workload, self.few, tuple(self.stages.layers), *self.stages[2:], self.network)
        layers = self.stages.layers
        with_experts = np.array([kind.moe for kind in self.workload.model.layer_kinds()])
        num_layers = np.stack([layers.sum(axis=0), layers[with_experts].sum(axis=0)]) if self.layer_by_layer else None
        return gradient_exchange(
            self.workload, self.few, self.trained, edge_only, sums_s, self.network, self._quantised, num_layers
        )

    @cached_property
    def accumulation_s(self) -> Floats:
        """Seconds a micro batch to add gradients to the buffer, ``[stage, n]``."""
        return accumulation_s(self.workload, self.few, self.trained, self.device)

    @cached_property
    def optimizer_s(self) -> Floats:
        """Seconds a step of the optimizer, ``[stage, n]``."""
        return optimizer_s(self.workload, self.few, self.trained, self.device, self.network, self.whole)

    def _parameters_of(self, layers: Floats) -> StageParameters:
        return stage_parameters(self.workload, self.few, tuple(layers), *self.stages[1:])


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

    Each part is priced on first use, once per distinct sharding (``few``), and then gathered. ``of_stage``: which of the ranks of
    ``few`` the stages are; ``None``: all of them.
    """

    few: Shardings | PricedShardings
    of_row: IntColumn
    of_stage: IntColumn | None = None

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

    @cached_property
    def states_of_few(self) -> ModelStates:
        """Bytes of weights, gradients and optimizer states of each distinct sharding."""
        return self._of_stages(self.few.states)

    @property
    def states_of_first(self) -> ModelStates:
        """Those of the first of the ranks that share whole tensors."""
        assert isinstance(self.few, Shardings)
        return self._gathered(self.few.states_of(Taken.FIRST))

    def of_matrices(self, of_matrix: Callable[[Matrix], Floats], rank: Taken) -> Floats:
        """What a rank has of a quantity ``[n]`` of the matrices that it orthogonalises, ``[stage, n]``."""
        assert isinstance(self.few, Shardings)
        if self.few.whole is None:
            return np.zeros_like(self.trained.dense)

        def of_tensor(each: Tensors) -> Floats:
            return sum(map(of_matrix, each.matrices), np.zeros_like(each.elements))

        return self._gathered(self.few.whole.of_rank(of_tensor, 0.0, rank))

    @property
    def least_bytes(self) -> tuple[Floats, Floats]:
        """Bytes that the fullest rank keeps between steps, and bytes of its weights and gradients, ``[n]`` each."""
        kept, weights = self.states_of_few.total, self.states_of_few.weights + self.states_of_few.gradients
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
        """Seconds a step of the optimizer on the worst stage, ``[n]``."""
        return taken(self._of_stages(self.few.optimizer_s).max(axis=0), self.of_row, tables=True)

    def take(self, rows: IntColumn | NDArray[np.bool_]) -> ShardedModel:
        """The given rows, by index or by a mask over all rows; parts that are already priced stay priced."""
        return ShardedModel(self.few, self.of_row[rows], self.of_stage)

    def _gathered(self, value: Costs) -> Costs:
        return taken(self._of_stages(value), self.of_row, tables=True)

    def _of_stages(self, value: Costs) -> Costs:
        return value if self.of_stage is None else taken_stages(value, self.of_stage)


def taken_stages(value: Costs, index: IntColumn) -> Costs:
    """Copy of the structure with the chosen rows of every array ``[stage, n]``; arrays ``[n]`` stay."""
    if isinstance(value, np.ndarray):
        return value.take(index, axis=0) if value.ndim == 2 else value  # type: ignore[return-value]
    return varied(value, **{f.name: taken_stages(getattr(value, f.name), index) for f in fields(value)})  # type: ignore[arg-type]


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
        columns, first, index = _distinct(self._workload, batch)
        known = len(self._number)
        numbers = numbered([column[first] for column in columns], self._number)
        new = np.flatnonzero(numbers >= known)  # new shardings in the order of their numbers
        if len(new):
            few = _standing_for(batch, first[new])
            costs = Shardings(self._workload, few, StageContents.of(self.stages), self._device, self._network)
            added = PricedShardings(**{field.name: getattr(costs, field.name) for field in fields(PricedShardings)})
            self._known = added if self._known is None else joined(self._known, added)
        assert self._known is not None  # a batch has a sharding
        return ShardedModel(self._known, numbers[index])


def _distinct(workload: Workload, batch: StrategyBatch) -> tuple[list[IntColumn], IntColumn, IntColumn]:
    """The columns that decide a sharding's cost, the first row of each distinct sharding, and each row's sharding."""
    columns = [getattr(batch, name) for name in SHARDING_COLUMNS]
    scatters_from = 1 if workload.software_traits.shards_accumulated_gradients else 2  # ``scatters_each_micro_batch``
    columns.append(np.where(batch.zero_stage >= scatters_from, batch.micro_batch_size, 0))
    columns.append(batch.features & PRICED[Place.SHARDING])
    return columns, *distinct_rows(columns)


def _standing_for(batch: StrategyBatch, rows: IntColumn) -> StrategyBatch:
    return batch.standing_for(rows, Place.SHARDING, SHARDING_FORMULAS_READ)


def sharded_model(workload: Workload, batch: StrategyBatch, stages: Stages, device: Device, network: Network) -> ShardedModel:
    """The sharded parameters of strategies that share a pipeline."""
    _, first, index = _distinct(workload, batch)
    return ShardedModel(Shardings(workload, _standing_for(batch, first), StageContents.of(stages), device, network), index)


def exchange_of_model(
    workload: Workload, batch: StrategyBatch, layers: Floats, device: Device, network: Network
) -> GradientExchange:
    """The exchange of a rank that would hold the whole model, ``[1, n]``, in one call. MTP modules have no copy of the table.

    Parameters
    ----------
    layers : ``[layer kind]``
        The number of layers of each kind.
    """
    columns, *_ = _distinct(workload, batch)
    first, index = distinct_rows([*columns, batch.pp, batch.vpp, batch.schedule])
    few = _standing_for(batch, first)
    few = varied(few, mtp_before_head=few.pp * few.vpp - 1)  # behind all layers they share the head's rank
    end, mtp = np.ones((1, 1)), np.full((1, 1), float(workload.model.mtp_num_layers > 0))
    whole = StageContents(layers[:, None, None], end, end, mtp)
    return taken(Shardings(workload, few, whole, device, network, layer_by_layer=False).exchange, index, tables=True)


def sharded_models(
    workload: Workload, batch: StrategyBatch, parts: Sequence[tuple[int, Stages]], device: Device, network: Network
) -> list[ShardedModel]:
    """``sharded_model`` of strategies of one pipeline under several placements, whose equal ranks are priced once.

    Parameters
    ----------
    batch
        Strategies that share pp, vpp, schedule and ``mtp_before_head``.
    parts
        How many of them, in their order, have which ranks.
    """
    if len(parts) == 1:
        return [sharded_model(workload, batch, parts[0][1], device, network)]
    _, first, of_row = _distinct(workload, batch)
    table = np.concatenate([StageContents.of(stages).table for _, stages in parts], axis=1)
    of_rank, of_stage = distinct_rows([row.astype(np.int64) for row in table])
    costs = Shardings(workload, _standing_for(batch, first), StageContents.of_table(table[:, of_rank]), device, network)
    ends = np.cumsum([[number, stages.num_kinds] for number, stages in parts], axis=0)[:-1].T
    split = (np.split(index, of_parts) for index, of_parts in zip((of_row, of_stage), ends, strict=True))
    return [ShardedModel(costs, *of_part) for of_part in zip(*split, strict=True)]
