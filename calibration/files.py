"""Calibrations as files: fitted constants, what they rest on, and how wide their errors are."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar, cast

from calibration.intervals import Coverage, ErrorBand, Interval, interval
from cost_models.constants import CONSTANTS, Constants, prior_constants
from cost_models.shapes.workload import Workload
from documents.errors import InputError
from documents.hashing import text_fingerprint

FORMAT = "meshplan-calibration/1"
FAMILIES = ("ascend", "gpu")
MAX_FILE_BYTES = 2**20
_DIGITS = 4
_MAX_VALUE, _MAX_LOG = 1e15, 10.0
Row = TypeVar("Row", "FittedConstant", ErrorBand, Coverage)


class CalibrationError(InputError):
    """A calibration file that cannot be used; the message names the field."""


@dataclass(frozen=True)
class FittedConstant:
    """One constant's value with the spread (one standard deviation of its logarithm) before and after the fit."""

    name: str
    value: float
    prior: float
    prior_log_spread: float
    log_spread: float


@dataclass(frozen=True)
class Calibration:
    """Constants of a hardware family with their evidence. ``command`` is what made it."""

    family: str
    fitted: tuple[FittedConstant, ...]
    bands: tuple[ErrorBand, ...]
    coverage: tuple[Coverage, ...]
    num_runs: int
    command: str
    hardware: str | None = None  # set where it was fitted for one site's hardware alone
    stack: str | None = None

    @property
    def constants(self) -> Constants:
        """The family's priors with the fitted values."""
        return prior_constants("ascend" if self.family == "ascend" else "nvidia").with_values(
            {f.name: f.value for f in self.fitted}
        )

    def interval(self, workload: Workload, step_time_s: float) -> Interval:
        """80 % interval of a prediction with these constants, with its evidence. [s]"""
        return interval(workload, step_time_s, self.bands, self.coverage)

    @property
    def fingerprint(self) -> str:
        """Twelve hexadecimal digits that name the content."""
        return text_fingerprint(calibration_text(self))

    def applies_to(self, workload: Workload) -> bool:
        """Whether the calibration was made for this hardware and software."""
        profile = workload.cluster.profile
        return (
            self.family == family_of(profile.family)
            and self.hardware in (None, profile.name)
            and self.stack in (None, workload.software.stack)
        )


def family_of(profile_family: str) -> str:
    """The calibration family of a hardware profile's family."""
    return "ascend" if profile_family == "ascend" else "gpu"


def rounded(value: float) -> float:
    """``value`` to the digits that calibration files keep."""
    return float(f"{value:.{_DIGITS}g}")


def calibration_text(calibration: Calibration) -> str:
    """The content of the file in canonical form: same calibration, same bytes."""
    return json.dumps({"format": FORMAT, **asdict(calibration)}, indent=1, allow_nan=False) + "\n"


def write_calibration(path: Path, calibration: Calibration) -> None:
    """Write the file. Raises ``OSError``."""
    path.write_text(calibration_text(calibration), encoding="utf-8")


def read_calibration(path: Path) -> Calibration:
    """Read a calibration file. Raises ``CalibrationError`` with one sentence."""
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise CalibrationError(f"{path} is larger than the {MAX_FILE_BYTES} bytes that a calibration may have.")
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise CalibrationError(f"{path} cannot be read: {error.strerror or error}.") from error
    except UnicodeDecodeError as error:
        raise CalibrationError(f"{path} is not UTF-8 text.") from error
    return parse_calibration(text, str(path))


