"""Shards that move between two layouts, worked by hand."""

from dataclasses import replace

import numpy as np
import pytest

from cost_models.network.tiers import Network
from cost_models.post_training.shards import MovedShards, Pools, RankOrder, moved_shards, rollout_stage_layers
from cost_models.serving.engine import ServingLayout
from cost_models.shapes.strategy import ParallelStrategy, Schedule
from cost_models.shapes.workload import ModelShape, MoeShape, WorkloadError
from tests.networks import ascend_a2, gpu

# A layer: attention 8 x 2 x 2 x (4 + 4) = 256 and MLP 3 x 8 x 32 = 768 are divided by tp, two norms of 8 are not. Embedding and
# head have 64 x 8 = 512 each, the last norm 8.
DENSE = ModelShape("dense", 4, 8, 4, 4, 2, 32, 64)
SHARDED, NORMS, TABLE = 1024, 16, 512
# 8 experts of 3 x 8 x 16 = 384, a router of 8 x 8 = 64, in place of the MLP.
MOE = replace(DENSE, name="moe", moe=MoeShape(8, 2, 16))
EXPERT, ROUTER = 384, 64


def moved(model: ModelShape, strategy: ParallelStrategy, layout: ServingLayout, pools: Pools) -> MovedShards:
    return moved_shards(model, strategy, layout, pools, (2, 4, None), bytes_per_weight=1.0)


def received(found: MovedShards) -> list[list[float]]:
    return np.round(found.received_bytes.T, 6).tolist()


def test_half_the_tensor_parallel_degree_leaves_one_half_to_fetch_next_door() -> None:
    # Training holds quarters of all sharded weights; an instance of two holds halves. Device 0 has quarter 0 and wants 0 and 1.
    found = moved(DENSE, ParallelStrategy(tp=4), ServingLayout(tp=2), Pools(4, 4))
    sharded = 4 * SHARDED + 2 * TABLE
    replicated = 4 * NORMS + 8
    assert found.wanted_bytes.tolist() == [sharded / 2 + replicated] * 4
    # 0 keeps quarter 0 and fetches 1 from its neighbour. 1 wants 2 and 3, which the other pair holds, and 2 wants 0 and 1.
    assert found.kept_bytes.tolist() == [sharded / 4 + replicated, replicated, replicated, sharded / 4 + replicated]
    assert received(found) == [[sharded / 4, 0, 0], [0, sharded / 2, 0], [0, sharded / 2, 0], [sharded / 4, 0, 0]]


def test_matched_ranks_keep_their_shards() -> None:
    found = moved(DENSE, ParallelStrategy(tp=4), ServingLayout(tp=2), Pools(4, 4, order=RankOrder.MATCHED))
    # Quarters 0 and 1 become half 0 of two instances, quarters 2 and 3 half 1: everyone lacks its neighbour's quarter.
    assert received(found) == [[(4 * SHARDED + 2 * TABLE) / 4, 0, 0]] * 4


@pytest.mark.parametrize(
    ("t", "p", "tg", "pg"), [(4, 1, 2, 1), (4, 2, 2, 1), (4, 4, 2, 2), (8, 2, 1, 1), (2, 4, 2, 2), (8, 1, 8, 1)]
)
def test_matched_dense_shards_receive_what_hybridflow_says(t: int, p: int, tg: int, pg: int) -> None:
    # (t p - tg pg) / (tg pg t p) of the model arrives on each device [hybridflow, section 5.3]. Its model has no weights that all
    # ranks hold, and equal stages: here the layers alone, without the two tables, which a wide model makes negligible.
    wide = ModelShape("wide", 8, 4096, 32, 32, 128, 16384, 8)
    strategy = ParallelStrategy(tp=t, pp=p, dp=2)
    devices = t * p * 2
    found = moved_shards(wide, strategy, ServingLayout(tg, pg), Pools(devices, devices, order=RankOrder.MATCHED), (None,))
    layers = 8 * (4096 * 4096 * 4 + 3 * 4096 * 16384) * 2.0
    expected = layers * (t * p - tg * pg) / (tg * pg * t * p)
    assert found.received_bytes.sum(axis=0) == pytest.approx(np.full(devices, expected), rel=2e-3, abs=3e5)


def test_more_expert_ranks_in_rollout_than_in_training() -> None:
    # Training: 2 stages of 2 expert ranks, 4 experts each. Rollout: 4 ranks of 2 experts and the whole dense part.
    found = moved(MOE, ParallelStrategy(dp=2, pp=2, ep=2), ServingLayout(dp=4, ep=4), Pools(4, 4))
    dense = 4 * (256 + NORMS + ROUTER) + 2 * TABLE + 8
    assert found.wanted_bytes.tolist() == [dense + 4 * 2 * EXPERT] * 4
    half_dense = 2 * (256 + NORMS + ROUTER) + TABLE
    # Layers 0 and 1 and the embedding are on devices 0 and 1. Device 0 wants experts 0 and 1 and has them in two layers.
    own = [half_dense + 2 * 2 * EXPERT, half_dense, half_dense + 8, half_dense + 8 + 2 * 2 * EXPERT]
    assert found.kept_bytes.tolist() == own
    # The other half of the dense part comes from the other pair. Device 1 wants experts 2 and 3, which its neighbour holds in
    # layers 0 and 1, and device 2 in layers 2 and 3.
    far = 2 * 2 * EXPERT
    assert received(found) == [
        [0, half_dense + 8 + far, 0],
        [far, half_dense + 8 + far, 0],
        [far, half_dense + far, 0],
        [0, half_dense + far, 0],
    ]


