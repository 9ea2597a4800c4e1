"""Published runs with the predictions of this version."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

from app.calibrations.accuracy.schemas import AccuracyDocument, RunStrategy
from calibration.files.calibrations import FAMILIES, Calibration, shipped_calibration
from calibration.files.published_errors import published_runs


def accuracy() -> AccuracyDocument:
    """Shipped calibrations and published runs; Ascend precedes other hardware."""
    runs = [
        _run(family, record, prediction)
        for family in FAMILIES
        for found in (published_runs(family),)
        for record, prediction in zip(found.records, found.predictions, strict=True)
    ]
    calibrations = [_calibration(shipped_calibration(family)) for family in FAMILIES]
    return AccuracyDocument.model_validate({"calibrations": calibrations, "runs": runs})


def _run(family: str, record: dict[str, Any], prediction: dict[str, Any]) -> dict[str, Any]:
    cluster, training, measured, source = (record[part] for part in ("cluster", "training", "measured", "source"))
    measured_s, measured_bytes = measured["step_time_s"], measured["peak_memory_bytes"]
    return {
        **prediction,
        "family": family,
        "model": record["model"]["name"],
        **{name: cluster[name] for name in ("hardware", "hardware_basis", "num_devices")},
        "framework": record["software"]["framework"],
        **{name: training[name] for name in ("precision", "seq_length", "global_batch_size")},
        "strategy": {name: record["strategy"].get(name) for name in RunStrategy.model_fields},
        "is_latest": record["is_latest_for_config"],
        "suspect": record.get("suspect"),
        "measured_step_time_s": measured_s,
        "error_fraction": _error_fraction(prediction["predicted_step_time_s"], measured_s),
        "measured_peak_memory_bytes": measured_bytes,
        "peak_memory_basis": measured["peak_memory_basis"],
        "memory_error_fraction": _error_fraction(prediction["predicted_peak_memory_bytes"], measured_bytes),
        "source": {name: source.get(name) for name in ("title", "url", "locator", "date")},
    }


def _error_fraction(predicted: float | None, measured: float | None) -> float | None:
    return None if predicted is None or not measured else predicted / measured - 1.0


def _calibration(calibration: Calibration) -> dict[str, Any]:
    return {
        "family": calibration.family,
        "id": calibration.fingerprint,
        "num_runs": calibration.num_runs,
        "command": calibration.command,
        "constants": [asdict(constant) for constant in calibration.fitted],
        "bands": [{**asdict(band), "low": math.exp(band.low), "high": math.exp(band.high)} for band in calibration.bands],
        "coverage": [asdict(covered) for covered in calibration.coverage],
    }
