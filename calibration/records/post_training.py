"""Measured steps, rollouts and weight updates of post-training, and inference points, as JSON lines.

Reading is lenient: texts that name a placement or a device are read by their words, missing values stay ``None``, and a line
that cannot be used becomes a ``RefusedRecord`` with the reason.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

from calibration.records.training import RefusedRecord, record_lines
from documents.bounds import MAX_DEVICES, MAX_MEASURED, MAX_TEXT
from documents.errors import InputError, show
from documents.late_methods import dataclass
from documents.sentences import Sentence, joined

KINDS = ("rl_step", "rollout", "weight_sync", "inference_prefill", "inference_decode", "inference_serving", "staleness_quality")
MAX_SAMPLES = 2_000_000  # maximum samples of a step

# Words in the name of a device, most specific first -> hardware profile.
_HARDWARE: tuple[tuple[str, str], ...] = (
    ("gb300", "gb300-nvl72"),
    ("gb200", "gb200-nvl72"),
    ("b300", "b300-sxm-288gb"),
    ("b200", "b200-sxm-180gb"),
    ("h200", "h200-sxm-141gb"),
    ("h800", "h800-sxm-80gb"),
    ("h100", "h100-sxm-80gb"),
    ("h20", "h20-sxm-96gb"),
    ("a100", "a100-sxm-80gb"),
    ("mi300", "mi300x"),
    ("mi350", "mi350x"),
    ("mi355", "mi355x"),
    ("v100", "v100-sxm-32gb"),
    ("910b4", "atlas-800t-a2-910b4"),
    ("910b2", "atlas-900-a2-podc"),
    ("a2-podc", "atlas-900-a2-podc"),
    ("910b", "atlas-800t-a2"),
    ("cloudmatrix", "atlas-900-a3-superpod"),
    ("cm384", "atlas-900-a3-superpod"),
    ("910c", "atlas-900-a3-superpod"),
    ("a2/a3", "atlas-800t-a2"),
    ("-a3", "atlas-900-a3-superpod"),
    (" a3", "atlas-900-a3-superpod"),
    ("(a3", "atlas-900-a3-superpod"),
    ("800i-a2", "atlas-800t-a2"),
    ("-a2", "atlas-800t-a2"),
    (" a2", "atlas-800t-a2"),
    ("(a2", "atlas-800t-a2"),
    ("ascend", "atlas-900-a3-superpod"),
    ("npu", "atlas-900-a3-superpod"),
)  # fmt: skip
DIES_OF_A_PACKAGE = 2
_PACKAGES = ("cloudmatrix", "cm384")  # there a device is a package of two dies
_RATIO = re.compile(r"(\d+)\s*:\s*(\d+)")
_NUMBERED = re.compile(r"(?:(\d+)\s*x?\s*)?(rollout|generat\w*|vllm|sglang|infer\w*|train\w*|actor)(?:\s+d?(\d+)\b(?!\s*\w))?")
_STALENESS = re.compile(
    r"(max_trajectory_age_steps|max_head_off?policyness|max_staleness|max staleness|eta|staleness)\D{0,3}(\d+(?:\.\d+)?)"
)
_THRESHOLD = re.compile(r"staleness_threshold\D{0,3}(\d+(?:\.\d+)?)")
_HYBRID = re.compile(r"(\d+)\s+hybrid\D+(\d+)\s+standalone")
_STEPS_OFF = re.compile(r"(\d+)[ _-]?(?:step)s?[ _-]?off")
_WORDS = {"one": "1", "two": "2", "three": "3", "four": "4"}


@dataclass(frozen=True)
class Placed:
    """The placement of tasks in a record; ``None`` if it says nothing. Devices are counted as in the record."""

    kind: str = "fully-colocated"  # separate | hybrid | fully-colocated
    rollout_devices: int | None = None
    train_devices: int | None = None
    steps: int | None = None  # versions that rollout may be ahead; None with ``separate``: not stated
    unbounded: bool = False
    leftover_fraction: float | None = None
    partial: bool = False
    streams: bool = False


@dataclass(frozen=True)
class Degrees:
    """Degrees of a layout, as stated in a record; ``None``: not stated."""

    tp: int | None = None
    pp: int | None = None
    ep: int | None = None
    cp: int | None = None
    dp: int | None = None
    vpp: int | None = None
    micro_batch_size: int | None = None
    instances: int | None = None
    instance_devices: int | None = None
    max_num_seqs: int | None = None
    memory_fraction: float | None = None
    fsdp: bool = False
    recompute: bool = False
    backend: str | None = None

    @property
    def is_stated(self) -> bool:
        """Whether the record states a layout."""
        return any(value is not None for value in (self.tp, self.pp, self.ep, self.instance_devices))


@dataclass(frozen=True)
class PostTrainingRecord:
    """One record. Lengths in tokens; ``measured`` holds its numbers by the source's names."""

    id: str
    line_number: int
    kind: str
    model: Any
    hardware: str | None
    hardware_text: str
    devices: int | None
    devices_are_packages: bool
    placed: Placed
    train: Degrees
    rollout: Degrees
    algorithm: str = ""
    precision: str = ""
    prompts: int | None = None
    samples: int | None = None
    trajectories: int | None = None
    train_batch: int | None = None
    max_response: int | None = None
    max_prompt: int | None = None
    max_sequence: int | None = None
    mean_response: float | None = None
    mean_prompt: float | None = None
    input_length: float | None = None
    output_length: float | None = None
    batch_tokens: float | None = None
    concurrency: int | None = None
    tpot_slo_ms: float | None = None
    model_bytes: float | None = None
    throughput_definition: str = ""
    placement_text: str = ""
    notes: str = ""
    measured: Mapping[str, float] = field(default_factory=dict)
    suspect: str | None = None

    @property
    def dies(self) -> int | None:
        """Number of devices, counted as in hardware profiles."""
        return None if self.devices is None else self.devices * (DIES_OF_A_PACKAGE if self.devices_are_packages else 1)


