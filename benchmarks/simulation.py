"""Candidates a second of the simulated pipeline: ``python -m benchmarks.simulation``.

Sixteen ranks with two chunks each and 64 micro batches, 4,096 tasks a candidate, on two cores.

*Chunk grain*: passes of given durations. Targets: 20,000 candidates a second in large batches, less than 10 ms for one alone.

**All streams*: strategies of Pangu Ultra MoE 718B on 6,144 NPUs, from degrees to step time and memory. Passes contain expert
dispatch and combine, sends, recompute, weight gathers and gradient exchange. In a merged pair the pieces of two layers get
their best order on a compute and a communication stream. Layers and pairs are priced once for each layer key, of which a batch
has few. Targets: 2,000 candidates a second, less than 10 ms for one alone, and less than 1 s to write the timeline of one, with
bars for every stream of every task.

Each candidate is also priced alone: a batch must not change a time.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray

from app.answers.simulation import play
from app.answers.trace import trace_text
from app.calibrations.constants import constants_for
from benchmarks.lattice import job
from cost_models.constants import Constants
from cost_models.schedules.schedule import PipelineShape
from cost_models.schedules.tasks import Pass
from cost_models.shapes.layer_keys import layer_keys
from cost_models.shapes.strategy import ParallelStrategy, Schedule, StrategyBatch
from cost_models.shapes.workload import Workload
from cost_models.simulation.lockstep import Durations, ends_s
from cost_models.simulation.program import Program, compiled
from cost_models.simulation.steady import steady_of
from cost_models.simulation.step_times import simulate
from search.space.enumeration import Rejections, charge_illegal, chunks, option_rules
from search.space.limits import limits_from_mapping
from search.space.search_space import search_space

NUM_RANKS, NUM_CHUNKS, NUM_MICROBATCHES = 16, 2, 64
_SHAPE = PipelineShape(Schedule.INTERLEAVED, NUM_RANKS, NUM_CHUNKS, NUM_MICROBATCHES, group_size=NUM_RANKS)
SHAPES = {
    "interleaved-1f1b": _SHAPE,
    "merged pairs": replace(_SHAPE, merge_pairs=True),
    "dualpipev": replace(_SHAPE, schedule=Schedule.DUALPIPE_V, group_size=0, merge_pairs=True),
    "zbv": replace(_SHAPE, schedule=Schedule.ZBV, group_size=0),
}
LIMITS = {
    "interleaved-1f1b": {"schedule": "interleaved-1f1b", "moe_comm_overlap": False},
    "merged pairs": {"schedule": "interleaved-1f1b", "moe_comm_overlap": True},
    "dualpipev": {"schedule": "dualpipev", "moe_comm_overlap": True},
}
# Switches that a search does not vary by default give enough strategies of one shape.
SWITCHES = ("swap_optimizer", "reuse_fp32_param", "grad_reduce_in_bf16", "moe_zero_memory")
NUM_CANDIDATES = (1, 10, 100, 1_000, 10_000)
NUM_CHECKED = 20


def best_s(run: Callable[[], object], n: int) -> float:
    """Wall time of a run of ``n`` candidates: the best of three, or of thirty for few candidates."""
    times_s = []
    for _ in range(30 if n <= 10 else 3):
        began_s = time.perf_counter()
        run()
        times_s.append(time.perf_counter() - began_s)
    return min(times_s)


def candidates(program: Program, n: int) -> Durations:
    """Candidates with passes of 5 to 20 ms and hops of up to 1 ms."""
    random = np.random.default_rng(n)
    tasks = random.uniform(5e-3, 2e-2, (len(program.classes), n))
    return Durations(tasks, random.uniform(0.0, 1e-3, n), random.uniform(0.0, 1e-2, (program.shape.pp, n)))


def num_differing(program: Program) -> int:
    """Number of candidates whose time in the batch differs from that alone."""
    durations = candidates(program, NUM_CHECKED)
    together = ends_s(program, durations).rank_s
    alone = [ends_s(program, durations.take(slice(i, i + 1))).rank_s[:, 0] for i in range(NUM_CHECKED)]
    return sum((together[:, i] != ends).any() for i, ends in enumerate(alone))


def num_passes(program: Program) -> int:
    """Number of forwards and backwards of all ranks; a pair is one of each, and a split backward counts once."""
    once = (Pass.FORWARD, Pass.BACKWARD, Pass.INPUT_GRADIENT)
    return sum({Pass.PAIR: 2}.get(step.task.kind, int(step.task.kind in once)) for step in program.steps)


def chunk_grain() -> int:
    """Print the first table; return the number of wrong candidates and programs."""
    wrong = 0
    print(f"{'chunk grain, /s':<20}{'compile':>10}" + "".join(f"{f'n = {n:,}':>12}" for n in NUM_CANDIDATES))
    for name, shape in SHAPES.items():
        began_s = time.perf_counter()
        program = compiled(shape)
        steady_of(shape)
        compile_s = time.perf_counter() - began_s
        rates = [n / best_s(partial(ends_s, program, candidates(program, n)), n) for n in NUM_CANDIDATES]
        print(f"{name:<20}{compile_s * 1e3:>7.0f} ms" + "".join(f"{rate:>12,.0f}" for rate in rates))
        wrong += num_differing(program) + (num_passes(program) != 2 * shape.pp * shape.vpp * shape.num_microbatches)
    print(f"one by one: {wrong} of {NUM_CHECKED * len(SHAPES)} differ\n")
    return wrong


def strategies(workload: Workload, name: str) -> StrategyBatch:
    """Legal strategies of one shape, with any degree, dispatcher, recompute and switch, in random order."""
    switches = {switch: [False, True] for switch in SWITCHES}
    limits = limits_from_mapping({"pp": NUM_RANKS, "vpp": NUM_CHUNKS, **LIMITS[name], **switches})
    found: list[ParallelStrategy] = []
    rejections = Rejections()
    for chunk in chunks(workload, search_space(workload, limits), rejections):
        batch = charge_illegal(workload, chunk.batch, option_rules(workload), rejections)
        rows = np.flatnonzero(batch.num_microbatches(workload.training.global_batch_size) == NUM_MICROBATCHES)
        found += [batch.row(row) for row in rows.tolist()]
    order = np.random.default_rng(0).permutation(len(found))[: NUM_CANDIDATES[-1]]
    return StrategyBatch.of([found[row] for row in order.tolist()])


def rows_of(batch: StrategyBatch, n: int) -> StrategyBatch:
    """The first ``n`` strategies."""
    return batch.take(np.arange(n))


def write_timeline(workload: Workload, strategy: ParallelStrategy, constants: Constants, path: Path) -> int:
    """Simulate one strategy with the memory of every rank and write its trace; return the number of bars."""
    played = play(workload, strategy, constants)
    path.write_text(trace_text(played), encoding="utf-8")
    return len(played.timeline.bars)


def all_streams() -> int:
    """Print the second table; return the number of candidates whose time alone differs."""
    workload = job("pangu-ultra-moe-718b", "atlas-800t-a2", 6144)
    constants = constants_for(workload)
    wrong = 0
    columns = "".join(f"{f'n = {n:,}':>12}" for n in NUM_CANDIDATES)
    print(f"{'all streams, /s':<20}{'keys':>10}{columns}{'alone':>10}{'timeline':>10}{'bars':>10}")
    for name in LIMITS:
        batch = strategies(workload, name)
        if len(batch) < NUM_CANDIDATES[-1]:
            raise ValueError(f"{name}: only {len(batch):,} strategies are legal")
        simulate(workload, rows_of(batch, 1), constants)  # compiles the program
        seconds = [best_s(partial(simulate, workload, rows_of(batch, n), constants), n) for n in NUM_CANDIDATES]
        with TemporaryDirectory() as folder:
            write = partial(write_timeline, workload, batch.row(0), constants, Path(folder, "trace.json"))
            num_bars, timeline_s = write(), best_s(write, NUM_MICROBATCHES)
        num_keys = len(layer_keys(workload, batch)[0].tp)
        rates = "".join(f"{n / each:>12,.0f}" for n, each in zip(NUM_CANDIDATES, seconds, strict=True))
        print(f"{name:<20}{num_keys:>10,}{rates}{seconds[0] * 1e3:>7.1f} ms{timeline_s:>8.2f} s{num_bars:>10,}")
        wrong += num_changed(workload, rows_of(batch, NUM_CHECKED), constants)
    print(f"one by one: {wrong} of {NUM_CHECKED * len(LIMITS)} differ")
    return wrong


def num_changed(workload: Workload, batch: StrategyBatch, constants: Constants) -> int:
    """Number of strategies whose simulated step in a batch differs from that alone."""

    def step_s(some: StrategyBatch) -> NDArray[np.float64]:
        return simulate(workload, some, constants).step_time_s

    alone = np.concatenate([step_s(batch.take(np.array([row]))) for row in range(len(batch))])
    return int((np.abs(step_s(batch) / alone - 1.0) > 1e-12).sum())


def main() -> int:
    """Run the benchmark; 1 if a time in a batch differs from that alone, or a program lacks a pass."""
    wrong = chunk_grain() + all_streams()
    return 0 if wrong == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
