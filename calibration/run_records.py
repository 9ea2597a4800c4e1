"""Measured runs as JSON lines: what was run, and what was measured.

``calibration/runs/README.md`` documents the schema. Reading is lenient: unknown keys are ignored, other spellings are
mapped and noted, what is missing takes the framework's documented default. A line that cannot be predicted becomes a
``RefusedRecord`` with the reason.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from calibration.categories import run_category
from calibration.record_fields import RecordError, Section, shown
from calibration.record_layout import num_noop_layers
from calibration.record_model import record_model
from calibration.record_software import record_software
from calibration.record_strategy import MAX_DEGREE, record_degrees, record_strategy
from cost_models.shapes.strategy import ParallelStrategy
from cost_models.shapes.workload import Cluster, TrainingJob, Workload
from documents.errors import InputError
from hardware_profiles.catalogue import named
from hardware_profiles.schema import HardwareProfile

MAX_FILE_BYTES = 64 * 2**20
MAX_LINE_BYTES = 2**20
_MAX_SEQUENCE, _MAX_BATCH = 10**8, 10**9
_MAX_RANKS = 100_000
_MIN_MEASURED = 1e-6  # s, bytes, tokens/s: errors are shares of what was measured
_INTER_NODE_BYTES_PER_S = 1e6, 1e13  # as a job has them
_PRECISIONS = {
    "bf16": ("bf16", "bfloat16", "amp_bf16"),
    "fp16": ("fp16", "float16"),
    "fp8": ("fp8", "mxfp8", "fp8-cs", "fp8-mx", "amp_fp8", "hif8"),
    "nvfp4": ("nvfp4", "fp4"),
    "fp32": ("fp32", "float32"),
}
_BASES = ("allocated_first_iteration", "allocated", "reserved", "device")
# A prediction may rest on these keys and no others: names, sources and measured values must not reach it.
_PREDICTIVE = ("model", "cluster", "training", "strategy", "software")
_DESCRIPTIVE = {
    "model": ("name", "family"),
    "cluster": ("hardware_basis", "published_server", "network"),
}


class RunRecordError(InputError):
    """A file of run records that cannot be read at all."""


@dataclass(frozen=True)
class Measured:
    """What a run measured. Ranks are in the source's order; ``peak_memory_basis`` says what kind of peak it is."""

    step_time_s: float | None = None
    peak_memory_bytes: float | None = None
    peak_memory_basis: str | None = None
    peak_memory_by_rank_bytes: tuple[float, ...] = ()
    allocated_after_step_by_rank_bytes: tuple[float, ...] = ()


@dataclass(frozen=True)
class RunRecord:
    """One run that can be predicted.

    ``workload`` and ``strategy`` rest on what was run alone. ``recompute_stated`` is false where the source leaves
    recompute open. ``suspect``, ``is_latest`` and ``hardware_basis`` say how much weight the run deserves.
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
    Raises ``RunRecordError`` if the file cannot be read, exceeds ``MAX_FILE_BYTES``, or holds no readable record.
    """
    records = [_read_line(number, line, profile_of) for number, line in _lines(path)]
    if not any(isinstance(record, RunRecord) for record in records):
        first = f" The first line says: {records[0].reason}" if records and isinstance(records[0], RefusedRecord) else ""
        raise RunRecordError(f"{path} holds no readable run record.{first}")
    return records


