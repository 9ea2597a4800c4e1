"""Measured training runs as JSON lines: the job, and its measurements.

``calibration/runs/README.md`` documents the schema. Reading is lenient: unknown keys are ignored, other spellings are
mapped and noted, and missing values take the framework's documented default. A line that cannot be predicted becomes a
``RefusedRecord`` with the reason.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from calibration.records.categories import run_category
from calibration.records.known_flags import NO_FLAGS, Flag, RecordFlags, read_features, read_flags, record_flags, with_stated
from calibration.records.layout import num_noop_layers
from calibration.records.model import record_model
from calibration.records.origin import NOT_STATED, Origin, origin_of
from calibration.records.precision import record_precision, record_recipe
from calibration.records.sections import (
    MIN_MEASURED,
    ClusterSection,
    MeasuredSection,
    ModelSection,
    Notes,
    RecordSection,
    SoftwareSection,
    StrategySection,
    TrainingSection,
    quoted,
    refused,
)
from calibration.records.software import record_software, release_year, software_stack, with_launches
from calibration.records.strategy import record_degrees, record_strategy
from calibration.records.task import record_task
from calibration.records.unread_keys import unread_sentences
from cost_models.shapes.expert_spread import ExpertSpread
from cost_models.shapes.precision import EIGHT_BITS
from cost_models.shapes.router_balance import RouterBalance
from cost_models.shapes.strategy import ParallelStrategy
from cost_models.shapes.traits import STACKS, SoftwareTraits
from cost_models.shapes.workload import Cluster, ModelShape, TrainingJob, Workload
from documents.bounds import MAX_TEXT, RUN_BYTES, RUNS_BYTES, Devices, NumLayers, SeqLength, Width
from documents.checking import Checked, check
from documents.errors import InputError
from documents.late_methods import dataclass
from documents.reading import read_bytes
from documents.sentences import Sentence
from hardware_profiles.catalogue import named
from hardware_profiles.schema import HardwareProfile

_LISTED = re.compile(r"\b(recompute|select_recompute)['\"]?\s*[:=]\s*(\[[\d\s,\[\]]*\])")
_BASES = ("allocated_first_iteration", "allocated", "reserved", "device")


@dataclass(frozen=True)
class Measured:
    """Measurements of a run. Ranks are in the source's order; ``peak_memory_basis`` says which kind of peak it is."""

    step_time_s: float | None = None
    peak_memory_bytes: float | None = None
    peak_memory_basis: str | None = None
    peak_memory_by_rank_bytes: tuple[float, ...] = ()
    allocated_after_step_by_rank_bytes: tuple[float, ...] = ()
    peak_of_last_rank: bool = False
    allocated_after_step_last_rank_bytes: float | None = None


@dataclass(frozen=True)
class RunRecord:
    """One run that can be predicted.

    ``workload`` and ``strategy`` do not depend on measurements. ``recompute_stated`` is false if the source does not
    state recompute. ``memory_year`` is the release date of the software whose memory was measured, if its version is stated apart
    from that of the step time. ``suspect``, ``is_latest`` and ``hardware_basis`` decide the weight of the run.
    """

    id: str
    line_number: int
    category: str
    workload: Workload
    strategy: ParallelStrategy
    measured: Measured
    recompute_stated: bool = True
    suspect: str | None = None
    is_latest: bool = True
    hardware_basis: str | None = None
    ranking_group: str | None = None
    warnings: tuple[str, ...] = ()
    origin: Origin = NOT_STATED
    flags: RecordFlags = NO_FLAGS
    memory_year: float | None = None

    @property
    def of_memory(self) -> RunRecord:
        """The run under the release whose memory was measured."""
        if self.memory_year is None:
            return self
        software = replace(self.workload.software, year=self.memory_year)
        return replace(self, workload=replace(self.workload, software=software), memory_year=None)


@dataclass(frozen=True)
class RefusedRecord:
    """A line that cannot be predicted, with one sentence that says why."""

    id: str
    line_number: int
    reason: str
    category: str | None = None
    measured: Measured = Measured()


