"""The searched choice: one ``ParallelStrategy``, or many as the columns of a ``StrategyBatch``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from enum import IntEnum, IntFlag

import numpy as np
from numpy.typing import NDArray

IntColumn = NDArray[np.int64]


class Schedule(IntEnum):
    """Order of forwards and backwards over the pipeline."""

    NONE = 0
    ONE_F_ONE_B = 1
    INTERLEAVED = 2
    GPIPE = 3
    ZB1P = 4
    ZB2P = 5
    ZBV = 6
    DUALPIPE = 7
    DUALPIPE_V = 8

    @property
    def label(self) -> str:
        """The name used in files."""
        return ("none", "1f1b", "interleaved-1f1b", "gpipe", "zb1p", "zb2p", "zbv", "dualpipe", "dualpipev")[self]

    @property
    def is_vee(self) -> bool:
        """Whether a rank's second chunk runs the ranks in reverse: the first rank holds both ends of the model."""
        return self in (Schedule.ZBV, Schedule.DUALPIPE_V)

    @property
    def splits_backward(self) -> bool:
        """Whether weight gradients are tasks of their own, which fill bubbles."""
        return self in (Schedule.ZB1P, Schedule.ZB2P, Schedule.ZBV, Schedule.DUALPIPE, Schedule.DUALPIPE_V)

    @property
    def overlaps_steps(self) -> bool:
        """Whether a rank begins its next step when it has ended this one: the optimizer's checks follow later."""
        return self in (Schedule.ZB2P, Schedule.ZBV)


class CpAlgo(IntEnum):
    """Context-parallel attention."""

    NONE = 0
    RING = 1
    ULYSSES = 2
    HYBRID = 3

    @property
    def label(self) -> str:
        """The name used in files."""
        return self.name.lower()


class Dispatcher(IntEnum):
    """How tokens reach their experts."""

    NONE = 0
    ALLGATHER = 1
    ALLTOALL = 2
    TWO_LEVEL = 3  # node de-duplication, then inside the node
    HIERARCHICAL = 4  # all-gather between nodes, all-to-all inside

    @property
    def label(self) -> str:
        """The name used in files."""
        return self.name.lower()


class Recompute(IntEnum):
    """Megatron's recompute granularity; ``SELECTIVE`` goes by module."""

    NONE = 0
    SELECTIVE = 1
    FULL = 2

    @property
    def label(self) -> str:
        """The name used in files."""
        return self.name.lower()


class RecomputeMethod(IntEnum):
    """Which layers a full recompute covers."""

    NONE = 0
    BLOCK = 1  # the first num_layers of every chunk
    UNIFORM = 2  # all layers, one checkpoint per num_layers of them

    @property
    def label(self) -> str:
        """The name used in files."""
        return self.name.lower()


class RecomputeModule(IntFlag):
    """What a selective recompute drops and computes again."""

    CORE_ATTN = 1
    LAYERNORM = 2
    MLP_ACT = 4  # the activation function of dense, routed and shared MLPs
    MLA_UP_PROJ = 8
    MLP = 16  # dense MLP, whole module
    MOE = 32  # MoE module, its communication included


class Feature(IntFlag):
    """Switches that a framework offers beside the degrees; names as in run records."""

    FLASH_ATTENTION = 1 << 0
    FUSED_NORM = 1 << 1
    FUSED_SWIGLU = 1 << 2
    FUSED_ROPE = 1 << 3
    REPLICATED_EMBEDDING = 1 << 4
    MC2 = 1 << 5
    COC = 1 << 6
    TP_COMM_OVERLAP = 1 << 7
    OVERLAP_GRAD_REDUCE = 1 << 8
    OVERLAP_PARAM_GATHER = 1 << 9
    OVERLAP_P2P = 1 << 10
    REUSE_FP32_PARAM = 1 << 11
    SWAP_OPTIMIZER = 1 << 12
    SWAP_ATTENTION = 1 << 13
    GRAD_REDUCE_IN_BF16 = 1 << 14
    MOE_GROUPED_GEMM = 1 << 15
    MOE_PERMUTE_FUSION = 1 << 16
    MOE_PERMUTATION_ASYNC_COMM = 1 << 17
    MOE_ALLGATHER_OVERLAP_COMM = 1 << 18
    MOE_ALLTOALL_OVERLAP_COMM = 1 << 19
    MOE_COMM_OVERLAP = 1 << 20
    MOE_SHARED_EXPERT_OVERLAP = 1 << 21
    MOE_TP_EXTEND_EP = 1 << 22
    MOE_PAD_TO_CAPACITY = 1 << 23
    MOE_ZERO_MEMORY = 1 << 24
    CP_SEND_RECV_OVERLAP = 1 << 25
    TP_2D = 1 << 26
    CUDA_GRAPH = 1 << 27
    FINE_GRAIN_INTERLEAVE = 1 << 28  # MindSpore: a micro batch in two halves hides TP communication
    DUALPIPEV_DW_DETACH = 1 << 29  # weight gradients apart in the cool-down too: a shorter bubble, more memory


