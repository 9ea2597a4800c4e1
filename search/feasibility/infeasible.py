"""Why a job has no plan, and changes of the job under which a plan fits. Each change is checked with such a plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields, replace
from itertools import islice
from typing import Any

import numpy as np

from cost_models.constants import Constants
from cost_models.shapes.strategy import ParallelStrategy, StrategyBatch
from cost_models.shapes.switches import LEFT_OUT, SWITCHES, Feature
from cost_models.shapes.workload import MemoryRoom, Workload
from documents.sentences import Sentence
from frameworks.legality import rules_for, violations
from frameworks.registry import FRAMEWORKS
from frameworks.target import ANY
from search.errors import SearchError
from search.feasibility.device_counts import fillable_device_counts
from search.feasibility.least_memory_plan import lean_limits, lean_plan, least_memory
from search.heartbeat import beat
from search.plans.estimator import Estimator
from search.plans.plan import estimates_to_mappings, strategy_to_mapping
from search.space.enumeration import Rejections, chunks
from search.space.limits import SearchLimits
from search.space.search_space import SearchSpace, offered_switches, search_space

MAX_CLUSTER_GROWTH = 64  # times as many devices
MAX_CLUSTER_SHRINKAGE = 4  # smaller device counts that are tried where rules refuse all strategies
MAX_BATCHES = 8  # batch sizes that are tried, the nearest first
SHORTEST_SEQUENCE = 512
MOST_CHUNKS = 16  # chunks that are searched for the most nearly legal strategy
OF_LIMITS = {"dispatcher": "moe_dispatcher"}  # names of limits in a job, where they differ


@dataclass(frozen=True)
class BlockingRule:
    """A rule that the most nearly legal strategies break, and a sentence on the first of them."""

    rule: str
    sentence: str


@dataclass(frozen=True)
class NearestChange:
    """A change of the job under which a plan fits. ``fields`` are the changed fields of the job, ``None`` for one left out.

    ``strategy`` is such a plan, the one of least memory rather than the fastest, with its simulated ``estimate``.
    """

    change: str
    fields: Mapping[str, Any]
    strategy: Mapping[str, Any]
    estimate: Mapping[str, Any]


@dataclass(frozen=True)
class Infeasible:
    """Why a search has no plan.

    Legal strategies miss at least ``missing_bytes``, on ``leanest`` (``None`` where none is legal). Without a legal strategy,
    ``rules`` are the rules that the most nearly legal strategies break.
    """

    rules: tuple[BlockingRule, ...]
    leanest: Mapping[str, Any] | None
    peak_memory_bytes: float | None
    missing_bytes: float | None
    changes: tuple[NearestChange, ...]

    def to_mapping(self) -> dict[str, Any]:
        """The reasons as JSON."""
        return asdict(self)


@dataclass(frozen=True)
class _Changed:
    """A changed job that may have a plan."""

    change: str
    fields: Mapping[str, Any]
    workload: Workload
    limits: SearchLimits


@dataclass(frozen=True)
class _Nearby:
    """Jobs near one that has no plan; ``by_rule``: no strategy of it is legal, so that memory is not the reason."""

    workload: Workload
    limits: SearchLimits
    by_rule: bool

    def ways(self) -> Iterator[Iterator[_Changed]]:
        """Ways to change the job; the nearest job of each way comes first."""
        yield from (iter([one]) for one in self._without_a_limit())
        yield self._room()
        yield self._memory_modes()
        yield self._targets()
        if self.by_rule:
            yield self._batches()
            yield self._fillable()
        else:
            yield self._sequences()

    def last_resorts(self) -> Iterator[_Changed]:
        """Two changes at once: no limits, and more devices."""
        free = SearchLimits()
        dropped: dict[str, Any] = {name: None for one in self._without_a_limit() for name in one.fields}
        if dropped:
            yield _Changed(Sentence("no limits on the search"), dropped, self.workload, free)
            for one in (*self._fillable(), *self.more_devices()):
                yield replace(
                    one,
                    change=Sentence("{}, and no limits on the search", one.change),
                    fields={**dropped, **one.fields},
                    limits=free,
                )

    def _without_a_limit(self) -> list[_Changed]:
        found = []
        for one in fields(SearchLimits):
            if one.name in ("switches", "allow") or not getattr(self.limits, one.name):
                continue
            name = OF_LIMITS.get(one.name, one.name)
            without: frozenset[str] | None = frozenset() if one.name == "forbid" else None
            change = Sentence("nothing forbidden") if one.name == "forbid" else Sentence("{} as the search chooses", name)
            found.append(self._limited(change, f"search.{name}", **{one.name: without}))
        for feature in self.limits.switches:
            name = str(feature.name).lower()
            others = {key: values for key, values in self.limits.switches.items() if key != feature}
            found.append(self._limited(Sentence("{} as the search chooses", name), f"search.{name}", switches=others))
        return found

    def _limited(self, change: str, name: str, value: Any = None, **limits: Any) -> _Changed:
        return _Changed(change, {name: value}, self.workload, replace(self.limits, **limits))

    def _room(self) -> Iterator[_Changed]:
        room = self.workload.room
        if room.min_headroom_bytes:
            workload = replace(self.workload, room=MemoryRoom(0.0, room.confidence))
            yield _Changed(Sentence("no headroom asked for"), {"search.min_headroom": 0.0}, workload, self.limits)

    def _memory_modes(self) -> Iterator[_Changed]:
        if self.by_rule:
            return
        if self.limits.zero_stage is None:
            for stage, what in ((2, "gradients"), (3, "weights")):
                yield self._limited(
                    Sentence("zero_stage {} (sharded {})", stage, what), "search.zero_stage", stage, zero_stage=(stage,)
                )
        offered = offered_switches(self.workload) & ~Feature(sum(self.limits.switches))
        for feature in SWITCHES:
            if SWITCHES[feature].in_search in LEFT_OUT and SWITCHES[feature].priced and feature in offered:
                name = str(feature.name).lower()
                if name not in self.limits.forbid:
                    switches = {**self.limits.switches, feature: (True,)}
                    yield self._limited(
                        Sentence("{} on ({})", name, SWITCHES[feature].why), f"search.{name}", True, switches=switches
                    )

    def _targets(self) -> Iterator[_Changed]:
        family, target = self.workload.cluster.profile.family, self.workload.software.target
        labels = [each.target.label for each in FRAMEWORKS if family in each.target.families]
        for label in [*labels, ANY.name] if target != ANY.name else []:
            if label != target:
                workload = replace(self.workload, software=replace(self.workload.software, target=label))
                yield _Changed(Sentence("target {}", label), {"software.target": label}, workload, self.limits)

    def _batches(self) -> Iterator[_Changed]:
        training, devices = self.workload.training, self.workload.cluster.num_devices
        given = training.global_batch_size
        parts = [devices >> shift for shift in range(devices.bit_length()) if devices % (1 << shift) == 0]
        near = {size for part in parts for size in (given // part * part, -(-given // part) * part) if size > 0} - {given}
        for size in sorted(near, key=lambda size: (abs(size - given), size))[:MAX_BATCHES]:
            workload = replace(self.workload, training=replace(training, global_batch_size=size))
            yield _Changed(Sentence("global_batch_size {:,}", size), {"training.global_batch_size": size}, workload, self.limits)

    def _fillable(self) -> Iterator[_Changed]:
        given = self.workload.cluster.num_devices
        for number in fillable_device_counts(self.workload, given, how_many=2 * MAX_CLUSTER_SHRINKAGE):
            if number != given:
                yield self._on(number)

    def more_devices(self) -> Iterator[_Changed]:
        """Twice as many devices, again and again."""
        factor = 2
        while factor <= MAX_CLUSTER_GROWTH:
            yield self._on(factor * self.workload.cluster.num_devices)
            factor *= 2

    def fewer_than(self, number: int) -> Iterator[_Changed]:
        """Fewer devices, down to half as many, the fewest first."""
        return (self._on(eighths * number // 8) for eighths in (5, 6, 7) if eighths * number % 8 == 0)

    def _on(self, number: int) -> _Changed:
        workload = replace(self.workload, cluster=replace(self.workload.cluster, num_devices=number))
        return _Changed(Sentence("{:,} devices", number), {"cluster.num_devices": number}, workload, self.limits)

    def _sequences(self) -> Iterator[_Changed]:
        training = self.workload.training
        length = training.seq_length // 2
        while length >= SHORTEST_SEQUENCE:
            workload = replace(self.workload, training=replace(training, seq_length=length))
            yield _Changed(Sentence("seq_length {:,}", length), {"training.seq_length": length}, workload, self.limits)
            length //= 2


def infeasible(
    workload: Workload,
    limits: SearchLimits,
    constants: Constants,
    simulate: Estimator,
    leanest: tuple[float, ParallelStrategy] | None,
    fit_limit_bytes: float,
) -> Infeasible:
    """Why a search has no plan; ``leanest`` is the least peak of its legal strategies as they stand in the lattice, if any."""
    if leanest is not None:
        in_lean_form = least_memory(workload, limits, constants)
        leanest = leanest if in_lean_form is None or leanest[0] <= in_lean_form[0] else in_lean_form
    peak_bytes = None if leanest is None else leanest[0]
    near = _Nearby(workload, limits, by_rule=leanest is None)
    changes = [found for way in near.ways() if (found := _first_that_fits(way, constants, simulate)) is not None]
    enough = None if near.by_rule else _first_that_fits(near.more_devices(), constants, simulate)
    if enough is not None:
        fewer = _first_that_fits(near.fewer_than(enough.fields["cluster.num_devices"]), constants, simulate)
        changes.append(fewer or enough)
    if not changes:
        found = _first_that_fits(near.last_resorts(), constants, simulate)
        changes = [] if found is None else [found]
    return Infeasible(
        rules=() if leanest is not None else _blocking(workload, limits),
        leanest=None if leanest is None else strategy_to_mapping(workload, leanest[1]),
        peak_memory_bytes=peak_bytes,
        missing_bytes=None if peak_bytes is None else max(peak_bytes - fit_limit_bytes, 0.0),
        changes=tuple(changes),
    )


def _first_that_fits(jobs: Iterator[_Changed], constants: Constants, simulate: Estimator) -> NearestChange | None:
    for job in jobs:
        beat()
        try:
            plan = lean_plan(job.workload, job.limits, constants, Rejections())
        except SearchError:  # a range of the limits has no value left there
            continue
        if plan is not None:
            estimate = simulate(job.workload, StrategyBatch.of([plan]), constants, breakdown=True)
            (numbers,) = estimates_to_mappings(job.workload, estimate)
            return NearestChange(job.change, job.fields, strategy_to_mapping(job.workload, plan), numbers)
    return None


def _blocking(workload: Workload, limits: SearchLimits) -> tuple[BlockingRule, ...]:
    """The rules broken by the least-memory strategy that breaks the fewest."""
    rules, least, nearest = rules_for(workload.software.target), np.inf, None
    for chunk in islice(
        chunks(workload, _one_of_each(search_space(workload, lean_limits(limits))), Rejections(), rules=()), MOST_CHUNKS
    ):
        if not len(chunk.batch):
            continue
        num_broken = np.sum([rule.violates(workload, chunk.batch) for rule in rules], axis=0)
        row = int(num_broken.argmin())
        if num_broken[row] < least:
            least, nearest = num_broken[row], chunk.batch.row(row)
    broken = () if nearest is None else violations(workload, nearest)
    return tuple(BlockingRule(one.rule, one.sentence) for one in broken)


def _one_of_each(space: SearchSpace) -> SearchSpace:
    """The space with one dispatcher and one algorithm: few rules of theirs are broken by all strategies."""
    return replace(space, dispatcher=space.dispatcher[:1], cp_algo=space.cp_algo[:1])
