"""The value of each constant and mechanism: nested left-out errors with it held and everything else fitted again."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace

import numpy as np

from calibration.fitting.robust_fit import Floats
from calibration.leave_out.nested import NestedModel
from calibration.splits.folds import Mask, grouped_folds
from calibration.splits.groups import architecture, publication
from documents.late_methods import dataclass

# Values at which a mechanism costs nothing or equals its plain form.
SWITCHED_OFF = {
    "attention_half_length": 0.0,
    "portable_attention_half_length": 0.0,
    "triton_attention_half_length": 0.0,
    "wave_loss": 0.0,
    "depth_half": 0.0,
    "kernel_s": 0.0,
    "host_kernel_s": 0.0,
    "node_doubling_fraction": 0.0,
    "host_micro_batch_s": 0.0,
    "host_moe_sync_s": 0.0,
    "collective_latency_s": 0.0,
    "fused_tp_exposed_fraction": 1.0,
    "overlapped_tp_exposed_fraction": 1.0,
    "backward_tp_exposed_fraction": 1.0,
    "cp_factor": 1.0,
    "expert_comm_factor": 1.0,
    "permute_passes": 0.0,
    "cross_entropy_bytes": 0.0,
    "accumulation_bytes": 0.0,
    "cast_bytes": 0.0,
    "dp_exposed_fraction": 0.0,
    "hidden_stretch_fraction": 0.0,
    "p2p_exposed_fraction": 0.0,
    "step_overhead_s": 0.0,
    "recent_eager_factor": 1.0,
    "early_graph_factor": 1.0,
    "stock_blackwell_factor": 1.0,
}


@dataclass(frozen=True)
class Ablation:
    """Median and mean of the absolute left-out errors with a number at its value without runs, and with its mechanism off.

    ``None`` if the number was tuned on no run, or its mechanism has no such value.
    """

    name: str
    at_neutral: tuple[float, float] | None
    switched_off: tuple[float, float] | None


def ablations(model: NestedModel, family: str, free: Sequence[str], every: int = 1) -> tuple[Ablation, ...]:
    """Hold each free constant and each mechanism in turn, with publications left out; the first entry, unnamed, holds none.

    ``every`` = n keeps every n-th run of an architecture: enough to compare mechanisms, in a fraction of the time.
    """
    records = [o.record for o in model.observations]
    chosen = thinned([architecture(r) for r in records], every) & np.array([o.weight > 0.0 for o in model.observations])
    few = model.some(chosen)
    folds = grouped_folds([publication(o.record) for o in few.observations])
    found = [Ablation("", None, sizes(few.log_errors_of(folds)))]
    neutral = {number.name: number.neutral(family) for number in few.numbers if number.name in free}
    for name in dict.fromkeys((*neutral, *SWITCHED_OFF)):
        at, off = (
            None if value is None else sizes(held(few, name, value).log_errors_of(folds))
            for value in (neutral.get(name), SWITCHED_OFF.get(name))
        )
        found.append(Ablation(name, at, off))
    return tuple(found)


def thinned(groups: Sequence[Hashable], every: int) -> Mask:
    """Mask of every n-th member of each group; the first member is always kept. ``[member]``"""
    seen: dict[Hashable, int] = {}
    keep = np.zeros(len(groups), dtype=bool)
    for i, group in enumerate(groups):
        keep[i] = seen.setdefault(group, 0) % every == 0
        seen[group] += 1
    return keep


def held(model: NestedModel, name: str, value: float) -> NestedModel:
    """The model with one constant fixed at a value; its other numbers keep their values."""
    free = [i for i, number in enumerate(model.numbers) if number.name != name]
    fewer = replace(
        model,
        constants=model.constants.with_values({name: value}),
        numbers=tuple(model.numbers[i] for i in free),
        **{part: getattr(model, part)[free] for part in ("log_values", "prior", "spread", "low", "high")},
        jacobian=model.jacobian[:, free],
    )
    return replace(fewer, log_errors=fewer.errors_at(fewer.log_values, fewer.observations))


def sizes(log_errors: Floats) -> tuple[float, float]:
    """Median and mean of abs(predicted / measured - 1) of the judged runs."""
    size = np.abs(np.expm1(log_errors[~np.isnan(log_errors)]))
    return float(np.median(size)), float(size.mean())
