"""Numbers that were tuned on the runs, with their values without runs.

A left-out run is truly unseen only if the priors do not rest on it either. Most priors cite ``[runs-fit]``: they were read off
fits to the same runs. Nested leave-out (``leave_out.nested``) resets them, and the tuned numbers of modules, to the values of
kernel tables, vendors' figures or arithmetic, with a spread for their uncertainty. The remaining runs then fit them again. A
test compares this table with the sources: each number that cites runs is here or in ``FORM``.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from cost_models.constants import CONSTANTS, Constants
from cost_models.layer import communication, compute, host, modules
from cost_models.shapes.traits import family_traits
from documents.late_methods import dataclass

RUNS = ("[runs-fit]", "[runs-ascend]", "[runs-gpu]")  # citations of runs


@dataclass(frozen=True)
class WithoutRuns:
    """A tuned number's neutral value for each family, its uncertainty (one standard deviation of its log), and the reason.

    ``module`` holds a number that is not in ``CONSTANTS``; ``low`` and ``high`` are its bounds. In a family that is not among
    ``tuned_on`` the model takes the value without runs.
    """

    name: str
    ascend: float
    gpu: float
    log_spread: float
    why: str
    module: str | None = None
    low: float = 0.0
    high: float = float("inf")
    tuned_on: tuple[str, ...] = ("ascend", "gpu")

    def neutral(self, family: str) -> float:
        """The value without runs, for ``ascend`` or a family with a GPU's priors."""
        return float(getattr(self, family_traits(family).priors))

    def is_tuned_on(self, family: str) -> bool:
        """Whether runs of the family, or of one with its priors, set the number."""
        return family_traits(family).priors in self.tuned_on

    @property
    def bounds(self) -> tuple[float, float]:
        """Lower and upper bound of the number."""
        if self.module:
            return self.low, self.high
        return next((c.low, c.high) for c in CONSTANTS if c.name == self.name)

    def value(self, constants: Constants) -> float:
        """The current value, with these constants."""
        return float(getattr(sys.modules[self.module] if self.module else constants, self.name))


_COMMUNICATION, _COMPUTE, _HOST, _MODULES = (part.__name__ for part in (communication, compute, host, modules))

