"""Assumed routing: closed form against draws, against counts of trained models, and what must hold for any spread."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cost_models.layer.activations import layer_activations
from cost_models.layer.communication import expert_comm
from cost_models.layer.expert_communication import expected_domains_per_token
from cost_models.layer.expert_rows import expert_rows, load_factor, peak_expert_rows
from cost_models.shapes.expert_load import ExpertCounts
from cost_models.shapes.expert_spread import (
    NUM_DOMAINS,
    PEAK_QUANTILE,
    ExpertSpread,
    expert_spread,
    usual_balance,
)
from cost_models.shapes.router_balance import RouterBalance
from cost_models.shapes.strategy import Dispatcher
from tests.worked_examples import worked
from tests.workloads import SPARSE, constants, keys, network, workload

FINE = expert_spread(RouterBalance.AUXILIARY_LOSS, 64)
DEGREES = [1, 2, 4, 8, 16, 32, 64]


def drawn(spread: ExpertSpread, num_parts: int, num_trials: int = 3000) -> tuple[float, float]:
    """Load of the fullest part in the mean, and in 90 % of the stages that hold two layers of two micro batches."""
    random = np.random.default_rng(7)
    loads, held = [], []
    per_group = spread.num_experts // spread.num_groups
    for _ in range(num_trials):
        sums = np.zeros(num_parts)
        for _layer in range(2):
            base = random.normal(0.0, spread.base_sd, spread.num_experts)
            for _micro_batch in range(2):
                weights = np.exp(base + random.normal(0.0, spread.domain_sd, (4, spread.num_experts)))
                in_groups = weights.reshape(4, -1, per_group)
                shares = (in_groups / in_groups.sum(axis=2, keepdims=True) / spread.num_groups).mean(axis=0)
                parts = num_parts * shares.reshape(num_parts, -1).sum(axis=1)
                loads.append(parts.max())
                sums += parts / 4
        held.append(sums.max())
    return float(np.mean(loads)), float(np.quantile(held, PEAK_QUANTILE))


@pytest.mark.parametrize(
    ("balance", "num_experts", "num_groups", "num_parts"),
    [
        (RouterBalance.AUXILIARY_LOSS, 64, 1, 8),
        (RouterBalance.AUXILIARY_LOSS, 256, 1, 32),
        (RouterBalance.AUXILIARY_LOSS, 256, 1, 64),
        (RouterBalance.AUXILIARY_LOSS, 8, 1, 8),
        (RouterBalance.LOSS_FREE, 256, 1, 64),
        (RouterBalance.GROUP, 64, 8, 16),
        (RouterBalance.GROUP, 64, 8, 64),
    ],
)
def test_the_closed_form_is_what_draws_give(balance: RouterBalance, num_experts: int, num_groups: int, num_parts: int) -> None:
    spread = expert_spread(balance, num_experts, num_groups)
    # Shares of a domain add up in each group of few experts, which keeps them closer together: not followed.
    more = 0.11 if balance is RouterBalance.GROUP else 0.02
    closed = (spread.load_factor(num_parts), spread.peak_load_factor(num_parts))
    for found, oracle in zip(closed, drawn(spread, num_parts), strict=True):
        assert 0.98 * oracle < float(found) < (1 + more) * oracle


def test_a_router_that_is_even_still_scatters_by_the_number_of_its_copies() -> None:
    even = ExpertSpread(RouterBalance.LOSS_FREE, 256, 0.0, 0.0)
    # 4,096 tokens with 8 experts each over 32 ranks: 1,024 copies a rank.
    counts = np.random.default_rng(3).multinomial(4096 * 8, np.full(32, 1 / 32), size=2000)
    simulated = 32 * counts.max(axis=1).mean() / (4096 * 8)
    assert float(even.load_factor(32, 1024)) == pytest.approx(simulated, abs=2e-3)
    # Below the bound sqrt(2 ln n / copies) of the largest of n deviations.
    assert float(even.load_factor(32, 1024)) < 1 + math.sqrt(2 * math.log(32) / 1024)
    assert float(even.load_factor(32)) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("num_experts", "measured"),
    [
        # Means over 26 layers of equal mixtures of four tasks, DeepSeek-V2-Lite [esft]; over 3 layers on C4, OLMoE [olmoe].
        (64, {8: 1.27, 16: 1.53, 32: 1.96}),
        (64, {8: 1.16, 16: 1.40, 32: 1.90}),
        # Mixtral 8x7B, mixture of five domains and C4, means over 3 layers [olmoe].
        (8, {4: 1.065, 8: 1.134}),
        (8, {4: 1.048, 8: 1.107}),
    ],
)
def test_spreads_give_the_loads_of_trained_models(num_experts: int, measured: dict[int, float]) -> None:
    spread = expert_spread(RouterBalance.AUXILIARY_LOSS, num_experts)
    found = spread.load_factor(list(measured))
    np.testing.assert_allclose(found, list(measured.values()), rtol=0.11)


def test_one_domain_at_a_time_gives_the_variance_that_was_measured() -> None:
    # Relative variance in one domain 0.76 and 0.83, covariance of two 0.09 and 0.11: DeepSeek-V2-Lite, OLMoE [esft; olmoe].
    covariance = math.expm1(FINE.base_sd**2)
    assert covariance == pytest.approx(0.094, abs=0.02)
    one_domain = NUM_DOMAINS * FINE.expert_variance - (NUM_DOMAINS - 1) * covariance
    assert one_domain == pytest.approx(0.79, abs=0.05)


def test_two_ranks_by_hand() -> None:
    # Two parts of variance v = e^(s^2) - 1: the fuller has the share 1 / (1 + r), r = exp(-s sqrt(2) |x|), x normal.
    spread = ExpertSpread(RouterBalance.AUXILIARY_LOSS, 2, 0.3, 0.0)
    x = np.linspace(-8, 8, 160001)
    density = np.exp(-x * x / 2) / math.sqrt(2 * math.pi)
    by_hand = float(np.sum(density * 2 / (1 + np.exp(-0.3 * math.sqrt(2) * np.abs(x))))) * (x[1] - x[0])
    assert float(spread.load_factor(2)) == pytest.approx(by_hand, rel=0.01)


def test_the_variance_of_an_expert_by_hand() -> None:
    assert FINE.expert_variance == pytest.approx(worked("spread-variance"), abs=5e-5)


def test_groups_are_even_as_long_as_a_rank_holds_whole_ones() -> None:
    spread = expert_spread(RouterBalance.GROUP, 64, 8)
    np.testing.assert_array_equal(spread.load_factor([1, 2, 4, 8], 10), 1.0)
    # From there on ranks share a group: two of them are as uneven as the fullest of eight pairs.
    assert 1.0 < float(spread.load_factor(16)) < float(FINE.load_factor(16))
    assert float(spread.peak_load_factor(16)) <= 2.0


def test_forced_balance_is_even_whatever_the_degree() -> None:
    np.testing.assert_array_equal(expert_spread(RouterBalance.FORCED, 64).load_factor(DEGREES, 5), 1.0)


@given(
    base=st.floats(0, 1),
    domain=st.floats(0, 1.5),
    experts=st.sampled_from([8, 64, 256, 384]),
    groups=st.sampled_from([1, 4, 8]),
    copies=st.floats(1, 1e9),
)
def test_loads_grow_with_the_degree_between_one_and_the_degree(
    base: float, domain: float, experts: int, groups: int, copies: float
) -> None:
    spread = ExpertSpread(RouterBalance.GROUP, experts, base, domain, num_groups=groups)
    mean, peak = spread.load_factor(DEGREES, copies), spread.peak_load_factor(DEGREES, copies)
    assert mean[0] == peak[0] == 1.0
    assert (mean >= 1.0).all()
    assert (mean <= np.array(DEGREES) * (1 + 1e-9)).all()
    assert (np.diff(mean) >= -1e-9).all()
    # A layer alone holds less evenly than a stage; a quantile of any lies above even loads.
    assert (peak >= 1.0).all()
    assert (np.diff(peak) >= -1e-9).all()
    assert (peak <= np.array(DEGREES) * (1 + 1e-9)).all()


@given(st.sampled_from(DEGREES), st.integers(1, 1000))
def test_equal_counts_and_no_spread_are_the_same(num_parts: int, count: int) -> None:
    even = ExpertSpread(RouterBalance.LOSS_FREE, 64, 0.0, 0.0)
    counts = ExpertCounts(((count,) * 64,))
    assert float(even.load_factor(num_parts)) == pytest.approx(float(counts.load_factor(num_parts))) == pytest.approx(1.0)
    assert float(even.tokens_of_fullest_domain(num_parts, 6)) == pytest.approx(
        float(counts.tokens_of_fullest_domain(num_parts, 6))
    )
    assert float(even.tokens_of_fullest_domain(num_parts, 6)) == pytest.approx(
        float(expected_domains_per_token(num_parts, 64, 6))
    )


def test_an_excess_that_is_scaled_scales_the_load() -> None:
    half = FINE.with_excess(0.5)
    np.testing.assert_allclose(half.load_factor(DEGREES) - 1, (FINE.load_factor(DEGREES) - 1) / 2)
    np.testing.assert_array_equal(FINE.with_excess(0.0).peak_load_factor(DEGREES), 1.0)


def test_shapes_are_kept_and_pairs_meet() -> None:
    found = FINE.load_factor([[8, 16], [8, 8]], [[1e9, 1e9], [1e9, 100]])
    assert found.shape == (2, 2)
    assert found[0, 0] == found[1, 0] < found[1, 1]
    assert found[0, 0] < found[0, 1]


@pytest.mark.parametrize(
    ("router", "balance"),
    [
        ((8, 8, 8, False), RouterBalance.GROUP),
        ((8, 8, 4, True), RouterBalance.LOSS_FREE),
        ((8, 8, 4, None), RouterBalance.AUXILIARY_LOSS),
        ((1, 1, 1, None), RouterBalance.AUXILIARY_LOSS),
    ],
)
def test_the_model_says_what_usually_balances_it(router: tuple[int, int, int, bool | None], balance: RouterBalance) -> None:
    top_k, num_groups, group_topk, expert_bias = router
    assert usual_balance(top_k, num_groups, group_topk, expert_bias=expert_bias) is balance


def test_few_experts_take_the_spread_of_few() -> None:
    # 16 are nearer to 8 than to 64 by ratio, 32 nearer to 64.
    few, sixteen, many = (expert_spread(RouterBalance.AUXILIARY_LOSS, number) for number in (8, 16, 32))
    assert few.base_sd == sixteen.base_sd < many.base_sd == FINE.base_sd


def test_time_takes_the_mean_and_memory_the_quantile_at_the_copies_of_a_rank() -> None:
    assert SPARSE.moe is not None
    spread = expert_spread(RouterBalance.AUXILIARY_LOSS, SPARSE.moe.num_experts)
    job, even = workload(SPARSE, expert_spread=spread), workload(SPARSE)
    at = keys(ep=8)
    balanced = expert_rows(at, SPARSE.moe, even.training)
    np.testing.assert_allclose(expert_rows(at, SPARSE.moe, job.training), balanced * spread.load_factor(at.ep, balanced))
    np.testing.assert_allclose(
        peak_expert_rows(at, SPARSE.moe, job.training), balanced * spread.peak_load_factor(at.ep, balanced)
    )
    saved, least = (layer_activations(each, at, moe=True).saved["routed_experts"] for each in (job, even))
    np.testing.assert_allclose(saved, spread.peak_load_factor(at.ep, balanced) * least)
    capped = replace(SPARSE.moe, capacity_factor=1.0)
    np.testing.assert_array_equal(load_factor(at, capped, job.training), 1.0)


@pytest.mark.parametrize("dispatcher", [Dispatcher.ALLTOALL, Dispatcher.TWO_LEVEL])
def test_a_spread_slows_exchanges_between_domains_by_its_own_number_of_parts(dispatcher: Dispatcher) -> None:
    assert SPARSE.moe is not None
    spread = expert_spread(RouterBalance.AUXILIARY_LOSS, SPARSE.moe.num_experts)

    def slowed(ep: int) -> float:
        loaded, even = workload(SPARSE, expert_spread=spread), workload(SPARSE)
        times = [
            float(expert_comm(job, keys(ep=ep, dispatcher=dispatcher), network(job), constants()).dispatch_s[0])
            for job in (loaded, even)
        ]
        return times[0] / times[1]

    # Eight ranks of one node, then 32 of four nodes: what leaves a node waits for the fullest rank, or for the fullest node.
    ranks, nodes = float(spread.load_factor(32)), float(spread.load_factor(4))
    assert 1.0 < slowed(8) < ranks
    assert slowed(32) == pytest.approx(ranks, rel=0.05) if dispatcher is Dispatcher.ALLTOALL else slowed(32) < nodes * 1.1 < ranks


@pytest.mark.parametrize("num_experts", [8, 64, 256])
@pytest.mark.parametrize("ep", [2, 4, 8])
def test_balance_over_an_exchange_is_more_even_than_a_weak_loss(num_experts: int, ep: int) -> None:
    load = {balance: float(expert_spread(balance, num_experts).load_factor(ep)) for balance in RouterBalance}
    assert load[RouterBalance.FORCED] == 1.0
    assert 1.0 < load[RouterBalance.EP_GROUP] == load[RouterBalance.LOSS_FREE] < load[RouterBalance.SEQUENCE]
    assert load[RouterBalance.SEQUENCE] <= load[RouterBalance.MICRO_BATCH]
    assert load[RouterBalance.MICRO_BATCH] == pytest.approx(load[RouterBalance.AUXILIARY_LOSS], rel=0.02)


def test_a_loss_over_sequences_has_the_loads_of_the_model_that_had_one() -> None:
    # DeepSeek-V2-Lite, a mixture of four tasks, median of 26 layers: 1.27, 1.50, 1.95.
    spread = expert_spread(RouterBalance.SEQUENCE, 64)
    for ep, counted in ((8, 1.27), (16, 1.50), (32, 1.95)):
        assert float(spread.load_factor(ep)) == pytest.approx(counted, rel=0.03)
