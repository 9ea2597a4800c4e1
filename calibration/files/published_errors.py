"""The published runs with the errors of the calibrations that this version ships."""

from __future__ import annotations

import json
from importlib import resources
from typing import Any

from documents.late_methods import dataclass

PREDICTED = ("predicted_step_time_s", "low_s", "high_s", "predicted_peak_memory_bytes")
_DIGITS = 5


@dataclass(frozen=True)
class PublishedRuns:
    """A family's runs: each record as published and, in the same order, its prediction by this version.

    ``calibration`` is the fingerprint of the constants behind ``predictions``, which have ``id``, ``category``, ``stack``,
    ``PREDICTED``, ``refused``, ``warnings``, and for runs that taught the constants ``left_out_error_fraction``: predicted /
    measured - 1 with constants fitted without any run of its architecture, ``publication_left_out_error_fraction``: the same
    with every run of its document left out of the fit and of all that was tuned, and ``left_out_inside``: whether the interval
    that the other publications give holds the run.
    """

    calibration: str
    records: tuple[dict[str, Any], ...]
    predictions: tuple[dict[str, Any], ...]


def rounded(value: float | None) -> float | None:
    """``value`` to the digits that the file keeps."""
    return None if value is None else float(f"{value:.{_DIGITS}g}")


def published_runs(family: str) -> PublishedRuns:
    """The runs of ``ascend`` or ``gpu``; ``make docs`` writes their predictions."""
    here = resources.files("calibration")
    lines = here.joinpath("runs", f"{family}.jsonl").read_text(encoding="utf-8").splitlines()
    found = json.loads(here.joinpath("shipped", f"{family}_errors.json").read_text(encoding="utf-8"))
    return PublishedRuns(found["calibration"], tuple(json.loads(line) for line in lines), tuple(found["runs"]))
