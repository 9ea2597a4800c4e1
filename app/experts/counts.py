"""Token counts by step, layer and expert from logs of frameworks and people; an error names its place."""

from __future__ import annotations

import csv
import io
import math
import re
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cost_models.shapes.workload import ModelShape
from documents.bounds import MAX_COUNT, MAX_TRACE_COUNTS, MAX_TRACE_STEPS, TRACE_BYTES
from documents.errors import InputError, show
from documents.reading import Limits, opened, parse_document, read_text
from documents.sentences import Sentence

Floats = NDArray[np.float64]

RANK_FILES = "eplb_token_collects_*.json"
MAX_FILES = 4096
NAMES = ("expert_counts", "weight", "counts")  # keys of the list in a JSON mapping; the last two also of an array in an NPZ
_KINDS = Sentence("a CSV with the columns layer, expert, tokens (and step), JSON, or a log of MindSpeed's print_expert_load")
_EXPERT_LOAD = re.compile(
    r"\[expert load statistics[^\]]*\] iter (\d+): rank \d+ dp(\d+) pp(\d+), vpp(\d+|None), .*?"
    r"model chunk (\d+), layer (\d+), .*?details \[([^\]]*)\]"
)


def model_experts(model: ModelShape, field: str) -> tuple[int, int]:
    """MoE layers and routed experts of the model; ``InputError`` if a plan cannot balance their load."""
    if model.moe is None:
        raise InputError(Sentence("{}: {} has no experts.", field, model.name))
    if model.moe.capacity_factor:
        raise InputError(
            Sentence("{}: {} has a capacity factor, which pads or drops every expert to the same.", field, model.name)
        )
    return sum(model.moe_layers()), model.moe.num_experts


def read_counts(path: Path, model: ModelShape, field: str = "LOADS") -> Floats:
    """Read counts ``[step, layer, expert]`` from a file, or from a folder with MindSpeed-RL's files of all ranks."""
    try:
        if path.is_dir():
            return _of_folder(path, model, field)
        if path.suffix == ".npz":
            return checked(_npz_array(path), model, Sentence("{}: {}", field, path))
        text = read_text(path, TRACE_BYTES)
    except InputError as error:
        raise error if str(error).startswith(field) else InputError(Sentence("{}: {}", field, error)) from None
    return parse_counts(text, model, Sentence("{}: {}", field, path))


def parse_counts(text: str, model: ModelShape, field: str) -> Floats:
    """Counts ``[step, layer, expert]`` in the text of a log."""
    model_experts(model, field)
    begin = text.lstrip()[:1]
    if begin == "[" and "[expert load statistics" not in text[:10_000]:
        return checked(_json(f'{{"counts": {text}}}', field)["counts"], model, field)
    if begin == "{":
        return _of_mapping(_json(text, field), model, field)
    if "[expert load statistics" in text:
        return _of_load_log(text, model, field)
    return _of_csv(text, model, field)


