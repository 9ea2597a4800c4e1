"""Candidates a second of the simulated pipeline: ``python -m benchmarks.simulation``.

Sixteen ranks with two chunks each and 64 micro batches, 4,096 tasks a candidate. The targets on two cores are 20,000 candidates a
second in large batches and less than 10 ms for one alone. Candidates are compared with their times alone: a batch must not
change a time.
"""

from __future__ import annotations

import sys
import time

import numpy as np

from cost_models.simulation.lockstep import Durations, ends_s
from cost_models.simulation.program import Program, compiled
from cost_models.simulation.steady import steady_of
from cost_models.simulation.tasks import Pass, PipelineShape
from cost_models.strategy import Schedule

SHAPES = {
    "interleaved-1f1b": PipelineShape(Schedule.INTERLEAVED, 16, 2, 64, group_size=16),
    "merged pairs": PipelineShape(Schedule.INTERLEAVED, 16, 2, 64, group_size=16, merge_pairs=True),
    "dualpipev": PipelineShape(Schedule.DUALPIPE_V, 16, 2, 64, merge_pairs=True),
    "zbv": PipelineShape(Schedule.ZBV, 16, 2, 64),
}
NUM_CANDIDATES = (1, 10, 100, 1_000, 10_000)
NUM_CHECKED = 20


def candidates(program: Program, n: int) -> Durations:
    """Passes of 5 to 20 ms, hops of up to 1 ms."""
    random = np.random.default_rng(n)
    tasks = random.uniform(5e-3, 2e-2, (len(program.classes), n))
    return Durations(tasks, random.uniform(0.0, 1e-3, n), random.uniform(0.0, 1e-2, (program.shape.pp, n)))


def seconds_each(program: Program, durations: Durations) -> float:
    """Wall time of one candidate, the best of three evaluations of all."""
    best = float("inf")
    for _ in range(3):
        began_s = time.perf_counter()
        ends_s(program, durations)
        best = min(best, time.perf_counter() - began_s)
    return best / durations.tasks.shape[1]


def num_differing(program: Program) -> int:
    """Candidates of a batch whose times differ from those alone."""
    durations = candidates(program, NUM_CHECKED)
    together = ends_s(program, durations).rank_s
    alone = [ends_s(program, durations.take(slice(i, i + 1))).rank_s[:, 0] for i in range(NUM_CHECKED)]
    return sum((together[:, i] != ends).any() for i, ends in enumerate(alone))


def num_passes(program: Program) -> int:
    """Forwards and backwards of all ranks; a pair is one of each, and a split backward counts with its input gradient."""
    once = (Pass.FORWARD, Pass.BACKWARD, Pass.INPUT_GRADIENT)
    return sum({Pass.PAIR: 2}.get(step.task.kind, int(step.task.kind in once)) for step in program.steps)


def main() -> int:
    """Run the benchmark; 1 if a time in a batch is another one than alone, or a program lacks a pass."""
    wrong = 0
    print(f"{'candidates/s of':<20}{'compile':>10}" + "".join(f"{f'n = {n:,}':>12}" for n in NUM_CANDIDATES))
    for name, shape in SHAPES.items():
        began_s = time.perf_counter()
        program = compiled(shape)
        steady_of(shape)
        compile_s = time.perf_counter() - began_s
        rates = [1.0 / seconds_each(program, candidates(program, n)) for n in NUM_CANDIDATES]
        print(f"{name:<20}{compile_s * 1e3:>7.0f} ms" + "".join(f"{rate:>12,.0f}" for rate in rates))
        wrong += num_differing(program) + (num_passes(program) != 2 * shape.pp * shape.vpp * shape.num_microbatches)
    print(f"one by one: {wrong} of {NUM_CHECKED * len(SHAPES)} differ")
    return 0 if wrong == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
