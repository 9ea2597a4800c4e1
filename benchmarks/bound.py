"""How far simulated steps lie above their bounds: ``python -m benchmarks.bound [MODEL HARDWARE DEVICES]``.

Two sets: the measured runs, and the 1,000 fastest legal strategies that fit in the lattice of Pangu Ultra MoE 718B on 6,144 NPUs.
No step may be below its bound. The closer the bounds, the fewer candidates must be simulated to prove an answer.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import calibration
from app.calibrations.constants import constants_for
from benchmarks.lattice import job
from calibration.records.training import RunRecord, read_run_records
from cost_models.constants import Constants
from cost_models.shapes.strategy import ParallelStrategy, StrategyBatch
from cost_models.shapes.workload import Workload
from cost_models.simulation.step_times import simulate
from cost_models.step.composition import estimate
from search.space.enumeration import Rejections, charge_illegal, chunks, option_rules
from search.space.search_space import search_space

NUM_FASTEST = 1_000
TOLERANCE = 1e-9
Floats = NDArray[np.float64]


def gaps(workload: Workload, batch: StrategyBatch, constants: Constants) -> Floats:
    """Simulated step over bound, less 1, ``[n]``."""
    bounds = estimate(workload, batch, constants).step_time_lower_bound_s
    result: Floats = simulate(workload, batch, constants).step_time_s / bounds - 1.0
    return result


def of_runs() -> Floats:
    """Gaps of all readable runs that can be priced."""
    found: list[Floats] = []
    for path in sorted((Path(calibration.__file__).parent / "runs").glob("*.jsonl")):
        for record in read_run_records(path):
            if isinstance(record, RunRecord):
                found.append(gaps(record.workload, StrategyBatch.of([record.strategy]), constants_for(record.workload)))
    return np.concatenate(found)


def of_fastest(workload: Workload, constants: Constants) -> Floats:
    """Gaps of the fastest strategies by the closed form, of all that are legal and fit."""
    rows: list[ParallelStrategy] = []
    times_s = np.empty(0)
    rejections = Rejections()
    for chunk in chunks(workload, search_space(workload), rejections):
        batch = charge_illegal(workload, chunk.batch, option_rules(workload), rejections)
        if not len(batch):
            continue
        priced = estimate(workload, batch, constants)
        seconds = np.where(priced.fits, priced.step_time_s, np.inf)
        worst_s = times_s[-1] if len(rows) == NUM_FASTEST else np.inf
        new = np.flatnonzero(seconds < worst_s)
        new = new[np.argsort(seconds[new], kind="stable")][:NUM_FASTEST]
        rows += [batch.row(int(index)) for index in new]
        times_s = np.concatenate([times_s, seconds[new]])
        order = np.argsort(times_s, kind="stable")[:NUM_FASTEST]
        rows, times_s = [rows[int(index)] for index in order], times_s[order]
    return gaps(workload, StrategyBatch.of(rows), constants)


def line(name: str, values: Floats) -> str:
    """Smallest, middle and largest gap."""
    marks = np.quantile(values, (0.0, 0.1, 0.5, 0.9, 1.0))
    return f"{name:<28}{len(values):>7,}" + "".join(f"{mark:>10.2%}" for mark in marks)


def main(arguments: list[str]) -> int:
    """Print both distributions; 1 if a step is below its bound."""
    model, hardware, devices = arguments or ["pangu-ultra-moe-718b", "atlas-800t-a2", "6144"]
    workload = job(model, hardware, int(devices))
    began_s = time.perf_counter()
    print(
        f"{'simulated / bound - 1':<28}{'number':>7}"
        + "".join(f"{name:>10}" for name in ("least", "10 %", "median", "90 %", "most"))
    )
    sets = {"measured runs": of_runs(), f"fastest of {model}": of_fastest(workload, constants_for(workload))}
    for name, values in sets.items():
        print(line(name[:27], values))
    print(f"{time.perf_counter() - began_s:.0f} s")
    return 0 if all(values.min() >= -TOLERANCE for values in sets.values()) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
