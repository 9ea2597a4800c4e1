"""The pipeline ranks of one (pp, vpp, layout) group of strategies, equal ranks merged."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cost_models.layer_keys import Floats
from cost_models.layout import distinct_stages, stage_table
from cost_models.strategy import LayerLayout, Recompute, RecomputeMethod, StrategyBatch
from cost_models.workload import ModelShape

Counts = NDArray[np.int64]


@dataclass(frozen=True)
class Stages:
    """Kinds of ranks, outermost first; arrays are ``[kind]``, ``[kind, 1]`` or ``[kind, chunk]``.

    Ranks of a kind hold the same layers; they differ in what is in flight, which only shrinks from rank to rank, so
    the first of a kind stands for its memory. ``num_ranks`` says how many there are.
    """

    pp: int
    vpp: int
    num_kinds: int
    dense: Counts
    moe: Counts
    dense_prefix: Counts  # [kind, chunk, j]: dense layers among the first j
    moe_prefix: Counts
    num_ranks: Floats  # [kind, 1]
    first_rank: Floats  # [kind, 1]
    before_first: Floats  # [kind, kind]: ranks of each kind before the first rank of a kind
    before_last: Floats
    is_first: Floats  # [kind, 1], 1.0 where the kind is the first pipeline rank
    is_last: Floats
    mtp_layers: int
    last_layer_is_moe: bool
    plan: tuple[int, ...] | None  # recomputed layers of each kind (MindFormers' unit)

    def recomputed(self, chunk: int, batch: StrategyBatch) -> tuple[Floats, Floats]:
        """Fully recomputed dense and MoE layers of one chunk, ``[kind, n]``.

        Block: the first ``num_layers`` of the chunk. Uniform: all. A per-stage plan is split evenly over the chunks.
        """
        longest = self.dense_prefix.shape[2] - 1
        full = batch.recompute == int(Recompute.FULL)
        if self.plan is not None:
            share = [count // self.vpp + (chunk < count % self.vpp) for count in self.plan]
            wanted = np.where(full, np.array(share)[:, None], 0)
        else:
            block = batch.recompute_method == int(RecomputeMethod.BLOCK)
            wanted = np.where(full, np.where(block, batch.recompute_num_layers, longest), 0)[None, :]
        index = np.broadcast_to(np.clip(wanted, 0, longest), (self.num_kinds, len(batch)))
        kind = np.arange(self.num_kinds)[:, None]
        return self.dense_prefix[kind, chunk, index].astype(np.float64), self.moe_prefix[kind, chunk, index].astype(np.float64)


def stages_of(
    model: ModelShape,
    pp: int,
    vpp: int,
    layout: LayerLayout | None = None,
    plan: tuple[int, ...] | None = None,
    *,
    merge: bool = True,
) -> Stages:
    """Stages of one group; ``merge=False`` keeps every rank as a kind of its own.

    Raises ``ValueError`` if the layout or the plan does not match the pipeline.
    """
    if plan is not None and len(plan) != pp:
        raise ValueError(f"recompute_layers_per_stage has {len(plan)} entries for {pp} pipeline ranks")
    table = stage_table(model, pp, vpp, layout)
    kinds: list[object] = [
        (
            rank if not merge else None,
            rank == 0,
            rank == pp - 1,
            tuple(table.dense[rank]),
            tuple(table.moe[rank]),
            table.moe_prefix[rank].tobytes(),
            plan[rank] if plan else 0,
        )
        for rank in range(pp)
    ]
    distinct = distinct_stages(pp, tuple(kinds))
    first = distinct.first
    return Stages(
        pp=pp,
        vpp=vpp,
        num_kinds=len(first),
        dense=table.dense[first],
        moe=table.moe[first],
        dense_prefix=table.dense_prefix[first],
        moe_prefix=table.moe_prefix[first],
        num_ranks=distinct.count.astype(np.float64)[:, None],
        first_rank=first.astype(np.float64)[:, None],
        before_first=distinct.before_first.astype(np.float64),
        before_last=distinct.before_last.astype(np.float64),
        is_first=(first == 0).astype(np.float64)[:, None],
        is_last=(first == pp - 1).astype(np.float64)[:, None],
        mtp_layers=model.mtp_num_layers,
        last_layer_is_moe=model.moe_layers()[-1],
        plan=tuple(plan[int(rank)] for rank in first) if plan else None,
    )
