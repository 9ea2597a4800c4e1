"""Memory over the time of a step, from the same tasks as the step's time."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cost_models.memory import peak
from cost_models.memory.held_layers import KeptLayers, kept_layers, waiting_layers
from cost_models.memory.losses import logits_bytes, loss_bytes
from cost_models.schedules.tasks import BACKWARDS, FORWARDS, Pass
from cost_models.shapes.workload import Workload
from cost_models.simulation.replay import Replay


class MemoryCurve(NamedTuple):
    """Allocated bytes of one rank: ``allocated_bytes[i]`` holds from ``times_s[i]`` to the next time."""

    times_s: list[float]
    allocated_bytes: list[float]


class _RankMemory:
    """Bytes of one rank: allocations, the working set of its tasks, and the bytes that a micro batch keeps of each chunk.

    ``kept`` lasts from forward to backward, ``losses`` from the end of one to the start of the other, ``waiting`` from an input
    gradient to a weight gradient.
    """

    def __init__(
        self, chunks: dict[str, list[float]], head: list[bool], working: dict[str, float], states: float, *, swaps: bool
    ) -> None:
        self._swaps = swaps  # whether the forward of a pair takes the place of its backward, layer by layer
        self._kept, self._losses, self._waiting = chunks["kept"], chunks["losses"], chunks["waiting"]
        self._head = head
        self._working = working
        self._level = states
        self.curve = MemoryCurve([0.0], [states])
        self._may_drop = False  # whether the last entry is a task's end, which the next task's start may replace

    def _add(self, time_s: float, level: float) -> None:
        if self._may_drop and self.curve.times_s[-1] == time_s:
            self.curve.times_s.pop()
            self.curve.allocated_bytes.pop()
        self.curve.times_s.append(time_s)
        self.curve.allocated_bytes.append(level)
        self._may_drop = False

    def run(self, kind: Pass, chunk: int, backward_chunk: int, start_s: float, end_s: float) -> None:
        """Run one task. A forward allocates when it starts; a task that ends the use of activations frees them when it ends.

        While an input gradient runs, its freed bytes are replaced by the needs of the weight gradient, and while a merged pair
        runs the layers of its backward by those of its forward; the larger of both counts.
        """
        if kind in BACKWARDS:
            self._level -= self._losses[backward_chunk]
        before = self._level
        if kind in FORWARDS:
            self._level += self._kept[chunk]
        working = self._working["transient"] + (self._working["expanded"] if kind in BACKWARDS else 0.0)
        if (self._head[chunk] or self._head[backward_chunk]) and kind is not Pass.WEIGHT_GRADIENT:
            working = max(working, self._working["logits"])
        after = self._level
        if kind in BACKWARDS:
            after -= self._kept[backward_chunk]
        if kind is Pass.INPUT_GRADIENT:
            after += self._waiting[backward_chunk]
        if kind is Pass.WEIGHT_GRADIENT:
            after -= self._waiting[backward_chunk]
        during = {
            Pass.INPUT_GRADIENT: max(self._level, after),
            Pass.PAIR: max(before, after) if self._swaps else self._level,
        }.get(kind, self._level)
        if kind in FORWARDS:
            after += self._losses[chunk]
        self._add(start_s, during + working)
        self._level = after
        self._add(end_s, self._level)
        self._may_drop = True

    def optimize(self, start_s: float, end_s: float, during: float, after: float) -> None:
        """Run the optimizer; all activations are freed by then."""
        self._add(start_s, during)
        self._add(end_s, after)


def memory_curves(workload: Workload, played: Replay) -> list[MemoryCurve]:
    """Allocated bytes of every rank over one simulated step, ``[rank]``; each curve has the times of the rank's tasks.

    The held bytes agree with ``cost_models.memory.peak``; no curve exceeds its ``allocated``. A micro batch keeps activations
    from its forward's start to its backward's end, and from there the needs of a separate weight gradient. Recomputed layers
    are expanded while a backward runs. The loss holds its logits while a pass of the head's chunk runs, instead of layer
    buffers, and the softmax between forward and backward.
    """
    group, shape = played.group, played.program.shape
    stages, batch, sharded, priced = group.stages, group.batch, group.sharded, group.priced
    held = peak.held_activations(workload, stages, batch, group.num_microbatches, priced.activations)

    def per_chunk(layers: KeptLayers, *, losses: bool) -> list[list[float]]:
        """Bytes that layers, or losses and heads, keep: ``[rank][chunk]``."""
        parts = [
            loss_bytes(workload, batch, each, priced.activations[0].input_bytes)
            if losses
            else peak.saved_bytes(each, priced.activations) + each.inputs * priced.activations[0].input_bytes
            for each in map(layers.chunk, range(stages.num_chunks))
        ]
        table = np.concatenate([np.broadcast_to(part, (shape.pp, 1)) for part in parts], axis=1)
        return [list(map(float, row)) for row in table]

    forwards = kept_layers(workload, stages, batch, group.chunk_counts)
    waiting = waiting_layers(stages, batch, group.chunk_counts)
    kept, losses = (per_chunk(forwards, losses=each) for each in (False, True))
    heads = per_chunk(waiting, losses=True)
    needed = [[a + b for a, b in zip(*rank, strict=True)] for rank in zip(per_chunk(waiting, losses=False), heads, strict=True)]
    gathered = peak.gathered_bytes(workload, batch, sharded.parameters, sharded.trained)
    logits = logits_bytes(workload, batch, priced.activations[0].input_bytes)
    logits = logits + peak.whole_weights_bytes(workload, batch, sharded.parameters)
    columns = {"transient": held.transient + gathered, "expanded": held.expanded, "logits": logits}
    parts = {name: np.broadcast_to(column, (shape.pp, 1))[:, 0].tolist() for name, column in columns.items()}
    states = (sharded.states.total + peak.module_buffers(workload, batch, stages, priced.activations[0]))[:, 0].tolist()
    ranks = [
        _RankMemory(
            {"kept": kept[rank], "losses": losses[rank], "waiting": needed[rank]},
            (stages.has_head[rank] > 0).tolist(),
            {name: column[rank] for name, column in parts.items()},
            states[rank],
            swaps=shape.schedule.rules.num_streams == 1,
        )
        for rank in range(shape.pp)
    ]
    ends_s = [0.0] * shape.pp
    for step, start_s, end_s in zip(played.program.steps, played.starts_s, played.ends_s, strict=True):
        ranks[step.rank].run(step.task.kind, step.task.chunk, step.task.backward[0], start_s, end_s)
        ends_s[step.rank] = end_s
    reduced_s = [end_s + reduce_s for end_s, reduce_s in zip(ends_s, played.reduce_s.tolist(), strict=True)]
    transient = peak.optimizer_transient_bytes(workload, batch, sharded.trained, sharded.states)[:, 0].tolist()
    copies = sharded.states.gradient_copies[:, 0].tolist()
    for rank, memory in enumerate(ranks):
        begin_s = reduced_s[rank] if shape.schedule.rules.overlaps_steps else max(reduced_s)
        end_s = begin_s + float(sharded.optimizer_s[0])
        memory.optimize(begin_s, end_s, states[rank] + transient[rank], states[rank] + copies[rank])
    return [memory.curve for memory in ranks]
