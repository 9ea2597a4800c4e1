"""The parallelism that a collective serves: by its group's name or ranks if a trace has them, otherwise by its operation."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import lru_cache
from itertools import pairwise
from typing import Any

from calibration.traces.measured import COMMUNICATION_PARTS, TOGETHER, Part
from cost_models.shapes.strategy import CpAlgo, Dispatcher, ParallelStrategy
from cost_models.shapes.switches import Feature
from cost_models.shapes.workload import Workload
from documents.late_methods import dataclass
from documents.sentences import Sentence

Parts = frozenset[Part]
_MAX_RANKS = 100_000
TP_CALLS = 4  # two a pass, forward and backward: all-reduces, or with sequence parallelism twice as many [megatron-main]
# Names that Megatron-Core, TorchTitan and others give their groups; the first that matches [megatron-main, parallel_state.py].
_NAMED: tuple[tuple[Part, str], ...] = (
    (Part.DP_COMM, r"expert.*data|\bedp\b"),
    (Part.EP_COMM, r"expert_model|expert_tensor_and_model|\bep\b"),
    (Part.TP_COMM, r"expert_tensor|tensor_model|tensor_and_context|\be?tp\b"),
    (Part.PIPELINE, r"pipeline|embedding|\bpp\b"),
    (Part.DP_COMM, r"data_parallel|fsdp|replicate|shard|\bh?s?dp\b"),
    (Part.CP_COMM, r"context|ulysses|ring|\bcp\b"),
)
_NAME_PATTERNS = tuple((part, re.compile(pattern, re.IGNORECASE)) for part, pattern in _NAMED)
_OPERATIONS = (
    ("alltoall", r"all_?to_?all|deep_?ep|hybrid_?ep|dispatch|combine"),
    ("reducescatter", r"reduce_?scatter"),
    ("allgather", r"all_?gather"),
    ("allreduce", r"all_?reduce"),
    ("sendreceive", r"send|recv|receive"),
)
_OPERATION_PATTERNS = tuple((operation, re.compile(pattern, re.IGNORECASE)) for operation, pattern in _OPERATIONS)


@dataclass(frozen=True)
class Group:
    """The group of a collective, as far as a trace describes it."""

    name: str = ""  # "" or a hash, which only distinguishes groups
    description: str = ""
    size: int | None = None
    ranks: tuple[int, ...] = ()


@dataclass(frozen=True)
class Layout:
    """A strategy's groups; ranks are laid out tp, cp, dp, pp as in Megatron [megatron-main, parallel_state.py]."""

    strategy: ParallelStrategy
    layer_passes: int = 0  # layers of a rank times its micro batches; 0 if unknown
    attends_by_blocks: bool = False  # gradients of gathered keys travel by all-to-alls, see ``SoftwareTraits``

    @classmethod
    def of(cls, workload: Workload, strategy: ParallelStrategy) -> Layout:
        """The groups of a job's strategy."""
        num_microbatches = workload.training.global_batch_size // (strategy.micro_batch_size * strategy.dp)
        return cls(
            strategy, workload.model.num_layers * num_microbatches // strategy.pp, workload.software_traits.attends_by_blocks
        )

    @property
    def shapes(self) -> Mapping[tuple[int, int], Parts]:
        """Parts by size and stride of their groups, without groups of one rank."""
        s = self.strategy
        stage = s.tp * s.cp * s.dp
        inner = s.ep * s.etp
        groups = (
            (Part.TP_COMM, s.tp, 1),
            (Part.TP_COMM, s.etp, 1),
            (Part.CP_COMM, s.cp, s.tp),
            (Part.DP_COMM, s.dp, s.tp * s.cp),
            (Part.DP_COMM, s.dp * s.cp, s.tp),
            (Part.DP_COMM, stage // inner, inner),
            (Part.EP_COMM, s.ep, s.etp),
            (Part.EP_COMM, inner, 1),
            (Part.PIPELINE, s.pp, stage),
        )
        found: dict[tuple[int, int], Parts] = {}
        for part, size, stride in groups:
            if size > 1:
                found[size, stride] = found.get((size, stride), frozenset()) | {part}
        return found

    @property
    def used(self) -> Parts:
        """Parts that have a group in this strategy."""
        return frozenset[Part]().union(*self.shapes.values())

    def by_operation(self, operation: str) -> Parts:
        """Parts that an operation may serve."""
        s = self.strategy
        gathers = s.cp_algo is CpAlgo.KV_ALLGATHER
        rings = s.cp > 1 and s.ulysses_degree < s.cp
        usual = {
            "alltoall": {Part.EP_COMM, *([Part.CP_COMM] if s.ulysses_degree > 1 or (gathers and self.attends_by_blocks) else [])},
            "sendreceive": {Part.PIPELINE, *([Part.CP_COMM] if rings else [])},
            "allgather": {
                Part.TP_COMM,
                Part.DP_COMM,
                *([Part.EP_COMM] if s.dispatcher is Dispatcher.ALLGATHER else []),
                *([Part.CP_COMM] if gathers else []),
            },
            "allreduce": {Part.TP_COMM, Part.DP_COMM},
        }
        usual["reducescatter"] = usual["allgather"]
        return frozenset(usual.get(operation, self.used)) & self.used or self.used

    def by_group(self, group: Group) -> Parts:
        """Parts whose groups look like this one; empty if the trace says nothing or none fits."""
        named = next((part for part, pattern in _NAME_PATTERNS if pattern.search(group.description)), None)
        if named is not None:
            return frozenset({named})
        size = len(group.ranks) or group.size
        if size is None or size < 2:
            return frozenset()
        stride = _stride(group.ranks)
        matching = (parts for (known, step), parts in self.shapes.items() if known == size and stride in (None, step))
        return frozenset[Part]().union(*matching)

    def by_calls(self, parts: Parts, num_calls: int) -> Parts:
        """Tensor parallelism calls its group at least four times per layer and micro batch, gradients and weights less often.

        This does not hold if fused kernels multiply and communicate at once.
        """
        if not self.layer_passes or Feature.MC2 in self.strategy.features or parts != {Part.TP_COMM, Part.DP_COMM}:
            return parts
        often = num_calls >= TP_CALLS * self.layer_passes
        return frozenset({Part.TP_COMM if often else Part.DP_COMM})


def _stride(ranks: tuple[int, ...]) -> int | None:
    """The distance of neighbours; None without neighbours, 0 if distances differ."""
    steps = {after - before for before, after in pairwise(ranks)}
    return None if not steps else steps.pop() if len(steps) == 1 else 0


@lru_cache(65_536)
def operation_of(name: str) -> str:
    """The operation of a collective, by its name; "" if it is unknown."""
    return next((operation for operation, pattern in _OPERATION_PATTERNS if pattern.search(name)), "")


def parts_of(calls: Iterable[tuple[str, Group]], layout: Layout) -> Mapping[tuple[str, Group], str]:
    """The key of each operation and group: one part, or all candidates joined by ``TOGETHER``.

    Operations of one group serve one part if some part fits all of them.
    """
    distinct = Counter(calls)
    num_calls: Counter[Group] = Counter()
    for (_, group), count in distinct.items():
        num_calls[group] += count
    kept: dict[tuple[str, Group], Parts] = {}
    together: dict[Group, Parts] = {}
    for operation, group in distinct:
        usual, alike = layout.by_operation(operation), layout.by_group(group)
        found = (usual & alike) or alike or usual
        kept[operation, group] = found
        if group != Group():
            together[group] = (together.get(group, found) & found) or together[group]
    together = {group: layout.by_calls(parts, num_calls[group]) for group, parts in together.items()}
    return {(operation, group): _key(together.get(group, found) & found or found) for (operation, group), found in kept.items()}


def _key(parts: Parts) -> str:
    return TOGETHER.join(part for part in COMMUNICATION_PARTS if part in parts) or Part.COMMUNICATION


def nccl_group(arguments: Mapping[str, Any]) -> Group:
    """The group of a collective in a trace of torch.profiler [kineto]."""
    size = arguments.get(Sentence("Group size"))
    return Group(
        name=str(arguments.get(Sentence("Process Group Name"), "")),
        description=str(arguments.get(Sentence("Process Group Description"), "")),
        size=size if type(size) is int else None,
        ranks=_ranks(arguments.get(Sentence("Process Group Ranks"))),
    )


def hccl_group(name: str, arguments: Mapping[str, Any]) -> Group:
    """The group in ``hcom_allReduce__628_0_1``: the end of its hash, then a count and the step [msprof-doc]."""
    found = re.search(r"_(\d+)_\d+_\d+(?:@|$)", name)
    size = arguments.get("rank_size")
    text = str(size)
    return Group(name=found[1] if found else "", size=int(text) if text.isascii() and text.isdigit() and len(text) < 8 else None)


def _ranks(value: object) -> tuple[int, ...]:
    """Ranks from a list or its text; traces cut long lists, which are then of no use."""
    if isinstance(value, str):
        if not re.fullmatch(r"\[\s*\d{1,7}(?:\s*,\s*\d{1,7})*\s*\]", value[: 8 * _MAX_RANKS]):
            return ()
        value = [int(each) for each in value.strip("[] ").split(",")]
    if not isinstance(value, list) or len(value) > _MAX_RANKS or not all(type(each) is int for each in value):
        return ()
    return tuple(sorted(value))
