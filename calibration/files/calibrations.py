"""Calibrations as files: fitted constants, the runs behind them, and their error bands."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import cached_property, lru_cache
from importlib import resources
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from calibration.intervals.memory import MemoryEvidence, memory_evidence
from calibration.intervals.plan_differences import CLOSE_LOG, PairedError
from calibration.intervals.step_time import LEARNING_PRECISIONS, Coverage, ErrorBand, Interval, interval
from calibration.intervals.widening import STEPS, Step, mechanisms_taken
from calibration.splits.groups import model_kind
from calibration.splits.mechanisms import workload_mechanisms
from cost_models.constants import CONSTANTS, Constants, constants_with_options, prior_constants
from cost_models.layer.compute import release_doubt
from cost_models.shapes.traits import FAMILIES as DEVICES
from cost_models.shapes.traits import family_traits
from cost_models.shapes.workload import Workload
from documents.bounds import CALIBRATION_BYTES, Text
from documents.checking import LenientSection, OneOf, Section, check
from documents.errors import InputError, did_you_mean, show
from documents.hashing import text_fingerprint
from documents.late_methods import dataclass
from documents.reading import Limits, parse_document, read_document
from documents.sentences import Sentence

FORMAT = "meshplan-calibration/1"
FAMILIES = tuple(dict.fromkeys(traits.priors for traits in DEVICES.values()))
SINCE = (
    "memory_bands",
    "memory_coverage",
    "memory_mechanisms",
    "memory_steps",
    "paired",
    "steps",
    "mechanisms",
    "correlations",
)  # fields that files of earlier versions lack
_DIGITS = 4
_MAX_VALUE, _MAX_LOG = 10**15, 10
_LIMITS = Limits(CALIBRATION_BYTES)


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
    """Constants of a hardware family with their evidence. ``command`` made the file."""

    family: str
    fitted: tuple[FittedConstant, ...]
    bands: tuple[ErrorBand, ...]
    coverage: tuple[Coverage, ...]
    num_runs: int
    command: str
    hardware: str | None = None  # set if the calibration was fitted for one site's hardware
    stack: str | None = None
    memory_bands: tuple[ErrorBand, ...] = ()  # bands of ln(measured / predicted) peaks; none in files of earlier versions
    memory_coverage: tuple[Coverage, ...] = ()
    paired: tuple[PairedError, ...] = ()  # none in a file of an earlier version
    steps: tuple[Step, ...] = ()  # widening of intervals beyond the measured runs; empty in a file of an earlier version
    mechanisms: tuple[str, ...] = ()  # mechanisms that the runs exercised; empty if unknown
    # Correlations of ``fitted``, each with those before it: (1, 0), (2, 0), (2, 1), ...; empty in a file of an earlier version.
    correlations: tuple[float, ...] = ()
    memory_mechanisms: tuple[str, ...] = ()  # what decides kept bytes in the peaks; empty if unknown
    memory_steps: tuple[Step, ...] = ()  # widening of the bands of peaks without such a mechanism

    @property
    def covariance(self) -> NDArray[np.float64]:
        """Covariance of the logarithms of ``fitted``; diagonal in a file without correlations. ``[fitted, fitted]``"""
        spread = np.array([entry.log_spread for entry in self.fitted])
        correlation = np.eye(len(spread))
        if self.correlations:
            rows, columns = np.tril_indices(len(spread), -1)
            correlation[rows, columns] = correlation[columns, rows] = self.correlations
        covariance: NDArray[np.float64] = spread[:, None] * correlation * spread
        return covariance

    @property
    def constants(self) -> Constants:
        """The family's priors with the fitted values."""
        return prior_constants(self.family).with_values({f.name: f.value for f in self.fitted})

    def interval(self, workload: Workload, step_time_s: float, used: Iterable[str] = ()) -> Interval:
        """80 % interval of a prediction with these constants, with its evidence; ``used`` are the mechanisms of the plan. [s]"""
        there = {*used, *workload_mechanisms(workload)}
        if (precision := workload.training.precision) not in LEARNING_PRECISIONS:
            there.discard(Sentence("precision {}", precision))  # said on its own
        unseen = mechanisms_taken(there, self.mechanisms) if self.mechanisms else []
        doubt = release_doubt(workload, self.constants)
        return interval(workload, step_time_s, self.bands, self.coverage, self.steps, unseen, doubt)

    def memory_evidence(self, workload: Workload) -> MemoryEvidence:
        """Error band of a workload's peaks, with its evidence; a file without peaks takes the shipped ones."""
        base = self if self.memory_bands else shipped_calibration(self.family)
        return memory_evidence(workload, base.memory_bands, base.memory_coverage, base.memory_mechanisms, base.memory_steps)

    def constants_of(self, workload: Workload) -> Constants:
        """The constants under the options of the workload's software, with the spread of its peaks."""
        constants = constants_with_options(self.constants, workload.software)
        return replace(constants, peak_spread=self.memory_evidence(workload).spread)

    def paired_error(self, workload: Workload) -> PairedError:
        """Error of the predicted difference of two plans of this workload; the family's where the file has none.

        If no job was measured under two plans, plans with close predictions count as ties.
        """
        by_kind = {error.kind: error for error in self.paired or shipped_calibration(self.family).paired}
        return by_kind.get(model_kind(workload)) or by_kind.get("all") or PairedError("all", CLOSE_LOG, 0, 0)

    @cached_property  # every answer names it
    def fingerprint(self) -> str:
        """Twelve hexadecimal digits that name the content."""
        return text_fingerprint(calibration_text(self))

    def applies_to(self, workload: Workload) -> bool:
        """Whether the calibration was fitted for this hardware and software."""
        profile = workload.cluster.profile
        return (
            self.family == family_of(profile.family)
            and self.hardware in (None, profile.name)
            and self.stack in (None, workload.software.stack)
        )


