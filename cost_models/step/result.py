"""Result of pricing a batch of strategies."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cost_models.memory.fit import FitRule
from documents.late_methods import dataclass

FloatColumn = NDArray[np.float64]


@dataclass(frozen=True)
class Breakdown:
    """Parts of an estimate, each ``[n]`` and computed on its own.

    ``time_s`` is exposed time on the critical rank and sums to ``step_time_s``. ``masked_s`` is hidden time, outside that sum.
    ``memory_bytes`` is the worst rank at its peak and sums to ``peak_memory_bytes``.
    """

    time_s: dict[str, FloatColumn]
    masked_s: dict[str, FloatColumn]
    memory_bytes: dict[str, FloatColumn]


@dataclass(frozen=True)
class Estimate:
    """Estimates of strategies: columns ``[n]`` in SI units.

    ``peak_memory_bytes`` is what the device must hold at its peak: allocations, the smallest pool under which they succeed,
    communicators and runtime. It grows with every byte that is needed, so it decides what fits; ``fit_rule`` says how.
    ``pooled_peak_bytes`` is what a monitor of the device shows: the allocator keeps freed blocks while memory is free.
    ``allocated_peak_bytes`` is the framework allocator's maximum in steady state,
    ``allocated_first_iteration_bytes`` the same before Adam moments exist (what framework logs print),
    ``reserved_peak_bytes`` its pool, ``allocated_after_step_bytes`` what stays between steps, all on the worst rank.
    ``stage_*`` hold ``[stage, n]`` for the first pipeline ranks, zero beyond a row's own ``pp``
    (only with ``breakdown=True``; ``stage_bubble_s`` only from a simulation). ``uneven_experts_s``, with a breakdown, is what
    uneven experts add to a step: inside ``step_time_s`` if the routing is stated, outside it if it is assumed.
    """

    step_time_s: FloatColumn
    step_time_lower_bound_s: FloatColumn
    peak_memory_bytes: FloatColumn
    allocated_peak_bytes: FloatColumn
    allocated_first_iteration_bytes: FloatColumn
    allocated_after_step_bytes: FloatColumn
    reserved_peak_bytes: FloatColumn
    pooled_peak_bytes: FloatColumn
    fit_rule: FitRule
    fidelity: str = "closed_form"  # "closed_form" or "simulated"
    breakdown: Breakdown | None = None
    stage_allocated_after_step_bytes: FloatColumn | None = None
    stage_allocated_first_iteration_bytes: FloatColumn | None = None
    stage_allocated_peak_bytes: FloatColumn | None = None
    stage_peak_memory_bytes: FloatColumn | None = None
    stage_time_s: FloatColumn | None = None  # forward and backward of one micro batch
    stage_bubble_s: FloatColumn | None = None
    uneven_experts_s: FloatColumn | None = None

    @property
    def memory_limit_bytes(self) -> float:
        """Device memory that a job can fill."""
        return self.fit_rule.memory_limit_bytes

    @property
    def fits(self) -> NDArray[np.bool_]:
        """Whether the true peak leaves the required headroom with the required confidence, ``[n]``."""
        return self.peak_memory_bytes <= self.fit_rule.fit_limit_bytes

    @property
    def fits_probability(self) -> FloatColumn:
        """Probability that the true peak leaves the required headroom."""
        return self.fit_rule.probability(self.peak_memory_bytes)
