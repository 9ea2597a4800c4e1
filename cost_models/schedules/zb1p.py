"""ZB1P, or ZB-H1: later ranks hold weight gradients back, up to the memory of 1F1B's first rank [zero-bubble]."""

from __future__ import annotations

from cost_models.schedules.late_weight_gradients import delayed_in_flight, delayed_orders
from cost_models.schedules.schedule import Fewest, Floats, PassSeconds, Pipeline, ScheduleRules


def _bubble_share_s(seconds: PassSeconds, pipeline: Pipeline) -> Floats:
    """F + B - 2 W [zero-bubble]."""
    return seconds.forward + seconds.backward - 2.0 * seconds.weight_gradient


RULES = ScheduleRules(
    label="zb1p",
    source="[zero-bubble, sections 2.1 and 2.3]",
    chunks="one",
    usual=False,
    tried="if_named",
    num_streams=1,
    is_vee=False,
    in_groups=False,
    splits_backward=True,
    can_detach=False,
    overlaps_steps=False,
    has_steady_state=True,
    pairs=None,
    fewest_microbatches=Fewest(a_rank=1, more=0),
    orders=delayed_orders(ahead=1),
    bubble_share_s=_bubble_share_s,
    in_flight=delayed_in_flight(ahead=1),
)
