"""A run of the cases on a device, saved after each case, and the comparison with the model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any, Protocol

from app.measuring.schemas import MeasureDocument, MeasuredRow, SkippedRow
from app.text.files import replace_text
from calibration.files.calibrations import family_of, shipped_calibration
from calibration.measurements.cases import Case, default_cases
from calibration.measurements.files import Device, Measurements, measurements_text
from calibration.measurements.modelled import modelled_s
from calibration.measurements.timing import Backend, Measured, Skipped, measure, method
from cost_models.constants import Constants
from documents.errors import InputError
from documents.sentences import Sentence
from hardware_profiles.schema import HardwareProfile

Progress = Callable[[Measured | Skipped, int, int], None]


class DescribedBackend(Backend, Protocol):
    """A backend with a description; one rank of several."""

    rank: int

    @property
    def description(self) -> Device: ...

    @property
    def software(self) -> Mapping[str, str]: ...


def run(
    backend: DescribedBackend, path: Path, seconds: float, only: Iterable[str] = (), on_result: Progress | None = None
) -> Measurements:
    """Run the cases; the file is written after each, so that an interrupt loses one case. Only the first rank writes."""
    device = backend.description
    cases = default_cases(device.num_ranks, on_processor=device.kind == "cpu", only=only)
    if not cases:
        raise InputError(Sentence("--only: collective has no case with one rank; start several with torchrun."))
    how = method(seconds)
    found = Measurements(device, tuple(backend.software.items()), str(how["description"]), seconds)
    _save(backend, path, found)  # an unwritable file is reported before minutes of work
    try:
        for number, result in enumerate(measure(backend, cases, seconds), start=1):
            if isinstance(result, Measured):
                found = replace(found, results=(*found.results, result))
            else:
                found = replace(found, skipped=(*found.skipped, result))
            found = replace(found, is_complete=number == len(cases))
            _save(backend, path, found)
            if on_result:
                on_result(result, number, len(cases))
    except KeyboardInterrupt:
        pass
    return found


def _save(backend: DescribedBackend, path: Path, found: Measurements) -> None:
    if backend.rank == 0:
        replace_text(path, measurements_text(found), "--out")


def measure_document(found: Measurements, path: Path, profile: HardwareProfile | None) -> MeasureDocument:
    """Measured and predicted times, with the shipped constants."""
    constants = None if profile is None else shipped_calibration(family_of(profile.family)).constants
    rows = [_row(result, profile, constants) for result in found.results]
    return MeasureDocument(
        schema_version=1,
        file=str(path),
        hardware=None if profile is None else profile.name,
        is_complete=found.is_complete,
        medians=_medians(rows),
        results=rows,
        skipped=[SkippedRow(**_case(skipped.case), reason=skipped.reason) for skipped in found.skipped],
    )


def _row(result: Measured, profile: HardwareProfile | None, constants: Constants | None) -> MeasuredRow:
    timing, case = result.timing, result.case
    modelled = None if profile is None or constants is None else modelled_s(result, profile, constants)
    pool = None if not result.allocated_bytes or result.reserved_bytes is None else result.reserved_bytes / result.allocated_bytes
    return MeasuredRow(
        **_case(case),
        kernel=result.kernel,
        measured_s=timing.time_s,
        burst_s=timing.burst_time_s,
        flops_per_s=case.flops / timing.time_s if case.flops else None,
        modelled_s=modelled,
        measured_over_modelled=timing.time_s / modelled if modelled else None,
        pool_over_allocated=pool,
        modelled_pool_over_allocated=None if pool is None or constants is None else 1.0 + constants.allocator_fraction,
    )


def _medians(rows: Iterable[MeasuredRow]) -> dict[str, float]:
    """Medians by kind; matmuls by precision, attention by direction and collectives by operation, which have own constants."""
    ratios: dict[str, list[float]] = {}
    for row in rows:
        if row.measured_over_modelled is not None:
            own = {"matmul": row.precision, "attention": row.operation.split("_")[-1], "collective": row.operation}
            name = " ".join(filter(None, (row.kind, own.get(row.kind)))).replace("_", " ")
            ratios.setdefault(name, []).append(row.measured_over_modelled)
    return {name: median(values) for name, values in ratios.items()}


def _case(case: Case) -> dict[str, Any]:
    return {"kind": case.kind.value, "operation": case.operation, "precision": case.precision, "sizes": case.by_name}
