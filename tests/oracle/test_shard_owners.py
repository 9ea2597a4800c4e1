"""Moved shards against the owners of every element, counted one by one."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cost_models.post_training.shards import MovedShards, Pools, moved_shards
from cost_models.serving.engine import ServingLayout
from cost_models.shapes.strategy import ParallelStrategy
from cost_models.shapes.workload import ModelShape, MoeShape
from search.post_training.layouts import strategy_of
from tests.oracle import shard_owners as oracle

H, HEADS, GROUPS, D, FFN, VOCAB = 64, 12, 4, 16, 96, 480
EXPERTS, EXPERT_FFN, SHARED_FFN = 12, 24, 48
DOMAINS = [4, 8, 10**6]


@dataclass(frozen=True)
class Case:
    training: oracle.Training
    instances: oracle.Instances
    layers: int
    dense_layers: int
    has_experts: bool
    is_tied: bool
    is_apart: bool


@st.composite
def cases(draw: st.DrawFn) -> Case:
    tp, cp, dp, pp = (draw(st.sampled_from(values)) for values in ((1, 2, 4), (1, 2), (1, 2, 3), (1, 2, 3)))
    vpp = draw(st.sampled_from((1, 2))) if pp > 1 else 1
    has_experts = draw(st.booleans())
    size = tp * cp * dp
    degrees = [(ep, etp) for ep in (1, 2, 3, 4, 6, 12) for etp in (1, 2, 4) if size % (ep * etp) == 0]
    ep, etp = draw(st.sampled_from(degrees)) if has_experts else (1, 1)
    copies = size // (ep * etp)
    sliced = [
        slices
        for slices in (1, 2, 3, cp * dp, size)
        if all(count % min(slices, count) == 0 for count in (cp * dp, copies))
        and all(48 % (parts * min(slices, count)) == 0 for parts, count in ((tp, cp * dp), (etp, copies)))
    ]
    training = oracle.Training(tp, cp, dp, pp, vpp, ep, etp, draw(st.sampled_from(sliced)))
    serve_tp, serve_pp, serve_dp = (draw(st.sampled_from(values)) for values in ((1, 2, 3, 4), (1, 2, 4), (1, 2)))
    is_spread = has_experts and serve_tp * serve_dp > 1 and draw(st.booleans())
    each = serve_tp * serve_pp * (serve_dp if is_spread else 1)
    is_apart = draw(st.booleans()) or each > size * pp
    count = draw(st.integers(1, 2)) if is_apart else size * pp // each
    instances = oracle.Instances(serve_tp, serve_pp, serve_dp if is_spread else 1, is_spread, count)
    layers = pp * vpp * draw(st.sampled_from((2, 3)) if pp * vpp < 4 else st.just(1))
    layers = layers if layers >= serve_pp else layers * 4
    return Case(training, instances, layers, draw(st.integers(0, 1)), has_experts, draw(st.booleans()), is_apart)


def model_of(case: Case) -> ModelShape:
    moe = (
        MoeShape(EXPERTS, 2, EXPERT_FFN, 1, SHARED_FFN, num_leading_dense_layers=case.dense_layers) if case.has_experts else None
    )
    return ModelShape("small", case.layers, H, HEADS, GROUPS, D, FFN, VOCAB, tied_embeddings=case.is_tied, moe=moe)


def strategy_for(case: Case) -> ParallelStrategy:
    one = case.training
    dense = replace(model_of(case), moe=None)
    found = strategy_of(
        dense,
        one.tp * one.cp * one.dp * one.pp,
        tp=one.tp,
        pp=one.pp,
        cp=one.cp,
        vpp=one.vpp,
        zero_stage=3 if one.slices > 1 else 1,
    )
    assert found is not None
    whole = one.slices == one.tp * one.cp * one.dp
    return replace(found, ep=one.ep, etp=one.etp, optimizer_shard_size=0 if whole else one.slices)


def layout_of(case: Case) -> ServingLayout:
    one = case.instances
    return ServingLayout(one.tp, one.pp, one.dp, one.tp * one.dp if one.is_spread else 1)


def found_by_us(case: Case, bytes_per_weight: float = 2.0) -> MovedShards:
    strategy, layout = strategy_for(case), layout_of(case)
    trains = strategy.tp * strategy.cp * strategy.dp * strategy.pp
    pool = layout.num_devices * case.instances.count
    pools = Pools(trains, pool, trains if case.is_apart else 0)
    return moved_shards(model_of(case), strategy, layout, pools, (4, 8, None), bytes_per_weight=bytes_per_weight)


def found_by_the_oracle(case: Case) -> list[tuple[float, float, list[float]]]:
    attention = H * D * 2 * (HEADS + GROUPS)  # queries and output, keys and values
    small = oracle.Model(
        layers=case.layers,
        dense_layers=case.dense_layers,
        experts=EXPERTS if case.has_experts else 0,
        is_tied=case.is_tied,
        sharded_bytes={False: 2 * (attention + 3 * H * FFN), True: 2 * (attention + 3 * H * SHARED_FFN)},
        replicated_bytes={False: 2 * 2 * H, True: 2 * (2 * H + H * EXPERTS)},  # two norms; the router
        experts_bytes=2 * 3 * H * EXPERT_FFN * EXPERTS,
        embedding_bytes=2 * VOCAB * H,
        norm_bytes=2 * H,
    )
    holders = oracle.trained(small, case.training)
    return oracle.moves(small, holders, oracle.served(small, case.instances), len(holders) if case.is_apart else 0, DOMAINS)


@settings(max_examples=120, deadline=None)
@given(cases())
def test_every_rank_receives_the_elements_that_it_lacks_from_the_nearest_owner(case: Case) -> None:
    ours, theirs = found_by_us(case), found_by_the_oracle(case)
    assert ours.wanted_bytes == pytest.approx(np.array([wanted for wanted, _, _ in theirs]))
    assert ours.kept_bytes == pytest.approx(np.array([kept for _, kept, _ in theirs]))
    assert ours.received_bytes.T == pytest.approx(np.array([received for _, _, received in theirs]))
    assert ours.device_bytes == pytest.approx(max(sum(received) for _, _, received in theirs))


def test_the_oracle_finds_a_byte_that_moves_too_far() -> None:
    # Two ranks of tp 2 in one node, two instances of tp 1: each lacks the other's half, next door.
    case = Case(oracle.Training(2, 1, 1, 1, 1, 1, 1, 1), oracle.Instances(1, 1, 1, False, 2), 1, 0, False, True, False)
    theirs = found_by_the_oracle(case)
    half = (2 * (H * D * 2 * (HEADS + GROUPS) + 3 * H * FFN) + 2 * VOCAB * H) / 2
    assert np.array([received for _, _, received in theirs]) == pytest.approx(np.array([[half, 0.0, 0.0]] * 2))