def read_post_training_records(path: Path) -> list[PostTrainingRecord | RefusedRecord]:
    """The records of a file, in its order; empty lines are skipped. ``InputError`` if none can be read."""
    records = [_read_line(number, line) for number, line in record_lines(path)]
    if not any(isinstance(record, PostTrainingRecord) for record in records):
        first = (
            Sentence(" The first line says: {}", records[0].reason) if records and isinstance(records[0], RefusedRecord) else ""
        )
        raise InputError(Sentence("{} holds no readable post-training record.{}", path, first))
    return records


def _read_line(number: int, line: bytes) -> PostTrainingRecord | RefusedRecord:
    name = f"line-{number}"
    if len(line) > MAX_TEXT * 1000:
        return RefusedRecord(
            name, number, Sentence("Line {} holds {} bytes; at most {} are read.", number, len(line), MAX_TEXT * 1000)
        )
    try:
        row = json.loads(line.decode())
    except (ValueError, RecursionError) as error:
        return RefusedRecord(name, number, Sentence("Line {} is not JSON that can be read: {}.", number, type(error).__name__))
    if not isinstance(row, dict):
        return RefusedRecord(name, number, Sentence("Line {} is no JSON object.", number))
    return parse_post_training_record(row, number)


def parse_post_training_record(row: Mapping[str, Any], line_number: int = 1) -> PostTrainingRecord | RefusedRecord:
    """One decoded record, as ``read_post_training_records`` reads a line."""
    given = row.get("id")
    name = given[:200] if isinstance(given, str) and given else f"line-{line_number}"
    kind = row.get("kind")
    if kind not in KINDS:
        return RefusedRecord(
            name, line_number, Sentence("kind: {} is not allowed; give one of {}.", show(kind), joined(", ", KINDS))
        )
    hardware_text, placement = _text(row.get("hardware")), _text(row.get("placement"))
    lowered = hardware_text.lower()
    train, rollout = _mapping(row.get("train_parallel")), _mapping(row.get("rollout_parallel"))
    notes = row.get("notes")
    return PostTrainingRecord(
        id=name,
        line_number=line_number,
        kind=kind,
        model=row.get("model"),
        hardware=hardware_of(hardware_text),
        hardware_text=hardware_text,
        devices=_count(row.get("devices"), MAX_DEVICES),
        devices_are_packages=any(word in lowered for word in _PACKAGES),
        placed=_placed(placement, _count(row.get("devices"), MAX_DEVICES)),
        train=_degrees(train, ""),
        rollout=_degrees(rollout, placement),
        algorithm=_text(row.get("algorithm")).lower(),
        precision=_text(row.get("precision")).lower(),
        prompts=_count(row.get("prompts_per_step"), MAX_SAMPLES),
        samples=_count(row.get("samples_per_prompt"), MAX_SAMPLES),
        trajectories=_count(row.get("trajectories_per_step") or row.get("requests_per_step"), MAX_SAMPLES),
        train_batch=_count(row.get("train_global_batch_size"), MAX_SAMPLES),
        max_response=_count(row.get("max_response_length"), 10**8),
        max_prompt=_count(row.get("max_prompt_length"), 10**8),
        max_sequence=_count(row.get("max_sequence_length"), 10**8),
        mean_response=_number(row.get("mean_response_length")),
        mean_prompt=_number(row.get("mean_prompt_length")) or _number(row.get("mean_prompt_length_derived")),
        input_length=_number(row.get("input_length")) or _mean_in(row.get("input_length")),
        output_length=_number(row.get("output_length")),
        batch_tokens=_number(row.get("batch_tokens")),
        concurrency=_count(row.get("concurrency"), MAX_SAMPLES),
        tpot_slo_ms=_number(row.get("tpot_slo_ms")),
        model_bytes=None if (gigabytes := _number(row.get("model_bytes_gb"))) is None else gigabytes * 1e9,
        throughput_definition=_text(row.get("throughput_definition")),
        placement_text=placement,
        notes=" ".join(note for note in notes if isinstance(note, str))[: 4 * MAX_TEXT] if isinstance(notes, list) else "",
        measured=dict(_numbers(row.get("measured"))),
        suspect=_text(row.get("suspect")) or None,
    )


