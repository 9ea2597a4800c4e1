"""Shapes that another rank would tell, where the prediction modules lie on a stage before the head's.

Megatron-Core has ranks tell each other the shape of what they send then (``mtp_standalone``), for the output of the modules goes
along with the hidden states. Without the other rank the shape follows from the order of the passes [megatron-0.19,
schedules.py, multi_token_prediction.py].
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

Shape = list[int]


def answer_shapes(config: Any, num_chunks: int, num_microbatches: int, rank: int, hidden: Shape) -> None:
    """Has a rank's communicator take the shapes that the schedule's order gives.

    Parameters
    ----------
    rank
        Of the pipeline.
    hidden
        Shape of the hidden states, ``[s / (cp t), b, h]``.
    """
    schedules = importlib.import_module("megatron.core.pipeline_parallel.schedules")
    communication = importlib.import_module("megatron.core.pipeline_parallel.p2p_communication")
    group = config.microbatch_group_size_per_vp_stage if num_chunks > 1 else num_microbatches
    order = [chunk for _, chunk in schedules.get_schedule_table(num_microbatches, num_chunks, group)]
    shapes = Received(config.pipeline_model_parallel_layout.layout, order, rank, hidden)

    def told(_self: Any, _sent_next: Any, _sent_prev: Any, recv_prev: bool, recv_next: bool) -> tuple[Shape, Shape]:
        nothing = [0, 0, 0]
        return next(shapes.forward) if recv_prev else nothing, next(shapes.backward) if recv_next else nothing

    communication.P2PCommunicator._communicate_shapes = told


class Received:
    """Shapes of what one rank receives, in the order of its passes.

    Parameters
    ----------
    layout
        Kinds of layers by pipeline rank and chunk, as Megatron-Core's ``LayerType``.
    order
        The chunk of each forward. Backwards take the chunks of a group from the last one on.
    """

    def __init__(self, layout: list[list[list[Any]]], order: list[int], rank: int, hidden: Shape) -> None:
        num_ranks, last = len(layout), len(layout[0]) - 1
        kinds = [
            [str(kind).rpartition(".")[2] for kind in layout[one][chunk]] for chunk in range(last + 1) for one in range(num_ranks)
        ]
        modules = next(stage for stage, held in enumerate(kinds) if "mtp" in held)
        seq, *others = hidden
        relayed = [seq * (1 + kinds[modules].count("mtp")), *others]
        stages = [chunk * num_ranks + rank for chunk in order]
        ends = [(last - chunk) * num_ranks + rank for chunk in order]
        self.forward: Iterator[Shape] = iter([relayed if stage > modules else hidden for stage in stages if stage > 0])
        self.backward: Iterator[Shape] = iter(
            [relayed if stage >= modules else hidden for stage in ends if stage < len(kinds) - 1]
        )
