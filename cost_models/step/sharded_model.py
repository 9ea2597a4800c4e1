"""What the parameters on each rank of strategies that share a pipeline weigh and cost, once per distinct sharding."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from cost_models.layer.compute import Device
from cost_models.memory.model_states import ModelStates, StageParameters, model_states, stage_parameters
from cost_models.network.tiers import Network
from cost_models.pipeline.stages import Stages
from cost_models.shapes.layer_keys import Floats, distinct_rows
from cost_models.shapes.strategy import IntColumn, StrategyBatch
from cost_models.shapes.switches import PRICED, Place
from cost_models.shapes.workload import Workload
from cost_models.step.data_parallel import GradientExchange, accumulation_s, gradient_exchange, optimizer_s
from cost_models.step.priced_keys import Costs, taken

SHARDING_COLUMNS = ("tp", "dp", "cp", "ep", "etp", "zero_stage", "optimizer_shard_size")
# What rows of a group share, and what ZeRO-2 alone depends on.
SHARDING_FORMULAS_READ = (*SHARDING_COLUMNS, "pp", "vpp", "schedule", "mtp_before_head", "micro_batch_size")


@dataclass(frozen=True)
class ShardedModel:
    """What the parameters on each rank cost, whatever runs over them: ``[stage, n]``, the optimizer ``[n]``.

    Each is priced when it is first asked for, once per distinct sharding (``few``), like layers per key, and gathered.
    """

    workload: Workload
    few: StrategyBatch
    of_row: IntColumn
    stages: Stages
    device: Device
    network: Network

    @cached_property
    def parameters(self) -> StageParameters:
        """On a rank of each stage, before sharding."""
        return self._gathered(self._parameters)

    @cached_property
    def states(self) -> ModelStates:
        """Weights, gradients and optimizer states."""
        return self._gathered(self._states)

    @property
    def least_bytes(self) -> tuple[Floats, Floats]:
        """What the fullest rank keeps from step to step, and what it keeps of weights and gradients, ``[n]``."""
        kept, weights = self._states.total, self._states.weights + self._states.gradients
        return kept.max(axis=0)[self.of_row], weights.max(axis=0)[self.of_row]

    @cached_property
    def exchange(self) -> GradientExchange:
        """Gradients reduced and weights gathered."""
        unsharded = not (self.few.zero_stage == 3).any()
        edge_only = self._parameters if unsharded else self._parameters_of(np.zeros_like(self._layers))
        return self._gathered(gradient_exchange(self.workload, self.few, self._parameters, edge_only, self.network))

    @cached_property
    def accumulation_s(self) -> Floats:
        """Gradients added to the buffer, a micro batch."""
        return self._gathered(accumulation_s(self.workload, self.few, self._parameters, self.device))

    @cached_property
    def optimizer_s(self) -> Floats:
        """The optimizer, a step."""
        return self._gathered(optimizer_s(self.workload, self.few, self._parameters, self.device))

    def take(self, rows: IntColumn | NDArray[np.bool_]) -> ShardedModel:
        """Those of some rows, which what is priced already stays priced for.

        Parameters
        ----------
        rows : int or bool array
            Indices, or a mask over all rows.

        Returns
        -------
        ShardedModel
        """
        chosen = replace(self, of_row=self.of_row[rows])
        vars(chosen).update({name: vars(self)[name] for name in ("_states", "_parameters") if name in vars(self)})
        return chosen

    @cached_property
    def _states(self) -> ModelStates:
        return model_states(self.workload, self.few, self._parameters)

    @cached_property
    def _parameters(self) -> StageParameters:
        return self._parameters_of(self._layers)

    @property
    def _layers(self) -> Floats:
        """``[layer kind, stage, 1]``."""
        held: Floats = self.stages.of_model.layers.sum(axis=2, dtype=np.float64)[:, :, None]
        return held

    def _parameters_of(self, layers: Floats) -> StageParameters:
        ends = self.stages.is_first, self.stages.is_last, self.stages.is_mtp
        return stage_parameters(self.workload, self.few, tuple(layers), *ends)

    def _gathered(self, value: Costs) -> Costs:
        return taken(value, self.of_row, tables=True)


def sharded_model(workload: Workload, batch: StrategyBatch, stages: Stages, device: Device, network: Network) -> ShardedModel:
    """The parameters of strategies that share a pipeline.

    Parameters
    ----------
    workload : Workload
        Model, job, cluster and software: what all strategies share.
    batch : StrategyBatch, ``[n]``
        Strategies; the result has an entry for each.
    stages : Stages
        Kinds of ranks of the pipeline that the batch shares.
    device : Device
        Rates of one rank under the workload's hardware and software.
    network : Network
        Tiers of the cluster, at the rates that collectives reach.

    Returns
    -------
    ShardedModel, ``[n]``
    """
    columns = [getattr(batch, name) for name in SHARDING_COLUMNS]
    columns.append(np.where(batch.zero_stage == 2, batch.micro_batch_size, 0))  # ZeRO-2 scatters once a micro batch
    first, index = distinct_rows([*columns, batch.features & PRICED[Place.SHARDING]])
    few = batch.standing_for(first, Place.SHARDING, SHARDING_FORMULAS_READ)
    return ShardedModel(workload, few, index, stages, device, network)
