"""A whole step: composed by hand from its parts, and the corners of a batch."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from cost_models.layer.costs import LayerCosts, layer_costs
from cost_models.layer.edges import edge_costs
from cost_models.shapes.parameters import layer_parameters, num_parameters
from cost_models.shapes.strategy import ParallelStrategy, Recompute, RecomputeMethod, Schedule, StrategyBatch
from cost_models.shapes.switches import DEFAULT_FEATURES, Feature
from cost_models.shapes.workload import LocalAttention, ModelShape, Workload
from cost_models.step.composition import estimate
from cost_models.step.stage_costs import stage_costs
from tests.worked_examples import worked
from tests.workloads import DENSE, SPARSE, constants, device, hop_s, keys, network, priced, workload

HBM = 1.6e12


def layer(job: Workload, *, moe: bool = False, **columns: object) -> LayerCosts:
    return layer_costs(job, keys(**columns), device(job), network(job), moe=moe)


def pair_s(cost: LayerCosts) -> float:
    return float(cost.forward_s[0] + cost.backward_s[0])


def ends_s(job: Workload, **columns: object) -> tuple[float, float]:
    edge = edge_costs(job, keys(**columns), device(job), network(job))
    embedding = float(edge.embedding_forward_s[0] + edge.embedding_backward_s[0])
    return embedding, float(edge.head_forward_s[0] + edge.head_backward_s[0])


def test_one_device() -> None:
    job = workload()
    count = num_parameters(DENSE).total
    expected = 64 * (8 * pair_s(layer(job)) + sum(ends_s(job))) + 38 * count / HBM
    assert float(priced(job, ParallelStrategy()).step_time_s[0]) == pytest.approx(expected)


def test_a_step_sums_the_kinds_of_its_layers() -> None:
    # Eight layers, each fourth looks at everything; 7/16 of the scores of 2,048 tokens lie in a window of 512.
    job = workload(replace(DENSE, local_attention=LocalAttention("window", full_attention_every=4, window=512)))
    priced_once, full = priced(job, ParallelStrategy()), layer(job)
    assert priced_once.breakdown is not None
    attention = float(full.forward["attention"][0] + full.backward["attention"][0])
    assert float(priced_once.breakdown.time_s["attention"][0]) == pytest.approx(64 * (2 + 6 * 7 / 16) * attention)
    saved_s = float(priced(workload(), ParallelStrategy()).step_time_s[0] - priced_once.step_time_s[0])
    assert saved_s == pytest.approx(64 * 6 * 9 / 16 * attention)


def test_each_rank_takes_the_time_of_its_own_kinds_of_layers() -> None:
    # Of layers 0 to 7 on four ranks, those at 3 and 7 look at everything: on the second and the fourth rank.
    job = workload(replace(DENSE, local_attention=LocalAttention("window", full_attention_every=4, window=512)))
    found = stage_costs(job, ParallelStrategy(pp=4, dp=2), constants())
    full, local = (layer_costs(job, keys(), device(job), network(job), moe=False, local=each) for each in (False, True))
    second, third = found.forward_s[1:3]
    assert second - third == pytest.approx(float(full.forward_s[0] - local.forward_s[0]))


def test_fixed_times_add_up() -> None:
    job = workload()
    plain = priced(job, ParallelStrategy(pp=4, dp=2)).step_time_s[0]
    slow = priced(job, ParallelStrategy(pp=4, dp=2), step_overhead_s=0.03, host_micro_batch_s=0.01).step_time_s[0]
    assert float(slow - plain) == worked("host-time")  # 32 micro batches and three to fill the pipeline
    graph = workload(execution="graph")
    no_host = priced(graph, ParallelStrategy(pp=4, dp=2), host_micro_batch_s=0.01).step_time_s[0]
    assert float(no_host) == pytest.approx(float(priced(graph, ParallelStrategy(pp=4, dp=2)).step_time_s[0]))


def test_a_pipeline_of_four() -> None:
    job = workload()
    strategy = ParallelStrategy(pp=4)
    embedding, head = ends_s(job)
    hop = hop_s(job, strategy, 2 * 2048 * 1024)
    end = 2 * pair_s(layer(job)) + hop  # which sends one way
    inner = end + hop
    result = priced(job, strategy)
    assert result.stage_time_s is not None
    np.testing.assert_allclose(result.stage_time_s[:, 0], [end + embedding, inner, inner, end + head])
    # The last stage sets the pace; the other three fill and drain. Its optimizer is the slowest too.
    last = 2 * layer_parameters(DENSE, moe=False).total + 32000 * 1024 + 1024
    expected = 64 * (end + head) + 2 * inner + end + embedding + 38 * last / HBM
    assert float(result.step_time_s[0]) == pytest.approx(expected)


def test_pipeline_hop() -> None:
    big = workload(replace(DENSE, hidden_size=5120), seq_length=4096)
    split = ParallelStrategy(tp=8, pp=2, sequence_parallel=True)
    assert hop_s(big, split, 2 * 4096 * 5120 / 8) == worked("pipeline-hop")
    result = priced(big, split)
    assert result.breakdown is not None
    assert float(result.breakdown.time_s["pipeline_p2p"][0]) == pytest.approx(64 * 2 * 4096 * 5120 / 8 / 20e9)


def test_ranks_send_the_whole_hidden_state_without_sequence_parallelism() -> None:
    """Executed with core 0.12 and 0.19: each of two tensor-parallel ranks sends 262,144 bytes, as many as there are."""
    whole, split = (ParallelStrategy(tp=8, pp=2, sequence_parallel=sp) for sp in (False, True))

    def sent_s(strategy: ParallelStrategy, **software: Any) -> float:
        breakdown = priced(workload(**software), strategy).breakdown
        assert breakdown is not None
        return float(breakdown.time_s["pipeline_p2p"][0])

    assert sent_s(whole) == pytest.approx(8 * sent_s(split))
    assert sent_s(whole, year=2022.0) == sent_s(split)  # releases before Megatron-Core send slices
    assert sent_s(whole, stack="megatron-deepspeed") == pytest.approx(sent_s(split, stack="megatron-deepspeed"))


def test_stages_that_fill_a_node_talk_over_the_fabric() -> None:
    # A stage of tp 2 x dp 4 fills a node of eight, one of tp 2 x dp 2 leaves room for its neighbour.
    split = ParallelStrategy(tp=2, pp=2, sequence_parallel=True)
    far, near = (priced(workload(), replace(split, dp=dp)) for dp in (4, 2))
    assert far.breakdown is not None
    assert near.breakdown is not None
    moved = 2 * 2048 * 1024 / 2
    assert float(far.breakdown.time_s["pipeline_p2p"][0]) == pytest.approx(16 * moved / 20e9)
    assert float(near.breakdown.time_s["pipeline_p2p"][0]) == pytest.approx(32 * moved / 18.3e9)


def test_interleaved_hops_hide() -> None:
    strategy = ParallelStrategy(tp=8, pp=2, vpp=2, schedule=Schedule.INTERLEAVED)
    open_ = replace(strategy, features=DEFAULT_FEATURES & ~Feature.OVERLAP_P2P)
    hidden, exposed = (priced(workload(), s, p2p_exposed_fraction=0.25).breakdown for s in (strategy, open_))
    assert hidden is not None
    assert exposed is not None
    assert float(exposed.masked_s["pipeline_p2p"][0]) == 0.0
    assert float(hidden.time_s["pipeline_p2p"][0]) == pytest.approx(0.25 * float(exposed.time_s["pipeline_p2p"][0]))
    assert float(hidden.masked_s["pipeline_p2p"][0]) == pytest.approx(0.75 * float(exposed.time_s["pipeline_p2p"][0]))


def test_full_recompute_adds_a_forward_of_the_chosen_layers() -> None:
    job = workload()
    chosen = ParallelStrategy(recompute=Recompute.FULL, recompute_method=RecomputeMethod.BLOCK, recompute_num_layers=3)
    plain, again = priced(job, ParallelStrategy(), chosen).step_time_s
    assert float(again - plain) == pytest.approx(64 * 3 * float(layer(job).full_recompute_s[0]))


def test_full_recompute_without_a_method_covers_every_layer() -> None:
    job = workload()
    times = priced(job, ParallelStrategy(), ParallelStrategy(recompute=Recompute.FULL)).step_time_s
    assert float(times[1] - times[0]) == pytest.approx(64 * 8 * float(layer(job).full_recompute_s[0]))


def test_leading_dense_layers_are_priced_as_dense() -> None:
    job = workload(SPARSE)
    result = priced(job, ParallelStrategy(pp=2))
    assert result.stage_time_s is not None
    dense, moe = pair_s(layer(job, moe=False)), pair_s(layer(job, moe=True))
    embedding, head = ends_s(job)
    hop = hop_s(job, ParallelStrategy(pp=2), 2 * 2048 * 1024)  # both ranks are ends
    np.testing.assert_allclose(result.stage_time_s[:, 0], [2 * dense + 2 * moe + embedding + hop, 4 * moe + head + hop])


def test_prediction_modules_run_on_the_last_rank() -> None:
    model = replace(SPARSE, mtp_num_layers=1)
    plain, extra = (priced(workload(m), ParallelStrategy(pp=2)).stage_time_s for m in (SPARSE, model))
    assert plain is not None
    assert extra is not None
    projection = 3 * 2 * 2048 * 2 * 1024 * 1024 / 2.5e14
    job = workload(model)
    added = pair_s(layer(job, moe=True)) + ends_s(job)[1] + projection
    np.testing.assert_allclose(extra[:, 0] - plain[:, 0], [0.0, added], atol=1e-12)


@pytest.mark.parametrize("model", [DENSE, SPARSE, replace(SPARSE, mtp_num_layers=1)])
def test_a_layout_of_ones_own(model: ModelShape) -> None:
    job = workload(model)
    even, default = priced(job, ParallelStrategy(pp=2, layer_layout=((4, 4),)), ParallelStrategy(pp=2)).step_time_s
    assert float(even) == float(default)
    front = priced(job, ParallelStrategy(pp=2, layer_layout=((6, 2),)))
    assert front.stage_time_s is not None
    assert front.stage_time_s[0, 0] > front.stage_time_s[1, 0] - 2 * max(ends_s(job))


def test_an_empty_batch_is_refused() -> None:
    with pytest.raises(ValueError, match="no strategy to estimate"):
        estimate(workload(), StrategyBatch.of([]), constants())


def test_a_precision_without_a_peak_is_refused() -> None:
    with pytest.raises(ValueError, match="test has no fp8 matmul peak; it has bf16"):
        priced(workload(precision="fp8"), ParallelStrategy())


def test_columns_beyond_a_rows_own_pipeline_are_zero() -> None:
    result = priced(workload(), ParallelStrategy(pp=2), ParallelStrategy(pp=4))
    assert result.stage_time_s is not None
    assert result.stage_peak_memory_bytes is not None
    assert result.stage_time_s.shape == (4, 2)
    assert (result.stage_time_s[2:, 0] == 0.0).all()
    assert (result.stage_peak_memory_bytes[:, 1] > 0.0).all()


def test_detail_only_when_asked() -> None:
    lean = priced(workload(), ParallelStrategy(), breakdown=False)
    assert lean.breakdown is None
    assert lean.stage_time_s is None
    assert lean.stage_peak_memory_bytes is None
