"""Option tables: the canonical variants of each option, for each class of layouts.

A *layout* is the degrees and the micro batch size. Its *class* is the few facts that decide which variants its options have: tp
above one, expert traffic between nodes, and so on. So variants are listed once for each class.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from cost_models.shapes.canonical import (
    canonical_cp,
    canonical_dispatcher,
    canonical_recompute,
    canonical_zero_stage,
    expert_domain_devices,
    layers_per_chunk,
)
from cost_models.shapes.effective_switches import NOTHING, has_replicas, model_scope, options_scope, schedule_scope
from cost_models.shapes.strategy import CpAlgo, IntColumn
from cost_models.shapes.switches import Feature, Scope, acting_in
from cost_models.shapes.workload import Workload
from search.space.search_space import Pipeline, SearchSpace, domains_inside, nests

Variant = tuple[int, ...]


@dataclass(frozen=True)
class Layouts:
    """Layouts of one pipeline as columns ``[k]``."""

    tp: IntColumn
    cp: IntColumn
    ep: IntColumn
    etp: IntColumn
    micro_batch_size: IntColumn
    dp: IntColumn


@dataclass(frozen=True)
class OptionTable:
    """Variants of one option. ``values``: ``[class, variant, column]``, ``counts``: ``[class]``."""

    columns: tuple[str, ...]
    values: NDArray[np.int64]
    counts: NDArray[np.int64]

    @classmethod
    def of(cls, columns: tuple[str, ...], variants: Sequence[Sequence[Variant]]) -> OptionTable:
        """The table of the variants of each class; equal variants count once."""
        distinct = [tuple(dict.fromkeys(of_class)) for of_class in variants]
        counts = np.array([len(of_class) for of_class in distinct], dtype=np.int64)
        values = np.zeros((len(distinct), max(1, int(counts.max())), len(columns)), dtype=np.int64)
        for index, of_class in enumerate(distinct):
            if of_class:
                values[index, : len(of_class)] = of_class
        return cls(columns, values, counts)


class OptionTables:
    """Tables of one space, each built once.

    They are: sequence parallelism, context parallelism, recompute, ranks that share the optimizer, dispatcher with switches.
    """

    def __init__(self, workload: Workload, space: SearchSpace) -> None:
        self._workload = workload
        self._space = space
        self._sequence_parallel = OptionTable.of(("sequence_parallel",), [[(0,)], [(int(on),) for on in space.sequence_parallel]])
        self._cp = OptionTable.of(("cp_algo", "ulysses_degree"), [_cp_variants(space, cp) for cp in space.cp])
        self._sharding = OptionTable.of(("optimizer_shard_size",), _shard_variants(space))
        self._recompute: dict[int, OptionTable] = {}
        self._switches: dict[tuple[Scope, tuple[Feature, ...]], OptionTable] = {}

    def of(self, pipeline: Pipeline) -> tuple[OptionTable, ...]:
        """The tables of one pipeline, in the order of ``option_classes``."""
        longest_chunk, schedule = layers_per_chunk(self._workload.model, pipeline.pp, pipeline.vpp), pipeline.schedule
        if longest_chunk not in self._recompute:
            self._recompute[longest_chunk] = OptionTable.of(
                ("recompute", "recompute_method", "recompute_num_layers", "recompute_modules"),
                [_recompute_variants(self._workload, self._space, longest_chunk)],
            )
        switches = schedule_scope(schedule), self._space.features_with(schedule)  # schedules that agree in both share a table
        if switches not in self._switches:
            self._switches[switches] = self._switch_table(*switches)
        return self._sequence_parallel, self._cp, self._recompute[longest_chunk], self._sharding, self._switches[switches]

    def _switch_table(self, of_schedule: Scope, features: tuple[Feature, ...]) -> OptionTable:
        has_experts = self._workload.model.moe is not None
        return OptionTable.of(
            ("dispatcher", "zero_stage", "features"),
            [
                _switch_variants(self._workload, self._space, features, scope, expert_ranks)
                for expert_ranks in _example_expert_ranks(self._workload)
                for scope in _scopes(self._workload, of_schedule, routed=expert_ranks > 1 and has_experts)
            ],
        )


def option_classes(workload: Workload, space: SearchSpace, layouts: Layouts) -> tuple[IntColumn, ...]:
    """Class ``[k]`` of every layout in each table of ``OptionTables.of``."""
    expert_ranks = layouts.ep * layouts.etp
    domain = expert_domain_devices(workload.cluster)
    travel = (expert_ranks > 1).astype(np.int64) + (expert_ranks > domain)
    return (
        (layouts.tp > 1).astype(np.int64),
        np.searchsorted(np.array(space.cp), layouts.cp),
        np.zeros_like(layouts.tp),
        _shard_class(space, layouts, domains_inside(workload)),
        8 * travel + 4 * has_replicas(workload.model, layouts) + 2 * (layouts.cp > 1) + (layouts.tp > 1),
    )


def _example_expert_ranks(workload: Workload) -> tuple[int, int, int]:
    """One rank for a set of experts, several in one domain, and several domains, in the order of ``travel``."""
    domain = expert_domain_devices(workload.cluster)
    return 1, min(2, domain), domain + 1


def _scopes(workload: Workload, of_schedule: Scope, *, routed: bool) -> list[Scope]:
    """The eight scopes of one ``travel``, in the order of the last class of ``option_classes``."""
    base = model_scope(workload.model) | of_schedule | (Scope.ROUTED if routed else NOTHING)
    in_order = (Scope.TENSOR_PARALLEL, Scope.CONTEXT_PARALLEL, Scope.REPLICAS)
    return [base | Scope(sum(scope for bit, scope in enumerate(in_order) if bits >> bit & 1)) for bits in range(8)]


def _cp_variants(space: SearchSpace, cp: int) -> list[Variant]:
    variants: list[Variant] = []
    for algo in space.cp_algo:
        degrees = [1]
        if algo is CpAlgo.HYBRID and cp > 1:
            degrees = [degree for degree in range(2, cp) if cp % degree == 0]
        variants += [canonical_cp(cp, algo, degree) for degree in degrees]
    return variants


def _shard_variants(space: SearchSpace) -> list[list[Variant]]:
    """The sizes of each class of ``_shard_class``."""
    sizes = space.optimizer_shard_size
    return [[(size,) for bit, size in enumerate(sizes) if code >> bit & 1] for code in range(1 << len(sizes))]


def _shard_class(space: SearchSpace, layouts: Layouts, domains: Sequence[int]) -> IntColumn:
    """Which sizes are true parts of the ranks that hold the same weights, a bit for each ``[k]``; 0 stands for all ranks.

    Shards lie tp devices apart, and their groups do not straddle domains.
    """
    replicas, code = layouts.dp * layouts.cp, np.zeros_like(layouts.tp)
    for bit, size in enumerate(space.optimizer_shard_size):
        part = (replicas % max(size, 1) == 0) & (replicas > size) & nests(max(size, 1) * layouts.tp, domains)
        code += np.where(size == 0, 1, part).astype(np.int64) << bit
    return code


def _recompute_variants(workload: Workload, space: SearchSpace, longest_chunk: int) -> list[Variant]:
    variants: list[Variant] = []
    for mode in space.recompute:
        granularity, method, num_layers, modules = canonical_recompute(
            workload.model, longest_chunk, mode.granularity, mode.method, mode.layers(longest_chunk), mode.modules
        )
        variants.append((int(granularity), int(method), num_layers, int(modules)))
    return variants


def _switch_variants(
    workload: Workload, space: SearchSpace, tried: tuple[Feature, ...], scope: Scope, expert_ranks: int
) -> list[Variant]:
    variants: list[Variant] = []
    for wanted, asked in product(space.dispatcher, space.zero_stage):
        dispatcher = canonical_dispatcher(workload.model, expert_ranks, workload.cluster, wanted)
        stage = canonical_zero_stage(scope, asked)
        with_effect = acting_in(scope | options_scope(dispatcher, stage))
        variants += [(int(dispatcher), stage, int(features & with_effect)) for features in tried]
    return variants
