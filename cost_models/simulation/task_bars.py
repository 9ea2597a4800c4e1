"""Bars inside a task: compute, and the communication of experts and swapped activations, layer by layer."""

from __future__ import annotations

from itertools import zip_longest
from typing import NamedTuple

import numpy as np

from cost_models.constants import Constants
from cost_models.layer.communication import expert_comm, network_of
from cost_models.layer.costs import LayerCosts
from cost_models.schedules.tasks import Pass
from cost_models.shapes.flops import layer_flops_per_token
from cost_models.shapes.layer_keys import layer_keys
from cost_models.shapes.parameters import layer_parameters
from cost_models.shapes.recompute_modules import repeats_exchange
from cost_models.shapes.strategy import Named
from cost_models.shapes.workload import LayerKind, Workload
from cost_models.simulation.program import TaskClass
from cost_models.simulation.step_times import GroupTasks
from cost_models.step.priced_groups import PricedGroup
from documents.late_methods import dataclass

EVEN_SHARE = 0.5  # share of dispatch and of combine in an exchange that takes no time


class Stream(Named):
    """A resource of a rank that runs one bar at a time."""

    COMPUTE = 0
    EXPERT_COMMUNICATION = 1
    P2P = 2
    SWAP = 3
    DATA_PARALLEL = 4
    OPTIMIZER = 5


class Kind(Named):
    """Kind of a bar; the first five are the members of ``Pass``."""

    FORWARD = 0
    BACKWARD = 1
    INPUT_GRADIENT = 2
    WEIGHT_GRADIENT = 3
    PAIR = 4
    RECOMPUTE = 5
    DISPATCH = 6
    COMBINE = 7
    P2P = 8
    SWAP = 9
    GATHER = 10
    REDUCE = 11
    OPTIMIZER = 12
    STEP_OVERHEAD = 13
    CONTENTION = 14  # extra compute time because of hidden communication


class TaskBar(NamedTuple):
    """A bar from ``start_s`` to ``end_s`` after its task's start; with ``of_backward`` it belongs to a merged pair's backward."""

    stream: Stream
    kind: Kind
    start_s: float
    end_s: float
    of_backward: bool = False


class Transfer(NamedTuple):
    """Seconds of a transfer for which the compute stream waits, and seconds that compute hides."""

    exposed_s: float = 0.0
    hidden_s: float = 0.0

    def scaled(self, share: float) -> Transfer:
        """A transfer with both parts multiplied by ``share``, 0 to 1."""
        return Transfer(self.exposed_s * share, self.hidden_s * share)

    def exposing(self, share: float) -> Transfer:
        """A transfer of the same length with ``share``, 0 to 1, of its exposed part."""
        return Transfer(self.exposed_s * share, self.hidden_s + self.exposed_s * (1.0 - share))


@dataclass(frozen=True)
class _LayerPass:
    """One pass of one layer; ``expert_compute_s`` of ``compute_s`` is between dispatch and combine.

    ``contention_s`` is the time that hidden communication adds to compute. A recompute comes first: ``again_s`` of compute, which
    waits for ``again_dispatch_s`` and ``again_combine_s``.
    """

    compute_s: float
    expert_compute_s: float
    dispatch: Transfer
    combine: Transfer
    swap: Transfer
    contention_s: float
    again_s: float = 0.0
    again_dispatch_s: float = 0.0
    again_combine_s: float = 0.0

    @property
    def experts_exposed_s(self) -> float:
        """Exposed seconds of dispatch and combine, without a recompute."""
        return self.dispatch.exposed_s + self.combine.exposed_s

    @property
    def whole_s(self) -> float:
        """Seconds of the whole pass, one part after the other."""
        again = self.again_s + self.again_dispatch_s + self.again_combine_s
        return self.compute_s + self.contention_s + self.experts_exposed_s + self.swap.exposed_s + again


