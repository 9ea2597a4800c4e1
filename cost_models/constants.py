"""Constants of the cost model that measured runs can calibrate, each with its prior, bounds and meaning.

Priors come from published kernel and collective measurements and from grey-box fits over public training runs;
``basis`` says which. A constant describes a mechanism of a hardware family or of a software stack, never a run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from cost_models.shapes.software_options import option_changes
from cost_models.shapes.traits import family_traits
from cost_models.shapes.workload import Software
from documents.late_methods import dataclass


@dataclass(frozen=True)
class Constant:
    """One named number of the model: its meaning, unit, admissible range and where its prior comes from."""

    name: str
    meaning: str
    unit: str
    low: float
    high: float
    log_spread: float  # one standard deviation of the prior, in natural log
    ascend: float
    gpu: float
    source: str
    basis: str = "inferred"


@dataclass(frozen=True)
class PeakSpread:
    """Error of predicted memory peaks.

    One true peak in ten is below e^``low`` times the predicted one, and one in ten is above e^``high`` times. With both 0 the
    prediction is taken as exact.
    """

    low: float = 0.0
    high: float = 0.0


@dataclass(frozen=True)
class Constants:
    """A value for each entry of ``CONSTANTS``, and the error of memory peaks predicted with them."""

    matmul_fraction: float
    attention_forward_fraction: float
    attention_half_length: float
    portable_attention_fraction: float
    portable_attention_half_length: float
    triton_attention_fraction: float
    triton_attention_half_length: float
    attention_backward_fraction: float
    score_bytes: float
    vector_fraction: float
    quantise_bytes: float
    wave_loss: float
    depth_half: float
    kernel_s: float
    host_kernel_s: float
    graph_dispatch_factor: float
    stock_blackwell_factor: float
    recent_eager_factor: float
    early_graph_factor: float
    node_doubling_fraction: float
    host_micro_batch_s: float
    host_moe_sync_s: float
    intra_fraction: float
    inter_fraction: float
    collective_latency_s: float
    fused_tp_exposed_fraction: float
    overlapped_tp_exposed_fraction: float
    backward_tp_exposed_fraction: float
    cp_factor: float
    expert_comm_factor: float
    permute_passes: float
    cross_entropy_bytes: float
    accumulation_bytes: float
    cast_bytes: float
    dp_exposed_fraction: float
    hidden_stretch_fraction: float
    p2p_exposed_fraction: float
    step_overhead_s: float
    allocator_fraction: float
    peak_spread: PeakSpread = PeakSpread()

    def with_values(self, values: Mapping[str, float]) -> Constants:
        """Copy of the constants with some values replaced by name; an unknown name raises ``KeyError``."""
        unknown = set(values) - {constant.name for constant in CONSTANTS}
        if unknown:
            raise KeyError(f"unknown constants: {', '.join(sorted(unknown))}")
        changed: dict[str, Any] = dict(values)
        return replace(self, **changed)


CONSTANTS: tuple[Constant, ...] = (
    Constant("matmul_fraction", "large-matmul rate over the best measured rate of the device", "1",
             0.5, 1.15, 0.05, 0.97, 0.86, "[flagperf]; [runs-fit]"),
    Constant("attention_forward_fraction", "fused attention forward rate (causal FLOPs, long sequences) over matmul peak", "1",
             0.1, 0.8, 0.15, 0.45, 0.5, "[pto-isa, flash attention table]; [runs-fit]"),
    Constant("attention_half_length", "sequence length at which fused attention reaches half its rate", "tokens",
             0.0, 8192.0, 0.7, 1440.0, 350.0, "[pto-isa, flash attention table]; [flash-attention-3, figure 5]", "measured"),
    Constant("portable_attention_fraction", "FlashAttention-2's rate over the peak of Ampere's matmul instruction", "1",
             0.05, 0.8, 0.15, 0.455, 0.55, "[flash-attention-2, figure 5]; [flash-attention-3, figure 5]; [runs-fit]"),
    Constant("portable_attention_half_length", "sequence length at which FlashAttention-2 reaches half its rate", "tokens",
             0.0, 8192.0, 0.7, 1440.0, 400.0, "[flash-attention-2, figure 5]", "measured"),
    Constant("triton_attention_fraction", "rate of the Triton kernels of 2022 and 2023 over the same peak", "1",
             0.05, 0.8, 0.15, 0.455, 0.41, "[runs-fit]"),
    Constant("triton_attention_half_length", "sequence length at which those kernels reach half their rate", "tokens",
             0.0, 8192.0, 0.7, 1440.0, 1000.0, "[runs-fit]"),
    Constant("attention_backward_fraction", "fused attention backward rate over forward rate (2.5x the FLOPs)", "1",
             0.4, 1.1, 0.15, 0.75, 0.87, "[runs-fit]", "assumed"),
    # Written and read by the two matmuls, 2 + 2; read and written by the masked softmax, 4; by dropout with its mask, 5.
    Constant("score_bytes", "HBM traffic per attention score without fused attention, forward", "B",
             4.0, 40.0, 0.25, 13.0, 13.0, "[korthikanti2022]"),
    Constant("vector_fraction", "share of HBM bandwidth that vector operators reach", "1",
             0.4, 1.1, 0.15, 0.90, 0.85, "[asc-devkit]; [runs-fit]"),
    Constant("quantise_bytes", "HBM traffic an element to scale and cast an operand of an 8- or 4-bit matmul", "B",
             2.0, 30.0, 0.4, 6.0, 6.0, "[transformer-engine]; [runs-fit]"),
    Constant("wave_loss", "idle part of the last wave of output tiles, in waves", "1",
             0.0, 1.0, 0.5, 0.5, 0.25, "[asc-devkit-guide]; [runs-fit]", "assumed"),
    Constant("depth_half", "inner dimension at which a matmul reaches half its rate", "1",
             0.0, 1024.0, 0.5, 64.0, 64.0, "[pto-isa, matmul table]", "assumed"),
    Constant("kernel_s", "device time between dependent matmuls (launch, tiling, first load)", "s",
             1e-7, 5e-5, 0.5, 1e-5, 4e-6, "[asc-devkit-guide]; [msmodeling]"),
    Constant("host_kernel_s", "host time to dispatch one kernel in eager mode", "s",
             1e-6, 1e-4, 0.4, 2e-5, 2.5e-5, "[runs-fit]"),
    Constant("graph_dispatch_factor", "dispatch time left under a compiled graph or CUDA graphs", "1",
             0.0, 1.0, 0.5, 0.1, 0.15, "[runs-fit]"),
    Constant("stock_blackwell_factor", "matmul time of plain Megatron-LM's published Blackwell runs over other machines'", "1",
             1.0, 1.8, 0.15, 1.0, 1.39, "[simumax]; [runs-fit]"),
    Constant("recent_eager_factor", "device time of MindSpeed-LLM of 2025 and later over that of before", "1",
             0.7, 1.2, 0.06, 0.894, 1.0, "[runs-fit]"),
    Constant("early_graph_factor", "device time of a step back in MindFormers: before r1.2, r1.2 and r1.3, later ones", "1",
             0.9, 1.4, 0.1, 1.08, 1.0, "[runs-fit]"),
    Constant("node_doubling_fraction", "device time that each doubling of the nodes adds: the slowest device sets the pace", "1",
             0.0, 0.03, 0.5, 0.005, 0.005, "[runs-fit]"),
    Constant("host_micro_batch_s", "host time a micro batch, eager", "s",
             1e-5, 0.05, 0.4, 1.18e-2, 1e-3, "[runs-fit]"),
    Constant("host_moe_sync_s", "host synchronisation a pass of a dropless MoE layer, eager", "s",
             1e-5, 0.01, 0.4, 1.5e-3, 1e-4, "[runs-fit]"),
    Constant("intra_fraction", "share of the intra-node rate that collectives reach", "1",
             0.4, 1.2, 0.1, 0.83, 0.66, "[hcomm]; [mc2-case]; [runs-fit]"),
    Constant("inter_fraction", "share of the fabric rate that collectives reach", "1",
             0.4, 1.2, 0.1, 0.83, 0.86, "[hcomm]; [runs-fit]"),
    Constant("collective_latency_s", "fixed cost of one collective call beside its network steps", "s",
             1e-6, 2e-4, 0.5, 1.5e-5, 2e-5, "[mc2-case]; [runs-fit]"),
    Constant("fused_tp_exposed_fraction", "TP communication left by fused matmul and collective kernels (MC2)", "1",
             0.2, 1.0, 0.2, 0.6, 0.6, "[pto-isa, fused GEMM]"),
    Constant("overlapped_tp_exposed_fraction", "TP communication left by the framework's own overlap", "1",
             0.1, 1.0, 0.3, 0.8, 0.4, "[runs-fit]"),
    Constant("backward_tp_exposed_fraction", "backward TP communication not hidden behind weight gradients", "1",
             0.2, 1.0, 0.2, 0.7, 0.8, "[galvatron]", "assumed"),
    Constant("cp_factor", "context-parallel communication over its formula", "1",
             0.7, 3.0, 0.3, 1.5, 1.2, "[runs-fit]", "assumed"),
    Constant("expert_comm_factor", "expert all-to-all over its formula", "1",
             0.7, 3.0, 0.3, 1.2, 1.2, "[simumax]; [runs-fit]"),
    Constant("permute_passes", "HBM passes of permute and unpermute over the routed tokens, forward", "1",
             1.0, 60.0, 0.4, 20.0, 10.0, "[runs-fit]"),
    Constant("cross_entropy_bytes", "HBM traffic a logit, forward and backward of the loss", "B",
             6.0, 150.0, 0.3, 79.0, 16.0, "[runs-fit]"),
    Constant("accumulation_bytes", "HBM traffic a parameter and micro batch to accumulate gradients", "B",
             1.0, 30.0, 0.4, 10.0, 4.0, "[megatron-0.12, param_and_grad_buffer.py]", "assumed"),
    Constant("cast_bytes", "HBM traffic a parameter and micro batch to cast FP32 weights", "B",
             2.0, 30.0, 0.4, 6.0, 6.0, "[mindformers-1.8]", "assumed"),
    Constant("dp_exposed_fraction", "data-parallel communication not hidden where overlap is on", "1",
             0.05, 1.0, 0.4, 0.36, 0.3, "[runs-fit]"),
    Constant("hidden_stretch_fraction", "how much hidden communication slows the work it hides behind", "1",
             0.0, 0.6, 0.4, 0.15, 0.3, "[mc2-case]; [runs-fit]"),
    Constant("p2p_exposed_fraction", "pipeline sends and receives not hidden where overlap is on", "1",
             0.0, 1.0, 0.5, 0.3, 0.3, "[megatron-0.12, schedules.py]", "assumed"),
    Constant("step_overhead_s", "fixed cost of a step: loss scale, clip, optimizer launch, logging", "s",
             1e-3, 0.2, 0.4, 3.0e-2, 2.0e-2, "[runs-fit]"),
    Constant("allocator_fraction", "pool the framework's allocator grows to beyond what is allocated, while memory is free", "1",
             0.0, 0.3, 0.5, 0.03, 0.14, "[mindspeed, PYTORCH_NPU_ALLOC_CONF]; [runs-fit]", "assumed"),
)  # fmt: skip


def prior_constants(family: str) -> Constants:
    """Priors of a hardware family: ``ascend``, or the priors of a GPU for every other family."""
    column = family_traits(family).priors
    return Constants(**{c.name: getattr(c, column) for c in CONSTANTS})


def constants_with_options(constants: Constants, software: Software) -> Constants:
    """Constants of a stack with its operator packs and host options, derived from the constants of the fitted runs.

    They are the same if the stack has the options of those runs. No factor moves a constant beyond its bounds, nor beyond the
    change's ``stop``.
    """
    bounds = {constant.name: (constant.low, constant.high) for constant in CONSTANTS}
    values: dict[str, float] = {}
    for change in option_changes(software.operators, software.host):
        low, high = bounds[change.constant]
        now = values.get(change.constant, getattr(constants, change.constant))
        least, most = min(low, now), max(high if change.stop is None else change.stop, now)
        values[change.constant] = min(max(now * change.factor, least), most)
    return constants.with_values(values)
