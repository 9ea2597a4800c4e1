"""The cases that are timed: the operations that layers are made of, as data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType

from documents.errors import unknown_name
from documents.late_methods import dataclass
from documents.sentences import Sentence

CPU_SHRINK = 8  # factor on rows, widths and lengths on a processor: a call then takes milliseconds


class Kind(StrEnum):
    """The kinds of cases; ``--only`` takes their names."""

    MATMUL = "matmul"
    ATTENTION = "attention"
    GROUPED_MATMUL = "grouped_matmul"
    VECTOR = "vector"
    DISPATCH = "dispatch"
    COLLECTIVE = "collective"
    LAYER = "layer"


@dataclass(frozen=True)
class KindOfCase:
    """The operations of a kind of case, and the names of their sizes."""

    operations: tuple[str, ...]
    sizes: tuple[str, ...]


# One entry for each kind: files are checked against it, and backends and the model read the sizes by these names.
KINDS: Mapping[Kind, KindOfCase] = MappingProxyType(
    {
        Kind.MATMUL: KindOfCase(("matmul",), ("rows", "columns", "depth")),
        Kind.ATTENTION: KindOfCase(
            ("causal_forward", "causal_backward", "full_forward", "full_backward"),
            ("sequences", "length", "heads", "query_groups", "head_dim"),
        ),
        Kind.GROUPED_MATMUL: KindOfCase(("grouped_matmul",), ("experts", "rows", "columns", "depth")),
        Kind.VECTOR: KindOfCase(("norm", "swiglu", "add", "cast"), ("tokens", "width")),
        Kind.DISPATCH: KindOfCase(("add",), ("elements",)),
        Kind.COLLECTIVE: KindOfCase(("all_reduce", "all_gather", "reduce_scatter", "all_to_all"), ("ranks", "message_bytes")),
        Kind.LAYER: KindOfCase(("forward_backward",), ("tokens", "hidden", "ffn", "heads", "query_groups")),
    }
)
PRECISIONS = ("bf16", "fp16", "fp8", "fp32")


@dataclass(frozen=True)
class Case:
    """One operation at one size. ``sizes`` are in the order of ``KINDS``; matmuls are ``[rows, depth] x [depth, columns]``.

    ``rows`` of a grouped matmul are those of all experts together; ``message_bytes`` are counted as
    ``hardware_profiles.schema.CollectiveCurve`` does.
    """

    kind: Kind
    operation: str
    precision: str
    sizes: tuple[int, ...]

    @property
    def by_name(self) -> dict[str, int]:
        """The sizes by their names."""
        return dict(zip(KINDS[self.kind].sizes, self.sizes, strict=True))

    @property
    def title(self) -> str:
        """Name in tables, without the kind: ``bf16 8192 x 4096 x 14336``."""
        operation = "" if self.operation == self.kind else Sentence("{} ", self.operation.replace("_", " "))
        return Sentence("{}{} {}", operation, self.precision, " x ".join(map(str, self.sizes)))

    @property
    def flops(self) -> float:
        """FLOPs as the model counts them: half for causal attention, 2.5 times for its backward; 0 for other operations."""
        n = self.by_name
        if self.kind in (Kind.MATMUL, Kind.GROUPED_MATMUL):
            return 2.0 * n["rows"] * n["columns"] * n["depth"]
        if self.kind is not Kind.ATTENTION:
            return 0.0
        full = 4.0 * n["sequences"] * n["length"] ** 2 * n["heads"] * n["head_dim"]
        return (
            full * (0.5 if self.operation.startswith("causal") else 1.0) * (2.5 if self.operation.endswith("backward") else 1.0)
        )


def default_cases(num_ranks: int, *, on_processor: bool = False, only: Iterable[str] = ()) -> tuple[Case, ...]:
    """The cases of a device, or smaller ones for a processor; collectives if there is more than one rank.

    ``only`` names kinds; ``InputError`` for an unknown name.
    """
    shrink = CPU_SHRINK if on_processor else 1
    wanted = [_kind(name) for name in only] or list(Kind)
    found = [
        *(_case(Kind.MATMUL, "matmul", precision, sizes, shrink) for precision, sizes in _MATMULS),
        *_attention(shrink),
        *(_case(Kind.GROUPED_MATMUL, "grouped_matmul", "bf16", sizes, shrink, kept=1) for sizes in _GROUPED),
        *(_case(Kind.VECTOR, operation, "bf16", sizes, shrink) for operation, sizes in _VECTOR),
        Case(Kind.DISPATCH, "add", "fp32", (1,)),
        _case(Kind.LAYER, "forward_backward", "bf16", (8192, 4096, 14336, 32, 8), shrink),
        *(Case(Kind.COLLECTIVE, op, "bf16", (num_ranks, size // shrink)) for op, size in _exchanges() if num_ranks > 1),
    ]
    return tuple(case for case in found if case.kind in wanted)


def _kind(name: str) -> Kind:
    names = [kind.value for kind in Kind]
    if name not in names:
        raise unknown_name("--only", name, names, what=Sentence("kind of measurement"))
    return Kind(name)


# Large; the four matmuls of a layer of 8B, whole and a tensor-parallel eighth; then inner dimension and rows alone.
_LARGE = (8192, 8192, 8192)
_LAYER = ((8192, 6144, 4096), (8192, 4096, 4096), (8192, 28672, 4096), (8192, 4096, 14336))
_SHARDS = ((8192, 3584, 4096), (8192, 4096, 1792))
_SERIES = (*((8192, 8192, depth) for depth in (512, 1024, 2048)), *((rows, 8192, 8192) for rows in (512, 1024, 2048)))
_MATMULS: Sequence[tuple[str, tuple[int, ...]]] = (
    *(("bf16", sizes) for sizes in (_LARGE, *_LAYER, *_SHARDS, *_SERIES)),
    ("fp16", _LARGE),
    *(("fp8", sizes) for sizes in (_LARGE, *_LAYER[2:])),
    ("fp32", (4096, 4096, 4096)),
)
# Experts of the widths of DeepSeek, Qwen and gpt-oss models: multiples of 256, of 128, and of 64 alone.
_GROUPED = (*((8, 16384, 2 * width, 4096) for width in (768, 1408, 2048, 2880)), (8, 16384, 4096, 2048), (32, 16384, 4096, 4096))
_VECTOR = (("norm", (8192, 4096)), ("swiglu", (8192, 14336)), ("add", (8192, 4096)), ("cast", (8192, 4096)))
_TOKENS, _HEADS = 8192, 32
# Length, query groups, head dimension, mask.
_ATTENTION = (
    *((length, _HEADS, 128, "causal") for length in (1024, 2048, 4096, 8192, 32768)),
    *((8192, _HEADS, head_dim, "causal") for head_dim in (64, 192, 256)),
    (8192, 8, 128, "causal"),
    (8192, _HEADS, 128, "full"),
)


def _attention(shrink: int) -> Iterable[Case]:
    heads = _HEADS // shrink
    for length, groups, head_dim, mask in _ATTENTION:
        sizes = (max(1, _TOKENS // length), length // shrink, heads, max(1, groups // shrink), head_dim)
        for direction in ("forward", "backward"):
            yield Case(Kind.ATTENTION, f"{mask}_{direction}", "bf16", sizes)


def _exchanges() -> Iterable[tuple[str, int]]:
    """Operations with sizes from the latency-bound to the bandwidth-bound."""
    return ((op, 4**power * 2**14) for op in KINDS[Kind.COLLECTIVE].operations for power in (1, 3, 5, 7))


def _case(kind: Kind, operation: str, precision: str, sizes: tuple[int, ...], shrink: int, *, kept: int = 0) -> Case:
    """A case whose first ``kept`` sizes are not scaled: a number of experts."""
    return Case(kind, operation, precision, (*sizes[:kept], *(size // shrink for size in sizes[kept:])))
