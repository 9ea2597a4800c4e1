"""Parts of a change of layout, worked by hand: groups, communicators, graphs and states on the host."""

import math
from dataclasses import replace

import pytest

from cost_models.post_training.constants import SWITCH_TIMES
from cost_models.post_training.switching import (
    Doubtful,
    Switch,
    Switches,
    Switching,
    num_decode_graphs,
    rollout_groups,
    switches,
    training_groups,
)
from cost_models.post_training.training_side import TrainingTimes
from cost_models.serving.engine import ServingLayout
from cost_models.shapes.strategy import ParallelStrategy
from cost_models.shapes.workload import Cluster, ModelShape, MoeShape, Software, TrainingJob, Workload
from tests.networks import ascend_a2, gpu

DENSE = ModelShape("dense", 4, 8, 4, 4, 2, 32, 64, tied_embeddings=True)
MOE = replace(DENSE, tied_embeddings=False, moe=MoeShape(8, 2, 16))
TRAINED = TrainingTimes(10.0, 3.0, 1, 4096, 8, 5e10, 40e9, True, 8e9, 4e9, 26e9)
GIVEN = Switching(group_s=0.5, communicator_s=2.0, graph_s=0.25)


def training(model: ModelShape, devices: int) -> Workload:
    return Workload(model, TrainingJob(4096, 8), Cluster(ascend_a2().profile, devices), Software("mindspeed-llm"))


def both(wanted: Switching, *, shares_devices: bool = True, offloads: bool = True, graphs: int = 40) -> Switches:
    """Of 16 devices in training of tp 2, pp 2, ep 4, and rollout of two instances of ep 8 over tp 2."""
    return switches(
        training(MOE, 16),
        ParallelStrategy(tp=2, pp=2, dp=4, ep=4),
        ServingLayout(tp=2, dp=4, ep=8),
        TRAINED,
        Doubtful(3.0, 3.0, 5.0),
        wanted,
        weights_bytes=7e9,
        instances=2,
        graphs=graphs,
        cache_bytes=9e9,
        shares_devices=shares_devices,
        offloads=offloads,
    )


def seconds(change: Switch) -> dict[str, tuple[float, float]]:
    return {part.name: (part.each.value_s, part.first.value_s) for part in change.parts}


def test_groups_of_training_are_counted_over_the_cluster() -> None:
    groups = {one.kind: (one.size, one.number) for one in training_groups(training(MOE, 16), ParallelStrategy(2, 2, 4, ep=4))}
    # tp pairs, data parallel and expert groups of 4, two expert-data groups of 2 times 4 expert ranks and 2 stages.
    assert groups == {"world": (16, 1), "tp": (2, 8), "dp": (4, 4), "pp": (2, 8), "model": (4, 4), "ep": (4, 4), "edp": (2, 8)}
    tied = {one.kind: (one.size, one.number) for one in training_groups(training(DENSE, 12), ParallelStrategy(pp=3, dp=4))}
    assert tied == {"world": (12, 1), "dp": (4, 3), "pp": (3, 4), "model": (3, 4), "embedding": (2, 4)}
    assert training_groups(training(DENSE, 1), ParallelStrategy()) == []


def test_instances_make_their_groups_side_by_side() -> None:
    groups = {one.kind: (one.size, one.number, one.in_turn) for one in rollout_groups(ServingLayout(tp=2, dp=4, ep=8), 2)}
    assert groups == {"world": (8, 2, 1), "tp": (2, 8, 4), "ep": (8, 2, 1)}
    assert rollout_groups(ServingLayout(), 16) == []


def test_the_first_change_opens_what_later_ones_keep() -> None:
    found = both(GIVEN)
    # 6 groups of an instance in turn, 3 communicators of a rank, 40 graphs; states leave at 25 GB/s.
    assert seconds(found.to_rollout) == {
        "weights": (3.0, 3.0),
        "offload_weights": pytest.approx((0.32, 0.32)),
        "offload_gradients": pytest.approx((0.16, 0.16)),
        "offload_optimizer": pytest.approx((1.04, 1.04)),
        "offload_buffers": pytest.approx((0.08, 0.08)),
        "groups_made": (0.0, 3.0),
        "communicators_opened": (0.0, 6.0),
        "graphs_captured": (0.0, 10.0),
    }
    assert found.to_rollout.each.value_s == pytest.approx(3.0 + 1.6)
    assert found.to_rollout.first.value_s == pytest.approx(3.0 + 1.6 + 19.0)
    # 37 groups of training in turn, 7 communicators.
    assert seconds(found.to_train) == {
        "cache_freed": (0.0, 0.0),
        "groups_made": (0.0, 18.5),
        "communicators_opened": (0.0, 14.0),
        "load_weights": pytest.approx((0.32, 0.32)),
        "load_gradients": pytest.approx((0.16, 0.16)),
        "load_optimizer": pytest.approx((1.04, 1.04)),
        "load_buffers": pytest.approx((0.08, 0.08)),
    }
    assert (found.training_communicator_bytes, found.rollout_communicator_bytes) == (7 * 4e8, 3 * 4e8)
    assert found.to_rollout.parts[0].device_bytes == 7e9
    assert found.to_train.parts[0].device_bytes == 9e9


