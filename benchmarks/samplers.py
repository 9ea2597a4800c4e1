"""Regret of samplers against the exhaustive search: ``python -m benchmarks.samplers [SEEDS]``; about five minutes.

Regret is the step time of the best plan found over that of the proved best, minus 1. Every run starts from the rule of
thumb's plan, as the product does. Prints the tables of ``docs/samplers.md``.
"""

from __future__ import annotations

import statistics
import sys
import time
from typing import Any

from app.calibrations.constants import constants_for
from app.jobs.job import Job, parse_job
from search.exhaustive.lattice_search import search
from search.sampled.sampler_search import SamplerSearch
from search.session.request import SAMPLERS, SearchOptions, SearchRequest
from search.space.search_space import SearchSpace, search_space
from search.trials.trial import FITS

NUM_SEEDS = 5
CHECKPOINTS = (200, 1000)
JOBS: tuple[dict[str, Any], ...] = (
    {"model": "llama-2-70b", "cluster": {"hardware": "atlas-800t-a2", "num_devices": 256}},
    {"model": "deepseek-v3", "cluster": {"hardware": "h800-sxm-80gb", "num_devices": 2048}},
    {"model": "pangu-ultra-moe-718b", "cluster": {"hardware": "atlas-800t-a2", "num_devices": 6144}},
)


def sampled(job: Job, space: SearchSpace, sampler: str, seed: int) -> tuple[SamplerSearch, float]:
    """A finished search and its CPU seconds."""
    begun_s = time.process_time()
    options = SearchOptions(sampler=sampler, seed=seed, max_trials=max(CHECKPOINTS))
    found = SamplerSearch(SearchRequest(job.workload, space, constants_for(job.workload), options=options))
    while found.advance():
        pass
    return found, time.process_time() - begun_s


def percent(values: list[float]) -> str:
    return f"{statistics.median(values):.1%} ({min(values):.1%} to {max(values):.1%})"


def row(job: Job, space: SearchSpace, sampler: str, best_s: float, num_seeds: int) -> str:
    runs = [sampled(job, space, sampler, seed) for seed in range(num_seeds)]
    regrets = [
        percent([(found.trials[count - 1].best_value or float("inf")) / best_s - 1.0 for found, _ in runs])
        for count in CHECKPOINTS
    ]
    trials = [trial for found, _ in runs for trial in found.trials]
    repeated = sum(trial.duplicate_of is not None for trial in trials) / len(trials)
    fitting = sum(trial.evaluation.outcome == FITS for trial in trials) / len(trials)
    took_s = statistics.median(seconds for _, seconds in runs)
    return f"| `{sampler}` | {' | '.join(regrets)} | {took_s:.1f} s | {fitting:.0%} | {repeated:.0%} |"


def report(document: dict[str, Any], num_seeds: int) -> None:
    job = parse_job(document)
    space = search_space(job.workload, job.limits)
    begun_s = time.process_time()
    whole = search(SearchRequest(job.workload, space, constants_for(job.workload), top=1))
    whole_s = time.process_time() - begun_s
    best_s = whole.plans[0].estimate["step_time_s"]
    thumb = whole.baseline
    assert thumb is not None
    assert thumb.speedup_fraction is not None
    devices, hardware = job.workload.cluster.num_devices, job.workload.cluster.profile.name
    print(f"\n{job.workload.model.name} on {devices:,} {hardware}: {whole.counts.legal:,} legal strategies, all priced in ")
    print(f"{whole_s:.1f} s of CPU time; best {best_s:.3f} s a step,")
    print(f"the rule of thumb's plan {thumb.speedup_fraction:.1%} behind.\n")
    print("| sampler | " + " | ".join(f"regret after {count:,}" for count in CHECKPOINTS) + " | CPU time | fit | repeated |")
    print("|---|---|---|---|---|---|")
    for sampler in SAMPLERS:
        print(row(job, space, sampler, best_s, num_seeds), flush=True)


def main(num_seeds: int = NUM_SEEDS) -> None:
    for document in JOBS:
        report(document, num_seeds)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
