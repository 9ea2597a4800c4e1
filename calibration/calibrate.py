"""From measured runs to a calibration: which constants are free, the fit, the honest splits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from calibration.files import Calibration, FittedConstant, rounded
from calibration.fitting import Fitted, Floats, Observation, Progress, fit, left_out_log_errors, observations_of
from calibration.groups import architecture, framework
from calibration.intervals import coverage_of, error_bands
from calibration.run_records import RunRecord
from cost_models.constants import Constants, prior_constants

# What runs of each family may move: about a dozen mechanisms, and up to three deviations for each further stack.
ASCEND_CONSTANTS = (
    "matmul_fraction",
    "attention_forward_fraction",
    "score_bytes",
    "vector_fraction",
    "recent_eager_factor",
    "host_micro_batch_s",
    "host_moe_sync_s",
    "intra_fraction",
    "backward_tp_exposed_fraction",
    "fused_tp_exposed_fraction",
    "expert_comm_factor",
    "dp_exposed_fraction",
)
ASCEND_STACK_CONSTANTS = {"mindformers": ("graph_vector_factor", "early_graph_factor")}
GPU_CONSTANTS = (
    "matmul_fraction",
    "attention_forward_fraction",
    "score_bytes",
    "vector_fraction",
    "host_kernel_s",
    "intra_fraction",
    "inter_fraction",
    "overlapped_tp_exposed_fraction",
    "permute_passes",
    "expert_comm_factor",
    "step_overhead_s",
    "attention_backward_fraction",
)
GPU_STACK_CONSTANTS = {
    "fsdp": ("portable_attention_fraction", "hidden_stretch_fraction"),
    "megatron-lm": ("stock_blackwell_factor",),
}
LEARNING_PRECISIONS = ("bf16", "fp16", "fp32")


@dataclass(frozen=True)
class Outcome:
    """A calibration with the fit and the left-out errors that back it, ``[observation]`` each."""

    calibration: Calibration
    fitted: Fitted
    prior_log_errors: Floats
    architecture_left_out: Floats
    framework_left_out: Floats


def free_constants(family: str, stacks: Sequence[str]) -> tuple[str, ...]:
    """Constants that runs of these stacks may move."""
    common, deviations = (
        (ASCEND_CONSTANTS, ASCEND_STACK_CONSTANTS) if family == "ascend" else (GPU_CONSTANTS, GPU_STACK_CONSTANTS)
    )
    return common + tuple(name for stack in sorted(set(stacks)) for name in deviations.get(stack, ()))


def calibrate(
    records: Sequence[RunRecord],
    family: str,
    command: str,
    *,
    start: Constants | None = None,
    hardware: str | None = None,
    stack: str | None = None,
    on_progress: Progress | None = None,
) -> Outcome:
    """Fit a family's constants to its runs in BF16, FP16 or FP32 and price the honest splits.

    ``start`` holds the values that the fit falls back on (the family's priors, or the shipped calibration for a user's own
    runs). Raises ``ValueError`` if no record can teach anything.
    """
    start = start or prior_constants("ascend" if family == "ascend" else "nvidia")
    learning = [r for r in records if r.workload.training.precision in LEARNING_PRECISIONS]
    observations = observations_of(learning, start)
    if not observations:
        raise ValueError("no record has a step time that can teach anything")
    names = free_constants(family, [o.record.workload.software.stack for o in observations])
    fitted = fit(observations, start, names, on_progress=on_progress)
    by_architecture = left_out_log_errors(fitted, start, [architecture(o.record) for o in observations])
    by_framework = left_out_log_errors(fitted, start, [framework(o.record) for o in observations])
    used = [o.record for o in observations]
    entries = tuple(
        FittedConstant(
            name, rounded(getattr(fitted.constants, name)), rounded(getattr(start, name)), rounded(before), rounded(after)
        )
        for name, before, after in zip(names, fitted.prior_spread, fitted.spread, strict=True)
    )
    bands = tuple(
        type(b)(b.kind, rounded(b.low), rounded(b.high), b.num_runs) for b in error_bands(used, by_architecture.tolist())
    )
    calibration = Calibration(family, entries, bands, coverage_of(used), len(used), command, hardware, stack)
    return Outcome(calibration, fitted, _errors(observations, start), by_architecture, by_framework)


def _errors(observations: Sequence[Observation], constants: Constants) -> Floats:
    return np.array([o.log_error(constants) for o in observations])