@dataclass(frozen=True)
class _LayerParts:
    """Parts of the passes of one kind of layer; the shares divide its compute and its exchanges."""

    costs: LayerCosts
    expert_share: float
    dispatch_share: float
    recomputes_experts: bool

    @classmethod
    def of(cls, workload: Workload, group: PricedGroup, constants: Constants, kind: LayerKind, costs: LayerCosts) -> _LayerParts:
        """The parts for a group of one strategy with tables of costs."""
        if not kind.moe:
            return cls(costs, 0.0, EVEN_SHARE, False)
        keys, _ = layer_keys(workload, group.batch)
        comm = expert_comm(workload, keys, network_of(workload, constants), constants)
        dispatch, both = float(comm.dispatch_s[0]), float(comm.dispatch_s[0] + comm.combine_s[0])
        return cls(
            costs=costs,
            expert_share=moe_flops_fraction(workload.of_kind(kind), local=kind.local),
            dispatch_share=dispatch / both if both else EVEN_SHARE,
            recomputes_experts=bool(keys.recomputes(repeats_exchange(workload.model))[0]),
        )

    def forward(self) -> _LayerPass:
        """The forward pass."""
        return self._pass("forward", float(self.costs.forward_s[0]) - self._beside_compute("forward"))

    def backward(self, *, again: bool, weight_gradient: bool) -> _LayerPass:
        """The backward pass. ``again``: the layer is fully recomputed. Without ``weight_gradient``: input gradients alone."""
        recompute = self._seconds("backward", "recompute")
        compute = float(self.costs.backward_s[0]) - self._beside_compute("backward") - recompute
        if not weight_gradient:
            compute -= float(self.costs.weight_gradient_s[0])
        exposed = self._seconds("forward", "ep_comm") if again or self.recomputes_experts else 0.0
        if again:
            recompute += float(self.costs.full_recompute_s[0])
        return self._pass("backward", compute, recompute - exposed, exposed)

    def _beside_compute(self, table: str) -> float:
        return sum(self._seconds(table, name) for name in ("ep_comm", "activation_swap", "contention"))

    def _seconds(self, table: str, name: str) -> float:
        return float(getattr(self.costs, table)[name][0])

    def _transfer(self, name: str, table: str) -> Transfer:
        """A transfer of one pass. Both passes transfer equally long; ``masked`` is hidden by both together."""
        exposed = self._seconds(table, name)
        both = self._seconds("forward", name) + self._seconds("backward", name) + self._seconds("masked", name)
        return Transfer(exposed, max(both / 2.0 - exposed, 0.0))

    def _pass(self, table: str, compute_s: float, again_s: float = 0.0, again_exposed_s: float = 0.0) -> _LayerPass:
        # Input gradients alone can be shorter than the part that the whole backward hides; weight gradients hide the rest.
        exposed_s, hidden_s = self._transfer("ep_comm", table)
        experts = Transfer(exposed_s, min(hidden_s, compute_s))
        return _LayerPass(
            compute_s=compute_s,
            expert_compute_s=max(compute_s * self.expert_share, experts.hidden_s),
            dispatch=experts.scaled(self.dispatch_share),
            combine=experts.scaled(1.0 - self.dispatch_share),
            swap=self._transfer("activation_swap", table),
            contention_s=self._seconds(table, "contention"),
            again_s=again_s,
            again_dispatch_s=again_exposed_s * self.dispatch_share,
            again_combine_s=again_exposed_s * (1.0 - self.dispatch_share),
        )


def moe_flops_fraction(workload: Workload, *, local: bool = False) -> float:
    """Fraction of routed and shared experts in the forward FLOPs of a MoE layer."""
    model, training = workload.model, workload.training
    assert model.moe is not None
    parts = layer_parameters(model, moe=True, local=local)
    used = parts.shared_experts + parts.chosen_experts(model.moe)
    return 2.0 * used / layer_flops_per_token(model, training.attended_length, moe=True, local=local)


class _Saved(NamedTuple):
    """Exchange time that a merged pair hides in addition to its passes alone, and the contention that this adds."""

    hidden_s: float
    contention_s: float