def read_run_records(path: Path, profile_of: Callable[[str], HardwareProfile] = named) -> list[RunRecord | RefusedRecord]:
    """The records of a JSON-lines file, in file order; empty lines are skipped.

    ``profile_of`` finds a hardware profile by name and raises ``ValueError`` for an unknown one.
    Raises ``InputError`` if the file cannot be read, exceeds ``RUNS_BYTES``, or holds no readable record.
    """
    records = [_read_line(number, line, profile_of) for number, line in record_lines(path)]
    if not any(isinstance(record, RunRecord) for record in records):
        first = (
            Sentence(" The first line says: {}", records[0].reason) if records and isinstance(records[0], RefusedRecord) else ""
        )
        raise InputError(Sentence("{} holds no readable run record.{}", path, first))
    return records


def parse_run_record(
    row: Mapping[str, object], line_number: int = 1, profile_of: Callable[[str], HardwareProfile] = named
) -> RunRecord | RefusedRecord:
    """One decoded record, as ``read_run_records`` reads a line."""
    name = row.get("id")
    record_id = name[:200] if isinstance(name, str) and name else f"line-{line_number}"
    category, measured = _category(row), Measured()
    warnings: list[str] = []
    try:
        measured = _measured(row, warnings)
        cluster = _section(ClusterSection, row, "cluster")
        software = _section(SoftwareSection, row, "software")
        workload, strategy, stated, flags = _priced(row, cluster, software, profile_of, warnings)
    except InputError as error:
        return RefusedRecord(record_id, line_number, str(error), category, measured)
    warnings += unread_sentences(row)
    return RunRecord(
        id=record_id,
        line_number=line_number,
        category=run_category(
            framework=software.framework,
            num_layers=workload.model.num_layers,
            hidden_size=workload.model.hidden_size,
            is_moe=workload.model.moe is not None,
            seq_length=workload.training.seq_length,
            num_devices=workload.cluster.num_devices,
            devices_per_node=cluster.devices_per_node or workload.cluster.profile.devices_per_node,
        ),
        workload=workload,
        strategy=strategy,
        measured=measured,
        recompute_stated=stated,
        suspect=_note(row.get("suspect")),
        is_latest=row.get("is_latest_for_config") is not False,
        hardware_basis=_note(cluster.hardware_basis),
        ranking_group=_note(row.get("ranking_group")),
        warnings=tuple(warnings),
        origin=origin_of(row.get("source"), workload.software.year),
        flags=flags,
        memory_year=release_year(workload.software.stack, software.framework, software.memory_version, "")
        if software.memory_version
        else None,
    )


def _section(kind: type[Checked], row: Mapping[str, object], name: str) -> Checked:
    value = row.get(name)
    return check(kind, {} if value is None else value, name)


_MARKS = re.compile(rb'"(?:[^"\\]|\\.)*+"?|[][{}]')  # texts, and brackets outside them
_STEPS = {b"{": 1, b"[": 1, b"}": -1, b"]": -1}


def record_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """The non-empty lines of a file, with their numbers; ``InputError`` if it cannot be read.

    A record may continue in lines that are indented or begin with its closing bracket.
    """
    content = read_bytes(path, RUNS_BYTES)
    begun, record = 0, _Lines()
    for number, line in enumerate(content.removeprefix(b"\xef\xbb\xbf").split(b"\n"), start=1):
        if not line.strip():
            continue
        if not (record.num_bytes and line[:1] in b" \t}" and record.num_bytes <= RUN_BYTES and not record.is_whole):
            if record.num_bytes:
                yield begun, record.text
            begun, record = number, _Lines()
        record.add(line)
    if record.num_bytes:
        yield begun, record.text


class _Lines:
    """The lines of one record so far. Each is read once, so that a record of many short lines takes no more time."""

    def __init__(self) -> None:
        self.num_bytes = 0
        self._lines: list[bytes] = []
        self._depth = 0  # open brackets
        self._is_closed = False  # no bracket is open: more lines make JSON neither of text that is none, nor other JSON

    def add(self, line: bytes) -> None:
        self.num_bytes += len(line) + bool(self._lines)
        self._lines.append(line)
        self._depth += sum(_STEPS.get(mark, 0) for mark in _MARKS.findall(line))
        self._is_closed |= self._depth <= 0

    @property
    def text(self) -> bytes:
        return b"\n".join(self._lines)

    @cached_property
    def _is_json(self) -> bool:
        try:
            json.loads(self.text)
        except (ValueError, RecursionError):
            return False
        return True

    @property
    def is_whole(self) -> bool:
        """Whether they are JSON."""
        return self._is_closed and self._is_json


