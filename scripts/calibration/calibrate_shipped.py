"""Fits the calibrations that ship with meshplan, from the run records in `calibration/runs`. Run by `make calibration`."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from calibration.files.calibrations import shipped_calibration, write_calibration
from calibration.intervals.memory import MemoryErrors, family_priors
from calibration.intervals.memory_errors import memory_errors
from calibration.leave_out.family_errors import shipped_left_out, write_left_out
from calibration.procedure.calibrate import Outcome, calibrate, with_intervals
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


def renew_intervals(family: str) -> None:
    """Intervals of the shipped calibration, from the left-out errors that ship and today's peaks; nothing is fitted."""
    by_id = {record.id: record for record in records_of(family)}
    left_out, calibration = shipped_left_out(family), shipped_calibration(family)
    judged = [by_id[name] for name in left_out.ids]
    path = ROOT / "calibration/shipped" / f"{family}.json"
    write_calibration(path, with_intervals(calibration, judged, left_out, shipped_memory()))


def main() -> None:
    if sys.argv[1:2] == ["--intervals"]:
        for family in RUNS:
            renew_intervals(family)
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
