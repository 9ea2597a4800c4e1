"""Bytes that linear layers keep for each element of their input."""

from __future__ import annotations

from cost_models.layer.compute import ELEMENT_BYTES
from cost_models.layer.quantisation import QUANTISED_PRECISIONS
from cost_models.shapes.training_task import Target
from cost_models.shapes.workload import Workload


def linear_input_bytes(workload: Workload) -> int:
    """Bytes that a linear layer keeps for each element of its input: 1 or 2.

    Transformer Engine keeps the input in 8 bits if it multiplies in 8 bits or fewer [transformer-engine, linear.py].
    """
    kept = workload.device_traits.keeps_quantised_inputs and workload.software_traits.uses_transformer_engine
    return 1 if kept and workload.training.precision in QUANTISED_PRECISIONS else ELEMENT_BYTES


def kept_input_bytes(workload: Workload, target: Target) -> int:
    """Bytes that the layers of ``target`` keep for each element of their input; 0 if they are frozen and have no adapter.

    An adapter multiplies in 16 bits, whatever its layer does. A frozen layer needs its weight alone for the gradient of its
    input [megatron-0.12, layers.py].
    """
    task = workload.training.task
    if not task.is_frozen:
        return linear_input_bytes(workload)
    return ELEMENT_BYTES if task.trains(target) else 0