def hardware_of(text: str) -> str | None:
    """The profile that a device's description names by its words."""
    lowered = Sentence(" {}", text.lower())
    return next((profile for word, profile in _HARDWARE if word in lowered), None)


def _placed(text: str, devices: int | None) -> Placed:
    lowered = text.lower()
    for word, digit in _WORDS.items():
        lowered = re.sub(rf"\b{word}(?=[ _-]step)", digit, lowered)
    threshold = _THRESHOLD.search(lowered)
    stated = _STALENESS.search(lowered.replace("staleness_threshold", ""))
    off = _STEPS_OFF.search(lowered)
    runs_ahead = "async" in lowered.replace("asynchronous rollout", "async") or off is not None
    is_separate = "separate" in lowered or runs_ahead or "disaggregat" in lowered or "standalone" in lowered
    if not is_separate or ("colocated" in lowered and not runs_ahead):
        return Placed()
    hybrid = _HYBRID.search(lowered)
    rollout, train = _split(lowered)
    if hybrid and devices:
        nodes = int(hybrid[1]) + int(hybrid[2])
        train, rollout = devices * int(hybrid[1]) // nodes, devices * int(hybrid[2]) // nodes
    partial = any(word in lowered for word in ("partial", "in-flight", "inflight", "interrupt"))
    steps = int(float(stated[2])) if stated else int(off[1]) if off else None
    return Placed(
        kind="hybrid" if hybrid and "no switch" not in lowered else "separate",
        rollout_devices=rollout,
        train_devices=train,
        steps=0 if steps is None and not runs_ahead else steps,
        unbounded=steps is None and threshold is None and runs_ahead,
        leftover_fraction=float(threshold[1]) if threshold else None,
        partial=partial,
        streams=threshold is not None or "stream" in lowered,
    )


def _split(text: str) -> tuple[int | None, int | None]:
    """Devices for rollout and for training, from texts such as `4 generate + 12 train`, `32:32` or `d32 + train d16`."""
    found: dict[str, int] = {}
    for before, word, after in _NUMBERED.findall(text):
        side = "train" if word.startswith(("train", "actor")) else "rollout"
        number = before or after
        if number and side not in found:
            found[side] = int(number)
    if "rollout" in found and "train" in found:
        return found["rollout"], found["train"]
    ratio = _RATIO.search(text)
    return (int(ratio[2]), int(ratio[1])) if ratio else (None, None)


def _degrees(given: Mapping[str, Any], placement: str) -> Degrees:
    layout = _text(given.get("layout")).lower() or (placement.lower() if not given or set(given) <= {"ep"} else "")
    named = {name: int(value) for name, value in re.findall(r"\b(tp|dp|ep|pp|cp)(\d+)", layout)}
    wanted = {name: _count(given.get(name), 10**5) or named.get(name) for name in ("tp", "pp", "ep", "cp", "dp")}
    if wanted["ep"] and wanted["tp"] and given.get("moe_tp_extend_ep"):
        wanted["ep"] *= wanted["tp"]  # frameworks that count experts outside tp
    return Degrees(
        **wanted,
        vpp=_count(given.get("vpp"), 1000),
        micro_batch_size=_count(given.get("mbs") or given.get("micro_batch_size"), 10**5),
        instances=_count(given.get("instances"), 10**6),
        instance_devices=_count(given.get("gpus_per_instance") or given.get("devices_per_instance"), 10**5),
        max_num_seqs=_count(given.get("max_num_seqs"), 10**6),
        memory_fraction=_number(given.get("gpu_memory_utilization")),
        fsdp=bool(given.get("fsdp2") or given.get("fsdp")),
        recompute=bool(given.get("recompute")),
        backend=_text(given.get("backend")).lower() or None,
    )


def _numbers(value: object, prefix: str = "") -> list[tuple[str, float]]:
    """Every finite number of a mapping; numbers of inner mappings have the path before their name."""
    found: list[tuple[str, float]] = []
    for key, item in _mapping(value).items():
        name = f"{prefix}{key}"[:200]
        if isinstance(item, Mapping) and not prefix:
            found += _numbers(item, Sentence("{}.", name))
        elif (number := _number(item)) is not None:
            found.append((name, number))
    return found


def _mapping(value: object) -> Mapping[str, Any]:
    return {key: item for key, item in value.items() if isinstance(key, str)} if isinstance(value, Mapping) else {}


def _text(value: object) -> str:
    return value[:MAX_TEXT] if isinstance(value, str) else ""


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if math.isfinite(value) and 0.0 < value <= MAX_MEASURED else None


def _count(value: object, most: int) -> int | None:
    number = _number(value)
    return int(number) if number is not None and 1 <= number <= most and float(number).is_integer() else None


def _mean_in(value: object) -> float | None:
    """`mean 32k` in a text of a range."""
    found = re.search(r"mean\s+(\d+(?:\.\d+)?)\s*(k?)", _text(value).lower())
    return float(found[1]) * (1000.0 if found[2] else 1.0) if found else None
