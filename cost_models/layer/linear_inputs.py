"""Bytes that linear layers keep for each element of their input."""

from __future__ import annotations

from cost_models.layer.compute import ELEMENT_BYTES
from cost_models.shapes.precision import FOUR_BIT_BYTES, FOUR_BITS, QUANTISED_PRECISIONS, Recipe
from cost_models.shapes.training_task import Target
from cost_models.shapes.workload import Workload


def linear_input_bytes(workload: Workload) -> float:
    """Bytes that a linear layer keeps for each element of its input: 2, or 1 or a half and its scales.

    Transformer Engine keeps the input in as many bits as it multiplies, if these are 8 or 4: one copy, in the direction of the
    weight gradient, and its scales [transformer-engine, linear.py:602]. So does MindSpeed [mindspeed,
    te/pytorch/module/linear.py; float8_tensor.py:180]. A recipe that is not stated counts without scales.
    """
    recipe = own_recipe(workload)
    quantises = workload.device_traits.keeps_quantised_inputs and workload.software_traits.uses_transformer_engine
    if quantises and workload.training.precision == FOUR_BITS:
        return FOUR_BIT_BYTES
    if quantises and workload.training.precision in QUANTISED_PRECISIONS:
        recipe = workload.training.recipe
    elif recipe is None:
        return ELEMENT_BYTES
    return 1.0 + (0.0 if recipe is None else recipe.scale_bytes)


def own_recipe(workload: Workload) -> Recipe | None:
    """How operands in 8 bits are scaled, in a stack with 8-bit layers of its own."""
    return workload.training.recipe if workload.software_traits.own_eight_bit_layers else None


def kept_input_bytes(workload: Workload, target: Target) -> float:
    """Bytes that the layers of ``target`` keep for each element of their input; 0 if they are frozen and have no adapter.

    An adapter multiplies in 16 bits, whatever its layer does. A frozen layer needs its weight alone for the gradient of its
    input [megatron-0.12, layers.py].
    """
    task = workload.training.task
    if not task.is_frozen:
        return linear_input_bytes(workload)
    return ELEMENT_BYTES if task.trains(target) else 0.0


def expert_input_bytes(workload: Workload, target: Target) -> float:
    """Bytes that the grouped matmul of ``target`` keeps for each element of its input.

    MindSpeed's keeps the 16 bits that came in, and beside them what it cast as a whole tensor [mindspeed,
    grouped_matmul_util.py:58, 300].
    """
    recipe = own_recipe(workload)
    if recipe is None or workload.training.task.is_frozen:
        return kept_input_bytes(workload, target)
    return ELEMENT_BYTES + (0.0 if recipe.casts_each_way else 1.0)


def projection_copy_bytes(workload: Workload) -> float:
    """Bytes that the projection behind attention keeps for each element, beside the output that fused attention keeps.

    Megatron-Core keeps that output alone, unless the scale is delayed [megatron-0.19, attention.py:442]. A recipe that is not
    stated counts without a copy.
    """
    training, traits = workload.training, workload.software_traits
    if training.recipe is None or training.task.is_frozen or linear_input_bytes(workload) == ELEMENT_BYTES:
        return 0.0
    shared = workload.software.has_since(traits.shared_projection_input_year) and not training.recipe.is_delayed
    return 0.0 if shared else linear_input_bytes(workload)