def parse_run_record(
    row: Mapping[str, object], line_number: int = 1, profile_of: Callable[[str], HardwareProfile] = named
) -> RunRecord | RefusedRecord:
    """One decoded record, as ``read_run_records`` reads a line."""
    warnings: list[str] = []
    whole = Section("", row, warnings)
    name = row.get("id")
    record_id = name[:200] if isinstance(name, str) and name else f"line-{line_number}"
    category, measured = _category(row), Measured()
    try:
        measured = _measured(whole)
        workload, strategy, stated = _priced(Section("", _predictive(row), warnings), profile_of)
        cluster = whole.section("cluster")
        nodes_of = cluster.integer("devices_per_node", workload.cluster.profile.devices_per_node, high=MAX_DEGREE)
    except RecordError as error:
        return RefusedRecord(record_id, line_number, str(error), category, measured)
    return RunRecord(
        id=record_id,
        line_number=line_number,
        category=run_category(
            framework=whole.section("software").text_or_none("framework") or "",
            num_layers=workload.model.num_layers,
            hidden_size=workload.model.hidden_size,
            is_moe=workload.model.moe is not None,
            seq_length=workload.training.seq_length,
            num_devices=workload.cluster.num_devices,
            devices_per_node=nodes_of,
        ),
        workload=workload,
        strategy=strategy,
        measured=measured,
        recompute_stated=stated,
        suspect=_note(row.get("suspect")),
        is_latest=row.get("is_latest_for_config") is not False,
        hardware_basis=_note(cluster.values.get("hardware_basis")),
        ranking_group=_note(row.get("ranking_group")),
        warnings=tuple(warnings),
    )


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise RunRecordError(f"{path} holds {path.stat().st_size} bytes; at most {MAX_FILE_BYTES} are read.")
        content = path.read_bytes()
    except OSError as error:
        raise RunRecordError(f"{path} cannot be read: {error.strerror or error}.") from error
    for number, line in enumerate(content.removeprefix(b"\xef\xbb\xbf").split(b"\n"), start=1):
        if line.strip():
            yield number, line


def _read_line(number: int, line: bytes, profile_of: Callable[[str], HardwareProfile]) -> RunRecord | RefusedRecord:
    name = f"line-{number}"
    if len(line) > MAX_LINE_BYTES:
        return RefusedRecord(name, number, f"Line {number} holds {len(line)} bytes; at most {MAX_LINE_BYTES} are read.")
    try:
        row = json.loads(line.decode())
    except json.JSONDecodeError as error:
        return RefusedRecord(name, number, f"Line {number} is not JSON: {error.msg} at column {error.colno}.")
    except UnicodeDecodeError:
        return RefusedRecord(name, number, f"Line {number} is not UTF-8 text.")
    except (RecursionError, ValueError):
        return RefusedRecord(name, number, f"Line {number} is not JSON that can be read: too deep, or a number too long.")
    if not isinstance(row, dict):
        return RefusedRecord(name, number, f"Line {number} is {shown(row)}; a JSON object is needed.")
    return parse_run_record(row, number, profile_of)


def _predictive(row: Mapping[str, object]) -> dict[str, object]:
    """The part of a record that a prediction may see."""
    parts = {key: row.get(key) for key in _PREDICTIVE}
    for key, names in _DESCRIPTIVE.items():
        part = parts[key]
        if isinstance(part, Mapping):
            parts[key] = {name: value for name, value in part.items() if name not in names}
    return parts


def _priced(record: Section, profile_of: Callable[[str], HardwareProfile]) -> tuple[Workload, ParallelStrategy, bool]:
    cluster = _cluster(record.section("cluster"), profile_of)
    training = _training(record.section("training"))
    software = record_software(record.section("software"), profile=cluster.profile, precision=training.precision)
    section = record.section("strategy")
    degrees = record_degrees(section, cluster.num_devices)
    model = record_model(
        record.section("model"),
        num_noop_layers=num_noop_layers(section),
        tp=degrees.tp,
        num_virtual_stages=degrees.pp * degrees.vpp,
        stack=software.software.stack,
        flags=software.flags,
    )
    stages = degrees.pp * degrees.vpp  # those of the embedding and of the loss may hold no layer of their own
    if stages > model.num_layers + 2:
        raise RecordError(
            f"strategy.pp {degrees.pp} x vpp {degrees.vpp} = {stages} virtual stages; "
            f"at most model.num_layers {model.num_layers} + 2 have something to hold."
        )
    found = record_strategy(section, degrees, model, software, global_batch_size=training.global_batch_size)
    workload = Workload(model=model, training=training, cluster=cluster, software=software.software)
    return workload, found.strategy, found.recompute_stated


