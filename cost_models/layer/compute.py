"""Kernel times of one device: matrix units, fused attention, vector units."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cost_models.constants import Constants
from cost_models.shapes.releases import Ladder
from cost_models.shapes.traits import AMPERE_INSTRUCTION_FRACTION, Generation
from cost_models.shapes.workload import Cluster, Software, Workload
from documents.late_methods import dataclass
from documents.sentences import Sentence, joined
from hardware_profiles.schema import HardwareProfile

Floats = NDArray[np.float64]

TILE_ROWS, TILE_COLUMNS = 128, 256  # output tile of a core [asc-devkit-guide, Matmul tiling]
UNMEASURED_ACHIEVABLE_FRACTION = 0.86  # best large matmul over dense peak, for profiles without a measurement [flagperf]
ATTENTION_BACKWARD_FLOPS = 2.5  # five matmuls against two: the scores are computed again [flash-attention-2]
MISALIGNED_HEAD_FLOPS_PER_S = 1e13  # score matmuls off the tensor cores when the head dim is no multiple of 8 [runs-fit]
# Exponent of (d / 128): heads of 64 run at 0.9 of the rate of heads of 128 under FlashAttention-2 [flash-attention-2, figure 5]
# and on Ascend [runs-fit]. Each score needs one exponential whatever the head dim, which limits fast generations more
# [aiconfigurator].
NARROW_HEAD_EXPONENT = 0.15
OWN_NARROW_HEAD_EXPONENT = {Generation.AMPERE: 0.15, Generation.HOPPER: 0.3, Generation.BLACKWELL: 0.62}
FLASH_ATTENTION_2_YEAR = 2024  # PyTorch 2.2 adopted it as its own attention
NEWEST_YEAR = 2026  # year of stacks without known differences between releases
ELEMENT_BYTES, FP32_BYTES = 2, 4  # an activation or weight in 16 bits; a value kept or summed in FP32
READ_WRITE_BYTES = 2 * ELEMENT_BYTES  # HBM traffic of reading and writing an element once
ADD_BYTES = 3 * ELEMENT_BYTES  # HBM traffic of reading two elements and writing their sum or gated product
PADDING_TILE_FRACTION = 0.5  # mean padding of a group in a grouped matmul, in tiles of rows
NARROWEST_TILE_FRACTION = 0.25  # fraction of a tile: narrower outputs take as long as this [asc-devkit-guide, Matmul tiling]
FULL_RATE_HEAD_DIM = 128  # heads at least as wide run at the full rate [flash-attention-2, figure 5]
ALIGNED_HEAD_DIM = 8  # a GPU's tensor cores need multiples of it [runs-fit]
# Precisions with the rate of another, the first one in the profile.
ALIKE = {"bf16": ("bf16", "fp16"), "fp16": ("fp16", "bf16"), "hif8": ("hif8", "fp8")}
UNFUSED_BACKWARD_TRAFFIC_FACTOR = 1.6  # HBM traffic of unfused attention's backward over its forward's [runs-fit]


def element_factor(workload: Workload) -> float:
    """Bytes of an activation element over the 16 bits that all formulas here assume: 2 in FP32, else 1.

    In FP32 training the factor also doubles the tensors that 16-bit training already keeps in FP32.
    """
    return FP32_BYTES / ELEMENT_BYTES if workload.training.precision == "fp32" else 1.0


def element_bytes(workload: Workload) -> float:
    """Bytes of an activation element, or of a gathered weight: 4 in FP32, else 2."""
    return ELEMENT_BYTES * element_factor(workload)


def stream_bytes(workload: Workload) -> int:
    """Bytes of an element that goes from layer to layer, before ``element_factor``."""
    return FP32_BYTES if workload.residual.is_stream else ELEMENT_BYTES


@dataclass(frozen=True)
class Device:
    """Rates of one rank under the given software and constants."""

    linear_flops_per_s: float  # linear layers, in the training precision
    unquantised_flops_per_s: float  # head, expert router and unfused scores, in 16 bits or FP32
    half_flops_per_s: float  # in 16 bits, also in FP32 training
    attention_flops_per_s: float  # long-sequence fused attention, forward
    attention_half_length: float  # tokens at which fused attention reaches half of that rate
    narrow_head_exponent: float  # scales that rate by (head dim / 128)^x for narrower heads
    hbm_bytes_per_s: float  # bandwidth that vector operators reach
    raw_hbm_bytes_per_s: float
    element_factor: float
    num_cores: int
    time_factor: float  # multiplies device time: software release, slowest node, and the job's own factors
    constants: Constants

    @property
    def in_half(self) -> Device:
        """The device for matmuls that are in 16 bits whatever the training precision."""
        rate = self.half_flops_per_s
        return replace(self, linear_flops_per_s=rate, unquantised_flops_per_s=rate, element_factor=1.0)

    @classmethod
    def of(cls, workload: Workload, constants: Constants) -> Device:
        """Rates for the workload's hardware, precision and software.

        Raises ``ValueError`` if the profile has no peak for the training precision.
        """
        profile, software = workload.cluster.profile, workload.software
        precision = workload.training.precision
        half = "fp16" if precision == "fp16" or "bf16" not in profile.matmul_flops_per_s else "bf16"
        unquantised = "fp32" if precision == "fp32" else half
        matmul_fraction = constants.matmul_fraction
        attention_fraction, attention_half_length, narrow_head_exponent = _slowest_attention(workload, constants)
        if software.stock_matmuls and workload.device_traits.generation is Generation.BLACKWELL:
            matmul_fraction = matmul_fraction / constants.stock_blackwell_factor
        return cls(
            linear_flops_per_s=achievable_flops_per_s(profile, workload.linear_precision) * matmul_fraction,
            unquantised_flops_per_s=achievable_flops_per_s(profile, unquantised) * matmul_fraction,
            half_flops_per_s=achievable_flops_per_s(profile, half) * matmul_fraction,
            attention_flops_per_s=matmul_peak_flops_per_s(profile, unquantised) * attention_fraction,
            attention_half_length=attention_half_length,
            narrow_head_exponent=narrow_head_exponent,
            hbm_bytes_per_s=profile.hbm_bytes_per_s * constants.vector_fraction,
            raw_hbm_bytes_per_s=profile.hbm_bytes_per_s,
            element_factor=element_factor(workload),
            num_cores=profile.num_matmul_cores,
            time_factor=_release_factor(workload, constants)
            * _slowest_device_factor(workload.cluster, constants)
            * software.time_factor
            * workload.cluster.time_factor,
            constants=constants,
        )


def _slowest_attention(workload: Workload, constants: Constants) -> tuple[float, float, float]:
    """Rate of fused attention: fraction of peak at long sequences, length that reaches half of it [tokens], narrow-head exponent.

    Each is the slowest of the generations that the device may be.
    """
    kernels = [_attention_kernel(workload, constants, generation) for generation in workload.device_traits.possible_generations]
    fractions, half_lengths, exponents = zip(*kernels, strict=True)
    return min(fractions), max(half_lengths), max(exponents)


def _attention_kernel(workload: Workload, constants: Constants, generation: Generation) -> tuple[float, float, float]:
    """``_slowest_attention`` for devices of one generation.

    Notes
    -----
    The kernels are Ascend's and Hopper's own, or FlashAttention-2, which uses Ampere's instructions (``portable_attention``), or
    Triton's before 2024 [flash-attention-2; flash-attention-3].
    """
    traits, software = workload.device_traits, workload.software
    portable = software.portable_attention and not traits.own_fused_attention
    exponent = NARROW_HEAD_EXPONENT
    if not (portable or traits.own_fused_attention):
        exponent = OWN_NARROW_HEAD_EXPONENT[generation]
    if traits.own_fused_attention or (generation >= Generation.HOPPER and not portable):
        return constants.attention_forward_fraction, constants.attention_half_length, exponent
    share = AMPERE_INSTRUCTION_FRACTION[generation]
    if portable and software.year is not None and software.year < FLASH_ATTENTION_2_YEAR:
        return constants.triton_attention_fraction * share, constants.triton_attention_half_length, exponent
    return constants.portable_attention_fraction * share, constants.portable_attention_half_length, exponent


def _release_factor(workload: Workload, constants: Constants) -> float:
    """Device time of this software release relative to the release that the constants describe."""
    ladder = workload.software_traits.releases
    if ladder is None:
        return 1.0
    step: float = getattr(constants, ladder.constant)
    return math.pow(step, _release_steps(workload.software, ladder))


def _release_steps(software: Software, ladder: Ladder) -> float:
    """Exponent of the ladder's constant: none for another framework, the mean of all for a run of unknown release."""
    if software.other_framework:
        return 0.0
    return ladder.mean_steps if software.unknown_release else ladder.rung(software.year).steps


