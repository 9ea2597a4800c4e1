"""Ranks that share weights as a dimension of a search: all of them, nodes, inner tiers; each distinct size once."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cost_models.shapes.canonical import canonical
from cost_models.shapes.strategy import ParallelStrategy
from cost_models.shapes.workload import Software, Workload
from search.space.enumeration import Rejections, chunks
from search.space.lattice_size import lattice_size
from search.space.limits import SearchLimits
from search.space.search_space import SearchSpace, search_space
from search.space.stored_space import space_from_mapping, space_to_mapping
from search.trials.named_choices import StrategyChoices
from tests.unit.frameworks.legality_workloads import job

SMALL = SearchLimits(tp=(1, 2), pp=(1,), vpp=(1,), cp=(1, 2), micro_batch_size=(1,), recompute=None)


def workload(num_devices: int = 32) -> Workload:
    return replace(job(num_devices=num_devices, family="nvidia"), software=Software("fsdp"))


def sizes(made: Workload, space: SearchSpace) -> dict[int, set[int]]:
    """Sizes of shards by the number of ranks that hold the same weights."""
    found: dict[int, set[int]] = {}
    for chunk in chunks(made, space, Rejections(), rules=()):
        for replicas, size in zip(
            (chunk.batch.dp * chunk.batch.cp).tolist(), chunk.batch.optimizer_shard_size.tolist(), strict=True
        ):
            found.setdefault(replicas, set()).add(size)
    return found


def test_a_stack_that_shards_weights_has_hybrid_shards_and_no_other_optimizer() -> None:
    space = search_space(workload())
    assert (space.zero_stage, space.optimizer_shard_size) == ((3, 2), (0, 8, 16))
    other = search_space(replace(workload(), software=Software("megatron-lm")))
    assert (other.zero_stage, other.optimizer_shard_size) == ((1,), (0,))
    assert "optimizer_shard_size" not in other.dimensions()
    assert space.dimensions()["optimizer_shard_size"] == [0, 8, 16]


def test_a_size_is_tried_where_it_is_a_true_part_of_the_ranks() -> None:
    made = workload()
    assert sizes(made, search_space(made, SMALL)) == {32: {0, 8, 16}, 16: {0, 8}}
    eight = workload(8)  # the node is the cluster
    assert sizes(eight, search_space(eight, SMALL)) == {8: {0}, 4: {0}}
    wide = replace(search_space(made, SMALL), optimizer_shard_size=(0, 8, 12, 16))
    assert sizes(made, wide) == {32: {0, 8, 16}, 16: {0, 8}}  # 12 divides neither, and 16 of 16 is all


def test_the_size_of_the_lattice_counts_them() -> None:
    made = workload()
    space = replace(search_space(made, SMALL), optimizer_shard_size=(0, 8, 12, 16))
    rows = [chunk.batch for chunk in chunks(made, space, Rejections(), rules=())]
    assert lattice_size(made, space) == sum(map(len, rows))
    alone = lattice_size(made, replace(space, optimizer_shard_size=(0,)))
    # Layouts of tp 1 have 32 ranks (three sizes), those of tp 2 have 16 (two), whatever cp is.
    by_replicas = [int(np.sum(batch.dp * batch.cp == 32)) for batch in rows]
    assert sum(by_replicas) // 3 + (sum(map(len, rows)) - sum(by_replicas)) // 2 == alone


def test_a_size_of_all_ranks_is_no_size() -> None:
    made = workload()
    plan = ParallelStrategy(dp=32, zero_stage=3, optimizer_shard_size=32)
    assert canonical(made, plan).optimizer_shard_size == 0
    assert canonical(made, replace(plan, optimizer_shard_size=8)).optimizer_shard_size == 8
    assert canonical(made, replace(plan, optimizer_shard_size=24)).optimizer_shard_size == 24  # a rule refuses it


def test_a_stored_space_keeps_them_and_older_ones_have_none() -> None:
    space = search_space(workload())
    stored = space_to_mapping(space)
    assert space_from_mapping(stored) == space
    del stored["optimizer_shard_size"]
    assert space_from_mapping(stored).optimizer_shard_size == (0,)


def test_a_sampler_chooses_them_by_name() -> None:
    made = workload()
    choices = StrategyChoices(made, search_space(made, SMALL))
    plan = canonical(
        made, ParallelStrategy(dp=32, zero_stage=3, optimizer_shard_size=8, features=search_space(made, SMALL).features[0])
    )
    parameters = choices.parameters(plan)
    assert parameters is not None
    assert (parameters["optimizer_shard_size"], parameters["zero_stage"]) == (8, 3)
