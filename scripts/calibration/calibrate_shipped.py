"""Fits the calibrations that ship with meshplan, from the run records in `calibration/runs`. Run by `make calibration`."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from calibration.files.calibrations import shipped_calibration, write_calibration
from calibration.intervals.memory import MemoryErrors, family_priors
from calibration.intervals.memory_errors import memory_errors
from calibration.leave_out.family_errors import left_out_errors, shipped_left_out, write_left_out
from calibration.leave_out.nested import nested_model
from calibration.procedure.calibrate import Outcome, calibrate, family_observations, untaught_observations, with_intervals
from calibration.procedure.free_constants import free_constants
from calibration.records.training import RunRecord, read_run_records
from scripts.calibration.calibrate_paired import write_paired

ROOT = Path(__file__).resolve().parents[2]
RUNS = {"ascend": "ascend.jsonl", "gpu": "gpu.jsonl"}
COMMAND = "make calibration"


def records_of(family: str) -> list[RunRecord]:
    return [r for r in read_run_records(ROOT / "calibration/runs" / RUNS[family]) if isinstance(r, RunRecord)]


def shipped_memory() -> MemoryErrors:
    """Errors of the peaks of all families, which share the arithmetic of memory."""
    return memory_errors([record for family in RUNS for record in records_of(family)], family_priors)


def shipped_outcome(family: str) -> Outcome:

    def show(iteration: int, median: float) -> None:
        print(f"{family}: step {iteration}, median error {100 * median:.2f} %", file=sys.stderr, flush=True)

    return calibrate(records_of(family), family, COMMAND, memory=shipped_memory(), on_progress=show)


def renew_errors(family: str) -> None:
    """Left-out errors and intervals of the shipped constants under today's arithmetic; nothing is fitted.

    Ablations stay those of the last fit: they compare mechanisms.
    """
    records = records_of(family)
    observations, shipped = family_observations(records, family), shipped_calibration(family)
    free = free_constants(family, [each.record.workload.software.stack for each in observations])
    nested = nested_model(observations, shipped.constants, family, free, untaught_observations(records, family))
    left_out = replace(left_out_errors(nested), ablations=shipped_left_out(family).ablations)
    write_left_out(ROOT / "calibration/shipped" / f"{family}_left_out.json", left_out)
    judged = [each.record for each in nested.observations]
    path = ROOT / "calibration/shipped" / f"{family}.json"
    write_calibration(path, with_intervals(shipped, judged, left_out, shipped_memory()))


def main() -> None:
    if sys.argv[1:2] == ["--errors"]:
        for family in RUNS:
            renew_errors(family)
        write_paired()
        return
    for family in sys.argv[1:] or RUNS:
        outcome = shipped_outcome(family)
        write_calibration(ROOT / "calibration/shipped" / f"{family}.json", outcome.calibration)
        write_left_out(ROOT / "calibration/shipped" / f"{family}_left_out.json", outcome.left_out)
        for title, errors in (
            ("before", outcome.prior_log_errors),
            ("fitted", outcome.fitted.log_errors),
            ("architecture left out", outcome.architecture_left_out),
            *(
                (f"{split} left out, nested", errors[: len(outcome.prior_log_errors)])
                for split, errors in outcome.left_out.splits.items()
            ),
        ):
            absolute = np.abs(np.expm1(errors[~np.isnan(errors)]))
            print(f"{family}, {title}: median {100 * np.median(absolute):.1f} %, mean {100 * np.mean(absolute):.1f} %")
        for step in outcome.calibration.steps:
            basis = f"{step.num_groups} left out, {step.num_runs} runs"
            print(f"{family}, {step.kind} unseen: {step.factor:.2f} times as wide ({basis})")
        if outcome.fitted.at_bound:
            print(f"{family}: on a bound: {', '.join(outcome.fitted.at_bound)}")
    write_paired()


if __name__ == "__main__":
    main()
