"""Rates of matmuls and attention from operator summaries of an Ascend profile (msprof ``op_summary_*.csv``)."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import median

from documents.errors import InputError
from documents.late_methods import dataclass
from documents.sentences import Sentence, joined

MAX_FILE_BYTES = 256 * 2**20
MAX_ROWS = 1_000_000
_MAX_DIMENSION, _MAX_RANK, _MAX_TENSORS = 10**9, 8, 64
_MIN_TIME_US, _MAX_TIME_US = 1e-3, 1e9
_MATMULS = ("MatMul", "MatMulV2", "MatMulV3", "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3", "GroupedMatmul")
_ATTENTION = "FlashAttentionScore"
_PRECISIONS = {"BF16": "bf16", "BFLOAT16": "bf16", "FLOAT16": "fp16", "FLOAT": "fp32", "FLOAT32": "fp32"}
_STATISTICS_WIDTH = 8  # the kernel keeps a row's maximum in a block of eight [op-plugin]
# Names in op_summary_*.csv, then in torch_npu's kernel_details.csv [msprof-doc]
_COLUMNS = {
    "kind": ("OP Type", "Type"),
    "time_us": (Sentence("Task Duration(us)"), "Duration(us)"),
    "inputs": (Sentence("Input Shapes"),),
    "types": (Sentence("Input Data Types"),),
    "outputs": (Sentence("Output Shapes"),),
}
_FORMATS = (Sentence("Input Formats"),)

Shape = tuple[int, ...]


class OpSummaryError(InputError):
    """A file without an operator summary; the message is one sentence."""


@dataclass(frozen=True)
class OperatorRate:
    """Rate of one operator on one set of shapes: the median over its ``count`` rows. [flops/s]

    ``kind`` is ``matmul``, ``grouped_matmul`` or ``attention`` (forward, every score counted, as if no mask skipped any).
    """

    kind: str
    precision: str
    shapes: str
    count: int
    flops: float
    flops_per_s: float


def parse_op_summary(lines: Iterable[str]) -> tuple[OperatorRate, ...]:
    """Rates by kind, precision and shapes, the most work first; rows of other operators and odd shapes are left out.

    Raises ``OpSummaryError`` if columns are missing, no row has a matmul, or there are more than ``MAX_ROWS``.
    """
    times_us: dict[tuple[str, str, str, float], list[float]] = {}
    for row in _rows(lines):
        found = _work(row)
        if found is not None:
            kind, precision, flops = found
            times_us.setdefault((kind, precision, row["inputs"], flops), []).append(float(row["time_us"]))
    rates = [
        OperatorRate(kind, precision, shapes, len(times), flops, flops / (median(times) * 1e-6))
        for (kind, precision, shapes, flops), times in times_us.items()
    ]
    if not any(rate.kind == "matmul" for rate in rates):
        raise OpSummaryError(Sentence("no row is a matmul with shapes, a data type and a time; profile with shapes recorded."))
    return tuple(sorted(rates, key=lambda rate: -rate.flops * rate.count))


def best_matmuls(rates: Sequence[OperatorRate]) -> Mapping[str, OperatorRate]:
    """The fastest dense matmul of each precision; grouped ones may compute fewer rows than their shapes say."""
    found: dict[str, OperatorRate] = {}
    for rate in rates:
        if rate.kind == "matmul" and (rate.precision not in found or rate.flops_per_s > found[rate.precision].flops_per_s):
            found[rate.precision] = rate
    return found


def _rows(lines: Iterable[str]) -> Iterator[dict[str, str]]:
    reader = csv.reader(lines)
    try:
        header = [name.strip() for name in next(reader, [])]
        places = {field: next((header.index(n) for n in names if n in header), None) for field, names in _COLUMNS.items()}
        missing = [_COLUMNS[field][0] for field, place in places.items() if place is None]
        if missing:
            raise OpSummaryError(Sentence("no column {}; give an op_summary CSV file of msprof.", joined(", ", missing)))
        places["formats"] = next((header.index(n) for n in _FORMATS if n in header), None)
        for number, cells in enumerate(reader, start=1):
            if number > MAX_ROWS:
                raise OpSummaryError(Sentence("holds more than {:,} rows; cut it to one step.", MAX_ROWS))
            yield {
                field: cells[place].strip().strip('"') if place is not None and place < len(cells) else ""
                for field, place in places.items()
            }
    except csv.Error as error:
        raise OpSummaryError(Sentence("is not CSV: {}.", error)) from None


def _work(row: Mapping[str, str]) -> tuple[str, str, float] | None:
    """Kind, precision and FLOPs of a row, or None for a row that is left out."""
    kind = row["kind"]
    if kind != _ATTENTION and kind not in _MATMULS:
        return None
    precisions = [_PRECISIONS.get(name.strip().removeprefix("DT_")) for name in row["types"].split(";")[:2]]
    inputs, outputs = _shapes(row["inputs"]), _shapes(row["outputs"])
    if len(inputs) < 2 or not outputs or not precisions[0] or precisions[0] != precisions[-1] or not _is_time(row["time_us"]):
        return None
    if "NZ" in row["formats"].upper():  # blocked shapes hold padding
        return None
    if kind == _ATTENTION:
        return _found("attention", precisions[0], _attention_flops(inputs[0], outputs))
    if kind == "GroupedMatmul":
        return _found("grouped_matmul", precisions[0], _grouped_flops(inputs[0], inputs[1], outputs[0]))
    return _found("matmul", precisions[0], _matmul_flops(inputs[0], inputs[1], outputs[0]))


def _found(kind: str, precision: str, flops: float) -> tuple[str, str, float] | None:
    return (kind, precision, flops) if flops > 0.0 else None


def _matmul_flops(left: Shape, right: Shape, result: Shape) -> float:
    """2 b m n k, whichever operand is transposed; zero if the shapes do not fit a matmul."""
    if not len(left) == len(right) == len(result) >= 2 or not left[:-2] == right[:-2] == result[:-2]:
        return 0.0
    batch = math.prod(result[:-2])
    m, n = result[-2:]
    for depth in {*left[-2:]} & {*right[-2:]}:
        if math.prod(left[-2:]) == m * depth and math.prod(right[-2:]) == n * depth:
            return 2.0 * batch * m * n * depth
    return 0.0


def _grouped_flops(left: Shape, right: Shape, result: Shape) -> float:
    """2 t k n of t tokens dealt to e experts: [t, k] x [e, k, n], or its weight gradient [k, t] x [t, n]."""
    if (len(left), len(right), len(result)) == (2, 3, 2):
        (tokens, depth), width = left, result[1]
        return 2.0 * tokens * depth * width if result[0] == tokens and {*right[1:]} == {depth, width} else 0.0
    if (len(left), len(right), len(result)) == (2, 2, 3):
        _, depth, width = result
        tokens, left_over = divmod(math.prod(left), depth)
        return 2.0 * tokens * depth * width if not left_over and math.prod(right) == tokens * width else 0.0
    return 0.0


def _attention_flops(query: Shape, outputs: Sequence[Shape]) -> float:
    """4 b n s^2 d of self-attention; b, n and s are those of the softmax statistics [b, n, s, 8], whatever the layout."""
    for shape in outputs:
        if len(shape) == 4 and shape[3] == _STATISTICS_WIDTH:
            rows = math.prod(shape[:3])
            head_dim, left_over = divmod(math.prod(query), rows)
            return 0.0 if left_over else 4.0 * rows * shape[2] * head_dim
    return 0.0


def _shapes(text: str) -> list[Shape]:
    """``"8192,4096;4096,11008;"`` as shapes; one that cannot be read is empty."""
    found: list[Shape] = []
    for part in text.split(";")[:_MAX_TENSORS]:
        sizes = [size.strip() for size in part.split(",")]
        sound = len(sizes) <= _MAX_RANK and all(s.isascii() and s.isdigit() and 0 < int(s[:12]) <= _MAX_DIMENSION for s in sizes)
        found.append(tuple(int(size) for size in sizes) if sound else ())
    return found


def _is_time(text: str) -> bool:
    try:
        return _MIN_TIME_US <= float(text) <= _MAX_TIME_US
    except ValueError:
        return False
