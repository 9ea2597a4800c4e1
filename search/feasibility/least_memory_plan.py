"""Whether a target takes any plan that fits, checked on the plans of least memory alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from cost_models.constants import Constants
from cost_models.shapes.strategy import ParallelStrategy, concatenate
from cost_models.shapes.workload import Workload
from cost_models.step.composition import estimate, fitting_rows
from frameworks.target import ANY
from search.space.enumeration import Rejections, charge_illegal, chunks, option_rules, placement_rules
from search.space.limits import SearchLimits
from search.space.memory_saving_forms import least_memory_form
from search.space.recompute_modes import recompute_mode
from search.space.search_space import search_space


def lean_limits(limits: SearchLimits) -> SearchLimits:
    """The limits with the choices of least memory: full recompute, micro batch size 1, no virtual stages."""
    lean: dict[str, Any] = {"vpp": (1,), "micro_batch_size": (1,), "recompute": (recompute_mode("full"),)}
    return replace(limits, **{name: value for name, value in lean.items() if getattr(limits, name) is None})


def takes_a_lean_plan(workload: Workload, limits: SearchLimits, constants: Constants, rejections: Rejections) -> bool:
    """Whether the target takes a plan of least memory that fits; ``rejections`` collect the reasons if not."""
    return lean_plan(workload, limits, constants, rejections) is not None


def lean_plan(workload: Workload, limits: SearchLimits, constants: Constants, rejections: Rejections) -> ParallelStrategy | None:
    """A plan of least memory that the target takes and that fits, of the first pipeline depth that has any.

    It is the fastest of its chunk in closed form.
    """
    rules, space = (*option_rules(workload), *placement_rules(workload)), search_space(workload, lean_limits(limits))
    for chunk in chunks(workload, space, rejections):
        legal = charge_illegal(workload, chunk.batch, rules, rejections)
        if len(legal):
            least = least_memory_form(workload.model, legal, space.leaner)
            legal = concatenate([legal, charge_illegal(workload, least, rules, rejections)])
        fits = fitting_rows(workload, legal, constants) if len(legal) else np.zeros(0, dtype=np.bool_)
        if fits.any():
            fitting = legal.take(fits)
            return fitting.row(int(estimate(workload, fitting, constants, memory=False).step_time_s.argmin()))
    return None


def most_frequent(workload: Workload, rejections: Rejections) -> str | None:
    """The sentence of the framework's rule that most strategies break, if they break any beside those of physics."""
    own = {name: count for name, count in rejections.counts.items() if ANY.name not in rejections.examples[name][0].targets}
    if not own:
        return None
    rule, example = rejections.examples[max(own, key=lambda name: (own[name], name))]
    return rule.sentence(workload, example)
