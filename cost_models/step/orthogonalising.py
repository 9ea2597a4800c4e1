"""Time to orthogonalise matrices by Newton-Schulz, once a step."""

from __future__ import annotations

import numpy as np

from cost_models.layer.compute import ELEMENT_BYTES, FP32_BYTES, Device, matmul_s, state_s
from cost_models.memory.whole_tensors import Matrix, Tensors
from cost_models.network.collectives import all_gather_s, all_reduce_s
from cost_models.network.tiers import Network
from cost_models.shapes.layer_keys import Floats
from cost_models.shapes.optimizers import Optimizer, TpMode

# HBM traffic of an element in FP32: decay of the weight (8), momentum (12), the product with two factors (16), the update (12),
# the copy to 16 bits (6) [emerging-optimizers, orthogonalized_optimizer.py; megatron-0.19, emerging_optimizers.py].
MOMENTUM_BYTES = 54
# Of an element that is orthogonalised: norm, division, casts to 16 bits and back [emerging-optimizers, muon_utils.py].
NORMALISED_BYTES = 24


def _sides(matrix: Matrix, mode: TpMode) -> tuple[Floats, Floats]:
    """The side of the square products, and the other one, as a rank has them. ``[n]``

    ``duplicated`` has the whole matrix. ``distributed`` keeps the divided side divided, and squares the other.
    """
    rows, columns, ranks = matrix.rows, matrix.columns, matrix.ranks
    if mode is TpMode.DUPLICATED:
        rows, columns = (size * (ranks if matrix.divided == side else 1) for side, size in enumerate((rows, columns)))
    short, long = np.minimum(rows, columns), np.maximum(rows, columns)
    if mode is not TpMode.DISTRIBUTED:
        return short, long
    kept, cut = (columns, rows) if matrix.divided == 0 else (rows, columns)
    return np.where(ranks > 1, kept, short), np.where(ranks > 1, cut, long)


def newton_schulz_flops(matrix: Matrix, optimizer: Optimizer) -> Floats:
    """FLOPs of a rank to orthogonalise one matrix: 4 k^2 l + 2 k^3 a step. ``[n]``"""
    short, long = _sides(matrix, optimizer.tp_mode)
    return optimizer.ns_steps * (4.0 * short**2 * long + 2.0 * short**3)


def newton_schulz_comm_s(matrix: Matrix, optimizer: Optimizer, network: Network) -> Floats:
    """Seconds of communication over tensor parallelism to orthogonalise one matrix. ``[n]``

    ``duplicated`` gathers the momentum in FP32. ``distributed`` all-reduces the first product of each step in 16 bits
    [emerging-optimizers, muon_utils.py].
    """
    ranks, mode = matrix.ranks, optimizer.tp_mode
    if mode is TpMode.DUPLICATED:
        return all_gather_s(FP32_BYTES * matrix.rows * matrix.columns * ranks, ranks, np.ones_like(ranks), network)
    if mode is TpMode.DISTRIBUTED:
        squared = ELEMENT_BYTES * _sides(matrix, mode)[0] ** 2
        return optimizer.ns_steps * all_reduce_s(squared, ranks, np.ones_like(ranks), network)
    return np.zeros(len(ranks))


def newton_schulz_s(matrix: Matrix, optimizer: Optimizer, device: Device, network: Network) -> Floats:
    """Seconds to orthogonalise one matrix on a rank, with its communication over tensor parallelism. ``[n]``

    Each step multiplies k x l by its transpose, the product by itself, and their sum by the matrix: 4 k^2 l + 2 k^3 FLOPs in 16
    bits, with k the shorter side [emerging-optimizers, muon_utils.py].
    """
    short, long = _sides(matrix, optimizer.tp_mode)
    half = device.in_half
    step_s = matmul_s(short, short, long, half) + matmul_s(short, short, short, half) + matmul_s(short, long, short, half)
    moved_s = state_s(NORMALISED_BYTES * short * long, device)
    found: Floats = optimizer.ns_steps * step_s + moved_s + newton_schulz_comm_s(matrix, optimizer, network)
    return found


def update_s(tensors: Tensors, optimizer: Optimizer, device: Device, network: Network, other_bytes: float) -> Floats:
    """Seconds to update one tensor, ``[n]``; ``other_bytes``: HBM traffic of an element that is not orthogonalised."""
    if not tensors.matrices:
        return state_s(other_bytes * tensors.elements, device)
    each = (newton_schulz_s(matrix, optimizer, device, network) for matrix in tensors.matrices)
    return sum(each, state_s(MOMENTUM_BYTES * tensors.elements, device))
