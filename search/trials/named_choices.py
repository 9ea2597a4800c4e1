"""The search space as a tree of named choices, and the strategy that the answers of a sampler make.

A choice without effect is not offered: the context-parallel algorithm without context parallelism, or the dispatcher where no
token travels. The values offered under one name never change, as samplers require.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from cost_models.shapes.canonical import canonical, canonical_cp, canonical_recompute, layers_per_chunk
from cost_models.shapes.strategy import CpAlgo, Dispatcher, ParallelStrategy, Schedule, StrategyBatch
from cost_models.shapes.switches import Feature
from cost_models.shapes.workload import Workload
from documents.sentences import Sentence
from frameworks.accepted_switches import taken
from search.errors import SearchError
from search.space.limits import DISPATCHERS, GROUP_SIZE, SWITCHES
from search.space.memory_saving_forms import LEAN_ON, all_change
from search.space.search_space import SearchSpace

Value = bool | int | str
Choose = Callable[[str, Sequence[Value]], Value]  # returns one of the values offered under a name


class _NotOfferedError(Exception):
    """A strategy has a value that the space does not offer."""


class StrategyChoices:
    """Maps sampler parameters to strategies of one search space. Raises ``SearchError`` if the space holds none."""

    def __init__(self, workload: Workload, space: SearchSpace) -> None:
        self._workload = workload
        self._space = space
        pipelines = space.pipelines()
        self._pp = tuple(dict.fromkeys(pipeline.pp for pipeline in pipelines))
        # The choices of virtual stages and schedules are the same for every pp above 1.
        self._vpp = {deep: tuple(dict.fromkeys(p.vpp for p in pipelines if (p.pp > 1) == deep)) for deep in (False, True)}
        self._schedules = {
            vpp: {p.schedule.label: p.schedule for p in pipelines if p.vpp == vpp and p.pp > 1} for vpp in self._vpp[True]
        }
        self._cp_variants = {cp: _cp_variants(space, cp) for cp in space.cp}
        self._cp = tuple(cp for cp in space.cp if self._cp_variants[cp])
        self._modes = {mode.name: mode for mode in space.recompute}
        self._leaner = {name: feature for name, feature in SWITCHES.items() if feature in space.leaner}
        self._switches = {schedule: _Switches.of(space.features_with(schedule)) for schedule in Schedule}
        if not self._pp or not self._cp:
            raise SearchError(Sentence("search: the space is empty: its limits leave no strategy to try."))

    def strategy(self, choose: Choose) -> ParallelStrategy:
        """The strategy, in canonical form, that the answers of ``choose(name, offered values)`` make."""

        def pick(name: str, values: tuple[Any, ...]) -> Any:
            return values[0] if len(values) == 1 else choose(name, values)

        space, model = self._space, self._workload.model
        pp = pick("pp", self._pp)
        vpp = pick("vpp", self._vpp[True]) if pp > 1 else self._vpp[False][0]
        schedule = self._schedules[vpp][pick(f"schedule.vpp{vpp}", tuple(self._schedules[vpp]))] if pp > 1 else Schedule.NONE
        group_size = pick(GROUP_SIZE, space.microbatch_group_size_per_vp_stage) if schedule.rules.in_groups else 0
        tp = pick("tp", space.tp)
        cp = pick("cp", self._cp)
        cp_algo, ulysses_degree = self._cp_variants[cp][pick(f"cp_algo.cp{cp}", tuple(self._cp_variants[cp]))]
        ep, etp = pick("ep", space.ep), pick("etp", space.etp)
        routed = model.moe is not None and ep * etp > 1
        dispatcher = pick("dispatcher", tuple(kind.label for kind in space.dispatcher)) if routed else Dispatcher.NONE.label
        mode = self._modes[pick("recompute", tuple(self._modes))]
        features = self._switches[schedule].always_on
        for name, feature in self._switches[schedule].both_ways.items():
            features |= feature if pick(name, (False, True)) else Feature(0)
        strategy = ParallelStrategy(
            tp=tp,
            pp=pp,
            cp=cp,
            ep=ep,
            etp=etp,
            vpp=vpp,
            micro_batch_size=pick("micro_batch_size", space.micro_batch_size),
            sequence_parallel=tp > 1 and pick("sequence_parallel", space.sequence_parallel),
            cp_algo=cp_algo,
            ulysses_degree=ulysses_degree,
            schedule=schedule,
            microbatch_group_size_per_vp_stage=group_size,
            zero_stage=pick("zero_stage", space.zero_stage),
            optimizer_shard_size=pick("optimizer_shard_size", space.optimizer_shard_size),
            dispatcher=DISPATCHERS.get(dispatcher, Dispatcher.NONE),
            recompute=mode.granularity,
            recompute_method=mode.method,
            recompute_num_layers=mode.layers(layers_per_chunk(model, pp, vpp)),
            recompute_modules=mode.modules,
            features=features,
        )
        on_space = taken(self._workload, canonical(self._workload, strategy), space.wanted)
        for name, feature in self._leaner.items():
            if not all_change(self._workload, StrategyBatch.of([on_space]), feature)[0]:
                continue
            if pick(name, (False, True)) == (feature in LEAN_ON):
                on_space = replace(on_space, features=on_space.features ^ feature)
        return canonical(self._workload, on_space)

    def parameters(self, strategy: ParallelStrategy) -> dict[str, Value] | None:
        """The choices that make the strategy; ``None`` where the space does not hold it."""
        strategy = canonical(self._workload, strategy)
        values = self._values(strategy)
        parameters: dict[str, Value] = {}

        def choose(name: str, offered: Sequence[Value]) -> Value:
            if values.get(name) not in offered:
                raise _NotOfferedError
            parameters[name] = values[name]
            return values[name]

        try:
            return parameters if self.strategy(choose) == strategy else None
        except _NotOfferedError:
            return None

    def _values(self, strategy: ParallelStrategy) -> Mapping[str, Value]:
        longest = layers_per_chunk(self._workload.model, strategy.pp, strategy.vpp)
        recompute = (
            strategy.recompute,
            strategy.recompute_method,
            strategy.recompute_num_layers,
            strategy.recompute_modules,
        )
        same_mode = (
            name
            for name, mode in self._modes.items()
            if recompute
            == canonical_recompute(
                self._workload.model, longest, mode.granularity, mode.method, mode.layers(longest), mode.modules
            )
        )
        sizes = self._space.microbatch_group_size_per_vp_stage
        group_size = strategy.microbatch_group_size_per_vp_stage
        return {
            **{name: getattr(strategy, name) for name in ("tp", "pp", "vpp", "cp", "ep", "etp", "micro_batch_size")},
            f"schedule.vpp{strategy.vpp}": strategy.schedule.label,
            GROUP_SIZE: group_size if group_size in sizes else strategy.pp,  # 0 means pp
            f"cp_algo.cp{strategy.cp}": _cp_label(strategy.cp_algo, strategy.ulysses_degree),
            "sequence_parallel": strategy.sequence_parallel,
            "dispatcher": strategy.dispatcher.label,
            "zero_stage": strategy.zero_stage,
            "optimizer_shard_size": strategy.optimizer_shard_size,
            "recompute": next(same_mode, ""),
            **{name: bool(feature & strategy.features) for name, feature in SWITCHES.items()},
        }


@dataclass(frozen=True)
class _Switches:
    """Switches that all combinations of a schedule have on, and switches that take both values, by name."""

    always_on: Feature
    both_ways: Mapping[str, Feature]

    @classmethod
    def of(cls, combinations: tuple[Feature, ...]) -> _Switches:
        always_on, both_ways = Feature(0), {}
        for name, feature in SWITCHES.items():
            values = {bool(feature & combination) for combination in combinations}
            if len(values) > 1:
                both_ways[name] = feature
            elif values == {True}:
                always_on |= feature
        return cls(always_on, both_ways)


def _cp_variants(space: SearchSpace, cp: int) -> dict[str, tuple[CpAlgo, int]]:
    variants: dict[str, tuple[CpAlgo, int]] = {}
    for algo in space.cp_algo:
        inner = [degree for degree in range(2, cp) if cp % degree == 0]
        for degree in inner if algo is CpAlgo.HYBRID and cp > 1 else [1]:
            kind, ulysses_degree = canonical_cp(cp, algo, degree)
            variants[_cp_label(kind, ulysses_degree)] = (kind, ulysses_degree)
    return variants


def _cp_label(algo: CpAlgo, ulysses_degree: int) -> str:
    return f"{algo.label}:{ulysses_degree}" if algo is CpAlgo.HYBRID else algo.label
