"""No pipeline: one rank runs the forward and the backward of each micro batch, one micro batch after the other."""

from __future__ import annotations

from cost_models.schedules.one_f_one_b import held_in_turns, one_forward_one_backward, unmerged
from cost_models.schedules.schedule import Fewest, Floats, Pairs, PassSeconds, Pipeline, ScheduleRules


def _bubble_share_s(seconds: PassSeconds, pipeline: Pipeline) -> Floats:
    """The share of other ranks; without a pipeline there are none."""
    return seconds.forward + seconds.backward


RULES = ScheduleRules(
    label="none",
    source="[megatron-0.12, schedules.py]",
    chunks="none",
    usual=True,
    tried="always",
    num_streams=1,
    is_vee=False,
    in_groups=False,
    splits_backward=False,
    can_detach=False,
    overlaps_steps=False,
    has_steady_state=True,
    pairs=Pairs(of_other_chunk=False, wait=False, unmerged=unmerged),
    fewest_microbatches=Fewest(a_rank=0, more=1),
    orders=one_forward_one_backward,
    bubble_share_s=_bubble_share_s,
    in_flight=held_in_turns,
)
