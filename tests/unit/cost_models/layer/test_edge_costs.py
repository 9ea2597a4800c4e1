"""Embedding, head and loss by hand."""

from dataclasses import replace

import pytest

from cost_models.layer.edges import EdgeCosts, edge_costs
from cost_models.shapes.switches import DEFAULT_FEATURES, Feature
from cost_models.shapes.workload import Workload
from tests.worked_examples import worked
from tests.workloads import DENSE, device, keys, network, workload

N, FLOPS, HBM, LINK = 2048.0, 2.5e14, 1.6e12, 18.3e9


def edges(job: Workload | None = None, **columns: object) -> EdgeCosts:
    job = job or workload()
    return edge_costs(job, keys(**columns), device(job), network(job))


def test_lookup_reads_and_writes_the_hidden_state() -> None:
    edge = edges()
    assert float(edge.embedding_forward_s[0]) == pytest.approx(4 * 1024 * N / HBM)
    assert float(edge.embedding_backward_s[0]) == pytest.approx(2 * 4 * 1024 * N / HBM)


def test_vocabulary_parallel_lookup_is_reduced() -> None:
    edge = edges(tp=8, sequence_parallel=True)
    scatter = 2 * N * 1024 / 8 / LINK
    assert float(edge.embedding_forward_s[0]) == pytest.approx(4 * 1024 * N / 8 / HBM + scatter)
    assert float(edges(tp=8).embedding_forward_s[0]) == pytest.approx(4 * 1024 * N / HBM + 2 * scatter)
    whole = edges(tp=8, sequence_parallel=True, features=DEFAULT_FEATURES | Feature.REPLICATED_EMBEDDING)
    assert float(whole.embedding_forward_s[0]) == pytest.approx(4 * 1024 * N / 8 / HBM)


def test_head_and_loss() -> None:
    edge = edges()
    logits, loss = 2 * N * 1024 * 32000 / FLOPS, 10 * N * 32000 / HBM
    assert float(edge.head_compute_s[0][0]) == pytest.approx(logits + 0.4 * loss)
    assert float(edge.head_compute_s[1][0]) == pytest.approx(2 * logits + 0.6 * loss)
    assert float(edge.head_forward_s[0]) == float(edge.head_compute_s[0][0])


def test_loss_traffic_of_a_large_vocabulary() -> None:
    job = workload(replace(DENSE, vocab_size=129280), seq_length=4096)
    edge = edge_costs(job, keys(), device(job, cross_entropy_bytes=79.0), network(job))
    matmuls = 3 * 2 * 4096 * 1024 * 129280 / FLOPS
    assert float(edge.head_forward_s[0] + edge.head_backward_s[0]) - matmuls == worked("loss-traffic")


def test_prediction_modules_project_two_hidden_states_to_one() -> None:
    job = workload(replace(DENSE, mtp_num_layers=1))
    assert float(edges(job).mtp_projection_s[0]) == pytest.approx(2 * N * 2 * 1024 * 1024 / FLOPS)
    assert float(edges().mtp_projection_s[0]) == 0.0
