"""The choice that a search makes: one ``ParallelStrategy``, or many as the columns of a ``StrategyBatch``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, replace
from enum import IntEnum, unique
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cost_models.schedules import dualpipe, dualpipev, gpipe, interleaved, no_pipeline, one_f_one_b, zb1p, zb2p, zbv
from cost_models.schedules.schedule import ScheduleRules
from cost_models.shapes.recompute_modules import RecomputeModule
from cost_models.shapes.record_copies import varied
from cost_models.shapes.switches import DEFAULT_FEATURES, PRICED, Feature, Place, priced_bits
from cost_models.shapes.tensors import TensorPlan
from documents.late_methods import dataclass

IntColumn = NDArray[np.int64]


class Named(IntEnum):
    """Enumeration with the names of its members in files."""

    @property
    def label(self) -> str:
        """The name used in files."""
        return self.name.lower()


@unique
class Schedule(IntEnum):
    """Order of forwards and backwards over the pipeline, each with its rules from ``cost_models.schedules``."""

    rules: ScheduleRules

    def __new__(cls, value: int, rules: ScheduleRules) -> Schedule:
        """A member, which must bring its rules."""
        member = int.__new__(cls, value)
        member._value_ = value
        member.rules = rules
        return member

    NONE = 0, no_pipeline.RULES
    ONE_F_ONE_B = 1, one_f_one_b.RULES
    INTERLEAVED = 2, interleaved.RULES
    GPIPE = 3, gpipe.RULES
    ZB1P = 4, zb1p.RULES
    ZB2P = 5, zb2p.RULES
    ZBV = 6, zbv.RULES
    DUALPIPE = 7, dualpipe.RULES
    DUALPIPE_V = 8, dualpipev.RULES

    @property
    def label(self) -> str:
        """The name used in files."""
        return self.rules.label


if [int(schedule) for schedule in Schedule] != list(range(len(Schedule))):
    raise TypeError("schedules are numbered from 0 without a gap: tables by schedule are indexed by number")
if len({schedule.label for schedule in Schedule}) < len(Schedule):
    raise TypeError("two schedules have one label")


def by_schedule(trait: Callable[[ScheduleRules], bool]) -> NDArray[np.bool_]:
    """A trait of every schedule, ``[schedule]``, to index by a schedule or a column of them.

    This is faster than comparing with each schedule.
    """
    return np.array([trait(schedule.rules) for schedule in Schedule])


@unique
class CpAlgo(Named):
    """Algorithm of context-parallel attention."""

    NONE = 0
    RING = 1
    ULYSSES = 2
    HYBRID = 3
    KV_ALLGATHER = 4  # keys and values of all ranks are gathered


@unique
class Dispatcher(Named):
    """Algorithm that sends tokens to their experts."""

    NONE = 0
    ALLGATHER = 1
    ALLTOALL = 2
    TWO_LEVEL = 3  # node de-duplication, then inside the node
    HIERARCHICAL = 4  # all-gather between nodes, all-to-all inside


@unique
class Recompute(Named):
    """Megatron's recompute granularity; ``SELECTIVE`` works by module."""

    NONE = 0
    SELECTIVE = 1
    FULL = 2


@unique
class RecomputeMethod(Named):
    """The layers that a full recompute covers."""

    NONE = 0
    BLOCK = 1  # the first num_layers of every chunk
    UNIFORM = 2  # all layers, one checkpoint per num_layers of them


# Layers on each virtual stage, [chunk][stage]; sums to the model's layers (no-op layers are not counted).
LayerLayout = tuple[tuple[int, ...], ...]


class Placement(NamedTuple):
    """Placement of a model's layers, as ``layer_layout`` and ``mtp_before_head`` of a strategy."""

    layer_layout: LayerLayout
    mtp_before_head: int = 0


