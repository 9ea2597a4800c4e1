"""Where experts lie, and what moves: by hand, against a table of measured loads, and against every placement with copies."""

from __future__ import annotations

import json
from itertools import combinations_with_replacement, permutations
from pathlib import Path

import numpy as np
import pytest

from search.experts.placement import Placement, exchanged, in_order, moves, placed_anew, shared_slots

COUNTS = Path(__file__).parents[4] / "examples" / "expert-counts" / "deepseek-v2-lite.json"

# Load of the fullest rank over the mean, median of 26 layers (and the 90 % quantile), of the same counts: as experts lie in
# order, with heaviest-first placement, and with one more slot a rank. Counted apart.
MEASURED = {
    8: (1.27, 1.41, 1.02, 1.03, 1.01),
    16: (1.50, 1.77, 1.07, 1.10, 1.03),
    32: (1.95, 2.17, 1.52, 1.71, 1.03),
    64: (2.81, 3.22, 2.81, 3.22, 1.03),
}


@pytest.fixture(scope="module")
def counts() -> np.ndarray:
    return np.array(json.loads(COUNTS.read_text())["expert_counts"], dtype=np.float64)


@pytest.mark.parametrize("num_ranks", MEASURED)
def test_measured_loads_are_balanced_as_well_as_measured(num_ranks: int, counts: np.ndarray) -> None:
    median, high, placed, placed_high, copied = MEASURED[num_ranks]
    start = in_order(len(counts), 64, num_ranks)
    before = start.load_factors(counts)
    assert np.median(before) == pytest.approx(median, rel=0.02)
    assert np.quantile(before, 0.9) == pytest.approx(high, rel=0.02)
    after = placed_anew(counts, start, 1).load_factors(counts)
    # Exchanges find a little more than heaviest-first alone; nothing finds much less.
    assert placed * 0.93 <= np.median(after) <= placed * 1.005
    assert placed_high * 0.92 <= np.quantile(after, 0.9) <= placed_high * 1.005
    with_copies = placed_anew(counts, start, 1, extra_slots=1).load_factors(counts)
    assert 1.0 <= np.median(with_copies) <= copied * 1.005


def test_loads_of_copies_are_shared_evenly() -> None:
    placement = Placement(np.array([[[0, 1], [0, 2]]]))
    loads = np.array([[6.0, 1.0, 3.0]])
    # 6 / 2 + 1 = 4 and 6 / 2 + 3 = 6, of 5 in the mean.
    np.testing.assert_allclose(placement.relative_loads(loads), [[0.8, 1.2]])
    assert placement.load_factors(loads).tolist() == [1.2]
    assert placement.copies(3).tolist() == [[2, 1, 1]]


def test_two_levels_keep_nodes_balanced_too(counts: np.ndarray) -> None:
    start = in_order(len(counts), 64, 16)
    found = placed_anew(counts, start, 2)
    nodes = found.relative_loads(counts).reshape(len(counts), 2, 8).mean(axis=2)
    assert nodes.max() < 1.01 < start.relative_loads(counts).reshape(len(counts), 2, 8).mean(axis=2).max()


def test_exchanges_move_fewer_than_a_new_placement_and_balance_as_well(counts: np.ndarray) -> None:
    start = in_order(len(counts), 64, 8)
    few, many = exchanged(counts, start, 1), placed_anew(counts, start, 1)
    assert moves(start, few, 64, 1).inside.sum() < moves(start, many, 64, 1).inside.sum()
    assert few.load_factors(counts).mean() < 1.005


def test_exchanges_inside_nodes_send_nothing_between_them(counts: np.ndarray) -> None:
    start = in_order(len(counts), 64, 16)
    moved = moves(start, exchanged(counts, start, 2), 64, 2)
    assert moved.between.sum() == 0 < moved.inside.sum()


def test_a_placement_that_is_best_is_found_where_it_is() -> None:
    loads = np.array([[4.0, 1.0, 3.0, 2.0]])
    found = placed_anew(loads, Placement(np.array([[[2, 3], [0, 1]]])), 1)
    assert found.experts.tolist() == [[[2, 3], [0, 1]]]


def test_moves_are_counted_by_who_sends_and_who_gets() -> None:
    # Four ranks in two nodes. Rank 0 gives 1 to rank 1 and gets 2 from it, inside; ranks 0 and 2 exchange 0 and 4, between.
    before = Placement(np.array([[[0, 1], [2, 3], [4, 5], [6, 7]]]))
    after = Placement(np.array([[[2, 4], [1, 3], [0, 5], [6, 7]]]))
    moved = moves(before, after, 8, 2)
    assert (moved.inside.tolist(), moved.between.tolist()) == ([2], [2])
    assert (moved.inside_of_rank.tolist(), moved.between_of_rank.tolist()) == ([1], [1])


def test_a_copy_comes_from_the_same_node_where_it_can() -> None:
    before = Placement(np.array([[[0], [1], [0], [2]]]))
    after = Placement(np.array([[[0], [0], [0], [2]]]))
    moved = moves(before, after, 3, 2)
    assert (moved.inside.tolist(), moved.between.tolist()) == ([1], [0])


def test_slots_with_copies_elsewhere_are_told_apart() -> None:
    # Expert 0 in both nodes, expert 1 twice in the first: rank 0 and rank 1 hold one slot of each kind.
    placement = Placement(np.array([[[0, 1], [1, 2], [0, 3], [4, 5]]]))
    inside, between = shared_slots(placement, 6, 2)
    assert (inside.tolist(), between.tolist()) == ([1], [1])


def best_with_copies(loads: list[float], num_ranks: int, slots: int) -> float:
    """The lightest fullest rank over the mean, of every way to fill ``num_ranks`` times ``slots`` with at least one of each."""
    free = num_ranks * slots - len(loads)
    best = float("inf")
    for extra in combinations_with_replacement(range(len(loads)), free):
        items = [*range(len(loads)), *extra]
        share = {expert: loads[expert] / items.count(expert) for expert in set(items)}
        if any(items.count(expert) > num_ranks for expert in share):
            continue
        for order in set(permutations(items)):
            ranks = [order[start : start + slots] for start in range(0, len(order), slots)]
            if all(len(set(rank)) == slots for rank in ranks):
                best = min(best, max(sum(share[expert] for expert in rank) for rank in ranks))
    return best / (sum(loads) / num_ranks)


@pytest.mark.parametrize("seed", range(8))
def test_copies_come_near_the_best_of_all(seed: int) -> None:
    loads = np.random.default_rng(seed).lognormal(0.0, 0.8, 4)
    found = placed_anew(loads[None], in_order(1, 4, 2), 1, extra_slots=1)
    assert found.slots == 3
    assert found.copies(4).sum() == 6
    assert found.load_factors(loads[None])[0] <= 1.02 * best_with_copies(loads.tolist(), 2, 3)
