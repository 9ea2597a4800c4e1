"""The record that holds all rules of a pipeline schedule."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from cost_models.schedules.tasks import Numbers, Tables
from documents.late_methods import dataclass

Floats = NDArray[np.float64]
IntColumn = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, eq=False)
class ScheduleRules:
    """Rules of one schedule. No field has a default: a file that leaves one out cannot be imported.

    ``label`` is the name in files; ``source`` cites the paper or the code.

    Traits:

    - ``chunks``: chunks of layers on a rank; "none": there is no pipeline.
    - ``usual``: a pipeline of its shape runs it unless another schedule is named.
    - ``tried``: when a search tries it by default. "to_merge": only if merged passes can hide expert communication.
    - ``num_streams``: directions from which micro batches enter. Each stream takes an equal share of the micro batches and has
      its own chunk on every rank.
    - ``is_vee``: the second chunk runs the ranks in reverse.
    - ``in_groups``: groups of micro batches pass through one chunk before the next chunk runs.
    - ``splits_backward``: weight gradients are separate tasks.
    - ``can_detach``: a switch lets the cool-down split its backwards too.
    - ``overlaps_steps``: a rank starts its next step when it has finished this one, without waiting for the others.
    - ``has_steady_state``: more micro batches repeat the middle of the order.
    - ``pairs``: how a forward and a backward merge under ``moe_comm_overlap``; ``None`` if they never do.

    Formulas:

    - ``fewest_microbatches``: with fewer the schedule is not legal, and its order and memory are not defined.
    - ``orders``: the tasks of every rank in execution order.
    - ``bubble_share_s``: seconds, ``[kind, n]``, that each rank but the slowest adds to the bubble.
    - ``in_flight``: the micro batches that a rank keeps activations for, at each moment that can be its peak. The arguments are
      the ranks, micro batches ``[n]``, group sizes ``[n]``, and whether the chunks of a rank keep different amounts.
    """

    label: str
    source: str
    chunks: Literal["none", "one", "two", "several"]
    usual: bool
    tried: Literal["always", "to_merge", "if_named"]
    num_streams: int
    is_vee: bool
    in_groups: bool
    splits_backward: bool
    can_detach: bool
    overlaps_steps: bool
    has_steady_state: bool
    pairs: Pairs | None
    fewest_microbatches: Fewest
    orders: Callable[[PipelineShape], Tables]
    bubble_share_s: Callable[[PassSeconds, Pipeline], Floats]
    in_flight: Callable[[Ranks, Floats, IntColumn, bool], Iterator[Composition]]

    @property
    def ends_meet(self) -> bool:
        """Whether one rank runs both the first and the last layers of the model."""
        return self.is_vee or self.num_streams > 1

    def runs(self, pp: int, vpp: int) -> bool:
        """Whether a pipeline of ``pp`` ranks with ``vpp`` chunks on each can run the schedule."""
        if pp == 1:
            return self.chunks == "none"
        return {"none": False, "one": vpp == 1, "two": vpp == 2, "several": vpp > 1}[self.chunks]


class Fewest(NamedTuple):
    """A number of micro batches that grows with the pipeline: ``a_rank`` for each rank, and ``more``."""

    a_rank: int
    more: int

    def of(self, pp: int) -> int:
        """The number for ``pp`` ranks."""
        return self.a_rank * pp + self.more


@dataclass(frozen=True, kw_only=True, eq=False)
class Pairs:
    """Rules by which a schedule merges forwards with backwards.

    ``of_other_chunk``: a forward meets the backward of the other of two chunks. ``wait``: every second pair of a rank waits for a
    pair of its neighbour. ``unmerged``: passes of a chunk, ``[n]``, that the rank with most pairs runs alone while the pipeline
    fills; as many backwards run alone while it drains. Its second argument are the group sizes ``[n]``, or pp.
    """

    of_other_chunk: bool
    wait: bool
    unmerged: Callable[[Pipeline, IntColumn | int], Floats | float]


class HasRules(Protocol):
    """A member of the enumeration of schedules."""

    @property
    def label(self) -> str:
        """The name in files."""

    @property
    def rules(self) -> ScheduleRules:
        """All rules of the schedule."""


@dataclass(frozen=True)
class PipelineShape:
    """All that decides the order of tasks: strategies that share it share one compiled program.

    ``group_size``: micro batches in a group, if the schedule has groups; 0 means pp. ``merge_pairs``: forwards and backwards of
    the steady state run as one task. ``detach_weight_gradients``: the cool-down splits its backwards too.
    ``num_microbatches`` counts all streams.
    """

    schedule: HasRules
    pp: int
    vpp: int
    num_microbatches: int
    group_size: int = 0
    merge_pairs: bool = False
    detach_weight_gradients: bool = False

    @property
    def num_chunks(self) -> int:
        """Chunks of layers on a rank, over all streams."""
        return self.vpp * self.schedule.rules.num_streams

    @property
    def num_passes(self) -> int:
        """Forwards of one chunk on a rank in a step."""
        return self.num_microbatches // self.schedule.rules.num_streams

    @property
    def num_tasks(self) -> int:
        """Tasks of all ranks. If any backward is split, every backward counts as split."""
        return self.pp * self.num_chunks * self.num_passes * (3 if self.schedule.rules.splits_backward else 2)

    def first_micro_batch(self, chunk: Numbers) -> Numbers:
        """The step's micro batch that a chunk runs as the first of its stream; every stream has one chunk on a rank."""
        return chunk * self.num_passes if self.schedule.rules.num_streams > 1 else 0 * chunk

    @property
    def passes_in_period(self) -> int:
        """Forwards of one chunk after which the steady state of every rank's order repeats."""
        return self.group_size or self.pp

    @property
    def period(self) -> int:
        """Micro batches after which the steady state of every rank's order repeats."""
        return self.passes_in_period * self.schedule.rules.num_streams