def parse_calibration(text: str, origin: str) -> Calibration:
    """Parse the text of a calibration file. Raises ``CalibrationError`` with one sentence."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CalibrationError(f"{origin} is not JSON: {error}.") from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise CalibrationError(f"{origin} is no calibration: its format must be {FORMAT!r}.")
    stated: dict[str, Any] = {name: document.get(name) for name in ("family", "num_runs", "command", "hardware", "stack")}
    calibration = Calibration(
        fitted=_rows(document, "fitted", FittedConstant, origin),
        bands=_rows(document, "bands", ErrorBand, origin),
        coverage=_rows(document, "coverage", Coverage, origin),
        **stated,
    )
    _check(calibration, origin)
    return calibration


def _rows(document: Mapping[str, Any], field: str, kind: type[Row], origin: str) -> tuple[Row, ...]:
    """The entries of a list, each with the fields of ``kind`` and no others; those that hold text do."""
    names = [entry.name for entry in fields(kind)]
    texts = [entry.name for entry in fields(kind) if entry.type == "str"]
    rows = document.get(field)
    if not isinstance(rows, list) or not all(isinstance(row, dict) and set(row) == set(names) for row in rows):
        raise CalibrationError(f"{origin}: {field} must be a list of mappings with {', '.join(names)}.")
    for index, row in enumerate(rows):
        for name in texts:
            if not isinstance(row[name], str):
                raise CalibrationError(f"{origin}: {name} of {field}[{index}] is {row[name]!r:.60}; it must be text.")
    return tuple(kind(**row) for row in rows)


def _check(calibration: Calibration, origin: str) -> None:
    if calibration.family not in FAMILIES:
        raise CalibrationError(f"{origin}: family is {calibration.family!r}; it must be one of {', '.join(FAMILIES)}.")
    if not isinstance(calibration.command, str):
        raise CalibrationError(f"{origin}: command is {calibration.command!r:.60}; it must be text.")
    _number(origin, "num_runs", calibration.num_runs, 0, _MAX_VALUE)
    known = {c.name: c for c in CONSTANTS}
    for entry in calibration.fitted:
        constant = known.get(entry.name)
        if constant is None:
            raise CalibrationError(f"{origin}: {entry.name!r} is no constant of this version.")
        _number(origin, entry.name, entry.value, constant.low * 0.999, constant.high * 1.001)
        _number(origin, f"prior of {entry.name}", entry.prior, 0.0, _MAX_VALUE)
        _number(origin, f"prior_log_spread of {entry.name}", entry.prior_log_spread, 0.0, _MAX_LOG)
        _number(origin, f"log_spread of {entry.name}", entry.log_spread, 0.0, _MAX_LOG)
    for band in calibration.bands:
        _number(origin, f"low of band {band.kind}", band.low, -_MAX_LOG, _MAX_LOG)
        _number(origin, f"high of band {band.kind}", band.high, -_MAX_LOG, _MAX_LOG)
        _number(origin, f"num_runs of band {band.kind}", band.num_runs, 0, _MAX_VALUE)
    for covered in calibration.coverage:
        for field in ("num_runs", "max_devices", "max_seq_length"):
            _number(origin, f"{field} of {covered.hardware}", getattr(covered, field), 0, _MAX_VALUE)
    for field in ("hardware", "stack"):
        value = getattr(calibration, field)
        if value is not None and not isinstance(value, str):
            raise CalibrationError(f"{origin}: {field} is {value!r}; it must be a name or null.")
    if not any(band.kind == "all" for band in calibration.bands):
        raise CalibrationError(f"{origin}: bands lack the entry of kind 'all'.")


def _number(origin: str, what: str, value: object, low: float, high: float) -> None:
    sound = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if not sound or not low <= cast(float, value) <= high:
        raise CalibrationError(f"{origin}: {what} is {value!r:.60}; it must lie in {low:g} to {high:g}.")


@lru_cache(maxsize=len(FAMILIES))
def shipped_calibration(family: str) -> Calibration:
    """The calibration that comes with this version, for ``ascend`` or ``gpu``."""
    name = f"{family}.json"
    text = resources.files("calibration").joinpath("shipped", name).read_text(encoding="utf-8")
    return parse_calibration(text, name)


def calibration_for(workload: Workload, own: Sequence[Calibration] = ()) -> Calibration:
    """The first of a user's calibrations that applies to the workload, else the shipped one."""
    for calibration in own:
        if calibration.applies_to(workload):
            return calibration
    return shipped_calibration(family_of(workload.cluster.profile.family))


def summary(calibration: Calibration) -> Mapping[str, Any]:
    """What a user should know about a calibration at a glance."""
    return {
        "family": calibration.family,
        "hardware": calibration.hardware,
        "stack": calibration.stack,
        "num_runs": calibration.num_runs,
        "num_constants": len(calibration.fitted),
        "command": calibration.command,
    }