def release_doubt(workload: Workload, constants: Constants) -> tuple[float, float]:
    """How much faster and slower, in the logarithm of device time, the releases are that an unstated one could be."""
    software, ladder = workload.software, workload.software_traits.releases
    if ladder is None or (software.year is not None and not software.other_framework):
        return 0.0, 0.0
    taken = _release_steps(software, ladder)
    distances = [(rung.steps - taken) * math.log(getattr(constants, ladder.constant)) for rung in ladder.rungs]
    return max(-min(distances), 0.0), max(*distances, 0.0)


def release_years(workload: Workload) -> tuple[float, tuple[float, ...]]:
    """The newest year of a stack's releases, and one year for each other price.

    A release of unknown date is priced as the newest. The workload's devices and software decide which years differ.
    """
    software, ladder = workload.software, workload.software_traits.releases
    years = set(ladder.years if ladder is not None else (NEWEST_YEAR,))
    newest = max(years)
    if software.portable_attention and not workload.device_traits.own_fused_attention:
        years.add(FLASH_ATTENTION_2_YEAR - 1)
    traits = workload.software_traits
    if workload.model.moe is not None and traits.router_keeps_norm_output_year is not None:
        years.add(math.ceil(traits.router_keeps_norm_output_year) - 1)
        years |= set() if traits.fp32_router_year is None else {traits.fp32_router_year}
    return newest, tuple(sorted(years - {newest}))