def _cluster(section: Section, profile_of: Callable[[str], HardwareProfile]) -> Cluster:
    name = section.text_or_none("hardware")
    if not name:
        raise section.error("hardware", "the name of a hardware profile")
    try:
        hardware = profile_of(name)
    except ValueError as error:
        raise RecordError(f"cluster.hardware: {error}") from error
    return Cluster(
        profile=hardware,
        num_devices=section.integer("num_devices", high=MAX_DEGREE),
        inter_node_bytes_per_s=section.number_or_none("inter_node_bytes_per_s_per_device", *_INTER_NODE_BYTES_PER_S),
    )


def _training(section: Section) -> TrainingJob:
    text = section.text_or_none("precision") or ""
    precision = next((known for known, spellings in _PRECISIONS.items() if text.lower() in spellings), "bf16")
    if text.lower() not in _PRECISIONS:
        section.warn("precision", text or None, f"is read as {precision}")
    return TrainingJob(
        seq_length=section.integer("seq_length", high=_MAX_SEQUENCE),
        global_batch_size=section.integer("global_batch_size", high=_MAX_BATCH),
        precision=precision,
    )


def _measured(record: Section) -> Measured:
    """Step time, or the tokens rate that says the same where the batch is known; memory with its basis."""
    section, training = record.section("measured"), record.section("training")
    step_time_s = section.number_or_none("step_time_s", low=_MIN_MEASURED)
    rate = section.number_or_none("tokens_per_s_per_device", low=_MIN_MEASURED)
    if step_time_s is None and rate is not None:
        batch = training.integer_or_none("global_batch_size", high=_MAX_BATCH)
        tokens = training.integer("seq_length", high=_MAX_SEQUENCE) * (batch or 0)
        step_time_s = tokens / (rate * record.section("cluster").integer("num_devices", high=MAX_DEGREE)) or None
        if step_time_s is not None and step_time_s <= _MIN_MEASURED:
            raise section.error("tokens_per_s_per_device", f"a rate at which a step takes more than {_MIN_MEASURED:g} s")
    basis = section.text_or_none("peak_memory_basis")
    if basis is not None and basis not in _BASES:
        section.warn("peak_memory_basis", basis, "is not a known basis, compared with the device's peak")
        basis = "device"
    return Measured(
        step_time_s=step_time_s,
        peak_memory_bytes=section.number_or_none("peak_memory_bytes", low=_MIN_MEASURED),
        peak_memory_basis=basis,
        peak_memory_by_rank_bytes=_by_rank(section, "peak_memory_by_rank_bytes"),
        allocated_after_step_by_rank_bytes=_by_rank(section, "allocated_after_step_by_rank_bytes"),
    )


def _by_rank(section: Section, field: str) -> tuple[float, ...]:
    values = section.values.get(field)
    if values is None:
        return ()
    if not isinstance(values, list) or len(values) > _MAX_RANKS:
        raise section.error(field, "a list of bytes")
    ranks = Section(f"{section.name}.{field}", {str(rank): value for rank, value in enumerate(values)}, section.warnings)
    return tuple(ranks.number_or_none(rank) or 0.0 for rank in ranks.values)


def _category(row: Mapping[str, object]) -> str | None:
    """The category of a record that may be refused; ``None`` where it does not tell."""
    record = Section("", row, [])
    try:
        model, cluster = record.section("model"), record.section("cluster")
        return run_category(
            framework=record.section("software").text_or_none("framework") or "",
            num_layers=model.integer("num_layers"),
            hidden_size=model.integer("hidden_size"),
            is_moe=model.section_or_none("moe") is not None,
            seq_length=record.section("training").integer("seq_length"),
            num_devices=cluster.integer("num_devices"),
            devices_per_node=cluster.integer("devices_per_node"),
        )
    except RecordError:
        return None


def _note(value: object) -> str | None:
    return value[:1000] if isinstance(value, str) and value else None