class _Layout:
    """Lays out the bars of one task from its start; adjacent compute bars of one kind are joined."""

    def __init__(self) -> None:
        self.bars: list[TaskBar] = []
        self.now_s = 0.0
        self._lengthened: int | None = None  # the compute bar that ends now
        self._ends_s = dict.fromkeys(Stream, 0.0)

    def compute(self, kind: Kind, seconds: float) -> None:
        """Add compute from now on."""
        if seconds <= 0:
            return
        start, self.now_s = self.now_s, self.now_s + seconds
        last = self._lengthened
        if last is not None and self.bars[last].kind is kind:
            self.bars[last] = self.bars[last]._replace(end_s=self.now_s)
            return
        self._lengthened = len(self.bars)
        self.bars.append(TaskBar(Stream.COMPUTE, kind, start, self.now_s))

    def transfer(self, stream: Stream, kind: Kind, transfer: Transfer, *, of_backward: bool = False) -> None:
        """Add a transfer that starts now; compute waits for its exposed part, and later work hides the rest."""
        self._aside(TaskBar(stream, kind, self.now_s, self.now_s + transfer.exposed_s + transfer.hidden_s, of_backward))
        self._wait(transfer.exposed_s)

    def transferred(self, stream: Stream, kind: Kind, transfer: Transfer, *, of_backward: bool = False) -> None:
        """Add a transfer that earlier work has hidden in part; compute waits now for the rest."""
        start = self.now_s - transfer.hidden_s
        self._wait(transfer.exposed_s)
        self._aside(TaskBar(stream, kind, start, self.now_s, of_backward))

    def _wait(self, seconds: float) -> None:
        if seconds > 0:
            self.now_s += seconds
            self._lengthened = None

    def _aside(self, bar: TaskBar) -> None:
        start = max(bar.start_s, self._ends_s[bar.stream])
        if bar.end_s > start:
            self.bars.append(bar._replace(start_s=start))
            self._ends_s[bar.stream] = bar.end_s

    def forward(self, layer: _LayerPass) -> None:
        """Add a layer's forward; activations are swapped to the host at the same time."""
        self.compute(Kind.FORWARD, layer.compute_s - layer.expert_compute_s)
        self.transfer(Stream.EXPERT_COMMUNICATION, Kind.DISPATCH, layer.dispatch)
        self.compute(Kind.FORWARD, layer.expert_compute_s)
        self.compute(Kind.CONTENTION, layer.contention_s)
        self.transferred(Stream.EXPERT_COMMUNICATION, Kind.COMBINE, layer.combine)
        self.transferred(Stream.SWAP, Kind.SWAP, layer.swap)

    def backward(self, kind: Kind, layer: _LayerPass) -> None:
        """Add a layer's backward: the gradient of a combine is sent before the gradient of a dispatch."""
        before = layer.again_s if not layer.compute_s else layer.again_s * (1.0 - layer.expert_compute_s / layer.compute_s)
        self.compute(Kind.RECOMPUTE, before)
        self.transfer(Stream.EXPERT_COMMUNICATION, Kind.DISPATCH, Transfer(layer.again_dispatch_s), of_backward=True)
        self.compute(Kind.RECOMPUTE, layer.again_s - before)
        self.transfer(Stream.EXPERT_COMMUNICATION, Kind.COMBINE, Transfer(layer.again_combine_s), of_backward=True)
        self.transfer(Stream.SWAP, Kind.SWAP, layer.swap, of_backward=True)
        self.transfer(Stream.EXPERT_COMMUNICATION, Kind.COMBINE, layer.combine, of_backward=True)
        self.compute(kind, layer.expert_compute_s)
        self.compute(Kind.CONTENTION, layer.contention_s)
        self.transferred(Stream.EXPERT_COMMUNICATION, Kind.DISPATCH, layer.dispatch, of_backward=True)
        self.compute(kind, layer.compute_s - layer.expert_compute_s)

    def pair(self, forwards: list[_LayerPass], backwards: list[_LayerPass], work_s: float, saved: _Saved) -> None:
        """Add both passes of a merged pair, ``work_s`` together: transfers one after the other, spread evenly over the compute.

        Contention follows the compute that it lengthens, in proportion to the hidden part. ``cost_models.layer.pairs`` decides
        which compute hides which transfer for one layer, but does not keep it.
        """
        exposed_s = sum(layer.experts_exposed_s for layer in (*forwards, *backwards))
        left = 1.0 - saved.hidden_s / exposed_s if exposed_s else 1.0
        turns: list[tuple[Kind, Transfer, bool]] = []
        for backward, forward in zip_longest(backwards, forwards):
            if backward is not None:
                turns.append((Kind.DISPATCH, Transfer(backward.again_dispatch_s), True))
                turns.append((Kind.COMBINE, Transfer(backward.again_combine_s), True))
                turns.append((Kind.COMBINE, backward.combine.exposing(left), True))
            if forward is not None:
                turns.append((Kind.DISPATCH, forward.dispatch.exposing(left), False))
            if backward is not None:
                turns.append((Kind.DISPATCH, backward.dispatch.exposing(left), True))
            if forward is not None:
                turns.append((Kind.COMBINE, forward.combine.exposing(left), False))
        turns = [turn for turn in turns if any(turn[1])]
        swaps = [Transfer(*map(sum, zip(*(layer.swap for layer in layers), strict=True))) for layers in (backwards, forwards)]
        waits = sum(transfer.exposed_s for _, transfer, _ in turns) + swaps[0].exposed_s + swaps[1].exposed_s
        contention_s = sum(layer.contention_s for layer in (*forwards, *backwards)) + saved.contention_s
        compute_s = max(work_s - waits - contention_s, 0.0)
        hidden_s = sum(transfer.hidden_s for _, transfer, _ in turns)
        apart_s = max(compute_s - hidden_s, 0.0) / (len(turns) + 1)
        self.transfer(Stream.SWAP, Kind.SWAP, swaps[0], of_backward=True)
        self.compute(Kind.PAIR, apart_s)
        for kind, transfer, of_backward in turns:
            self.transfer(Stream.EXPERT_COMMUNICATION, kind, transfer, of_backward=of_backward)
            self.compute(Kind.PAIR, transfer.hidden_s + apart_s)
            self.compute(Kind.CONTENTION, contention_s * transfer.hidden_s / hidden_s if hidden_s else 0.0)
        self.compute(Kind.CONTENTION, 0.0 if hidden_s else contention_s)
        self.transferred(Stream.SWAP, Kind.SWAP, swaps[1])


