"""DualPipe: micro batches enter from both ends, and each rank holds a chunk of either stream [dualpipe]."""

from __future__ import annotations

from cost_models.schedules.in_flight import counted_in_order
from cost_models.schedules.orders import as_tables
from cost_models.schedules.schedule import Fewest, Floats, IntColumn, Pairs, PassSeconds, Pipeline, PipelineShape, ScheduleRules
from cost_models.schedules.tasks import Orders
from cost_models.schedules.two_streams import rank_order


def _orders(shape: PipelineShape) -> Orders:
    span = shape.pp // 2
    return tuple(
        rank_order(
            min(rank, shape.pp - 1 - rank),
            span,
            shape.num_passes,
            mirrored=rank >= span,
            merged=shape.merge_pairs,
            detached=True,
            turns_here=rank in (span - 1, span),
        )
        for rank in range(shape.pp)
    )


def _bubble_share_s(seconds: PassSeconds, pipeline: Pipeline) -> Floats:
    """FB + B - 3 W [dualpipe]; F + B - 2 W if pairs are not merged."""
    if pipeline.merge_pairs:
        return seconds.pair + seconds.backward - 3.0 * seconds.weight_gradient
    return seconds.forward + seconds.backward - 2.0 * seconds.weight_gradient


def _unmerged(pipeline: Pipeline, group_size: IntColumn | int) -> float:
    return pipeline.pp + 1.0


RULES = ScheduleRules(
    label="dualpipe",
    source="[dualpipe, dualpipe.py]",
    chunks="one",
    usual=False,
    tried="if_named",
    num_streams=2,
    is_vee=False,
    in_groups=False,
    splits_backward=True,
    can_detach=False,
    overlaps_steps=False,
    has_steady_state=True,
    pairs=Pairs(of_other_chunk=True, wait=False, unmerged=_unmerged),
    fewest_microbatches=Fewest(a_rank=2, more=0),
    orders=as_tables(_orders),
    bubble_share_s=_bubble_share_s,
    in_flight=counted_in_order,
)