Count = Annotated[int, Field(ge=0, le=_MAX_VALUE)]
Spread = Annotated[float, Field(ge=0, le=_MAX_LOG)]
LogError = Annotated[float, Field(ge=-_MAX_LOG, le=_MAX_LOG)]


class _FittedSection(Section):
    name: Text
    value: float
    prior: Annotated[float, Field(ge=0, le=_MAX_VALUE)]
    prior_log_spread: Spread
    log_spread: Spread


class _BandSection(Section):
    kind: Text
    low: LogError
    high: LogError
    num_runs: Count


class _CoverageSection(Section):
    hardware: Text
    stack: Text
    kind: Text
    num_runs: Count
    max_devices: Count
    max_seq_length: Count


class _PairedSection(Section):
    kind: Text
    log_error: Spread
    num_groups: Count
    num_pairs: Count


class _StepSection(Section):
    kind: Annotated[str, OneOf(*STEPS)]
    factor: Annotated[float, Field(ge=1, le=_MAX_LOG)]
    num_groups: Count
    num_runs: Count


class _CalibrationSection(LenientSection):
    format: Annotated[str, OneOf(FORMAT)]
    family: Annotated[str, OneOf(*FAMILIES)]
    fitted: list[_FittedSection]
    bands: list[_BandSection]
    coverage: list[_CoverageSection]
    num_runs: Count
    command: str
    hardware: str | None = None
    stack: str | None = None
    memory_bands: list[_BandSection] = Field(default=[])
    memory_coverage: list[_CoverageSection] = Field(default=[])
    paired: list[_PairedSection] = Field(default_factory=list)
    steps: list[_StepSection] = Field(default_factory=list)
    mechanisms: list[Text] = Field(default_factory=list)
    correlations: list[Annotated[float, Field(ge=-1, le=1)]] = Field(default_factory=list)
    memory_mechanisms: list[Text] = Field(default_factory=list)
    memory_steps: list[_StepSection] = Field(default_factory=list)


def family_of(profile_family: str) -> str:
    """The calibration family of a hardware profile's family."""
    return family_traits(profile_family).priors


def rounded(value: float) -> float:
    """``value`` to the digits that calibration files keep."""
    return float(f"{value:.{_DIGITS}g}")


def calibration_text(calibration: Calibration) -> str:
    """The content of the file in canonical form: same calibration, same bytes."""
    return json.dumps(calibration_document(calibration), indent=1, allow_nan=False) + "\n"


def calibration_document(calibration: Calibration) -> dict[str, Any]:
    """The file's content. Fields newer than the file's version are left out, so that its text and fingerprint stay the same."""
    document = {"format": FORMAT, **asdict(calibration)}
    return {name: value for name, value in document.items() if value or name not in SINCE}


