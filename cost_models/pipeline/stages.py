"""Pipeline ranks of strategies with the same (pp, vpp, layout); equal ranks are merged into kinds."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from cost_models.pipeline.choices import ChosenKind, by_choice, chosen_kinds, of_model
from cost_models.schedules.schedule import PipelineShape
from cost_models.shapes.canonical import schedules_of
from cost_models.shapes.layer_keys import Floats
from cost_models.shapes.layout import StageTable, distinct_stages, stage_table
from cost_models.shapes.strategy import LayerLayout, Recompute, RecomputeMethod, Schedule, StrategyBatch
from cost_models.shapes.tensors import TensorPlan
from cost_models.shapes.workload import LayerKind, ModelShape
from documents.late_methods import dataclass
from documents.sentences import Sentence

Counts = NDArray[np.int64]
LayersByKind = tuple[Floats, ...]  # one array for each kind, in the order of ``ModelShape.layer_kinds``


@dataclass(frozen=True, eq=False)
class Stages:
    """Kinds of pipeline ranks, outermost first; arrays are ``[kind]``, ``[kind, 1]`` or ``[kind, chunk]``.

    Ranks of a kind hold the same layers. Their micro batches in flight differ; in 1F1B they decrease from rank to rank, so the
    first rank of a kind decides its memory. ``num_ranks`` is the number of ranks of each kind and ``ranks`` lists them. Every
    stream of a schedule has its own chunk on each rank, which takes its share of the micro batches.
    """

    pp: int
    vpp: int
    num_chunks: int
    schedule: Schedule
    merge_pairs: bool
    detach_weight_gradients: bool
    num_kinds: int
    layers: Counts  # [layer kind, kind, chunk]
    prefix: Counts  # [layer kind, kind, chunk, j]: layers among the first j
    layer_kinds: tuple[LayerKind, ...]
    num_ranks: Floats  # [kind, 1]
    first_rank: Floats  # [kind, 1]
    ranks: tuple[tuple[int, ...], ...]
    before_first: Floats  # [kind, kind]: ranks of each kind before the first rank of a kind
    before_last: Floats
    has_embedding: Counts  # [kind, chunk], 1 where the chunk is the first of the model, or the last
    has_head: Counts
    has_mtp: Counts  # 1 where the MTP modules run, if the model has any
    relays: Counts  # [pass, kind, chunk]: outputs of MTP modules that a pass sends on in addition to its own
    mtp_layers: int
    last_layer: int  # kind of the last layer
    plan: tuple[int, ...] | None  # recomputed layers of each kind (MindFormers' unit)
    chosen: tuple[ChosenKind, ...] = ()  # under a tensor plan: the choice of each kind of layer

    @cached_property
    def of_model(self) -> Stages:
        """Copy of the ranks with layers by the model's own kinds, without the split of a tensor plan."""
        if not self.chosen:
            return self
        layers, prefix = (of_model(column, self.chosen) for column in (self.layers, self.prefix))
        kinds = dict(zip((kind.of_model for kind in self.chosen), self.layer_kinds, strict=True))
        last = self.chosen[self.last_layer].of_model
        return replace(self, layers=layers, prefix=prefix, layer_kinds=tuple(kinds.values()), last_layer=last, chosen=())

    @property
    def is_first(self) -> Floats:
        """Number of embeddings of each kind, ``[kind, 1]``."""
        held: Floats = self.has_embedding.sum(axis=1, keepdims=True, dtype=np.float64)
        return held

    @property
    def is_last(self) -> Floats:
        """Number of output heads of each kind, ``[kind, 1]``."""
        held: Floats = self.has_head.sum(axis=1, keepdims=True, dtype=np.float64)
        return held

    @property
    def is_mtp(self) -> Floats:
        """Number of stages with the MTP modules of each kind, ``[kind, 1]``."""
        held: Floats = self.has_mtp.sum(axis=1, keepdims=True, dtype=np.float64)
        return held

    @property
    def num_hops(self) -> Floats:
        """Sends of one micro batch to another rank in both passes, from each kind of rank, ``[kind, 1]``.

        The embedding has no gradient to send and the head no output. In a V the outer chunks turn on the last rank.
        """
        hops = 2.0 * self.num_chunks - self.is_first - self.is_last
        if self.schedule.rules.is_vee:
            hops = hops - np.where(self.first_rank == self.pp - 1, self.num_chunks, 0.0)
        return hops

    @property
    def passes_fraction(self) -> float:
        """Share of the micro batches that pass each chunk of a rank."""
        return 1.0 / self.schedule.rules.num_streams

    def shape(self, num_microbatches: int, group_size: int = 0) -> PipelineShape:
        """Shape of the pipeline with these micro batches; it decides the order of tasks."""
        merged, detached = self.merge_pairs, self.detach_weight_gradients
        return PipelineShape(self.schedule, self.pp, self.vpp, num_microbatches, group_size, merged, detached)

    def with_mtp(self, layers: LayersByKind, mtps: Floats) -> LayersByKind:
        """Layers by kind with MTP modules; each module is one more layer of the last kind.

        Parameters
        ----------
        layers
            Layers of the model proper.
        mtps
            1 where the MTP modules run, as in ``has_mtp``.
        """
        if not self.mtp_layers:
            return layers
        return tuple(number + self.mtp_layers * mtps if kind == self.last_layer else number for kind, number in enumerate(layers))

    def planned(self, kind: int, chunk: int) -> int:
        """Layers of a chunk that a per-stage plan recomputes, 0 without a plan.

        The rank's number is split evenly over its chunks.
        """
        if self.plan is None:
            return 0
        return self.plan[kind] // self.num_chunks + (chunk < self.plan[kind] % self.num_chunks)

    def recomputed(self, batch: StrategyBatch) -> LayersByKind:
        """Fully recomputed layers of every chunk by kind of layer, ``[chunk, kind, n]``.

        Block: the first ``num_layers`` of the chunk. Uniform: all. With a per-stage plan: ``planned``.
        """
        longest = self.prefix.shape[3] - 1
        full = batch.recompute == int(Recompute.FULL)
        if not full.any():
            return (np.zeros((self.num_chunks, self.num_kinds, len(batch))),) * len(self.prefix)
        chunk, kind = np.arange(self.num_chunks)[:, None, None], np.arange(self.num_kinds)[:, None]
        if self.plan is not None:
            share = [[self.planned(kind, chunk) for kind in range(self.num_kinds)] for chunk in range(self.num_chunks)]
            wanted = np.where(full, np.array(share)[:, :, None], 0)
        else:
            block = batch.recompute_method == int(RecomputeMethod.BLOCK)
            wanted = np.where(full, np.where(block, batch.recompute_num_layers, longest), 0)
        index = np.minimum(wanted, longest)
        return tuple(prefix[kind, chunk, index].astype(np.float64) for prefix in self.prefix)