class Pipeline(Protocol):
    """The parts of a pipeline that formulas read."""

    @property
    def pp(self) -> int:
        """Pipeline ranks."""

    @property
    def vpp(self) -> int:
        """Chunks of layers on a rank, of each stream."""

    @property
    def merge_pairs(self) -> bool:
        """Whether forwards and backwards of the steady state run merged."""

    @property
    def detach_weight_gradients(self) -> bool:
        """Whether the cool-down splits its backwards."""


class Ranks(Pipeline, Protocol):
    """Kinds of ranks of a pipeline: ranks of a kind hold the same layers."""

    @property
    def num_chunks(self) -> int:
        """Chunks of layers on a rank, over all streams."""

    @property
    def num_kinds(self) -> int:
        """Kinds of ranks."""

    @property
    def ranks(self) -> tuple[tuple[int, ...], ...]:
        """Ranks of each kind."""

    @property
    def first_rank(self) -> Floats:
        """The first rank of each kind, ``[kind, 1]``."""

    @property
    def is_last(self) -> Floats:
        """Heads on a rank of each kind, ``[kind, 1]``."""

    def shape(self, num_microbatches: int, group_size: int = 0) -> PipelineShape:
        """Pipeline with this number of micro batches."""


class PassSeconds(Protocol):
    """Seconds of a micro batch on a whole rank; ``backward`` includes ``weight_gradient``."""

    @property
    def forward(self) -> Floats:
        """Forward pass, ``[kind, n]``, seconds."""

    @property
    def backward(self) -> Floats:
        """Gradients of inputs and weights, with recompute, ``[kind, n]``, seconds."""

    @property
    def weight_gradient(self) -> Floats:
        """The part of the backward that can run later, ``[kind, n]``, seconds."""

    @property
    def pair(self) -> Floats:
        """A forward and a backward, merged if pairs are merged, ``[kind, n]``, seconds."""


class Composition(NamedTuple):
    """Micro batches that a rank holds at some moments; an axis of length 1 broadcasts.

    ``forwards`` ``[moment, chunk, kind, n]`` wait for their backward, ``weights`` for their weight gradient after a separate
    input gradient. ``losses`` ``[moment, kind, n]`` wait for their backward, in addition to a running loss.
    """

    forwards: Floats
    weights: Floats
    losses: Floats

    def each(self) -> Iterator[Composition]:
        """The moments one by one: ``[chunk, kind, n]`` and ``[kind, n]``."""
        weights = np.broadcast_to(self.weights, self.forwards.shape)
        yield from map(Composition, self.forwards, weights, self.losses)
