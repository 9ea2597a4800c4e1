"""Exhaustive search: every legal strategy of the lattice is priced in closed form, and the best are kept.

Nothing is sampled and nothing is held but one chunk and the leaderboard, so a space of any size runs in bounded
memory; one too large for the time given is cut, and the result says so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from cost_models.constants import Constants
from cost_models.step import estimate as closed_form
from cost_models.strategy import ParallelStrategy, StrategyBatch
from cost_models.workload import Workload
from search.answers import Answers
from search.baseline import default_baseline
from search.enumeration import Chunk, Rejections, charge_illegal, chunks, option_rules
from search.errors import SearchError
from search.explanation import Estimator
from search.ranking import OBJECTIVES, Leaderboard, Scored
from search.result import Counts, Progress, Proof, Rejection, SearchResult, Timing
from search.space import SearchSpace

Clock = Callable[[], float]
ProgressCallback = Callable[[Progress], bool | None]


@dataclass
class _Run:
    """What a search has found so far."""

    leaderboard: Leaderboard
    rejections: Rejections = field(default_factory=Rejections)
    enumerated: int = 0
    legal: int = 0
    fits_memory: int = 0
    leanest: tuple[float, ParallelStrategy] | None = None  # least peak memory of all legal strategies
    enumerate_s: float = 0.0
    legality_s: float = 0.0
    price_s: float = 0.0
    rank_s: float = 0.0


def search(
    workload: Workload,
    space: SearchSpace,
    constants: Constants,
    *,
    objective: str = "step_time",
    top: int = 20,
    baseline: ParallelStrategy | None = None,
    clock: Clock | None = None,
    time_limit_s: float | None = None,
    on_progress: ProgressCallback | None = None,
    estimate: Estimator = closed_form,
) -> SearchResult:
    """The best plans of the lattice that fit the device, with counts, reasons and proof.

    ``baseline`` is the strategy to beat (default: ``search.baseline``). ``clock`` returns seconds; without it timings
    are zero and a time limit is refused. ``on_progress`` is called after every chunk and stops the search by returning
    ``False``; so does ``KeyboardInterrupt``. A search that is stopped returns what it has, with ``proof.stopped_by``.
    ``estimate`` prices a batch (as ``cost_models.step.estimate``). Raises ``SearchError`` for an unknown objective
    or a bad limit.
    """
    if objective not in OBJECTIVES:
        raise SearchError(f"objective: {objective!r} is not one of {', '.join(OBJECTIVES)}")
    if top < 1:
        raise SearchError(f"top: {top} is below 1")
    if time_limit_s is not None and (clock is None or not time_limit_s > 0):
        raise SearchError(f"time_limit_s: {time_limit_s} is not a positive number of seconds of a given clock")
    now: Clock = clock or (lambda: 0.0)
    started_s = now()
    run = _Run(Leaderboard(objective, top))
    stopped_by = _scan(workload, space, constants, run, estimate, now, started_s, time_limit_s, on_progress)
    scanned_s = now()
    answers = Answers(workload, space, constants, estimate)
    plans = answers.plans(run.leaderboard.plans())
    measure = baseline or default_baseline(workload, constants, estimate)
    comparison = answers.baseline(measure, plans[0] if plans else None, given=baseline is not None) if measure else None
    nearest = None if plans or stopped_by else answers.nearest(run.rejections, run.leanest)
    finished_s = now()
    return SearchResult(
        counts=Counts(run.enumerated, run.legal, run.fits_memory, estimated=run.legal),
        rejections=_rejections(workload, run.rejections),
        proof=Proof(
            exhaustive=stopped_by is None,
            proved_best=stopped_by is None and bool(plans),
            scope="lattice, closed form",
            objective=objective,
            optimality_gap_fraction=0.0 if stopped_by is None and plans else None,
            stopped_by=stopped_by,
        ),
        timing=Timing(
            enumerate_s=run.enumerate_s,
            legality_s=run.legality_s,
            price_s=run.price_s,
            rank_s=run.rank_s,
            explain_s=finished_s - scanned_s,
            total_s=finished_s - started_s,
        ),
        plans=plans,
        baseline=comparison,
        nearest=nearest,
    )


def _scan(
    workload: Workload,
    space: SearchSpace,
    constants: Constants,
    run: _Run,
    estimate: Estimator,
    now: Clock,
    started_s: float,
    time_limit_s: float | None,
    on_progress: ProgressCallback | None,
) -> str | None:
    """Price the lattice into ``run``; what stopped it early, if anything did."""
    rules = option_rules(workload)
    stream = chunks(workload, space, run.rejections)
    try:
        while True:
            begun_s = now()
            chunk = next(stream, None)
            run.enumerate_s += now() - begun_s
            if chunk is None:
                return None
            begun_s = now()
            batch = charge_illegal(workload, chunk.batch, rules, run.rejections)
            run.legality_s += now() - begun_s
            _consider(workload, batch, constants, run, estimate, now)
            run.enumerated += chunk.num_enumerated
            elapsed_s = now() - started_s
            if on_progress is not None and on_progress(_progress(run, chunk, elapsed_s)) is False:
                return "interrupt"
            if time_limit_s is not None and elapsed_s >= time_limit_s:
                return "time_limit"
    except KeyboardInterrupt:
        run.enumerated = run.legal + run.rejections.total  # the chunk in hand is counted as far as it came
        return "interrupt"


def _consider(workload: Workload, batch: StrategyBatch, constants: Constants, run: _Run, estimate: Estimator, now: Clock) -> None:
    """Price legal rows and show those that fit to the leaderboard."""
    if not len(batch):
        return
    begun_s = now()
    priced = estimate(workload, batch, constants)
    priced_s = now()
    fits = priced.fits
    leanest = int(np.argmin(priced.peak_memory_bytes))
    peak = float(priced.peak_memory_bytes[leanest])
    if run.leanest is None or peak < run.leanest[0]:
        run.leanest = (peak, batch.row(leanest))
    rows = np.flatnonzero(fits)
    ordinal = run.legal + rows
    run.leaderboard.add(Scored(batch.take(rows), priced.step_time_s[rows], priced.peak_memory_bytes[rows], ordinal))
    run.legal, run.fits_memory = run.legal + len(batch), run.fits_memory + len(rows)
    run.price_s += priced_s - begun_s
    run.rank_s += now() - priced_s


def _progress(run: _Run, chunk: Chunk, elapsed_s: float) -> Progress:
    return Progress(
        chunk.done_fraction,
        run.enumerated,
        run.legal,
        run.fits_memory,
        run.leaderboard.best_step_time_s,
        elapsed_s,
    )


def _rejections(workload: Workload, rejections: Rejections) -> tuple[Rejection, ...]:
    """Reasons with their counts, the largest first."""
    listed = [
        Rejection(name, count, rejections.examples[name][0].sentence(workload, rejections.examples[name][1]))
        for name, count in rejections.counts.items()
    ]
    return tuple(sorted(listed, key=lambda rejection: (-rejection.count, rejection.rule)))
