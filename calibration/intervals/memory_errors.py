"""Errors of predicted memory peaks against those of runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from calibration.intervals.memory import MemoryErrors
from calibration.records.training import RunRecord
from calibration.validation.predictions import predict, predicted_peak_bytes
from cost_models.constants import Constants
from cost_models.shapes.workload import Workload
from cost_models.step.composition import estimate


def memory_errors(records: Sequence[RunRecord], constants_of: Callable[[Workload], Constants]) -> MemoryErrors:
    """Errors of published peaks, without suspect runs and runs whose recompute is inferred from memory."""
    used, errors = [], []
    for record in records:
        measured = record.measured
        if not measured.peak_memory_bytes or record.suspect:
            continue
        found, inferred = predict(record.of_memory, constants_of(record.workload), price=estimate)
        if inferred is None:
            used.append(record)
            errors.append(float(np.log(predicted_peak_bytes(found, measured) / measured.peak_memory_bytes)))
    return MemoryErrors(tuple(used), tuple(errors))
