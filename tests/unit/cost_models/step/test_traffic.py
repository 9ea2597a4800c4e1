"""What groups move through which tier, worked out by hand, and times that are those of the estimate."""

from dataclasses import replace

import pytest

from cost_models.shapes.parameters import num_parameters
from cost_models.shapes.strategy import CpAlgo, Dispatcher, ParallelStrategy, Recompute, RecomputeMethod
from cost_models.shapes.workload import Workload
from cost_models.step.traffic import GroupTraffic, step_traffic
from hardware_profiles.schema import CollectiveCurve, Wiring
from tests.networks import ascend_a2, gpu
from tests.workloads import DENSE, LATENT, SPARSE, constants, priced, workload

HIDDEN = 2 * 2048 * 1024  # bytes of one micro batch between two layers


def traffic(job: Workload, strategy: ParallelStrategy, **values: float) -> dict[str, GroupTraffic]:
    return {group.group: group for group in step_traffic(job, strategy, constants(**values))}


def test_tensor_parallelism_inside_a_node() -> None:
    found = traffic(workload(), ParallelStrategy(tp=8, sequence_parallel=True))
    assert list(found) == ["tp"]
    tp = found["tp"]
    assert (tp.size, tp.stride, tp.stage) == (8, 1, 0)
    (mesh,) = tp.tiers
    assert (mesh.tier, mesh.wiring, mesh.members) == ("hccs", Wiring.MESH, 8.0)
    assert mesh.bandwidth_bytes_per_s == pytest.approx(7 * 18.3e9)
    # A layer: four collectives forward, four backward, two gathers again for the weight gradients; the edges: four and one.
    sums = 4 * (8 * 2 + 1) * 1024  # gradients of the norms, an all-reduce a step
    assert mesh.bytes_moved == pytest.approx((64 * (8 * 10 + 5) * HIDDEN + 2 * sums) * 7 / 8)
    assert tp.time_s == pytest.approx(mesh.bytes_moved / (7 * 18.3e9))


def test_a_small_group_of_a_mesh_has_few_links() -> None:
    (mesh,) = traffic(workload(), ParallelStrategy(tp=2, sequence_parallel=True))["tp"].tiers
    assert mesh.bandwidth_bytes_per_s == pytest.approx(18.3e9)


def test_data_parallelism_over_nodes_crosses_both_tiers() -> None:
    dp = traffic(workload(), ParallelStrategy(dp=16))["dp"]
    moved = 6 * num_parameters(DENSE).total  # FP32 gradients scattered, 16-bit weights gathered
    assert [(tier.tier, tier.members) for tier in dp.tiers] == [("hccs", 8.0), ("roce", 16.0)]
    assert [tier.bytes_moved for tier in dp.tiers] == pytest.approx([moved * 7 / 8, moved / 16])
    assert dp.time_s == pytest.approx(moved * 7 / 8 / (7 * 18.3e9) + moved / 16 / 20e9)


def test_pipelined_rings_carry_on_each_device_its_part_of_what_leaves_the_node() -> None:
    dp = traffic(workload(cluster=gpu()), ParallelStrategy(dp=16))["dp"]
    moved = 15 / 16 * 6 * num_parameters(DENSE).total
    assert [tier.bytes_moved for tier in dp.tiers] == pytest.approx([moved, moved / 8])


def test_pipeline_stages_of_a_node_each_send_to_the_next() -> None:
    pp = traffic(workload(), ParallelStrategy(pp=4, tp=8, dp=2, sequence_parallel=True))["pp"]
    assert (pp.size, pp.stride) == (4, 16)
    (roce,) = pp.tiers
    assert roce.bytes_moved == pytest.approx(32 * 2 * HIDDEN / 8)
    assert roce.bandwidth_bytes_per_s == 20e9