def test_what_is_not_kept_is_paid_at_every_change_and_holds_no_memory() -> None:
    found = both(replace(GIVEN, keeps_communicators=False, keeps_graphs=False))
    for change in (found.to_rollout, found.to_train):
        assert change.each == change.first
    assert found.to_rollout.each.value_s == pytest.approx(3.0 + 1.6 + 19.0)
    assert found.training_communicator_bytes == found.rollout_communicator_bytes == 0.0


def test_an_engine_without_graphs_captures_none() -> None:
    graphs = both(replace(GIVEN, keeps_graphs=False), graphs=0).to_rollout.parts[-1]
    assert (graphs.name, graphs.first.value_s, graphs.count) == ("graphs_captured", 0.0, 0)


def test_separate_devices_only_exchange_weights() -> None:
    found = both(replace(GIVEN, keeps_communicators=False, keeps_graphs=False), shares_devices=False)
    assert found.to_rollout.each.value_s == 3.0
    assert found.to_train.each.value_s == 0.0
    (shared,) = [group for group in found.groups if group.side == "weights"]
    assert (shared.size, shared.number) == (32, 1)
    assert not any(
        part.name.startswith(("offload", "load", "cache")) for part in (*found.to_rollout.parts, *found.to_train.parts)
    )


def test_states_that_stay_are_not_copied() -> None:
    assert both(GIVEN, offloads=False).to_rollout.each.value_s == 3.0


def test_an_unknown_time_is_a_range_and_widens_the_change() -> None:
    profile = ascend_a2().profile
    found = both(Switching(keeps_communicators=False))
    groups = next(part for part in found.to_rollout.parts if part.name == "groups_made")
    low, high = SWITCH_TIMES["group_s"].range_s(profile)
    assert groups.each == pytest.approx((6 * math.sqrt(low * high), 6 * low, 6 * high))
    # The weights' range of 3 to 5 s, and copies of 40 GB at 2.2 GB/s in place of 25, are within the errors of published steps.
    assert found.to_rollout.each.high_s > 2.0 + 40 / 2.2 - 40 / 25 + groups.each.high_s - groups.each.value_s
    opened = [part.each for part in found.to_rollout.parts + found.to_train.parts if part.name.startswith(("gr", "comm"))]
    assert len(opened) == 5
    assert found.doubt == pytest.approx((sum(a - b for a, b, _ in opened), sum(c - a for a, _, c in opened)))
    assert both(Switching()).doubt == (0.0, 0.0)


def test_copies_to_the_host_may_be_as_slow_as_those_of_an_engine() -> None:
    weights = next(part for part in both(GIVEN).to_rollout.parts if part.name == "offload_weights")
    assert weights.each == pytest.approx((8 / 25, 8 / 25, 8 / 2.2))


@pytest.mark.parametrize("entry", SWITCH_TIMES.values(), ids=lambda one: one.name)
def test_published_ranges_are_ranges(entry: object) -> None:
    for profile in (ascend_a2().profile, gpu().profile):
        low, high = entry.range_s(profile)  # type: ignore[attr-defined]
        assert 0.0 < low < high


@pytest.mark.parametrize(("requests", "graphs"), [(1, 2), (2, 3), (4, 4), (128, 35), (1024, 51)])
def test_an_engine_captures_the_sizes_up_to_twice_its_requests(requests: int, graphs: int) -> None:
    # 1 and 2; with 4; with 8; 3 + 31 + 1 up to 256; 16 more up to 512.
    assert num_decode_graphs(requests, gpu().profile) == graphs
    assert num_decode_graphs(requests, ascend_a2().profile) == min(graphs, 39)
