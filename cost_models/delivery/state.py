"""State that a plan must save to resume later."""

from __future__ import annotations

import numpy as np

from cost_models.constants import Constants
from cost_models.memory.model_states import MASTER_BYTES, MOMENT_BYTES, WEIGHT_BYTES, moment_bytes
from cost_models.memory.whole_tensors import matrix_fraction
from cost_models.shapes.adapters import adapter_parameters
from cost_models.shapes.layer_keys import data_parallel_sizes
from cost_models.shapes.optimizers import ADAM
from cost_models.shapes.parameters import num_parameters
from cost_models.shapes.strategy import ParallelStrategy, StrategyBatch
from cost_models.shapes.workload import Workload
from cost_models.step.priced_groups import priced_groups
from documents.late_methods import dataclass


@dataclass(frozen=True)
class SavedState:
    """Bytes of a checkpoint: in total, and of the device that writes most if all replicas share the writing."""

    total_bytes: float
    device_bytes: float


def saved_state(workload: Workload, strategy: ParallelStrategy, constants: Constants) -> SavedState:
    """Bytes to save: 16-bit weights, master weights and moments of all trained parameters, once.

    Frozen weights are saved with them, as they are stored [mindspeed-llm, checkpointing.py].

    FP32 weights are their own master. Every data-parallel replica writes its share of the parameters that it holds
    [megatron-0.12, fully_parallel.py].
    """
    batch = StrategyBatch.of([strategy])
    rules = workload.training.optimizer.rules
    fewer = 1.0 - rules.matrix_moments / rules.moments
    # Transformer Engine saves moments in FP32, whatever it keeps [transformer-engine, fused_adam.py].
    in_fp32 = workload.software_traits.uses_transformer_engine
    share = rules.moments / ADAM.rules.moments
    moments = share * MOMENT_BYTES if in_fp32 else float(moment_bytes(workload, batch)[0])
    moments *= 1.0 - fewer * matrix_fraction(workload)
    bytes_each = (0.0 if workload.keeps_fp32_weights else WEIGHT_BYTES) + MASTER_BYTES + moments
    ((_, group),) = priced_groups(workload, batch, constants, merge=False, tables=True)
    held, task = group.sharded.trained, workload.training.task
    dense, experts = data_parallel_sizes(batch)
    fullest = float(np.max(held.dense / dense + held.experts / experts))
    total = num_parameters(workload.model).total
    if task.adapters is None:
        return SavedState(total * bytes_each, fullest * bytes_each)
    whole, kinds = group.sharded.parameters, workload.model.kinds_of_layers()
    low_rank = sum(adapter_parameters(workload.of_kind(kind), task.adapters, moe=kind.moe) for kind in kinds)
    frozen = float(np.max(whole.dense / dense + whole.experts / experts))
    return SavedState(total * WEIGHT_BYTES + low_rank * bytes_each, frozen * WEIGHT_BYTES + fullest * bytes_each)