DEFAULT_FEATURES = (
    Feature.FLASH_ATTENTION
    | Feature.FUSED_NORM
    | Feature.FUSED_SWIGLU
    | Feature.FUSED_ROPE
    | Feature.OVERLAP_GRAD_REDUCE
    | Feature.OVERLAP_PARAM_GATHER
    | Feature.OVERLAP_P2P
    | Feature.MOE_GROUPED_GEMM
    | Feature.MOE_PERMUTE_FUSION
)
# What launch files set and no formula knows.
UNPRICED_FEATURES = Feature.MOE_PERMUTATION_ASYNC_COMM | Feature.MOE_TP_EXTEND_EP | Feature.CP_SEND_RECV_OVERLAP

# Layers on each virtual stage, [chunk][stage]; sums to the model's layers (no-op layers are not counted).
LayerLayout = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class ParallelStrategy:
    """One way to lay a job out. ``ep`` counts every expert-parallel rank, those inside tp included.

    ``recompute_num_layers`` applies to each virtual stage (Megatron's unit); ``recompute_layers_per_stage``
    (MindFormers' unit, one entry a pipeline rank) replaces it when given.
    ``layer_layout`` ``None`` means the default of ``cost_models.shapes.layout``.
    """

    tp: int = 1
    pp: int = 1
    dp: int = 1
    cp: int = 1
    ep: int = 1
    etp: int = 1
    vpp: int = 1
    micro_batch_size: int = 1
    sequence_parallel: bool = False
    cp_algo: CpAlgo = CpAlgo.NONE
    ulysses_degree: int = 1  # inside cp; cp for pure Ulysses, 1 for pure ring
    schedule: Schedule = Schedule.NONE
    microbatch_group_size_per_vp_stage: int = 0  # interleaved: micro batches a chunk takes in turn (0: pp)
    zero_stage: int = 1  # 0: replicated optimizer, 1: distributed optimizer, 2: + gradients, 3: + weights
    optimizer_shard_size: int = 0  # ranks that share one optimizer state (0: all data-parallel ranks)
    dispatcher: Dispatcher = Dispatcher.NONE
    recompute: Recompute = Recompute.NONE
    recompute_method: RecomputeMethod = RecomputeMethod.NONE
    recompute_num_layers: int = 0
    recompute_modules: RecomputeModule = RecomputeModule(0)
    features: Feature = DEFAULT_FEATURES
    recompute_layers_per_stage: tuple[int, ...] | None = None
    layer_layout: LayerLayout | None = None


# Columns of a batch, in the order of ``ParallelStrategy``; the two tuples travel by index.
COLUMNS = tuple(f.name for f in fields(ParallelStrategy) if f.name not in ("recompute_layers_per_stage", "layer_layout"))