def _slowest_device_factor(cluster: Cluster, constants: Constants) -> float:
    """Factor on device time for waiting on the slowest node: a fraction for each doubling of the nodes, 1 for one node."""
    nodes = cluster.num_devices / cluster.profile.devices_per_node
    return 1.0 + constants.node_doubling_fraction * math.log2(max(nodes, 1.0))


def matmul_peak_flops_per_s(profile: HardwareProfile, precision: str) -> float:
    """Dense matmul peak in a precision. FP16 and BF16 substitute for each other, FP8 for HiF8. [flops/s]

    Raises ``ValueError`` if the profile has no such peak; a peak is never made up.
    """
    peaks = profile.matmul_flops_per_s
    for name in ALIKE.get(precision, (precision,)):
        if name in peaks:
            return peaks[name]
    raise ValueError(Sentence("{} has no {} matmul peak; it has {}", profile.name, precision, joined(", ", sorted(peaks))))


def achievable_flops_per_s(profile: HardwareProfile, precision: str) -> float:
    """Best measured matmul rate in a precision, or a typical fraction of peak without a measurement. [flops/s]

    Raises ``ValueError`` if the profile has no such peak.
    """
    measured = profile.achievable_matmul_flops_per_s
    peak = matmul_peak_flops_per_s(profile, precision)
    rates = (measured.get(name) for name in ALIKE.get(precision, (precision,)))
    return next(filter(None, rates), peak * UNMEASURED_ACHIEVABLE_FRACTION)


def matmul_s(
    rows: ArrayLike,
    columns: ArrayLike,
    depth: ArrayLike,
    device: Device,
    *,
    groups: ArrayLike = 1,
    at_once: ArrayLike | None = None,
    flops_per_s: float | None = None,
) -> Floats:
    """Time of ``groups`` matmuls ``[rows, depth] x [depth, columns]`` with ``rows`` in total; arrays broadcast. [s]

    T = max(2 rows' columns depth / (rate e_wave e_depth), bytes / HBM) + launch, with rows' = rows + half a tile a
    group, e_wave = w / (w + w0) for w = tiles / cores waves, e_depth = k / (k + k0). The smooth forms average wave
    quantisation over shapes, so a shape changed by one step never makes the time jump. The time is that of one launch on an
    idle device, calibrated, and 0 for zero rows. Source: [asc-devkit-guide, Matmul tiling]; limits: no split-K, no sparsity.

    Parameters
    ----------
    rows
        M, of all groups together.
    columns
        N, columns of the output.
    depth
        K, the inner dimension.
    groups
        Number of weights that share the rows. With more than one, each group pads half a tile of rows.
    at_once
        Groups that run side by side, so that their tiles share the waves. ``None``: all.
    flops_per_s
        Rate of a large matmul. ``None``: that of linear layers in the training precision.
    """
    c = device.constants
    m, n, k, g = (np.asarray(x, dtype=np.float64) for x in (rows, columns, depth, groups))
    padded = np.where(g > 1, m + PADDING_TILE_FRACTION * TILE_ROWS * g, m)
    together = 1.0 if at_once is None else np.minimum(np.asarray(at_once, dtype=np.float64) / g, 1.0)
    waves = together * padded / TILE_ROWS * np.maximum(n / TILE_COLUMNS, NARROWEST_TILE_FRACTION) / device.num_cores
    rate = (flops_per_s or device.linear_flops_per_s) * waves / (waves + c.wave_loss) * k / (k + c.depth_half)
    busy = 2.0 * padded * n * k / np.maximum(rate, 1.0)
    moved = device.element_factor * ELEMENT_BYTES * (m * k + g * k * n + m * n) / device.raw_hbm_bytes_per_s
    return np.where(m > 0, np.maximum(busy, moved) + c.kernel_s, 0.0) * device.time_factor