def _read_line(number: int, line: bytes, profile_of: Callable[[str], HardwareProfile]) -> RunRecord | RefusedRecord:
    name = f"line-{number}"
    if len(line) > RUN_BYTES:
        return RefusedRecord(name, number, Sentence("Line {} holds {} bytes; at most {} are read.", number, len(line), RUN_BYTES))
    try:
        row = json.loads(line.decode())
    except json.JSONDecodeError as error:
        return RefusedRecord(
            name, number, Sentence("Line {} is not JSON: {} at column {}.", number, Sentence.whole(error.msg), error.colno)
        )
    except UnicodeDecodeError:
        return RefusedRecord(name, number, Sentence("Line {} is not UTF-8 text.", number))
    except (RecursionError, ValueError):
        return RefusedRecord(
            name, number, Sentence("Line {} is not JSON that can be read: too deep, or a number too long.", number)
        )
    if not isinstance(row, dict):
        return RefusedRecord(name, number, Sentence("Line {} is {}; a JSON object is needed.", number, quoted(row)))
    return parse_run_record(row, number, profile_of)


def _priced(
    row: Mapping[str, object],
    cluster_section: ClusterSection,
    software_section: SoftwareSection,
    profile_of: Callable[[str], HardwareProfile],
    warnings: list[str],
) -> tuple[Workload, ParallelStrategy, bool, RecordFlags]:
    """The part of a record that a prediction uses; it has no name, source or measured value."""
    training_notes, software_notes, strategy_notes, model_notes = (
        Notes(name, warnings) for name in ("training", "software", "strategy", "model")
    )
    cluster = _cluster(cluster_section, profile_of)
    stack = software_stack(software_section.framework, cluster.profile.family, software_notes)
    flags = read_flags([*software_section.raw_flags, *_recompute_flags(row)], stack)
    row = with_stated(row, flags)
    training_section = _section(TrainingSection, row, "training")
    training = _training(training_section, training_notes, flags, STACKS[stack].traits)
    software = record_software(software_section, flags, stack, profile=cluster.profile, precision=training.precision)
    if software_section.version and software.software.year is None and STACKS[stack].traits.releases is not None:
        software_notes.add("version", software_section.version, Sentence("names no release that is known, priced as the newest"))
    section = _section(StrategySection, row, "strategy")
    degrees = record_degrees(section, strategy_notes, cluster.num_devices)
    stages = degrees.virtual_stages  # the stages of the embedding and of the loss may hold no layer
    described = _section(ModelSection, row, "model")
    model = record_model(described, model_notes, degrees, software, num_noop_layers=num_noop_layers(section))
    if stages > model.num_layers + 2:
        raise InputError(
            Sentence(
                "strategy.pp: {} x vpp {} = {} virtual stages are not allowed; "
                "at most model.num_layers {} + 2 have something to hold.",
                degrees.pp,
                degrees.vpp,
                stages,
                model.num_layers,
            )
        )
    found = record_strategy(section, strategy_notes, degrees, model, software, global_batch_size=training.global_batch_size)
    by_force = software.balances_by_force
    training = replace(
        training,
        expert_spread=_expert_spread(training_section, training_notes, model, by_force=by_force),
        task=record_task(training_section, model, training_notes),
    )
    launched = with_launches(software.software, flags, model, cluster, software_notes)
    workload = Workload(model=model, training=training, cluster=cluster, software=launched)
    named = read_features(section.features)
    return workload, found.strategy, found.recompute_stated, record_flags((*named, *flags), found.strategy.features)


def _recompute_flags(row: Mapping[str, object]) -> list[str]:
    """``strategy.recompute.raw`` of scripts and YAML files, as flags; of free text only its lists by stage."""
    strategy = row.get("strategy")
    recompute = strategy.get("recompute") if isinstance(strategy, Mapping) else None
    raw = recompute.get("raw") if isinstance(recompute, Mapping) else None
    if isinstance(raw, str):
        return [f"{name}={listed}" for name, listed in _LISTED.findall(raw[:MAX_TEXT])]
    if not isinstance(raw, Mapping):
        return []
    return [f"{name}={value if isinstance(value, str) else json.dumps(value)}"[:MAX_TEXT] for name, value in raw.items()]