@dataclass(frozen=True)
class ParallelStrategy:
    """One parallel layout of a job with its options. ``ep`` counts every expert-parallel rank, including those inside tp.

    ``recompute_num_layers`` applies to each virtual stage (Megatron's unit); ``recompute_layers_per_stage``
    (MindFormers' unit, one entry a pipeline rank) replaces it when given.
    ``tensor_plan`` has the tensors that the layers of every virtual stage do not keep, without other recompute.
    ``layer_layout`` ``None`` means the default of ``cost_models.shapes.layout``. ``mtp_before_head``: virtual stages from the MTP
    modules to head and loss; 0: they share one.
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
    ulysses_degree: int = 1  # inside cp; cp for pure Ulysses, 1 without it
    schedule: Schedule = Schedule.NONE
    microbatch_group_size_per_vp_stage: int = 0  # interleaved: micro batches a chunk takes in turn (0: pp)
    mtp_before_head: int = 0
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
    tensor_plan: TensorPlan | None = None


# Columns of a batch, in the order of ``ParallelStrategy``; the tuples travel by index.
_BY_INDEX = ("recompute_layers_per_stage", "layer_layout", "tensor_plan")
COLUMNS = tuple(f.name for f in fields(ParallelStrategy) if f.name not in _BY_INDEX)
INDICES = ("layout_index", "recompute_plan_index", "tensor_plan_index")


@dataclass(frozen=True)
class StrategyBatch:
    """``n`` strategies as int64 columns ``[n]``; enums and booleans by their value.

    ``layout_index``, ``recompute_plan_index`` and ``tensor_plan_index`` point into ``layouts``, ``recompute_plans`` and
    ``tensor_plans`` (-1: the default layout; no plan). If ``place`` is not ``ROW``, each row represents several rows
    (``standing_for``).
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
    mtp_before_head: IntColumn
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
    tensor_plan_index: IntColumn
    layouts: tuple[LayerLayout, ...] = ()
    recompute_plans: tuple[tuple[int, ...], ...] = ()
    tensor_plans: tuple[TensorPlan, ...] = ()
    place: Place = Place.ROW

    def __len__(self) -> int:
        return len(self.tp)

    @classmethod
    def of(cls, strategies: Sequence[ParallelStrategy]) -> StrategyBatch:
        """The given strategies, at least one, as columns in their order."""
        layouts: dict[LayerLayout, int] = {}
        plans: dict[tuple[int, ...], int] = {}
        tensors: dict[TensorPlan, int] = {}
        layout_index = [-1 if s.layer_layout is None else layouts.setdefault(s.layer_layout, len(layouts)) for s in strategies]
        plan_index = [
            -1 if s.recompute_layers_per_stage is None else plans.setdefault(s.recompute_layers_per_stage, len(plans))
            for s in strategies
        ]
        tensor_index = [-1 if s.tensor_plan is None else tensors.setdefault(s.tensor_plan, len(tensors)) for s in strategies]
        rows = [vars(s) for s in strategies]  # twice as fast as an attribute lookup for each column
        values = {name: [int(row[name]) for row in rows] for name in COLUMNS}
        values |= dict(zip(INDICES, (layout_index, plan_index, tensor_index), strict=True))
        columns: dict[str, Any] = {name: np.array(column, dtype=np.int64) for name, column in values.items()}
        return cls(**columns, layouts=tuple(layouts), recompute_plans=tuple(plans), tensor_plans=tuple(tensors))

    def take(self, rows: NDArray[np.int64] | NDArray[np.bool_]) -> StrategyBatch:
        """The given rows, by index or by a mask over all rows, in that order."""
        index = np.flatnonzero(rows) if rows.dtype == np.bool_ else rows
        # take() is several times faster than indexing: searches take rows tens of thousands of times.
        return varied(self, **{name: getattr(self, name).take(index) for name in (*COLUMNS, *INDICES)})

    def standing_for(self, rows: IntColumn, place: Place, columns: Sequence[str]) -> StrategyBatch:
        """Rows that represent all rows with the same ``columns`` and the same switches of ``place``.

        The other columns are empty, so that a formula which reads one fails instead of pricing another row.

        Parameters
        ----------
        rows
            One row of each kind.
        place
            Where the result is priced.
        columns
            Names of the columns that formulas read there.
        """
        nothing = np.empty(0, dtype=np.int64)
        kept: dict[str, Any] = {name: getattr(self, name)[rows] if name in columns else nothing for name in COLUMNS}
        kept["features"] = self.features[rows] & PRICED[place]
        return varied(self, **kept, **{name: getattr(self, name)[rows] for name in INDICES}, place=place)

    def row(self, index: int) -> ParallelStrategy:
        """One row as an object."""
        layout, plan, tensors = (int(getattr(self, name)[index]) for name in INDICES)
        return ParallelStrategy(
            # Each column is of the type of its default.
            **{name: type(getattr(ParallelStrategy, name))(int(getattr(self, name)[index])) for name in COLUMNS},
            recompute_layers_per_stage=self.recompute_plans[plan] if plan >= 0 else None,
            layer_layout=self.layouts[layout] if layout >= 0 else None,
            tensor_plan=self.tensor_plans[tensors] if tensors >= 0 else None,
        )

    def runs(self, schedules: Iterable[Schedule]) -> NDArray[np.bool_]:
        """Whether each row's schedule is among the given ones, ``[n]``."""
        found: NDArray[np.bool_] = np.logical_or.reduce([self.schedule == int(one) for one in schedules])  # isin() sorts
        return found

    def has(self, feature: Feature) -> NDArray[np.bool_]:
        """Whether each row has the feature, ``[n]``; of several features, any counts.

        Raises ``PlaceError`` if the feature is priced in another place than the rows'.
        """
        bits = int(feature) if self.place is Place.ROW else priced_bits(feature, self.place)
        found: NDArray[np.bool_] = (self.features & bits) != 0
        return found

    @property
    def group_size(self) -> IntColumn:
        """Micro batches that pass one chunk before the next, ``[n]``, if the schedule has groups."""
        given = self.microbatch_group_size_per_vp_stage
        return np.where(given > 0, given, self.pp)

    def num_microbatches(self, global_batch_size: int) -> IntColumn:
        """Micro batches of a replica in one step, ``[n]``, rounded down; a legal strategy divides the batch evenly."""
        return global_batch_size // (self.micro_batch_size * self.dp)


def concatenate(batches: Sequence[StrategyBatch]) -> StrategyBatch:
    """The rows of all batches in order, with all their layouts.

    The batches must share ``recompute_plans`` and ``tensor_plans``.
    """
    layouts: dict[LayerLayout, int] = {}
    numbers = []
    for batch in batches:
        of_batch = np.full(len(batch.layouts) + 1, -1, dtype=np.int64)  # -1 takes the last
        for index in np.unique(batch.layout_index[batch.layout_index >= 0]).tolist():
            of_batch[index] = layouts.setdefault(batch.layouts[index], len(layouts))
        numbers.append(of_batch[batch.layout_index])
    columns: dict[str, Any] = {name: np.concatenate([getattr(b, name) for b in batches]) for name in (*COLUMNS, *INDICES)}
    columns["layout_index"] = np.concatenate(numbers)
    return replace(batches[0], **columns, layouts=tuple(layouts))
