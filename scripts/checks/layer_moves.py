"""Checks that no plan of a search gets faster when one layer of it moves.

usage: python -m scripts.checks.layer_moves MODEL --hardware H --devices N [--target T] [options]
       python -m scripts.checks.layer_moves --answer FILE [options]

MODEL: a preset, a config.json or a job file, which is searched. FILE: output of `meshplan search --json`.
A move takes a layer off one virtual stage, gives it to another, and shifts the layers between. A move that fits, is legal for
the plan's target, and could beat the plan by its lower bound is simulated.
Exit status: 0 no move improves a plan by more than the tolerance, 1 one does, 2 there is nothing to check.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from app.answers.search import search_document
from app.answers.targets import with_usual_target
from app.calibrations.constants import constants_for
from app.jobs.fields import StrategySection
from app.jobs.job import load_job, parse_job
from app.jobs.strategy import strategy_from_section
from app.text.json_documents import plain
from cost_models.constants import Constants
from cost_models.shapes.canonical import canonical
from cost_models.shapes.strategy import LayerLayout, ParallelStrategy, StrategyBatch
from cost_models.shapes.workload import Workload, WorkloadError
from cost_models.simulation.step_times import simulate
from cost_models.step.composition import estimate
from documents.bounds import BASELINE_BYTES
from documents.checking import check
from documents.errors import InputError
from documents.reading import Limits, read_document
from frameworks.legality import legal_mask
from search.placement.layer_moves import layout_of, moved

TOLERANCE_FRACTION = 1e-3


@dataclass(frozen=True)
class Move:
    """A layer from one virtual stage to another, counted from 0 in the order of the model."""

    giver: int
    taker: int
    layout: LayerLayout
    step_time_s: float


@dataclass(frozen=True)
class Checked:
    """A plan, the number of its moves and of its feasible moves, and the best move if one is faster than the plan."""

    step_time_s: float
    num_moves: int
    num_allowed: int
    best: Move | None

    @property
    def gain_fraction(self) -> float:
        """Share of the step time that the best move saves."""
        return 0.0 if self.best is None else 1.0 - self.best.step_time_s / self.step_time_s


def moves_of(layout: LayerLayout, *, neighbours: bool = False) -> Iterator[tuple[int, int, LayerLayout]]:
    """Source, destination and layout of each move, or only of moves between neighbours."""
    counts = [layers for row in layout for layers in row]
    for giver, layers in enumerate(counts):
        for taker in range(len(counts)):
            if layers and taker != giver and (not neighbours or abs(taker - giver) == 1):
                yield giver, taker, moved(layout, giver, taker)


def checked(workload: Workload, plan: ParallelStrategy, constants: Constants, *, neighbours: bool = False) -> Checked:
    """Simulate the plan and its moves."""
    layout = layout_of(workload, plan)
    own_s = float(simulate(workload, StrategyBatch.of([plan]), constants).step_time_s[0])
    moves = list(moves_of(layout, neighbours=neighbours))
    if not moves:
        return Checked(own_s, 0, 0, None)
    batch = StrategyBatch.of([canonical(workload, replace(plan, layer_layout=after)) for _, _, after in moves])
    rows = np.flatnonzero(legal_mask(workload, batch))
    if not len(rows):
        return Checked(own_s, len(moves), 0, None)
    priced = estimate(workload, batch.take(rows), constants)
    faster = rows[priced.fits & (priced.step_time_lower_bound_s < own_s)]
    times_s = simulate(workload, batch.take(faster), constants).step_time_s if len(faster) else np.empty(0)
    best = None
    if len(faster) and times_s.min() < own_s:
        best = Move(*moves[int(faster[times_s.argmin()])], float(times_s.min()))
    return Checked(own_s, len(moves), int(priced.fits.sum()), best)


def line(number: int, found: Checked) -> str:
    """The line of output for a plan."""
    start = f"plan {number}: {found.step_time_s:.4g} s; {found.num_allowed} of {found.num_moves} moves are allowed and fit, "
    if found.best is None:
        return f"{start}none is faster"
    rows = [list(row) for row in found.best.layout]
    stages = f"virtual stage {found.best.giver + 1} to {found.best.taker + 1}"
    return f"{start}a layer from {stages} takes {found.gain_fraction:.2%} off: {rows}"


def plans_of(document: Mapping[str, Any]) -> tuple[Workload, list[ParallelStrategy]]:
    """The job and the plans of a search's answer."""
    workload = parse_job(document["job"]).workload
    sections = [check(StrategySection, plan["strategy"], "strategy") for plan in document["plans"]]
    return workload, [strategy_from_section(section, workload) for section in sections]


def answered(options: argparse.Namespace) -> Mapping[str, Any]:
    """The answer in the file, or the answer of a new search."""
    if options.answer is not None:
        document = read_document(options.answer, Limits(BASELINE_BYTES), is_json=True)
        if not isinstance(document.get("plans"), list) or not isinstance(document.get("job"), dict):
            raise InputError(f"{options.answer}: it is no answer of a search; give what `meshplan search --json` prints.")
        return document
    given = {
        "cluster": {"hardware": options.hardware, "num_devices": options.devices},
        "software": {"target": options.target},
        "search": {"top": options.top},
    }
    flags = {section: {name: value for name, value in values.items() if value is not None} for section, values in given.items()}
    return plain(search_document(with_usual_target(load_job(options.model, flags, {}))))


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    try:
        workload, plans = plans_of(answered(options))
    except (InputError, WorkloadError) as error:
        print(error, file=sys.stderr)
        return 2
    if not plans:
        print("the search has no plan", file=sys.stderr)
        return 2
    constants = constants_for(workload)
    worst = 0.0
    for number, plan in enumerate(plans[: options.top], 1):
        found = checked(workload, plan, constants, neighbours=options.neighbours)
        print(line(number, found), flush=True)
        worst = max(worst, found.gain_fraction)
    return int(worst > options.tolerance)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m scripts.checks.layer_moves", description=__doc__.splitlines()[0])
    parser.add_argument("model", nargs="?", help="a preset, a config.json or a job file")
    parser.add_argument("--answer", type=Path, help="what `meshplan search --json` has printed, in place of a model")
    parser.add_argument("--hardware")
    parser.add_argument("--devices", type=int)
    parser.add_argument("--target")
    parser.add_argument("--top", type=int, default=10, help="plans to check (default 10)")
    parser.add_argument("--neighbours", action="store_true", help="moves between neighbouring virtual stages alone")
    parser.add_argument("--tolerance", type=float, default=TOLERANCE_FRACTION, help="share of the step (default 0.001)")
    options = parser.parse_args(arguments)
    if (options.model is None) == (options.answer is None):
        parser.error("give a model or --answer")
    return options


if __name__ == "__main__":
    sys.exit(main())
