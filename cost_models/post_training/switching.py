"""Parts of a change between training and rollout: weights, states on the host, process groups, communicators and graphs."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import reduce
from typing import NamedTuple

from cost_models.memory.peak import process_groups
from cost_models.post_training.constants import LARGEST_GRAPH, SLOW_HOST_COPY_BYTES_PER_S, SWITCH_TIMES
from cost_models.post_training.shards import RankOrder
from cost_models.post_training.training_side import TrainingTimes
from cost_models.serving.engine import ServingLayout
from cost_models.serving.memory import instance_groups
from cost_models.shapes.strategy import ParallelStrategy, StrategyBatch
from cost_models.shapes.traits import device_traits
from cost_models.shapes.workload import Workload
from documents.late_methods import dataclass
from hardware_profiles.schema import HardwareProfile


class Doubtful(NamedTuple):
    """Seconds with the range in which they are known to lie; a range of no width is a price without one."""

    value_s: float = 0.0
    low_s: float = 0.0
    high_s: float = 0.0

    @classmethod
    def sure(cls, seconds: float) -> Doubtful:
        """Seconds without a range."""
        return cls(seconds, seconds, seconds)

    def times(self, count: float) -> Doubtful:
        """So many of them, one after the other."""
        return Doubtful(self.value_s * count, self.low_s * count, self.high_s * count)

    def plus(self, other: Doubtful) -> Doubtful:
        """Both, one after the other: the low ends and the high ends add up."""
        return Doubtful(self.value_s + other.value_s, self.low_s + other.low_s, self.high_s + other.high_s)


NOTHING = Doubtful()


@dataclass(frozen=True)
class Switching:
    """How a site changes layouts. A time of ``None`` is the range of published ones (``SWITCH_TIMES``).

    ``keeps_communicators``: they are opened once and stay in memory; otherwise each change opens them again. ``keeps_graphs``:
    the same for decode graphs. ``num_graphs``: ``None``: the sizes that an engine captures by default.
    """

    rank_order: RankOrder = RankOrder.CONSECUTIVE
    keeps_communicators: bool = True
    keeps_graphs: bool = True
    group_s: float | None = None
    communicator_s: float | None = None
    graph_s: float | None = None
    num_graphs: int | None = None

    def seconds_of(self, name: str, profile: HardwareProfile) -> Doubtful:
        """Seconds of an entry of ``SWITCH_TIMES``: those of the site, or the geometric mean of the published range."""
        given: float | None = getattr(self, name)
        if given is not None:
            return Doubtful.sure(given)
        low, high = SWITCH_TIMES[name].range_s(profile)
        return Doubtful(math.sqrt(low * high), low, high)


USUAL = Switching()  # everything is opened once


@dataclass(frozen=True)
class GroupKind:
    """Process groups of one kind: ``number`` in the cluster, ``in_turn`` of them made one by one, ``size`` ranks each."""

    side: str  # training | rollout | weights
    kind: str
    size: int
    number: int
    in_turn: int


@dataclass(frozen=True)
class SwitchPart:
    """One part of a change: bytes of the busiest device, a count of what is made, and seconds of each change and of the first.

    ``is_in_runs``: predictions of published steps contain it, so that their errors cover its range.
    """

    name: str
    each: Doubtful
    first: Doubtful
    device_bytes: float = 0.0
    count: int = 0
    is_in_runs: bool = True


@dataclass(frozen=True)
class Switch:
    """One change of layout; its parts follow each other."""

    parts: tuple[SwitchPart, ...]

    @property
    def each(self) -> Doubtful:
        """Seconds of every change but the first."""
        return _sum(part.each for part in self.parts)

    @property
    def first(self) -> Doubtful:
        """Seconds of the first change."""
        return _sum(part.first for part in self.parts)


@dataclass(frozen=True)
class Switches:
    """Both changes of a step, the process groups of both sides, and what kept communicators hold on a device. [bytes]"""

    to_rollout: Switch
    to_train: Switch
    groups: tuple[GroupKind, ...]
    training_communicator_bytes: float
    rollout_communicator_bytes: float

    @property
    def doubt(self) -> tuple[float, float]:
        """Seconds by which the parts that no published step contains can be shorter and longer than their values."""
        parts = [part.each for part in (*self.to_rollout.parts, *self.to_train.parts) if not part.is_in_runs]
        return sum(one.value_s - one.low_s for one in parts), sum(one.high_s - one.value_s for one in parts)


def training_groups(workload: Workload, strategy: ParallelStrategy) -> list[GroupKind]:
    """Process groups of training. All ranks make all groups, one after the other [pytorch-71134]."""
    devices, found = workload.cluster.num_devices, []
    for kind, sizes in process_groups(workload, StrategyBatch.of([strategy])).items():
        size = round(float(sizes[0]))
        if size > 1:
            number = devices // (strategy.pp if kind == "embedding" else size)
            found.append(GroupKind("training", kind, size, number, number))
    return found


def rollout_groups(layout: ServingLayout, instances: int) -> list[GroupKind]:
    """Process groups of the instances, each of which makes its own beside the others."""
    return [
        GroupKind("rollout", kind, size, instances * (layout.num_devices // size), layout.num_devices // size)
        for kind, size in instance_groups(layout).items()
        if size > 1
    ]


def num_decode_graphs(max_requests: int, profile: HardwareProfile) -> int:
    """Graphs that an engine captures: 1, 2, 4, every 8th size to 256 and every 16th beyond [vllm, cudagraph_capture_sizes]."""
    largest = min(2 * max_requests, LARGEST_GRAPH)
    sizes = [1, 2, 4, *range(8, 256, 8), *range(256, LARGEST_GRAPH + 1, 16)]
    return min(sum(1 for size in sizes if size <= largest), device_traits(profile).most_decode_graphs)


def switches(
    training: Workload,
    strategy: ParallelStrategy,
    layout: ServingLayout,
    trained: TrainingTimes,
    weights: Doubtful,
    wanted: Switching,
    *,
    weights_bytes: float,
    instances: int,
    graphs: int,
    cache_bytes: float,
    shares_devices: bool,
    offloads: bool,
) -> Switches:
    """Both changes of layout of a step.

    Keys and values are freed and not copied: all answers are complete, and the next ones are made by other weights.

    Parameters
    ----------
    weights, weights_bytes
        Seconds of the weights, and what the busiest device receives.
    graphs
        Decode graphs of a device, 0 for an engine without.
    cache_bytes
        Of keys and values on a device.
    shares_devices
        Devices train and roll out in turn; otherwise weights are sent to devices that keep all that they have.
    offloads
        States of training go to the host and back.
    """
    profile = training.cluster.profile
    ours, theirs = training_groups(training, strategy), rollout_groups(layout, instances)
    shared = (
        []
        if shares_devices
        else [GroupKind("weights", "world", training.cluster.num_devices + instances * layout.num_devices, 1, 1)]
    )
    keeps = wanted.keeps_communicators or not shares_devices
    copies = _host_copies(trained, profile, offloads=offloads and shares_devices)
    freed = SwitchPart("cache_freed", NOTHING, NOTHING, cache_bytes) if shares_devices else None
    capture = wanted.seconds_of("graph_s", profile).times(graphs)
    keeps_graphs = wanted.keeps_graphs or not shares_devices
    to_rollout = [
        SwitchPart("weights", weights, weights, weights_bytes),
        *(SwitchPart(f"offload_{name}", each, each, size) for name, size, each in copies),
        *_opened([*theirs, *shared], wanted, profile, keeps=keeps),
        SwitchPart("graphs_captured", NOTHING if keeps_graphs else capture, capture, count=graphs, is_in_runs=False),
    ]
    to_train = [
        *([freed] if freed else []),
        *_opened(ours, wanted, profile, keeps=keeps),
        *(SwitchPart(f"load_{name}", each, each, size) for name, size, each in copies),
    ]
    kept = profile.communicator_bytes if keeps else 0.0
    return Switches(
        to_rollout=Switch(tuple(to_rollout)),
        to_train=Switch(tuple(to_train)),
        groups=(*ours, *theirs, *shared),
        training_communicator_bytes=(len(ours) + len(shared)) * kept,
        rollout_communicator_bytes=(len(theirs) + len(shared)) * kept,
    )


def _host_copies(trained: TrainingTimes, profile: HardwareProfile, *, offloads: bool) -> list[tuple[str, float, Doubtful]]:
    """Name, bytes and seconds of each kind of state that goes to the host; all devices copy at once.

    The link's rate is that of pinned memory; frameworks were measured far below it.
    """
    if not offloads:
        return []
    states = {
        "weights": trained.weights_bytes,
        "gradients": trained.gradients_bytes,
        "optimizer": trained.optimizer_bytes,
    }
    states["buffers"] = max(trained.allocated_after_step_bytes - sum(states.values()), 0.0)
    link, slow = profile.host_link_bytes_per_s, SLOW_HOST_COPY_BYTES_PER_S
    times = {name: Doubtful(size / link, size / link, size / min(link, slow)) for name, size in states.items()}
    return [(name, states[name], seconds) for name, seconds in times.items() if states[name] > 0.0]


def _opened(groups: list[GroupKind], wanted: Switching, profile: HardwareProfile, *, keeps: bool) -> list[SwitchPart]:
    """Process groups and communicators of one side: groups in turn, then one communicator of each kind on every rank."""
    made = sum(group.in_turn for group in groups)
    if not made:
        return []
    first = wanted.seconds_of("group_s", profile).times(made), wanted.seconds_of("communicator_s", profile).times(len(groups))
    each = (NOTHING, NOTHING) if keeps else first
    held = len(groups) * profile.communicator_bytes
    return [
        SwitchPart("groups_made", each[0], first[0], count=sum(group.number for group in groups), is_in_runs=False),
        SwitchPart("communicators_opened", each[1], first[1], held, len(groups), is_in_runs=False),
    ]


def _sum(parts: Iterable[Doubtful]) -> Doubtful:
    return reduce(Doubtful.plus, parts, NOTHING)