@pytest.mark.parametrize(
    ("job", "strategy", "names"),
    [
        (workload(SPARSE), ParallelStrategy(ep=16, dp=16, pp=2, dispatcher=Dispatcher.ALLTOALL), {"ep": "ep_comm"}),
        (workload(LATENT), ParallelStrategy(ep=16, dp=16, dispatcher=Dispatcher.HIERARCHICAL), {"ep": "ep_comm"}),
        (workload(), ParallelStrategy(cp=16, cp_algo=CpAlgo.RING), {"cp": "cp_comm"}),
        (workload(), ParallelStrategy(cp=8, pp=4, cp_algo=CpAlgo.ULYSSES, ulysses_degree=8), {"cp": "cp_comm"}),
        (workload(cluster=gpu()), ParallelStrategy(pp=4, vpp=2, tp=8, dp=2), {"pp": "pipeline_p2p"}),
        (workload(), ParallelStrategy(zero_stage=3, dp=64), {"dp": "weight_gather"}),
    ],
)
def test_time_is_what_the_estimate_shows_and_hides(job: Workload, strategy: ParallelStrategy, names: dict[str, str]) -> None:
    values = {"expert_comm_factor": 1.4, "cp_factor": 1.3, "inter_fraction": 0.8, "p2p_exposed_fraction": 0.3}
    found = traffic(job, strategy, **values)
    breakdown = priced(job, strategy, breakdown=True, **values).breakdown
    assert breakdown is not None
    for group, part in names.items():
        expected = float(breakdown.time_s[part][0] + breakdown.masked_s[part][0])
        if group == "pp":  # shown of a rank that sends both ways from both chunks; the head's sends three times of four
            expected *= 4 / 3
        if group == "dp":  # the edges' gradients are exchanged once a step
            expected += float(breakdown.time_s["dp_comm"][0] + breakdown.masked_s["dp_comm"][0])
        assert found[group].time_s == pytest.approx(expected)


def test_bytes_know_no_efficiency_no_latency_and_no_measurement() -> None:
    strategy = ParallelStrategy(tp=4, dp=8, ep=32, etp=1, dispatcher=Dispatcher.ALLTOALL, sequence_parallel=True)
    curve = CollectiveCurve("all_to_all", 8, (1e3, 1e9), (1e-4, 2e-2), "test")
    plain = traffic(workload(SPARSE), strategy)
    slow = traffic(
        workload(SPARSE, cluster=ascend_a2([curve], latency_s=1e-4)),
        strategy,
        inter_fraction=0.5,
        intra_fraction=0.5,
        collective_latency_s=1e-4,
        expert_comm_factor=2.0,
    )
    for name, group in plain.items():
        assert [tier.bytes_moved for tier in slow[name].tiers] == pytest.approx([tier.bytes_moved for tier in group.tiers])
        assert slow[name].time_s > group.time_s
    assert plain["ep"].tiers[-1].members == 32.0


def test_a_full_recompute_communicates_once_more() -> None:
    job = workload(SPARSE)
    plain = ParallelStrategy(tp=2, dp=8, ep=16, dispatcher=Dispatcher.ALLTOALL, sequence_parallel=True)
    again = replace(plain, recompute=Recompute.FULL, recompute_method=RecomputeMethod.UNIFORM, recompute_num_layers=1)
    before, after = traffic(job, plain), traffic(job, again)
    assert after["ep"].time_s == pytest.approx(before["ep"].time_s * 3 / 2)
    assert after["tp"].tiers[0].bytes_moved > before["tp"].tiers[0].bytes_moved
    assert after["dp"] == before["dp"]


def test_the_busiest_pipeline_rank_is_shown() -> None:
    found = traffic(workload(), ParallelStrategy(pp=4, dp=16))
    assert found["dp"].stage == 3  # the output head and the final norm make the last rank the heaviest


@pytest.mark.parametrize(("split", "of_module", "of_head"), [(True, 10, 3), (False, 7, 2)])
def test_a_prediction_module_gathers_its_input_and_its_output(split: bool, of_module: int, of_head: int) -> None:
    """Core 0.19 at tp 2, beside one more layer and head: in units of the hidden state, a gather 1, an all-reduce 2.

    Split tokens: embedding 1 + 1, joined input 2 + 2 and 2 again, output 1 + 1. Whole: embedding 2, input 4, output 1.
    """
    job, strategy = workload(), ParallelStrategy(tp=2, sequence_parallel=split)
    layer, module = (replace(DENSE, num_layers=9), replace(DENSE, mtp_num_layers=1))
    sent = [traffic(replace(job, model=model), strategy)["tp"].tiers[0].bytes_moved for model in (layer, module)]
    norms = 4 * 3 * 1024 * split  # three norms of the module, whose gradients are added once a step
    assert sent[1] - sent[0] == pytest.approx(64 * (of_module + of_head) / 2 * HIDDEN + norms)