@lru_cache(maxsize=256)  # the memory-saving forms of a pipeline's rows use the same placements again
def stages_of(
    model: ModelShape,
    pp: int,
    vpp: int,
    layout: LayerLayout | None = None,
    plan: tuple[int, ...] | None = None,
    *,
    tensors: TensorPlan | None = None,
    schedule: Schedule = Schedule.NONE,
    mtp_before_head: int = 0,
    merge_pairs: bool = False,
    detach_weight_gradients: bool = False,
    merge: bool = True,
) -> Stages:
    """Stages of strategies that share a pipeline. Raises ``ValueError`` if the layout or a plan does not match the pipeline.

    ``schedule`` defaults to the usual one for the number of chunks. In a V the second chunk runs the ranks in reverse; a second
    stream adds to each rank the stage of its mirror image.

    Parameters
    ----------
    layout
        Layers of each virtual stage. ``None``: the schedule's default.
    plan
        Recomputed layers of each pipeline rank (MindFormers' unit). ``None``: the recompute method decides.
    tensors
        Tensors that layers do not keep. ``None``: only recompute decides.
    mtp_before_head
        Virtual stages from the MTP modules to the head.
    merge
        Merge equal ranks into kinds; otherwise every rank is its own kind.
    """
    if plan is not None and len(plan) != pp:
        raise ValueError(Sentence("recompute_layers_per_stage has {} entries for {} pipeline ranks", len(plan), pp))
    schedule = schedule or schedules_of(max(pp, 2), vpp)[0]
    modules = model.mtp_num_layers
    table = stage_table(model, pp, vpp, layout, schedule)
    columns, layer_kinds, last_layer, split = _by_kind(model, table, tensors, pp, vpp, mtp_before_head)
    layers, prefix = (by_rank(column, schedule) for column in columns)
    ends, of_rank = _ends_by_rank(pp, vpp, mtp_before_head if modules else 0, modules, schedule)
    first, last, mtp, *relays = ends
    turn = pp - 1 if schedule.rules.is_vee else None  # it sends less than a rank in the middle with the same layers
    kinds: list[object] = [
        (rank if not merge else rank == turn, of_rank[rank], prefix[:, rank].tobytes(), plan[rank] if plan else 0)
        for rank in range(pp)
    ]
    distinct = distinct_stages(pp, tuple(kinds))
    chosen = distinct.first
    return Stages(
        pp=pp,
        vpp=vpp,
        num_chunks=layers.shape[2],
        schedule=schedule,
        merge_pairs=merge_pairs,
        detach_weight_gradients=detach_weight_gradients,
        num_kinds=len(chosen),
        layers=layers[:, chosen],
        prefix=prefix[:, chosen],
        layer_kinds=layer_kinds,
        num_ranks=distinct.count.astype(np.float64)[:, None],
        first_rank=chosen.astype(np.float64)[:, None],
        ranks=distinct.ranks,
        before_first=distinct.before_first.astype(np.float64),
        before_last=distinct.before_last.astype(np.float64),
        has_embedding=first[0, chosen],
        has_head=last[0, chosen],
        has_mtp=mtp[0, chosen],
        relays=np.stack([column[0, chosen] for column in relays]),
        mtp_layers=modules,
        last_layer=last_layer,
        plan=tuple(plan[int(rank)] for rank in chosen) if plan else None,
        chosen=split,
    )