def test_slices_of_experts_are_joined() -> None:
    # etp 2: both devices of a pair hold half of every expert; an instance of two spreads them, half of the experts each.
    found = moved(MOE, ParallelStrategy(tp=2, etp=2), ServingLayout(tp=2, ep=2), Pools(2, 2))
    assert received(found) == [[4 * 4 * EXPERT / 2, 0, 0]] * 2
    assert moved(MOE, ParallelStrategy(tp=2, etp=2), ServingLayout(tp=2), Pools(2, 2)).device_bytes == 0.0


def test_a_separate_pool_receives_all_of_its_shard_and_training_sends_each_byte_once() -> None:
    found = moved(DENSE, ParallelStrategy(tp=2, dp=2), ServingLayout(), Pools(4, 2, 4))
    whole = 4 * (SHARDED + NORMS) + 2 * TABLE + 8
    assert found.kept_bytes.tolist() == [0.0, 0.0]
    assert received(found) == [[0, 0, whole]] * 2
    # Two replicas share the half of each tensor-parallel rank; all four share what everyone holds.
    assert found.sent_bytes == (4 * SHARDED + 2 * TABLE) / 4 + (4 * NORMS + 8) / 4
    assert found.moved_fraction == 1.0


def test_under_zero_3_a_device_keeps_its_slice() -> None:
    found = moved(DENSE, ParallelStrategy(dp=4, zero_stage=3), ServingLayout(), Pools(4, 4))
    whole = 4 * (SHARDED + NORMS) + 2 * TABLE + 8
    assert found.kept_bytes.tolist() == [whole / 4] * 4
    assert received(found) == [[whole / 4, whole / 2, 0]] * 4


def test_the_tied_embedding_is_on_the_first_and_the_last_stage() -> None:
    tied = replace(DENSE, tied_embeddings=True)
    apart = moved(DENSE, ParallelStrategy(pp=2), ServingLayout(pp=2), Pools(2, 2))
    both = moved(tied, ParallelStrategy(pp=2), ServingLayout(pp=2), Pools(2, 2))
    assert apart.device_bytes == both.device_bytes == 0.0
    assert both.wanted_bytes.tolist() == [2 * (SHARDED + NORMS) + TABLE, 2 * (SHARDED + NORMS) + TABLE + 8]
    swapped = moved(tied, ParallelStrategy(pp=2), ServingLayout(), Pools(2, 2))
    assert received(swapped) == [[2 * (SHARDED + NORMS) + 8, 0, 0], [2 * (SHARDED + NORMS), 0, 0]]


def test_a_v_schedule_holds_both_ends_on_one_rank() -> None:
    # Virtual stages 0 to 3 are on ranks 0, 1, 1, 0: layers 0 and 3 with both tables, layers 1 and 2.
    strategy = ParallelStrategy(pp=2, vpp=2, schedule=Schedule.DUALPIPE_V)
    found = moved(DENSE, strategy, ServingLayout(), Pools(2, 2))
    half = 2 * (SHARDED + NORMS)
    assert received(found) == [[half, 0, 0], [half + 2 * TABLE + 8, 0, 0]]


def test_of_two_streams_every_rank_has_the_stage_of_its_mirror_image_too() -> None:
    strategy = ParallelStrategy(pp=2, schedule=Schedule.DUALPIPE)
    found = moved(DENSE, strategy, ServingLayout(), Pools(2, 2))
    assert found.device_bytes == 0.0


def test_ranks_that_do_not_nest_are_refused() -> None:
    for strategy, layout in (
        (ParallelStrategy(tp=3, dp=2), ServingLayout(tp=2)),
        (ParallelStrategy(pp=2, dp=3), ServingLayout(pp=3)),
        (ParallelStrategy(tp=2, dp=3), ServingLayout(tp=4)),
    ):
        with pytest.raises(WorkloadError, match="do not nest"):
            moved(DENSE, strategy, layout, Pools(6, 6, order=RankOrder.MATCHED))


def test_surplus_layers_go_before_the_last_stage() -> None:
    assert rollout_stage_layers(7, 4).tolist() == [2, 2, 2, 1]
    assert rollout_stage_layers(9, 4).tolist() == [2, 2, 3, 2]
    assert rollout_stage_layers(8, 4).tolist() == [2, 2, 2, 2]


def test_links_take_turns_on_ascend_and_run_side_by_side_on_gpus() -> None:
    # One device receives 36.6 GB from two neighbours in a mesh of 18.3 GB/s links and 40 GB over a NIC of 20 GB/s.
    bytes_ = np.array([[36.6e9], [40e9]])
    found = MovedShards(np.array([8e10]), np.zeros(1), bytes_, np.array([[2], [1]]), 0.0)
    mesh = Network.of(ascend_a2())
    assert found.tier_s(mesh)[:, 0].tolist() == pytest.approx([1.0, 2.0])
    assert found.wire_s(mesh) == pytest.approx(3.0)
    # Behind a switch of 300 GB/s and a NIC of 25 GB/s the NIC alone decides.
    assert found.wire_s(Network.of(gpu())) == pytest.approx(1.6)
    # A sender of 100 GB is slower than that receiver.
    assert replace(found, sent_bytes=1e11).wire_s(Network.of(gpu())) == pytest.approx(4.0)
