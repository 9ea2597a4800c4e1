"""DualPipeV: DualPipe folded into a V, so that half of the ranks hold the model once [dualpipe; mindspeed, dualpipev]."""

from __future__ import annotations

from cost_models.schedules.in_flight import counted_in_order
from cost_models.schedules.orders import as_tables
from cost_models.schedules.schedule import Fewest, Floats, IntColumn, Pairs, PassSeconds, Pipeline, PipelineShape, ScheduleRules
from cost_models.schedules.tasks import Orders
from cost_models.schedules.two_streams import rank_order


def _orders(shape: PipelineShape) -> Orders:
    """MindSpeed splits no backward of the cool-down unless it detaches weight gradients [mindspeed, dualpipev]."""
    return tuple(
        rank_order(
            rank,
            shape.pp,
            shape.num_passes,
            mirrored=False,
            merged=shape.merge_pairs,
            detached=shape.detach_weight_gradients,
            turns_here=rank == shape.pp - 1,
        )
        for rank in range(shape.pp)
    )


def _bubble_share_s(seconds: PassSeconds, pipeline: Pipeline) -> Floats:
    """(FB + B - 3 W) / 2, or (F + B - 2 W) / 2 if pairs are not merged [dualpipe].

    If weight gradients are not detached, the cool-down fills with W once only [mindspeed, dualpipev].
    """
    detached, w = pipeline.detach_weight_gradients, seconds.weight_gradient
    if pipeline.merge_pairs:
        return (seconds.pair + seconds.backward - (3.0 if detached else 1.0) * w) / 2.0
    return (seconds.forward + seconds.backward - (2.0 if detached else 0.0) * w) / 2.0


def _unmerged(pipeline: Pipeline, group_size: IntColumn | int) -> float:
    return 2.0 * pipeline.pp + 1.0


RULES = ScheduleRules(
    label="dualpipev",
    source="[dualpipe; mindspeed-dualpipev]",
    chunks="two",
    usual=False,
    tried="to_merge",
    num_streams=1,
    is_vee=True,
    in_groups=False,
    splits_backward=True,
    can_detach=True,
    overlaps_steps=False,
    has_steady_state=True,
    pairs=Pairs(of_other_chunk=True, wait=False, unmerged=_unmerged),
    fewest_microbatches=Fewest(a_rank=2, more=-1),
    orders=as_tables(_orders),
    bubble_share_s=_bubble_share_s,
    in_flight=counted_in_order,
)
