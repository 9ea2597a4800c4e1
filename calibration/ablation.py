"""What each constant and each mechanism is worth: left-out errors with it held, and the others fitted anew."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace

import numpy as np

from calibration.fitting import Fitted, Floats, left_out_log_errors

# Values at which a mechanism costs nothing, or is no longer told from its plain form.
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
    "expert_matmul_factor": 1.0,
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


def thinned(fitted: Fitted, groups: Sequence[Hashable], every: int) -> tuple[Fitted, list[Hashable]]:
    """Every so-many-th observation of each group, and its group: enough to compare mechanisms, in a part of the time."""
    seen: dict[Hashable, int] = {}
    keep = np.zeros(len(groups), dtype=bool)
    for i, group in enumerate(groups):
        keep[i] = seen.setdefault(group, 0) % every == 0
        seen[group] += 1
    observations = tuple(o for o, kept in zip(fitted.observations, keep, strict=True) if kept)
    some = replace(fitted, observations=observations, log_errors=fitted.log_errors[keep], jacobian=fitted.jacobian[keep])
    return some, [group for group, kept in zip(groups, keep, strict=True) if kept]


def held_log_errors(fitted: Fitted, groups: Sequence[Hashable], name: str, value: float) -> Floats:
    """Left-out log errors with one constant held at ``value`` and the other free ones fitted anew. ``[observation]``

    The new fit is one linear step from the full one, as for left-out errors.
    """
    free = [i for i, other in enumerate(fitted.names) if other != name]
    start = fitted.start.with_values({name: value})
    held = replace(
        fitted,
        start=start,
        names=tuple(fitted.names[i] for i in free),
        log_values=fitted.log_values[free],
        prior_spread=fitted.prior_spread[free],
        jacobian=fitted.jacobian[:, free],
    )
    errors = np.array([o.log_error(held.constants) for o in held.observations])
    return left_out_log_errors(replace(held, log_errors=errors), groups, is_linear=True)
