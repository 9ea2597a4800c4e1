"""Decides whether a target takes any plan that fits; checks the leanest plans first."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from cost_models.constants import Constants
from cost_models.memory.fit import fit_rule
from cost_models.shapes.strategy import ParallelStrategy, StrategyBatch, concatenate
from cost_models.shapes.workload import Workload
from cost_models.step.composition import estimate_priced, peaks
from cost_models.step.priced_groups import priced_batch
from frameworks.target import ANY
from search.placement.leanest_room import can_be_lean
from search.placement.placer import Placer
from search.space.enumeration import CHUNK_ROWS, Rejections, charge_illegal, chunks, option_rules
from search.space.limits import SearchLimits
from search.space.memory_saving_forms import least_memory_form, memory_saving_forms
from search.space.recompute_modes import recompute_mode
from search.space.search_space import SearchSpace, search_space

ROWS_AT_ONCE = 1 << 12  # each with all of its leaner forms


def lean_limits(limits: SearchLimits) -> SearchLimits:
    """The limits with the choices of least memory: full recompute, micro batch size 1, no virtual stages."""
    lean: dict[str, Any] = {"vpp": (1,), "micro_batch_size": (1,), "recompute": (recompute_mode("full"),)}
    return replace(limits, **{name: value for name, value in lean.items() if getattr(limits, name) is None})


def takes_a_plan(workload: Workload, limits: SearchLimits, constants: Constants, rejections: Rejections) -> bool:
    """Whether the workload's target takes a plan that fits; ``rejections`` count what it refuses of the leanest plans.

    The leanest plans are checked first, because one of them fits for most jobs. If none fits, every strategy is checked with all
    of its leaner forms.
    """
    if lean_plan(workload, limits, constants, rejections) is not None:
        return True
    return _first_that_fits(workload, search_space(workload, limits), constants, Rejections(), every_form=True) is not None


def lean_plan(workload: Workload, limits: SearchLimits, constants: Constants, rejections: Rejections) -> ParallelStrategy | None:
    """A plan of least memory that the target takes and that fits, of the first pipeline depth that has any.

    Of the strategies of a chunk, it is the fastest in closed form. A target may refuse the form that turns every switch to its
    leaner side, and take one that turns fewer.
    """
    space = search_space(workload, lean_limits(limits))
    found = _first_that_fits(workload, space, constants, rejections, every_form=False)
    return found or _first_that_fits(workload, space, constants, Rejections(), every_form=True)


def _first_that_fits(
    workload: Workload, space: SearchSpace, constants: Constants, rejections: Rejections, *, every_form: bool
) -> ParallelStrategy | None:
    """The fastest in closed form of the first chunk that has any; ``every_form``: in all leaner forms, not the leanest alone."""
    rules, placer = option_rules(workload), Placer(workload)
    for chunk in chunks(workload, space, rejections, ROWS_AT_ONCE if every_form else CHUNK_ROWS):
        legal = charge_illegal(workload, chunk.batch, rules, rejections)
        if len(legal):
            legal = placer.charge_unplaceable(legal, rejections)
        if not len(legal):
            continue
        forms = _all_forms(placer, legal, space, constants) if every_form else least_memory_form(workload, legal, space.leaner)
        if forms is not None:
            legal = concatenate([legal, charge_illegal(workload, forms, rules, rejections)])
        placed = placer.fastest_that_fit(priced_batch(workload, legal, constants)).priced
        if len(placed.batch):
            return placed.batch.row(int(estimate_priced(placed, memory=False).step_time_s.argmin()))
    return None


def least_memory(workload: Workload, limits: SearchLimits, constants: Constants) -> tuple[float, ParallelStrategy] | None:
    """The legal strategy of least peak [B] among the choices of least memory in every leaner form, with its layers as usual.

    ``None`` if none is legal. The peak is an upper bound on what the leanest needs: other placements may need less.
    """
    space, rules, least = search_space(workload, lean_limits(limits)), option_rules(workload), None
    for chunk in chunks(workload, space, Rejections(), ROWS_AT_ONCE):
        legal = charge_illegal(workload, chunk.batch, rules, Rejections())
        forms = memory_saving_forms(workload, legal, space.leaner) if len(legal) else None
        if forms is not None:
            legal = concatenate([legal, charge_illegal(workload, forms[0], rules, Rejections())])
        if len(legal):
            peak_bytes = peaks(priced_batch(workload, legal, constants), float("inf") if least is None else least[0]).peak_bytes
            row = int(peak_bytes.argmin())
            if least is None or peak_bytes[row] < least[0]:
                least = float(peak_bytes[row]), legal.row(row)
    return least


def _all_forms(placer: Placer, batch: StrategyBatch, space: SearchSpace, constants: Constants) -> StrategyBatch | None:
    """The leaner forms of rows of which one may have room."""
    workload = placer.workload
    limit_bytes = fit_rule(workload, constants).fit_limit_bytes
    could = can_be_lean(placer, batch, space.leaner, lambda rows: priced_batch(workload, rows, constants), limit_bytes)
    forms = memory_saving_forms(workload, batch.take(could), space.leaner)
    return None if forms is None else forms[0]


def most_frequent(workload: Workload, rejections: Rejections) -> str | None:
    """Sentence of the framework's rule that most strategies break; rules of physics do not count."""
    own = {name: count for name, count in rejections.counts.items() if ANY.name not in rejections.examples[name][0].targets}
    if not own:
        return None
    rule, example = rejections.examples[max(own, key=lambda name: (own[name], name))]
    return rule.sentence(workload, example)
