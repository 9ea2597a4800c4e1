"""Gain of trials around the proved plan: ``python -m benchmarks.refinement [SEEDS]``; about fifteen CPU minutes.

The product's method (Optuna, which starts with the elites and every single change of them) is compared with a local search and
random choice. These have the same choices, evaluation and number of trials, and start with the elites. The gain is the step
time of the proved plan minus that of the best trial. Prints the tables of ``docs/refinement.md``.
"""

from __future__ import annotations

import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any, NamedTuple

from app.answers.search import spaces_of
from app.answers.targets import with_usual_target
from app.calibrations.constants import constants_for
from app.jobs.job import Job, parse_job
from cost_models.shapes.strategy import ParallelStrategy
from cost_models.simulation.step_times import simulate
from cost_models.step.priced_keys import LayerPrices
from search.exhaustive.lattice_search import LatticeSearch
from search.ranking.leaderboard import RankedStrategy
from search.refinement.draft_choices import ELITES, DraftChoices, with_random_answers, with_random_changes
from search.refinement.draft_evaluation import Evaluator
from search.refinement.refinement_trials import BATCH_TRIALS, RefinementSettings, Stage
from search.session.request import SearchRequest
from search.session.runner import run_to_end
from search.trials.named_choices import Value
from search.trials.trial import FITS, Evaluation

NUM_SEEDS = 3
NUM_TRIALS = 256
JOBS: tuple[dict[str, Any], ...] = (
    {"model": "llama-2-70b", "cluster": {"hardware": "atlas-800t-a2", "num_devices": 256}},
    {"model": "qwen3-30b-a3b", "cluster": {"hardware": "atlas-800t-a2", "num_devices": 64}},
    {"model": "deepseek-v3", "cluster": {"hardware": "h800-sxm-80gb", "num_devices": 2048}},
    {
        "model": "qwen3-32b",
        "cluster": {"hardware": "atlas-800t-a2-910b4", "num_devices": 64},
        "software": {"stack": "mindformers", "target": "mindformers"},
    },
    {
        "model": "pangu-ultra-135b",
        "cluster": {"hardware": "atlas-800t-a2", "num_devices": 1024},
        "software": {"target": "any"},
    },
)

Parameters = Mapping[str, Value]
Proposer = Iterator[Parameters]


class Proved(NamedTuple):
    """A job with the best plans of its lattice, and the CPU seconds of their search."""

    job: Job
    elites: tuple[RankedStrategy, ...]
    choices: DraftChoices
    took_s: float


class Run(NamedTuple):
    """One method with one seed: its gain, its trials and its CPU seconds."""

    gain: float
    trials: int
    took_s: float


def proved(document: dict[str, Any]) -> Proved:
    job = with_usual_target(parse_job(document))
    begun_s = time.process_time()
    space, _ = spaces_of(job)
    lattice = LatticeSearch(SearchRequest(job.workload, space, constants_for(job.workload)))
    run_to_end(lattice, None, None)
    elites = lattice.ranked()[:ELITES]
    took_s = time.process_time() - begun_s
    return Proved(job, elites, DraftChoices(job.workload, space, job.limits, [one.strategy for one in elites]), took_s)


def of_stage(found: Proved, seed: int) -> Run:
    begun_s = time.process_time()
    prices = LayerPrices(found.job.workload, constants_for(found.job.workload))
    stage = Stage(prices, simulate, found.choices, found.elites, RefinementSettings(NUM_TRIALS, seed))
    while stage.advance():
        pass
    best_s = stage.best_s or found.elites[0].step_time_s
    return Run(gain_of(best_s, found), len(stage.trials), time.process_time() - begun_s)


def gain_of(best_s: float, found: Proved) -> float:
    return max(0.0, 1.0 - best_s / found.elites[0].step_time_s)


def by(method: Callable[[DraftChoices, random.Random, list[tuple[float, Parameters]]], Proposer]) -> Callable[[Proved, int], Run]:
    """A method that proposes from the trials so far and their values."""

    def run(found: Proved, seed: int) -> Run:
        begun_s = time.process_time()
        evaluator = Evaluator(LayerPrices(found.job.workload, constants_for(found.job.workload)), simulate)
        best_s = found.elites[0].step_time_s
        seen: list[tuple[float, Parameters]] = []
        known: dict[ParallelStrategy, Evaluation] = {}
        proposals = method(found.choices, random.Random(seed), seen)
        for _ in range(NUM_TRIALS // BATCH_TRIALS):
            batch = list(islice(proposals, BATCH_TRIALS))
            beaten = [(best_s, 0.0)]
            strategies = [
                evaluator.completed(found.choices.draft(with_random_answers(own, random.Random())), beaten) for own in batch
            ]
            known |= evaluator.evaluated([one for one in dict.fromkeys(strategies) if one not in known], beaten)
            for own, strategy in zip(batch, strategies, strict=True):
                evaluation = known[strategy]
                if evaluation.outcome == FITS:
                    seen.append((evaluation.value, own))
                    best_s = min(best_s, evaluation.step_time_s or best_s)
        return Run(gain_of(best_s, found), NUM_TRIALS, time.process_time() - begun_s)

    return run


def chance(choices: DraftChoices, rng: random.Random, _seen: list[tuple[float, Parameters]]) -> Proposer:
    yield from islice(choices.seeds(), len(choices.elites))
    while True:
        yield choices.parameters(with_random_answers({}, rng))


def local(choices: DraftChoices, rng: random.Random, seen: list[tuple[float, Parameters]]) -> Proposer:
    """Change one to three choices of the best trial so far, or sometimes of an elite."""
    elites = list(islice(choices.seeds(), len(choices.elites)))
    yield from elites
    while True:
        best = min(seen, key=lambda one: one[0])[1] if seen and rng.random() < 0.8 else rng.choice(elites)
        yield choices.parameters(with_random_changes(best, rng))


METHODS: dict[str, Callable[[Proved, int], Run]] = {
    "the stage (TPE)": of_stage,
    "local search": by(local),
    "random": by(chance),
}


def report(document: dict[str, Any], num_seeds: int) -> None:
    found = proved(document)
    workload = found.job.workload
    print(
        f"\n**{workload.model.name} on {workload.cluster.num_devices:,} `{workload.cluster.profile.name}`**, target "
        f"`{workload.software.target}`: the proved plan takes {found.elites[0].step_time_s:.3f} s a step, found in "
        f"{found.took_s:.1f} s of CPU time.\n"
    )
    print("| method | gain | trials | CPU time |")
    print("|---|---|---|---|")
    for name, method in METHODS.items():
        runs = [method(found, seed) for seed in range(num_seeds)]
        gains = sorted(run.gain for run in runs)
        spread = f"{statistics.median(gains):.2%} ({gains[0]:.2%} to {gains[-1]:.2%})"
        trials, took_s = (statistics.median(column) for column in list(zip(*runs, strict=True))[1:])
        print(f"| {name} | {spread} | {trials:.0f} | {took_s:.1f} s |", flush=True)


def main(num_seeds: int = NUM_SEEDS) -> None:
    for document in JOBS:
        report(document, num_seeds)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