TUNED: tuple[WithoutRuns, ...] = (
    WithoutRuns("matmul_fraction", 0.9, 0.9, 0.15, "large matmuls of a step reach 80 to 100 % of the best one [flagperf]"),
    WithoutRuns("attention_forward_fraction", 0.45, 0.6, 0.25, "[pto-isa, flash attention table]; [flash-attention-3, figure 5]",
                tuned_on=("gpu",)),
    WithoutRuns("portable_attention_fraction", 0.45, 0.6, 0.25, "[flash-attention-2, figure 5]"),
    WithoutRuns("triton_attention_fraction", 0.45, 0.4, 0.3, "Triton's curve in [flash-attention-2, figure 5]"),
    WithoutRuns("triton_attention_half_length", 500.0, 500.0, 1.0, "as FlashAttention-2 [flash-attention-2, figure 5]"),
    WithoutRuns("attention_backward_fraction", 0.8, 0.8, 0.25, "[flash-attention-2, figures 4 and 5]"),
    WithoutRuns("vector_fraction", 0.85, 0.85, 0.25, "[asc-devkit]", tuned_on=("ascend",)),
    WithoutRuns("quantise_bytes", 6.0, 6.0, 0.5, "read once, written in rows and in columns [transformer-engine]"),
    WithoutRuns("wave_loss", 0.5, 0.5, 0.5, "mean of a last wave of any size [asc-devkit-guide]"),
    WithoutRuns("host_kernel_s", 1e-5, 1e-5, 0.8, "5 to 20 us a dispatch [msmodeling]"),
    WithoutRuns("graph_dispatch_factor", 0.1, 0.1, 1.0, "most of it"),
    WithoutRuns("stock_blackwell_factor", 1.0, 1.0, 0.3, "no difference known"),
    WithoutRuns("recent_eager_factor", 1.0, 1.0, 0.15, "no difference known"),
    WithoutRuns("early_graph_factor", 1.0, 1.0, 0.15, "no difference known"),
    WithoutRuns("node_doubling_fraction", 0.002, 0.002, 1.5, "some; no figure known"),
    WithoutRuns("host_micro_batch_s", 3e-3, 3e-3, 1.0, "some milliseconds of Python; no figure known"),
    WithoutRuns("host_moe_sync_s", 5e-4, 5e-4, 1.0, "a few synchronisations of 0.1 to 1 ms; no figure known"),
    WithoutRuns("intra_fraction", 0.83, 0.75, 0.2, "[hcomm]; all-reduce over NVLink by nccl-tests [stas00]"),
    WithoutRuns("inter_fraction", 0.83, 0.85, 0.2, "[hcomm]; nccl-tests over InfiniBand [stas00]"),
    WithoutRuns("collective_latency_s", 1.5e-5, 2e-5, 0.7, "[mc2-case]"),
    WithoutRuns("overlapped_tp_exposed_fraction", 0.5, 0.5, 0.6, "between all and none"),
    WithoutRuns("cp_factor", 1.0, 1.0, 0.3, "the formula"),
    WithoutRuns("expert_comm_factor", 1.0, 1.0, 0.3, "the formula"),
    WithoutRuns("permute_passes", 8.0, 8.0, 0.8, "four passes counted, twice that with indices and casts"),
    WithoutRuns("cross_entropy_bytes", 40.0, 24.0, 0.7, "eight to twenty reads and writes of 2 or 4 bytes [megatron-0.12]"),
    WithoutRuns("dp_exposed_fraction", 0.4, 0.4, 0.8, "between all and none"),
    WithoutRuns("hidden_stretch_fraction", 0.2, 0.2, 0.8, "[mc2-case]"),
    WithoutRuns("step_overhead_s", 0.02, 0.02, 0.8, "tens of milliseconds; no figure known", tuned_on=("ascend",)),
    WithoutRuns("allocator_fraction", 0.03, 0.05, 0.8, "[mindspeed, PYTORCH_NPU_ALLOC_CONF]; moves no time"),
    WithoutRuns("FINE_GRAIN_INTERLEAVE_FRACTION", 0.9, 0.9, 0.2, "some of it hides; no figure known", _COMMUNICATION, 0.3, 1.0),
    WithoutRuns("MISALIGNED_HEAD_FLOPS_PER_S", 2e13, 2e13, 1.0, "off the tensor cores [nvidia-datasheets]", _COMPUTE, 1e12, 2e14),
    WithoutRuns("NARROW_HEAD_EXPONENT", 0.15, 0.15, 0.5, "[flash-attention-2, figure 5]", _COMPUTE, 0.01, 1.0),
    WithoutRuns("UNFUSED_BACKWARD_TRAFFIC_FACTOR", 2.0, 2.0, 0.3, "twice the matmuls of a forward", _COMPUTE, 1.0, 3.0),
    WithoutRuns("ATTENTION_KERNELS", 20, 20, 0.3, "counted in [megatron-0.12]", _HOST, 5, 80),
    WithoutRuns("MLP_KERNELS", 10, 10, 0.3, "counted in [megatron-0.12]", _HOST, 3, 40),
    WithoutRuns("MOE_KERNELS", 30, 30, 0.5, "counted in [megatron-0.12]", _HOST, 5, 150),
    WithoutRuns("EXPERT_KERNELS", 8, 8, 0.5, "counted in [megatron-0.12]", _HOST, 2, 40),
    WithoutRuns("QUANTISED_EXPERT_KERNELS", 1, 1, 0.7, "one call [transformer-engine]", _HOST, 0.1, 20),
    WithoutRuns("SLOWEST_HOST_FRACTION", 0.05, 0.05, 1.0, "some; no figure known", _HOST, 1e-4, 0.5),
    WithoutRuns("BLOCKED_FORWARD_S", 6e-4, 6e-4, 0.5, "thirty kernels of 20 us", _HOST, 1e-4, 5e-3),
    WithoutRuns("QUANTISED_EXPERT_LAUNCHES", 10, 10, 0.5, "counted in [transformer-engine]", _MODULES, 1, 60),
    WithoutRuns("PERMUTE_FUSION_FRACTION", 0.5, 0.5, 0.5, "less traffic; no figure known", _MODULES, 0.1, 1.0),
)  # fmt: skip

# Values that cite runs and that no fit can move: thresholds and counts of a mechanism, and the form of errors and intervals.
# Without its tuned number (given here) a threshold has no effect.
FORM: Mapping[str, str] = {
    "MINDSPEED_LLM": "which releases are of one speed, as MINDFORMERS; nothing without the factors of releases",
    "CHECKPOINT_KERNELS": "kernels of a recomputed module, counted once for a table; stays in nested leave-out",
    "ALIGNED_HEAD_DIM": "a property of tensor cores; nothing without MISALIGNED_HEAD_FLOPS_PER_S",
    "FUSED_KERNELS_SAVED": "kernels counted in the frameworks",
    "_TENTH": "the form of memory errors; moves no time",
    "ERROR_SCALE": "the form of the fit",
    "SITE_LOG_SPREAD": "how far a user's site may move",
    "PRIOR_GROUPS": "the form of intervals",
    "context_bytes of profiles": "device memory beside the framework's; moves no time",
    "matmul_flops_per_s of profiles": "of the 500 W H100: the square root of its share of power",
    "achievable_matmul_flops_per_s of profiles": "of the 500 W H100: the square root of its share of power",
    "vector_flops_per_s of profiles": "of the 500 W H100: the square root of its share of power",
}


@contextmanager
def numbers_at(values: Mapping[WithoutRuns, float]) -> Iterator[None]:
    """The numbers of modules at other values inside the block, for one thread; ``CONSTANTS`` stays unchanged.

    Modules read these as plain numbers; only nested leave-out changes them.
    """
    before = [(sys.modules[n.module], n.name, getattr(sys.modules[n.module], n.name)) for n in values if n.module]
    try:
        for number, value in values.items():
            if number.module:
                setattr(sys.modules[number.module], number.name, value)
        yield
    finally:
        for module, name, value in before:
            setattr(module, name, value)