def _by_kind(
    model: ModelShape, table: StageTable, tensors: TensorPlan | None, pp: int, vpp: int, mtp_before_head: int
) -> tuple[tuple[Counts, Counts], tuple[LayerKind, ...], int, tuple[ChosenKind, ...]]:
    """Layers and prefixes by kind, the kinds, the kind of the MTP modules, and each kind's choice under a tensor plan."""
    kinds = model.layer_kinds()
    last_layer = kinds.index(model.kinds_of_layers()[-1])
    if tensors is None:
        return (table.layers, table.prefix), kinds, last_layer, ()
    if [len(row) for row in tensors] != [pp] * vpp or {len(stage) for row in tensors for stage in row} != {len(kinds)}:
        raise ValueError(
            Sentence("the tensor plan does not hold {} x {} virtual stages of {} kinds of layers", vpp, pp, len(kinds))
        )
    split = chosen_kinds(tensors, len(kinds))
    columns = by_choice(table.layers, tensors, split), by_choice(table.prefix, tensors, split)
    at = max(vpp * pp - 1 - mtp_before_head, 0)  # stage of the MTP modules, which choose like the layers there
    last = split.index(ChosenKind(last_layer, tensors[at // pp][at % pp][last_layer][-1].choice))
    return columns, tuple(kinds[kind.of_model] for kind in split), last, split


@lru_cache(maxsize=1024)
def ends_of_stages(pp: int, vpp: int, mtp_before_head: int, num_modules: int, schedule: Schedule) -> tuple[tuple[int, ...], ...]:
    """Embedding, head, MTP modules and MTP relays (forward, backward) of every virtual stage, in the order of the model.

    Parameters
    ----------
    mtp_before_head
        Virtual stages from the MTP modules to the head, 0 without modules.
    """
    columns = _ends(pp, vpp, mtp_before_head if num_modules else 0, num_modules, turns=schedule.rules.is_vee)
    return tuple(tuple(of_stage) for of_stage in np.stack(columns).swapaxes(2, 3).reshape(len(columns), -1).T.tolist())


@lru_cache(maxsize=1024)
def _ends_by_rank(
    pp: int, vpp: int, mtp_before_head: int, num_modules: int, schedule: Schedule
) -> tuple[list[Counts], list[object]]:
    """``_ends`` by rank and chunk, for any placement of layers, and a key of each rank that differs for different ranks."""
    ends = [by_rank(column, schedule) for column in _ends(pp, vpp, mtp_before_head, num_modules, turns=schedule.rules.is_vee)]
    return ends, [tuple(map(tuple, of_rank)) for of_rank in np.concatenate(ends).swapaxes(0, 1).tolist()]


def _ends(pp: int, vpp: int, mtp_before_head: int, num_modules: int, *, turns: bool) -> list[Counts]:
    """Embedding, head, MTP modules and MTP relays (forward, backward), ``[1, stage, chunk]`` each.

    The head also serves the MTP modules. Every hop from their stage to the head's therefore carries their outputs, and gradients
    of these come back [megatron-0.19, multi_token_prediction.py]. ``turns``: in a V the middle of the model turns on one rank.
    """
    columns = np.zeros((5, vpp * pp), dtype=np.int64)
    embedding, head, mtp, forward, backward = columns
    at = max(vpp * pp - 1 - mtp_before_head, 0)
    embedding[0], head[-1], mtp[at] = 1, 1, 1
    hops = [stage for stage in range(at, vpp * pp - 1) if not (turns and stage % pp == pp - 1)]
    forward[hops] = num_modules
    backward[[stage + 1 for stage in hops]] = num_modules
    return [column.reshape(1, vpp, pp).swapaxes(1, 2) for column in columns]


def by_rank(column: Counts, schedule: Schedule) -> Counts:
    """Reorder a column of stages from the order of the model to ranks and their chunks, ``[any, rank, chunk, ...]``.

    In a V the second chunk runs the ranks in reverse; a second stream adds to each rank the stage of its mirror image.

    Parameters
    ----------
    column : ``[any, stage, chunk, ...]``
    """
    if schedule.rules.is_vee:
        chunks = range(column.shape[2])
        return np.stack([column[:, :: -1 if chunk % 2 else 1, chunk] for chunk in chunks], axis=2)
    if schedule.rules.num_streams > 1:
        return np.concatenate([column, column[:, ::-1]], axis=2)
    return column