class TaskBars:
    """Bars of every class of tasks of one strategy.

    Compute includes the other waits of a pass: communication of tensor and context parallelism, ZeRO-3's weights, the host.
    Work of a chunk besides its layers comes before them, or after them in the chunk with the output head.
    """

    def __init__(self, workload: Workload, group: PricedGroup, tasks: GroupTasks, constants: Constants) -> None:
        self._stages = group.stages
        self._batch = group.batch
        self._tasks = tasks
        self._stretch = constants.hidden_stretch_fraction
        kinds = zip(group.stages.layer_kinds, group.priced.layers, strict=True)
        self._parts = [_LayerParts.of(workload, group, constants, kind, costs) for kind, costs in kinds]

    def of(self, task_class: TaskClass, duration_s: float, num_sends: int) -> list[TaskBar]:
        """Bars of a task of ``duration_s``, which includes its ``num_sends`` messages to other ranks.

        The hidden part of the sends comes after its end.
        """
        kind, rank, chunk, backward_chunk = task_class
        sends_s = num_sends * float(self._tasks.send_s[0]) + float(self._tasks.relays_s(task_class)[0])
        work_s = duration_s - sends_s
        layout = _Layout()
        match kind:
            case Pass.WEIGHT_GRADIENT:
                layout.compute(Kind.WEIGHT_GRADIENT, work_s)
            case Pass.PAIR:
                saving_s = float(self._tasks.saving_s(task_class)[0])
                hidden_s = saving_s / (1.0 - self._stretch)
                backwards = self._backwards(rank, backward_chunk, weight_gradient=True)
                layout.pair(self._forwards(rank, chunk), backwards, work_s, _Saved(hidden_s, hidden_s - saving_s))
            case _:
                self._pass(layout, kind, rank, chunk, work_s)
        if num_sends:
            sent = TaskBar(Stream.P2P, Kind.P2P, work_s, duration_s + float(self._tasks.hop_s[0]))
            layout.bars += [sent] if sent.end_s > sent.start_s else []
        return layout.bars

    def _pass(self, layout: _Layout, kind: Pass, rank: int, chunk: int, work_s: float) -> None:
        forward, shown = kind is Pass.FORWARD, Kind(kind)
        layers = self._forwards(rank, chunk) if forward else self._backwards(rank, chunk, weight_gradient=kind is Pass.BACKWARD)
        beside_s = work_s - sum(layer.whole_s for layer in layers)
        head_last = forward and bool(self._stages.has_head[rank, chunk])
        if not head_last:
            layout.compute(shown, beside_s)
        for layer in layers:
            if forward:
                layout.forward(layer)
            else:
                layout.backward(shown, layer)
        if head_last:
            layout.compute(shown, beside_s)

    def _kinds(self, rank: int, chunk: int) -> list[int]:
        """The kind of each layer of a chunk; an MTP module is one more layer after the layers of its stage."""
        stages = self._stages
        kinds = np.diff(stages.prefix[:, rank, chunk]).argmax(axis=0).tolist()
        count = int(stages.layers[:, rank, chunk].sum())
        mtp = stages.mtp_layers * int(stages.has_mtp[rank, chunk])
        return [*kinds[:count], *[stages.last_layer] * mtp]

    def _forwards(self, rank: int, chunk: int) -> list[_LayerPass]:
        passes = [parts.forward() for parts in self._parts]
        return [passes[kind] for kind in self._kinds(rank, chunk)]

    def _backwards(self, rank: int, chunk: int, *, weight_gradient: bool) -> list[_LayerPass]:
        """Backward passes in execution order: the last layer first."""
        num_again = int(sum(again[chunk, rank, 0] for again in self._stages.recomputed(self._batch)))
        passes = [
            self._parts[kind].backward(again=index < num_again, weight_gradient=weight_gradient)
            for index, kind in enumerate(self._kinds(rank, chunk))
        ]
        return passes[::-1]