def fused_attention_s(flops: ArrayLike, length: ArrayLike, head_dim: int, device: Device) -> tuple[Floats, Floats]:
    """Forward and backward time of fused (flash) attention on one rank; arrays broadcast. [s]

    The rate is R s / (s + s0), scaled by (d / 128)^x for head dims below 128 (shorter inner loops). The backward executes 2.5x
    the FLOPs at its own fraction of the rate. Source: [pto-isa], [flash-attention-2].

    Parameters
    ----------
    flops
        Forward FLOPs on the rank, under its mask.
    length
        Tokens that one kernel sees.

    Notes
    -----
    Validity: head dims of today's models and sequences above about 512 tokens; nothing else was compared with measurements.
    """
    c = device.constants
    s = np.asarray(length, dtype=np.float64)
    narrow = min(1.0, (head_dim / FULL_RATE_HEAD_DIM) ** device.narrow_head_exponent)
    rate = device.attention_flops_per_s * s / (s + device.attention_half_length) * narrow
    forward = np.asarray(flops, dtype=np.float64) / rate * device.time_factor
    return forward, forward * ATTENTION_BACKWARD_FLOPS / c.attention_backward_fraction


def unfused_attention_s(scores: ArrayLike, head_dim: int, device: Device) -> tuple[Floats, Floats]:
    """Forward and backward time of attention that writes its scores to memory; arrays broadcast. [s]

    The forward has two matmuls of 2 d FLOPs a score, and ``score_bytes`` of traffic a score. The rate is the dense one, or 10
    TFLOPS if d is no multiple of 8 (GPU tensor cores need it). The backward has four matmuls and 1.6x the traffic. Source:
    [korthikanti2022, section 4], [runs-fit].

    Parameters
    ----------
    scores
        Heads x queries x keys on the rank. Causal masks skip none.
    """
    count = np.asarray(scores, dtype=np.float64)
    rate = device.unquantised_flops_per_s
    if head_dim % ALIGNED_HEAD_DIM:
        rate = min(rate, MISALIGNED_HEAD_FLOPS_PER_S)
    depth_fraction = head_dim / (head_dim + device.constants.depth_half)
    matmul = 2.0 * 2.0 * head_dim * count / (rate * depth_fraction)  # two matmuls of 2 d FLOPs a score
    traffic = device.element_factor * device.constants.score_bytes * count / device.raw_hbm_bytes_per_s
    backward = 2.0 * matmul + UNFUSED_BACKWARD_TRAFFIC_FACTOR * traffic
    return (matmul + traffic) * device.time_factor, backward * device.time_factor


def vector_s(moved_bytes: ArrayLike, device: Device) -> Floats:
    """Time of memory-bound operators that read and write ``moved_bytes`` of 16-bit activations over HBM; elementwise. [s]

    In FP32 they move twice as much. Launches are not included: they are host time (``cost_models.layer.host``).
    """
    return state_s(device.element_factor * np.asarray(moved_bytes, dtype=np.float64), device)


def state_s(moved_bytes: ArrayLike, device: Device) -> Floats:
    """As ``vector_s``, of states and tables, whose bytes are those of their own precision; elementwise. [s]"""
    return np.asarray(moved_bytes, dtype=np.float64) / device.hbm_bytes_per_s * device.time_factor
