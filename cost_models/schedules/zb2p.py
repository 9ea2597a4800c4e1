"""ZB2P, or ZB-H2: twice the forwards ahead, so that tasks of equal length leave no bubble [zero-bubble]."""

from __future__ import annotations

import numpy as np

from cost_models.schedules.late_weight_gradients import delayed_in_flight, delayed_orders
from cost_models.schedules.schedule import Fewest, Floats, PassSeconds, Pipeline, ScheduleRules


def _bubble_share_s(seconds: PassSeconds, pipeline: Pipeline) -> Floats:
    """F + B - 3 W [zero-bubble]."""
    return np.maximum(seconds.forward + seconds.backward - 3.0 * seconds.weight_gradient, 0.0)


RULES = ScheduleRules(
    label="zb2p",
    source="[zero-bubble, sections 2.2, 2.3 and 4]",
    chunks="one",
    usual=False,
    tried="if_named",
    num_streams=1,
    is_vee=False,
    in_groups=False,
    splits_backward=True,
    can_detach=False,
    overlaps_steps=True,
    has_steady_state=True,
    pairs=None,
    fewest_microbatches=Fewest(a_rank=2, more=-1),
    orders=delayed_orders(ahead=2),
    bubble_share_s=_bubble_share_s,
    in_flight=delayed_in_flight(ahead=2),
)