@dataclass(frozen=True)
class StrategyBatch:
    """``n`` strategies as int64 columns ``[n]``; enums and booleans by their value.

    ``layout_index`` and ``recompute_plan_index`` point into ``layouts`` and ``recompute_plans``
    (-1: the default layout; no per-stage plan).
    """

    tp: IntColumn
    pp: IntColumn
    dp: IntColumn
    cp: IntColumn
    ep: IntColumn
    etp: IntColumn
    vpp: IntColumn
    micro_batch_size: IntColumn
    sequence_parallel: IntColumn
    cp_algo: IntColumn
    ulysses_degree: IntColumn
    schedule: IntColumn
    microbatch_group_size_per_vp_stage: IntColumn
    zero_stage: IntColumn
    optimizer_shard_size: IntColumn
    dispatcher: IntColumn
    recompute: IntColumn
    recompute_method: IntColumn
    recompute_num_layers: IntColumn
    recompute_modules: IntColumn
    features: IntColumn
    layout_index: IntColumn
    recompute_plan_index: IntColumn
    layouts: tuple[LayerLayout, ...] = ()
    recompute_plans: tuple[tuple[int, ...], ...] = ()

    def __len__(self) -> int:
        return len(self.tp)

    @classmethod
    def of(cls, strategies: Sequence[ParallelStrategy]) -> StrategyBatch:
        """The given strategies as columns, in their order."""
        layouts: dict[LayerLayout, int] = {}
        plans: dict[tuple[int, ...], int] = {}
        layout_index = [-1 if s.layer_layout is None else layouts.setdefault(s.layer_layout, len(layouts)) for s in strategies]
        plan_index = [
            -1 if s.recompute_layers_per_stage is None else plans.setdefault(s.recompute_layers_per_stage, len(plans))
            for s in strategies
        ]
        columns = {name: np.array([int(getattr(s, name)) for s in strategies], dtype=np.int64) for name in COLUMNS}
        return cls(
            **columns,
            layout_index=np.array(layout_index, dtype=np.int64),
            recompute_plan_index=np.array(plan_index, dtype=np.int64),
            layouts=tuple(layouts),
            recompute_plans=tuple(plans),
        )

    def take(self, rows: NDArray[np.int64] | NDArray[np.bool_]) -> StrategyBatch:
        """The chosen rows (indices or a mask), in that order."""
        columns = {name: getattr(self, name)[rows] for name in (*COLUMNS, "layout_index", "recompute_plan_index")}
        return StrategyBatch(**columns, layouts=self.layouts, recompute_plans=self.recompute_plans)

    def row(self, index: int) -> ParallelStrategy:
        """One row as an object."""
        values = {name: int(getattr(self, name)[index]) for name in COLUMNS}
        layout = int(self.layout_index[index])
        plan = int(self.recompute_plan_index[index])
        return ParallelStrategy(
            **{  # type: ignore[arg-type]
                **values,
                "sequence_parallel": bool(values["sequence_parallel"]),
                "cp_algo": CpAlgo(values["cp_algo"]),
                "schedule": Schedule(values["schedule"]),
                "dispatcher": Dispatcher(values["dispatcher"]),
                "recompute": Recompute(values["recompute"]),
                "recompute_method": RecomputeMethod(values["recompute_method"]),
                "recompute_modules": RecomputeModule(values["recompute_modules"]),
                "features": Feature(values["features"]),
            },
            recompute_layers_per_stage=self.recompute_plans[plan] if plan >= 0 else None,
            layer_layout=self.layouts[layout] if layout >= 0 else None,
        )

    def has(self, feature: Feature) -> NDArray[np.bool_]:
        """Whether each row has the feature."""
        found: NDArray[np.bool_] = (self.features & int(feature)) != 0
        return found

    @property
    def group_size(self) -> IntColumn:
        """Micro batches that a chunk of the interleaved schedule takes in turn."""
        given = self.microbatch_group_size_per_vp_stage
        return np.where(given > 0, given, self.pp)

    def num_microbatches(self, global_batch_size: int) -> IntColumn:
        """Micro batches a replica runs in one step."""
        return global_batch_size // (self.micro_batch_size * self.dp)


def concatenate(batches: Sequence[StrategyBatch]) -> StrategyBatch:
    """The rows of all batches; they must share ``layouts`` and ``recompute_plans``."""
    first = batches[0]
    columns = {
        name: np.concatenate([getattr(b, name) for b in batches]) for name in (*COLUMNS, "layout_index", "recompute_plan_index")
    }
    return StrategyBatch(**columns, layouts=first.layouts, recompute_plans=first.recompute_plans)
