"""What holds for every group on every network."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cost_models.layer.expert_communication import RoutedTokens, expert_combine, expert_dispatch, inter_domain_copies
from cost_models.network.collectives import all_gather_s, all_reduce_s, all_to_all_s, reduce_scatter_s, send_recv_s
from cost_models.network.rank_placement import domains_spanned, members_per_domain
from cost_models.network.tiers import Network
from cost_models.shapes.strategy import Dispatcher
from cost_models.shapes.workload import MoeShape
from hardware_profiles.schema import CollectiveCurve
from tests.networks import ascend_a2, gpu

COLLECTIVES = (all_gather_s, reduce_scatter_s, all_reduce_s, all_to_all_s, send_recv_s)

sizes = st.integers(1, 512)
strides = st.integers(1, 512)
message_bytes = st.floats(1.0, 1e11)
latencies = st.floats(0.0, 1e-4)
fractions = st.floats(0.2, 1.2)
collectives = st.sampled_from(COLLECTIVES)


@st.composite
def curves(draw: st.DrawFn) -> tuple[CollectiveCurve, ...]:
    drawn = []
    for op in draw(st.sets(st.sampled_from(("all_gather", "reduce_scatter", "all_reduce", "all_to_all")))):
        for group_size in draw(st.sets(st.integers(2, 8), min_size=1, max_size=3)):
            points = draw(st.sets(st.integers(6, 30), min_size=1, max_size=5))
            times = draw(st.lists(st.floats(1e-6, 1.0), min_size=len(points), max_size=len(points)))
            drawn.append(CollectiveCurve(op, group_size, tuple(2.0**p for p in sorted(points)), tuple(times), "test"))
    return tuple(drawn)


@st.composite
def networks(draw: st.DrawFn) -> Network:
    latency_s = draw(latencies)
    cluster = draw(st.sampled_from((ascend_a2(draw(curves()), latency_s=latency_s), gpu(latency_s=latency_s))))
    fixed = {"intra_fraction": draw(fractions), "inter_fraction": draw(fractions), "call_latency_s": draw(latencies)}
    return Network.of(cluster, rings=draw(st.booleans()), **fixed)


@given(size=sizes, stride=strides, domain=st.one_of(st.none(), st.integers(1, 1024)))
def test_members_of_a_domain_are_between_one_and_all(size: int, stride: int, domain: int | None) -> None:
    members = float(members_per_domain(size, stride, domain))
    assert 1.0 <= members <= size
    assert members * float(domains_spanned(size, stride, domain)) == pytest.approx(size)


@given(collective=collectives, network=networks(), moved=message_bytes, stride=strides)
def test_a_group_of_one_is_free(collective, network: Network, moved: float, stride: int) -> None:  # type: ignore[no-untyped-def]
    assert float(collective(moved, 1, stride, network)) == 0.0


@given(collective=collectives, network=networks(), size=sizes, stride=strides)
def test_nothing_to_send_takes_no_time(collective, network: Network, size: int, stride: int) -> None:  # type: ignore[no-untyped-def]
    assert float(collective(0.0, size, stride, network)) == 0.0


@given(collective=collectives, network=networks(), moved=message_bytes, more=st.floats(1.0, 100.0), size=sizes, stride=strides)
def test_more_bytes_are_never_faster(collective, network: Network, moved: float, more: float, size: int, stride: int) -> None:  # type: ignore[no-untyped-def]
    less_s, more_s = collective(np.array([moved, moved * more]), size, stride, network)
    assert less_s <= more_s * (1 + 1e-12)
    assert np.isfinite(more_s)


@given(
    collective=collectives,
    points=curves(),
    intra=fractions,
    inter=fractions,
    gain=st.floats(1.0, 10.0),
    moved=message_bytes,
    size=sizes,
    stride=strides,
)
def test_more_bandwidth_is_never_slower(collective, points, intra, inter, gain, moved, size, stride) -> None:  # type: ignore[no-untyped-def]
    for cluster in (ascend_a2(points, latency_s=1e-6), gpu(latency_s=1e-6)):
        slow = collective(moved, size, stride, Network.of(cluster, intra_fraction=intra, inter_fraction=inter))
        fast_inside = Network.of(cluster, intra_fraction=intra * gain, inter_fraction=inter)
        fabric = cluster.profile.tiers[-1].bandwidth_bytes_per_s * gain
        fast_fabric = Network.of(replace(cluster, inter_node_bytes_per_s=fabric), intra_fraction=intra, inter_fraction=inter)
        for fast in (fast_inside, fast_fabric):
            assert float(collective(moved, size, stride, fast)) <= float(slow) * (1 + 1e-12)


@given(network=networks(), moved=message_bytes, size=sizes, stride=strides)
def test_an_all_reduce_is_a_reduce_scatter_and_an_all_gather(network: Network, moved: float, size: int, stride: int) -> None:
    """But for the steps of rings over nodes, which an all-reduce does not take."""
    priced = replace(network, call_latency_s=0.0)
    if network.rings:
        priced = replace(priced, tiers=tuple(replace(tier, latency_s=0.0) for tier in network.tiers))
    parts = reduce_scatter_s(moved, size, stride, priced) + all_gather_s(moved, size, stride, priced)
    assert float(all_reduce_s(moved, size, stride, priced)) == pytest.approx(float(parts))


@given(
    collective=collectives,
    network=networks(),
    rows=st.lists(st.tuples(message_bytes, sizes, strides), min_size=1, max_size=20),
)
def test_a_column_equals_row_by_row(collective, network: Network, rows: list[tuple[float, int, int]]) -> None:  # type: ignore[no-untyped-def]
    column = collective(*(np.array(values) for values in zip(*rows, strict=True)), network)
    np.testing.assert_allclose(column, [float(collective(*row, network)) for row in rows], rtol=1e-12)


@st.composite
def mixtures(draw: st.DrawFn) -> MoeShape:
    """Experts that divide evenly over groups and nodes."""
    num_groups = 2 ** draw(st.integers(0, 3))
    group_topk = draw(st.integers(1, num_groups))
    num_experts = num_groups * 2 ** draw(st.integers(3, 5))
    top_k = draw(st.integers(1, min(16, group_topk * num_experts // num_groups)))
    return MoeShape(num_experts, top_k, 1024, num_groups=num_groups, group_topk=group_topk)


@given(moe=mixtures(), nodes=st.sampled_from((1, 2, 4, 8)))
def test_copies_between_nodes_keep_their_order(moe: MoeShape, nodes: int) -> None:
    plain, two_level, gathered = (
        float(inter_domain_copies(d, nodes, moe)) for d in (Dispatcher.ALLTOALL, Dispatcher.TWO_LEVEL, Dispatcher.HIERARCHICAL)
    )
    assert two_level <= plain + 1e-9
    assert two_level <= gathered + 1e-9
    assert (gathered < plain) == (nodes - 1 < moe.top_k * (1 - 1 / nodes))
    if nodes <= moe.num_groups:
        assert two_level * nodes / max(nodes - 1, 1) <= moe.group_topk * (1 + 1e-9)


@given(
    moe=mixtures(),
    network=networks(),
    dispatcher=st.sampled_from(Dispatcher),
    tokens=st.integers(1, 100_000),
    ep=st.sampled_from((1, 2, 4, 8, 16, 32, 64)),
    etp=st.sampled_from((1, 2, 4)),
    load=st.floats(1.0, 4.0),
)
def test_expert_traffic_grows_with_tokens_and_load(moe, network, dispatcher, tokens, ep, etp, load) -> None:  # type: ignore[no-untyped-def]
    for direction in (expert_dispatch, expert_combine):
        columns = (np.array([tokens, 2 * tokens, tokens]), 8192.0, ep, etp)
        grown = direction(RoutedTokens(int(dispatcher), *columns, moe, network, np.array([1.0, 1.0, load])))
        for values in (grown.time_s, grown.intra_bytes, grown.inter_bytes):
            assert np.isfinite(values).all()
            assert values[0] <= values[1] * (1 + 1e-12)
            assert values[0] <= values[2] * (1 + 1e-12)
        if ep * etp == 1:
            assert grown.time_s.sum() + grown.intra_bytes.sum() + grown.inter_bytes.sum() == 0.0