def _cluster(section: ClusterSection, profile_of: Callable[[str], HardwareProfile]) -> Cluster:
    try:
        hardware = profile_of(section.hardware)
    except ValueError as error:
        raise InputError(Sentence("cluster.hardware: {}", error)) from error
    return Cluster(hardware, section.num_devices, inter_node_bytes_per_s=section.inter_node_bytes_per_s_per_device)


def _training(section: TrainingSection, notes: Notes, flags: tuple[Flag, ...], stack: SoftwareTraits) -> TrainingJob:
    precision = record_precision(section, notes)
    return TrainingJob(
        seq_length=section.seq_length,
        global_batch_size=section.global_batch_size,
        precision=precision,
        fp8_recipe=record_recipe(section, notes, flags, stack) if precision in EIGHT_BITS else None,
    )


def _expert_spread(section: TrainingSection, notes: Notes, model: ModelShape, *, by_force: bool) -> ExpertSpread | None:
    """Balance of the router: as stated, otherwise that of the framework's benchmarks, otherwise assumed as usual for the model.

    A capacity of 1 drops a rank's tokens above the mean, which for times is perfect balance.
    """
    stated = section.router_balance.lower()
    if stated in set(RouterBalance):
        return model.expert_spread(RouterBalance(stated))
    if model.moe is not None and not stated and (by_force or model.moe.capacity_factor == 1.0):
        notes.add("router_balance", None, Sentence("is not stated, read as forced"))
        return model.expert_spread(RouterBalance.FORCED)
    usual = model.expert_spread()
    if stated and usual is not None:
        notes.add("router_balance", section.router_balance, Sentence("is not a known balance, read as {}", usual.balance))
    return None if usual is None else replace(usual, assumed=True)


def _measured(row: Mapping[str, object], warnings: list[str]) -> Measured:
    """Step time, or the token rate from which it follows; memory with its basis."""
    section, notes = _section(MeasuredSection, row, "measured"), Notes("measured", warnings)
    step_time_s, rate = section.step_time_s, section.tokens_per_s_per_device
    if step_time_s is None and rate is not None:
        training = _section(TrainingSection, row, "training")
        tokens_per_s = rate * _section(ClusterSection, row, "cluster").num_devices
        step_time_s = training.global_batch_size * training.seq_length / tokens_per_s
        if step_time_s <= MIN_MEASURED:
            raise refused(
                "measured.tokens_per_s_per_device", rate, Sentence("a rate at which a step takes more than {:g} s", MIN_MEASURED)
            )
    basis = section.peak_memory_basis
    if basis is not None and basis not in _BASES:
        notes.add("peak_memory_basis", basis, Sentence("is not a known basis, compared with the device's peak"))
        basis = "device"
    last_bytes = section.peak_memory_last_rank_bytes if section.peak_memory_bytes is None else None
    return Measured(
        step_time_s=step_time_s,
        peak_memory_bytes=last_bytes or section.peak_memory_bytes,
        peak_memory_basis=basis or ("allocated" if last_bytes else None),
        peak_of_last_rank=last_bytes is not None,
        allocated_after_step_last_rank_bytes=section.allocated_after_step_last_rank_bytes,
        peak_memory_by_rank_bytes=_by_rank(section.peak_memory_by_rank_bytes),
        allocated_after_step_by_rank_bytes=_by_rank(section.allocated_after_step_by_rank_bytes),
    )


def _by_rank(values: list[float | None] | None) -> tuple[float, ...]:
    return tuple(value or 0.0 for value in values or ())


class _ModelSize(RecordSection):
    num_layers: NumLayers
    hidden_size: Width
    moe: Any = None


class _Devices(RecordSection):
    num_devices: Devices
    devices_per_node: Devices


class _Length(RecordSection):
    seq_length: SeqLength


def _category(row: Mapping[str, object]) -> str | None:
    """The category of a record that may be refused; ``None`` if it is unknown."""
    try:
        model, cluster = _section(_ModelSize, row, "model"), _section(_Devices, row, "cluster")
        return run_category(
            framework=_section(SoftwareSection, row, "software").framework,
            num_layers=model.num_layers,
            hidden_size=model.hidden_size,
            is_moe=model.moe is not None,
            seq_length=_section(_Length, row, "training").seq_length,
            num_devices=cluster.num_devices,
            devices_per_node=cluster.devices_per_node,
        )
    except InputError:
        return None


def _note(value: object) -> str | None:
    return value[:MAX_TEXT] if isinstance(value, str) and value else None
