"""Measured routing: loads by hand, and what they are where all experts are chosen alike."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from cost_models.layer.activations import layer_activations
from cost_models.layer.communication import expert_comm
from cost_models.layer.expert_communication import RoutedTokens, expected_domains_per_token, expert_dispatch
from cost_models.layer.expert_rows import expert_rows, peak_expert_rows
from cost_models.shapes.expert_load import ExpertCounts
from cost_models.shapes.strategy import Dispatcher
from cost_models.shapes.workload import Workload
from tests.worked_examples import worked
from tests.workloads import SPARSE, constants, keys, network, workload

SKEWED = ExpertCounts(((1, 1, 2, 4, 0, 0, 4, 4), (2, 2, 2, 2, 2, 2, 2, 2)))
EVEN = ExpertCounts(((3,) * 8,))


def counted(counts: ExpertCounts | None, **changes: Any) -> Workload:
    """Two of eight experts a token."""
    assert SPARSE.moe is not None
    model = replace(SPARSE, moe=replace(SPARSE.moe, num_experts=8, **changes))
    return workload(model, expert_counts=counts)


def test_each_layer_waits_for_its_own_fullest_rank() -> None:
    # Two of the eight experts a rank: 2, 6, 0, 8 of 16 copies, mean 4; the second layer is even.
    assert float(SKEWED.load_factor(4)) == pytest.approx((8 / 4 + 1) / 2)
    assert float(SKEWED.peak_load_factor(4)) == worked("counted-load")
    np.testing.assert_allclose(SKEWED.load_factor([8, 1, 2, 8]), [1.5, 1.0, 1.0, 1.5])
    np.testing.assert_allclose(SKEWED.shares(4)[0], [1 / 8, 3 / 8, 0, 1 / 2])


def test_degrees_that_do_not_divide_the_experts_have_a_load() -> None:
    # Runs of 2, 3 and 3 experts, then of which some hold none: no legal plan, but a search prices it.
    assert float(SKEWED.load_factor(3)) == pytest.approx((3 * 8 / 16 + 3 * 3 / 8) / 2)
    assert float(EVEN.load_factor(16)) == pytest.approx(2.0)


@pytest.mark.parametrize("domains", [1, 2, 4])
def test_even_counts_meet_the_domains_of_uniform_routing(domains: int) -> None:
    expected = float(expected_domains_per_token(domains, 8, 2))
    assert float(EVEN.tokens_of_fullest_domain(domains, 2)) == pytest.approx(expected)


def test_tokens_of_the_fullest_domain_by_hand() -> None:
    # Half of the copies go to 1 of 4 domains, as to 4 of 8 experts: 4/8 x 3/7 of the tokens miss it. Even: 6/8 x 5/7.
    by_hand = 4 * ((1 - 12 / 56) + (1 - 30 / 56)) / 2
    assert float(SKEWED.tokens_of_fullest_domain(4, 2)) == pytest.approx(by_hand)


def test_an_excess_that_is_scaled_scales_the_load() -> None:
    half = SKEWED.with_excess(0.5)
    for parts in (2, 4, 8):
        assert float(half.load_factor(parts)) - 1 == pytest.approx((float(SKEWED.load_factor(parts)) - 1) / 2)


def test_time_takes_the_mean_over_layers_and_memory_the_fullest() -> None:
    job, even = counted(SKEWED), counted(EVEN)
    shape = job.model.moe
    assert shape is not None
    balanced = expert_rows(keys(ep=4), shape, even.training)
    np.testing.assert_allclose(expert_rows(keys(ep=4), shape, job.training), 1.5 * balanced)
    np.testing.assert_allclose(peak_expert_rows(keys(ep=4), shape, job.training), 2.0 * balanced)
    saved, least = (layer_activations(each, keys(ep=4), moe=True).saved["routed_experts"] for each in (job, even))
    np.testing.assert_allclose(saved, 2.0 * least)


@pytest.mark.parametrize("dispatcher", [Dispatcher.ALLTOALL, Dispatcher.TWO_LEVEL])
def test_counts_slow_exchanges_unless_a_capacity_bounds_them(dispatcher: Dispatcher) -> None:
    def dispatch_s(counts: ExpertCounts | None, ep: int, **changes: Any) -> float:
        job = counted(counts, **changes)
        return float(expert_comm(job, keys(ep=ep, dispatcher=dispatcher), network(job), constants()).dispatch_s[0])

    assert dispatch_s(EVEN, 8) == pytest.approx(dispatch_s(None, 8))
    assert dispatch_s(SKEWED, 8) > dispatch_s(EVEN, 8)
    assert dispatch_s(SKEWED, 8, capacity_factor=1.0) == dispatch_s(None, 8, capacity_factor=1.0)


def test_of_two_levels_the_fullest_domain_sets_the_pace() -> None:
    def inter_bytes(counts: ExpertCounts | None, **groups: int) -> float:
        job = counted(counts, **groups)
        shape = job.model.moe
        assert shape is not None
        load = 1.0 if counts is None else counts.load_factor(16)
        sent = expert_dispatch(RoutedTokens(Dispatcher.TWO_LEVEL, 1000, 1, 16, 1, shape, network(job), load, counts))
        return float(sent.inter_bytes)

    # Half of a domain's tokens come from the other. Half of all copies at each of 2 domains; 8 and 8, then 10 and 6 of 16.
    uneven = ExpertCounts(((2,) * 8, (4, 2, 2, 2, 1, 2, 2, 1)))
    missed = [4 / 8 * 3 / 7, 3 / 8 * 2 / 7]
    assert inter_bytes(uneven) == pytest.approx(1000 * 0.5 * 2 * (1 - sum(missed) / 2))
    # A token that chooses groups first: uniform, times the fullest domain's share of copies.
    groups = {"num_groups": 4, "group_topk": 2}
    assert inter_bytes(uneven, **groups) == pytest.approx((1.0 + 1.25) / 2 * inter_bytes(None, **groups))
