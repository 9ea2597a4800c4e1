"""What pricing a batch of strategies returns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FloatColumn = NDArray[np.float64]


@dataclass(frozen=True)
class Breakdown:
    """Parts of an estimate, each ``[n]`` and computed on its own.

    ``time_s`` is exposed time on the critical rank and sums to ``step_time_s``; ``masked_s`` is what hides
    behind it, outside that sum; ``memory_bytes`` is the worst rank at its peak and sums to ``peak_memory_bytes``.
    """

    time_s: dict[str, FloatColumn]
    masked_s: dict[str, FloatColumn]
    memory_bytes: dict[str, FloatColumn]


@dataclass(frozen=True)
class Estimate:
    """Columns ``[n]`` in SI units, one entry a strategy.

    ``peak_memory_bytes`` is what the device holds at most, communicators, runtime and reserve included.
    ``allocated_peak_bytes`` is the framework allocator's share of it in steady state,
    ``allocated_first_iteration_bytes`` the same before Adam moments exist (what framework logs print),
    ``reserved_peak_bytes`` its pool, ``allocated_after_step_bytes`` what stays between steps, all on the worst rank.
    ``stage_*`` hold ``[stage, n]`` for the first pipeline ranks, zero beyond a row's own ``pp``
    (only with ``breakdown=True``; ``stage_bubble_s`` only from a simulation).
    """

    step_time_s: FloatColumn
    step_time_lower_bound_s: FloatColumn
    peak_memory_bytes: FloatColumn
    allocated_peak_bytes: FloatColumn
    allocated_first_iteration_bytes: FloatColumn
    allocated_after_step_bytes: FloatColumn
    reserved_peak_bytes: FloatColumn
    memory_limit_bytes: float
    fidelity: str = "closed_form"  # or "simulated"
    breakdown: Breakdown | None = None
    stage_allocated_after_step_bytes: FloatColumn | None = None
    stage_allocated_first_iteration_bytes: FloatColumn | None = None
    stage_peak_memory_bytes: FloatColumn | None = None
    stage_time_s: FloatColumn | None = None  # forward and backward of one micro batch
    stage_bubble_s: FloatColumn | None = None

    @property
    def fits(self) -> NDArray[np.bool_]:
        """Whether the peak stays within the device's usable memory."""
        return self.peak_memory_bytes <= self.memory_limit_bytes
