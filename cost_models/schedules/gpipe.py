"""GPipe: all forwards, then all backwards."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from cost_models.schedules.schedule import (
    Composition,
    Fewest,
    Floats,
    IntColumn,
    PassSeconds,
    Pipeline,
    PipelineShape,
    Ranks,
    ScheduleRules,
)
from cost_models.schedules.tasks import Pass, Tables, tasks_of_kind


def _orders(shape: PipelineShape) -> Tables:
    chunk, micro_batch = np.zeros(shape.num_microbatches, dtype=np.int64), np.arange(shape.num_microbatches)
    order = np.concatenate([tasks_of_kind(kind, chunk, micro_batch) for kind in (Pass.FORWARD, Pass.BACKWARD)])
    return (order,) * shape.pp


def _bubble_share_s(seconds: PassSeconds, pipeline: Pipeline) -> Floats:
    """F + B, as 1F1B [narayanan2021, section 2.2]."""
    return seconds.forward + seconds.backward


def _in_flight(ranks: Ranks, num_microbatches: Floats, group_size: IntColumn, all_turns: bool) -> Iterator[Composition]:
    """All micro batches, and all losses but the one that runs."""
    every = np.broadcast_to(num_microbatches, (1, 1, ranks.num_kinds, len(num_microbatches)))
    yield Composition(every, np.zeros((1, 1, 1, 1)), (ranks.is_last * (num_microbatches - 1.0))[None])


RULES = ScheduleRules(
    label="gpipe",
    source="[pytorch, ScheduleGPipe]",
    chunks="one",
    usual=False,
    tried="if_named",
    num_streams=1,
    is_vee=False,
    in_groups=False,
    splits_backward=False,
    can_detach=False,
    overlaps_steps=False,
    has_steady_state=False,
    pairs=None,
    fewest_microbatches=Fewest(a_rank=0, more=1),
    orders=_orders,
    bubble_share_s=_bubble_share_s,
    in_flight=_in_flight,
)