def checked(values: Any, model: ModelShape, field: str) -> Floats:
    """Nested lists or an array, by layer and expert or by step, layer and expert, as counts of the model."""
    num_layers, num_experts = model_experts(model, field)
    if isinstance(values, list):
        _check_lists(values, num_layers, num_experts, field)
    counts = np.asarray(values)
    if counts.dtype.kind not in "iuf" or counts.ndim not in (2, 3):
        raise InputError(Sentence("{}: not numbers by layer and expert, or by step, layer and expert.", field))
    counts = counts[None] if counts.ndim == 2 else counts
    for axis, (name, wanted) in enumerate(
        ((Sentence("MoE layers"), num_layers), (Sentence("routed experts"), num_experts)), start=1
    ):
        if counts.shape[axis] != wanted:
            raise InputError(Sentence("{}: {:,} {}, but {} has {:,}.", field, counts.shape[axis], name, model.name, wanted))
    if not 1 <= len(counts) <= MAX_TRACE_STEPS or counts.size > MAX_TRACE_COUNTS:
        raise InputError(
            Sentence(
                "{}: {:,} steps; give 1 to {:,}.", field, len(counts), min(MAX_TRACE_STEPS, MAX_TRACE_COUNTS // counts[0].size)
            )
        )
    counts = counts.astype(np.float64)
    wrong = ~(np.isfinite(counts) & (counts >= 0.0) & (counts <= MAX_COUNT))
    if wrong.any():
        step, layer, expert = np.argwhere(wrong)[0].tolist()
        raise _refused(
            Sentence("{}: {}, expert {}", field, _place(counts, step, layer), expert), float(counts[step, layer, expert])
        )
    empty = np.argwhere(~counts.any(axis=2))
    if len(empty):
        step, layer = empty[0].tolist()
        raise InputError(
            Sentence("{}: {}: all counts are 0; leave out steps that routed nothing.", field, _place(counts, step, layer))
        )
    return counts


def _place(counts: Floats, step: int, layer: int) -> str:
    return Sentence("step {}, layer {}", step, layer) if len(counts) > 1 else Sentence("layer {}", layer)


def _refused(where: str, value: object) -> InputError:
    return InputError(Sentence("{}: {} is not allowed; give a number of tokens, from 0 to 2^63.", where, show(value)))


def _check_lists(values: list[Any], num_layers: int, num_experts: int, field: str) -> None:
    """Check that rows have equal length and contain numbers."""
    is_by_step = bool(values) and isinstance(values[0], list) and bool(values[0]) and isinstance(values[0][0], list)
    steps = values if is_by_step else [values]
    if len(steps) > MAX_TRACE_STEPS or len(steps) * num_layers * num_experts > MAX_TRACE_COUNTS:
        raise InputError(Sentence("{}: {:,} steps are more than a plan takes; give the last ones.", field, len(steps)))
    for step, layers in enumerate(steps):
        at = f"{field}[{step}]" if is_by_step else field
        if not isinstance(layers, list) or len(layers) != num_layers:
            raise InputError(Sentence("{}: {} MoE layers, but the model has {:,}.", at, _length(layers), num_layers))
        for layer, row in enumerate(layers):
            if not isinstance(row, list) or len(row) != num_experts:
                raise InputError(
                    Sentence("{}[{}]: {} counts, but the model has {:,} routed experts.", at, layer, _length(row), num_experts)
                )
            for expert, value in enumerate(row):
                if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MAX_COUNT:
                    raise _refused(f"{at}[{layer}][{expert}]", value)


def _length(value: object) -> str:
    return f"{len(value):,}" if isinstance(value, list) else show(value)


def _json(text: str, field: str) -> dict[str, Any]:
    try:
        return parse_document(text, field, is_json=True, limits=Limits(len(text.encode())))
    except InputError as error:
        raise InputError(str(error) if str(error).startswith(field) else Sentence("{}: {}", field, error)) from None


def _of_mapping(document: Mapping[str, Any], model: ModelShape, field: str) -> Floats:
    """Lists under a name, or MindSpeed-RL's expert -> tokens of each layer [mindspeed-rl, EPLB.md]."""
    for name in NAMES:
        if name in document:
            return checked(document[name], model, Sentence("{}: {}", field, name))
    layers = {str(name): value for name, value in document.items()}
    rows = []
    for layer in sorted(layers, key=lambda name: _number(name, Sentence("{}: {}", field, show(name)))):
        experts = layers[layer]
        if not isinstance(experts, Mapping):
            raise InputError(
                Sentence("{}: layer {}: {} is not allowed; give tokens by expert.", field, show(layer), show(experts))
            )
        rows.append(
            {
                _number(expert, Sentence("{}: layer {}: {}", field, layer, show(expert))): value
                for expert, value in experts.items()
            }
        )
    num_experts = model_experts(model, field)[1]
    for index, row in enumerate(rows):
        odd = set(range(num_experts)) ^ set(row)
        if odd:
            what = (
                Sentence("missing") if min(odd) < num_experts else Sentence("more than the {:,} of {}", num_experts, model.name)
            )
            raise InputError(Sentence("{}: layer {}, expert {}: {}.", field, index, min(odd), what))
    return checked([[row[expert] for expert in range(num_experts)] for row in rows], model, field)


def _number(text: Any, field: str) -> int:
    if not isinstance(text, str) or not (text.isascii() and text.isdigit() and len(text) < 10):
        raise InputError(Sentence("{} is not allowed; number layers and experts from 0.", field))
    return int(text)


def _of_folder(path: Path, model: ModelShape, field: str) -> Floats:
    """Sum of the counts of all ranks of MindSpeed-RL: one step [mindspeed-rl, eplb_generate_map_ds.py]."""
    files = sorted(path.glob(RANK_FILES))
    if not 1 <= len(files) <= MAX_FILES:
        raise InputError(
            Sentence(
                "{}: {} holds {:,} files {}; give a folder with 1 to {:,} of them.",
                field,
                path,
                len(files),
                RANK_FILES,
                MAX_FILES,
            )
        )
    found: Floats = np.sum(
        [parse_counts(read_text(file, TRACE_BYTES), model, Sentence("{}: {}", field, file)) for file in files], axis=0
    )
    return found


def _npz_array(path: Path) -> Any:
    try:
        with opened(path) as file:
            with zipfile.ZipFile(file) as archive:
                unpacked = sum(entry.file_size for entry in archive.infolist())
            if unpacked > TRACE_BYTES:
                raise InputError(Sentence("{}: {:,} bytes unpacked; give at most {:,}.", path, unpacked, TRACE_BYTES))
            file.seek(0)
            with np.load(file, allow_pickle=False) as arrays:
                names = [name for name in NAMES if name in arrays.files] or arrays.files
                if len(names) != 1:
                    raise InputError(Sentence("{}: holds the arrays {}; name the counts 'counts'.", path, show(arrays.files)))
                return arrays[names[0]]
    except FileNotFoundError:
        raise InputError(Sentence("{}: no such file.", path)) from None
    except (OSError, ValueError, zipfile.BadZipFile, EOFError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(Sentence("{}: cannot be read as an NPZ file ({}).", path, show(str(error)))) from None


def _of_csv(text: str, model: ModelShape, field: str) -> Floats:
    """A row for each count; missing rows count as zero, and layers and steps are ordered by number."""
    num_layers, num_experts = model_experts(model, field)
    lines = csv.reader(io.StringIO(text))
    try:
        header = [name.strip().lower() for name in next(lines, [])]
        places = {name: header.index(name) for name in ("step", "layer", "expert", "tokens") if name in header}
        if not {"layer", "expert", "tokens"} <= set(places) or len(set(header)) < len(header):
            raise InputError(Sentence("{}: row 1: {} is not allowed; give {}.", field, show(",".join(header)), _KINDS))
        found: dict[tuple[int, int, int], float] = {}
        for number, row in enumerate(lines, start=2):
            if not any(cell.strip() for cell in row):
                continue
            if len(row) != len(header):
                raise InputError(
                    Sentence("{}: row {}: {} columns, but the first row names {}.", field, number, len(row), len(header))
                )
            key = [
                _cell(row[places[name]], number, name, field, limit) if name in places else 0
                for name, limit in (("step", MAX_TRACE_COUNTS), ("layer", MAX_TRACE_COUNTS), ("expert", num_experts - 1))
            ]
            step, layer, expert = key
            if (step, layer, expert) in found:
                raise InputError(
                    Sentence("{}: row {}: step {}, layer {}, expert {} occurs twice.", field, number, step, layer, expert)
                )
            found[step, layer, expert] = _tokens(row[places["tokens"]], number, field)
            if len(found) > MAX_TRACE_COUNTS:
                raise InputError(
                    Sentence("{}: row {}: more than {:,} counts; give the last steps.", field, number, MAX_TRACE_COUNTS)
                )
    except csv.Error as error:
        raise InputError(Sentence("{}: row {}: {}.", field, lines.line_num, error)) from None
    steps, layers = (sorted({key[axis] for key in found}) for axis in (0, 1))
    if len(layers) != num_layers:
        raise InputError(
            Sentence("{}: column layer: {:,} MoE layers, but {} has {:,}.", field, len(layers), model.name, num_layers)
        )
    if len(steps) * num_layers * num_experts > MAX_TRACE_COUNTS:
        raise InputError(
            Sentence("{}: column step: {:,} steps are more than a plan takes; give the last ones.", field, len(steps))
        )
    counts = np.zeros((len(steps), num_layers, num_experts))
    keys = np.array(list(found))
    at = (np.searchsorted(steps, keys[:, 0]), np.searchsorted(layers, keys[:, 1]), keys[:, 2])
    counts[at] = list(found.values())
    return checked(counts, model, field)


def _cell(text: str, row: int, column: str, field: str, limit: int) -> int:
    text = text.strip()
    if not (text.isascii() and text.isdigit() and len(text) < 12) or int(text) > limit:
        raise InputError(
            Sentence(
                "{}: row {}, column {}: {} is not allowed; give an integer from 0 to {:,}.", field, row, column, show(text), limit
            )
        )
    return int(text)


def _tokens(text: str, row: int, field: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0.0 <= value <= MAX_COUNT or not text.isascii() or "_" in text:
        raise _refused(Sentence("{}: row {}, column tokens", field, row), text.strip())
    return value


def _of_load_log(text: str, model: ModelShape, field: str) -> Floats:
    """Counts in a log of MindSpeed with ``print_expert_load``. It has loads of devices, so each device must have one expert.

    Lines of the first data-parallel rank count; layers go by virtual stage [mindspeed-expert-placement, planner.py].
    """
    num_experts = model_experts(model, field)[1]
    steps: dict[int, dict[tuple[int, ...], list[Any]]] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        match = _EXPERT_LOAD.search(line)
        if match is None or "after expert placement" in line or int(match[2]) != 0:
            continue
        values: list[Any] = [
            int(value) if value.strip().lstrip("-").isdigit() and len(value) < 24 else value.strip()
            for value in match[7].split(",")
        ]
        if len(values) != num_experts:
            raise InputError(
                Sentence(
                    "{}: row {}: loads of {:,} devices, but {} has {:,} experts; such a "
                    "log tells experts apart only where each device has one. Give counts by expert.",
                    field,
                    number,
                    len(values),
                    model.name,
                    num_experts,
                )
            )
        chunk, stage, layer = int(match[5]), int(match[3]), int(match[6])
        steps.setdefault(int(match[1]), {})[chunk, stage, layer] = values
    if not steps:
        raise InputError(Sentence("{}: no line of print_expert_load was understood.", field))
    return checked([[layers[key] for key in sorted(layers)] for _, layers in sorted(steps.items())], model, field)
