"""Moves of experts against rounds in which every link and port carries one expert."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

from cost_models.constants import prior_constants
from cost_models.layer.communication import network_of
from search.experts.placement import Placement, in_order, moves
from search.experts.plan import Prices
from search.experts.priced import prices_of
from tests.unit.search.experts.test_plan import JOB, NUM_LAYERS, STRATEGY, step


def rounds(sent: list[tuple[int, int]], links: int) -> int:
    """The least rounds that a search finds: in each, a link sends one expert, and a rank sends and gets at most ``links``."""
    best = len(sent)
    for seed in range(200):
        order = sent[:]
        random.Random(seed).shuffle(order)
        used: list[tuple[set[tuple[int, int]], dict[int, int], dict[int, int]]] = []
        for source, target in order:
            for pairs, out, into in used:
                if (source, target) not in pairs and out.get(source, 0) < links and into.get(target, 0) < links:
                    break
            else:
                used.append((set(), {}, {}))
                pairs, out, into = used[-1]
            pairs.add((source, target))
            out[source], into[target] = out.get(source, 0) + 1, into.get(target, 0) + 1
        best = min(best, len(used))
    return best


@pytest.mark.parametrize(("seed", "links"), list(itertools.product(range(4), (1, 3))))
def test_all_pairs_send_at_once(seed: int, links: int) -> None:
    """A bus of one port, and a mesh of four ranks with a link to each other, in rounds of one expert a link."""
    draw = np.random.default_rng(seed)
    before, after = in_order(1, 12, 4), Placement(np.sort(draw.permutation(12).reshape(1, 4, 3), axis=2))
    moved = moves(before, after, 12, 1)
    sent = [
        (expert // 3, rank) for rank, experts in enumerate(after.experts[0].tolist()) for expert in experts if expert // 3 != rank
    ]
    prices = Prices(0.1, 2.0, 9.0, 0.0, 0.0, 1.0, 1.0, 0, np.zeros(1, dtype=np.int64), ports_inside=float(links))
    assert prices.moved_s(moved)[0] == pytest.approx(2.0 * rounds(sent, links))


def test_tiers_share_a_time_or_follow_each_other() -> None:
    before = in_order(1, 4, 4)
    after = Placement(np.array([[[2], [1], [0], [3]]]))  # 0 and 2 change places, over two nodes of two
    inside = Placement(np.array([[[1], [0], [3], [2]]]))
    prices = Prices(0.1, 2.0, 9.0, 0.0, 0.0, 1.0, 1.0, 0, np.zeros(1, dtype=np.int64))
    assert prices.moved_s(moves(before, after, 4, 2)).tolist() == [9.0]
    assert prices.moved_s(moves(before, inside, 4, 2)).tolist() == [2.0]
    both = Placement(np.array([[[2], [3], [1], [0]]]))  # 1 goes to rank 2, 0 to 3, 2 to 0, 3 to 1: all between
    assert prices.moved_s(moves(before, both, 4, 2)).tolist() == [9.0]


def test_a_mesh_has_a_link_to_each_rank_of_a_node() -> None:
    """Atlas 800T A2: eight devices in a full mesh, whose port is seven links."""
    shares = np.full((NUM_LAYERS, 32), 1 / 32)
    constants = prior_constants("ascend")
    prices, before_s, balanced_s = prices_of(JOB, STRATEGY, constants, step, shares, in_order(NUM_LAYERS, 32, 8), 1)
    tier = network_of(JOB, constants).tiers[0]
    assert prices.ports_inside == pytest.approx(
        min(7 * tier.link_bytes_per_s, tier.bandwidth_bytes_per_s) / tier.link_bytes_per_s
    )
    assert prices.ports_inside > 1.0
    assert before_s == balanced_s
