"""Calibrations in the form that studies store, so that a new fit or prior does not change a study."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from calibration.files.calibrations import Calibration, calibration_text, parse_calibration, shipped_calibration
from calibration.intervals.step_time import Coverage, ErrorBand
from calibration.intervals.widening import Step
from cost_models.constants import CONSTANTS, Constants, prior_constants
from cost_models.shapes.workload import Workload
from documents.sentences import Sentence


def calibration_to_mapping(calibration: Calibration) -> dict[str, Any]:
    """The calibration file's content, and the value of every constant, since priors may change with the version."""
    document: dict[str, Any] = json.loads(calibration_text(calibration))
    values = {constant.name: getattr(calibration.constants, constant.name) for constant in CONSTANTS}
    return {**document, "fingerprint": calibration.fingerprint, "constants": values}


def calibration_from(calibration: dict[str, Any], study_id: str) -> Calibration:
    """The stored calibration, read by this version."""
    return parse_calibration(json.dumps(_of_this_version(calibration)), Sentence("calibration of study {}", study_id))


def _of_this_version(calibration: dict[str, Any]) -> dict[str, Any]:
    """The calibration without constants that no longer exist; the others then count as independent."""
    known = {constant.name for constant in CONSTANTS}
    fitted = [row for row in calibration["fitted"] if row["name"] in known]
    return calibration if len(fitted) == len(calibration["fitted"]) else {**calibration, "fitted": fitted, "correlations": []}


def constants_from(calibration: Mapping[str, Any], workload: Workload) -> Constants:
    """The stored values; constants added since take their priors or shipped values."""
    prior = prior_constants(calibration["family"])
    known = {constant.name for constant in CONSTANTS}
    constants = prior.with_values({name: value for name, value in calibration["constants"].items() if name in known})
    bands = tuple(ErrorBand(**row) for row in calibration.get("memory_bands", ()))
    coverage = tuple(Coverage(**row) for row in calibration.get("memory_coverage", ()))
    stored = replace(
        shipped_calibration(calibration["family"]),
        memory_bands=bands,
        memory_coverage=coverage,
        memory_mechanisms=tuple(calibration.get("memory_mechanisms", ())),
        memory_steps=tuple(Step(**row) for row in calibration.get("memory_steps", ())),
    )
    return replace(constants, peak_spread=stored.memory_evidence(workload).spread)