def write_calibration(path: Path, calibration: Calibration) -> None:
    """Write the file. Raises ``OSError``."""
    path.write_text(calibration_text(calibration), encoding="utf-8")


def read_calibration(path: Path) -> Calibration:
    """Read a calibration file. Raises ``InputError`` with one sentence."""
    return calibration_from_mapping(read_document(path, _LIMITS, is_json=True), str(path))


def parse_calibration(text: str, origin: str) -> Calibration:
    """Parse the text of a calibration file. Raises ``InputError`` with one sentence."""
    return calibration_from_mapping(parse_document(text, origin, is_json=True, limits=_LIMITS), origin)


def calibration_from_mapping(document: object, origin: str) -> Calibration:
    """The calibration in a parsed file. Raises ``InputError`` with one sentence."""
    try:
        section = check(_CalibrationSection, document)
        for index, entry in enumerate(section.fitted):
            _check_constant(f"fitted[{index}]", entry)
        for name, bands in (("bands", section.bands), ("memory_bands", section.memory_bands)):
            if not any(band.kind == "all" for band in bands) and (bands or name == "bands"):
                raise InputError(Sentence("{}: the entry of kind 'all' is missing.", name))
        if section.paired and not any(error.kind == "all" for error in section.paired):
            raise InputError(Sentence("paired: the entry of kind 'all' is missing."))
        pairs = len(section.fitted) * (len(section.fitted) - 1) // 2
        if section.correlations and len(section.correlations) != pairs:
            raise InputError(
                Sentence("correlations: holds {} of the {} pairs of fitted constants.", len(section.correlations), pairs)
            )
    except InputError as error:
        raise InputError(Sentence("{}: {}", origin, error)) from None
    return Calibration(
        family=section.family,
        fitted=tuple(FittedConstant(**dict(row)) for row in section.fitted),
        bands=tuple(ErrorBand(**dict(row)) for row in section.bands),
        coverage=tuple(Coverage(**dict(row)) for row in section.coverage),
        num_runs=section.num_runs,
        command=section.command,
        hardware=section.hardware,
        stack=section.stack,
        memory_bands=tuple(ErrorBand(**dict(row)) for row in section.memory_bands),
        memory_coverage=tuple(Coverage(**dict(row)) for row in section.memory_coverage),
        paired=tuple(PairedError(**dict(row)) for row in section.paired),
        steps=tuple(Step(**dict(row)) for row in section.steps),
        mechanisms=tuple(section.mechanisms),
        correlations=tuple(section.correlations),
        memory_mechanisms=tuple(section.memory_mechanisms),
        memory_steps=tuple(Step(**dict(row)) for row in section.memory_steps),
    )


def _check_constant(field: str, entry: _FittedSection) -> None:
    known = {constant.name: constant for constant in CONSTANTS}
    if entry.name not in known:
        raise InputError(
            Sentence("{}.name: {} is no constant of this version{}.", field, show(entry.name), did_you_mean(entry.name, known))
        )
    low, high = known[entry.name].low * 0.999, known[entry.name].high * 1.001
    if not low <= entry.value <= high:
        raise InputError(
            Sentence("{}.value: {} is not allowed; give {:g} to {:g} for {}.", field, entry.value, low, high, entry.name)
        )


@lru_cache(maxsize=len(FAMILIES))
def shipped_calibration(family: str) -> Calibration:
    """The calibration that comes with this version, for ``ascend`` or ``gpu``."""
    name = f"{family}.json"
    text = resources.files("calibration").joinpath("shipped", name).read_text(encoding="utf-8")
    return parse_calibration(text, name)


def calibration_for(workload: Workload, own: Sequence[Calibration] = ()) -> Calibration:
    """The first of the user's calibrations that applies to the workload, or the shipped one."""
    for calibration in own:
        if calibration.applies_to(workload):
            return calibration
    return shipped_calibration(family_of(workload.cluster.profile.family))


def summary(calibration: Calibration) -> Mapping[str, Any]:
    """One line about a calibration."""
    return {
        "family": calibration.family,
        "hardware": calibration.hardware,
        "stack": calibration.stack,
        "num_runs": calibration.num_runs,
        "num_constants": len(calibration.fitted),
        "command": calibration.command,
    }
