"""Factors that widen an interval if the stack, chip or mechanism of a job is in no measured run.

Each factor compares the errors of past stacks, chips or mechanisms, with every run of them left out of the fit, with the bands
of known ones. The errors are nested, so that no number behind the fit has seen the runs either.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from calibration.splits.groups import architecture, model_kind
from cost_models.shapes.workload import Workload
from documents.late_methods import dataclass
from documents.sentences import Sentence, joined

if TYPE_CHECKING:
    from calibration.records.training import RunRecord

Floats = NDArray[np.float64]
Cell = tuple[str, str, str]  # hardware, stack and kind of model that a measured run covers

STACK, CHIP, COMBINATION, MECHANISM = "stack", "chip", "combination", "mechanism"
STEPS = (STACK, CHIP, COMBINATION, MECHANISM)
NOMINAL_COVERAGE = 0.8
SHARE_OF_STEPS = 0.8  # share of further stacks, chips or mechanisms that cost no more than the factor says
WIDER_UNSEEN = 1.5  # factor of a step that the calibration has no value for, as in files of earlier versions


@dataclass(frozen=True)
class Step:
    """Factor on the width of an interval for one step, from ``num_runs`` runs of ``num_groups`` stacks, chips or mechanisms."""

    kind: str
    factor: float
    num_groups: int
    num_runs: int


@dataclass(frozen=True)
class Taken:
    """A step that a job takes, with its sentence."""

    kind: str
    sentence: str


def cell(workload: Workload) -> Cell:
    """The cell that a run of this workload covers."""
    return workload.cluster.profile.name, workload.software.stack, model_kind(workload)


def step_of(kind: str, records: Sequence[RunRecord], left_out: Mapping[str, Floats]) -> Step:
    """Factor of one kind of step.

    A group's factor is the number of bands that hold ``NOMINAL_COVERAGE`` of its errors; architectures inside it have equal
    weight, however many runs they have. The step's factor is what four in five of further groups stay below [vovk2005], at least
    1: groups differ, and the next one is no mean of them.

    Parameters
    ----------
    left_out
        By group, the error of each run over its end of the band, with the group left out. NaN where there is none. ``[run]``
    """
    shapes = [str(architecture(record)) for record in records]
    factors, runs = [], 0
    for errors in left_out.values():
        own = ~np.isnan(errors)
        if own.any():
            chosen = [shape for shape, is_own in zip(shapes, own, strict=True) if is_own]
            weights = np.array([1.0 / chosen.count(shape) for shape in chosen])
            factors.append(weighted_quantile(errors[own], weights, NOMINAL_COVERAGE))
            runs += int(own.sum())
    return Step(kind, quantile_of_ratios(factors), len(factors), runs)


def weighted_quantile(values: Floats, weights: Floats, share: float, *, beyond: float = 0.0) -> float:
    """What ``share`` of the weight stays below, with a weight ``beyond`` all values; the largest value if it is too little."""
    order = np.argsort(values)
    reached = np.cumsum(weights[order]) / (weights.sum() + beyond)
    index = int(np.searchsorted(reached, share - 1e-12))
    return float(values[order[min(index, len(values) - 1)]])


def quantile_of_ratios(ratios: Sequence[float]) -> float:
    """What four in five of further ratios stay below, at least 1; ``WIDER_UNSEEN`` without any [vovk2005]."""
    if not ratios:
        return WIDER_UNSEEN
    rank = min(math.ceil(SHARE_OF_STEPS * (len(ratios) + 1)), len(ratios))
    return max(sorted(ratios)[rank - 1], 1.0)


def steps_taken(workload: Workload, cells: Sequence[Cell]) -> list[Taken]:
    """The steps of hardware and software that a workload takes beyond the cells of measured runs, each with a sentence."""
    hardware, stack, kind = cell(workload)
    found = []
    if workload.software.other_framework:
        found.append(Taken(STACK, Sentence("stack unseen: another framework, priced as {}", stack)))
    elif stack not in {own for _, own, _ in cells}:
        found.append(Taken(STACK, Sentence("stack unseen: no measured run with {}", stack)))
    if hardware not in {own for own, _, _ in cells}:
        found.append(Taken(CHIP, Sentence("chip unseen: no measured run on {}", hardware)))
    if not found and cell(workload) not in cells:
        found.append(
            Taken(COMBINATION, Sentence("no measured run of a {} model with {} on {}", Sentence.whole(kind), stack, hardware))
        )
    return found


def mechanisms_taken(used: Iterable[str], seen: Iterable[str]) -> list[Taken]:
    """One step for all mechanisms that no run used."""
    unseen = sorted(set(used) - set(seen))
    return [Taken(MECHANISM, Sentence("mechanism unseen: no measured run with {}", joined(", ", unseen)))] if unseen else []


def factor_of(taken: Iterable[Taken], steps: Sequence[Step]) -> float:
    """Factor on the width of an interval for these steps; independent errors add in squares."""
    known = {step.kind: step.factor for step in steps}
    return float(np.sqrt(1.0 + sum(known.get(kind, WIDER_UNSEEN) ** 2 - 1.0 for kind in {t.kind for t in taken})))
