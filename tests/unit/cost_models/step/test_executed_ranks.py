"""Bytes of a full-size pipeline rank that Megatron-Core 0.19.0 ran: one process under fake tensors and a fake group of 64.

Llama-3.1-70B, tp 8, pp 4, 8,192 tokens, one sample a micro batch, distributed optimizer. The framework's own classes built the
model and ran schedule, forward, backward and optimizer step. Transformer Engine's kernels had stand-ins that keep what its
source says. Allocator, communicators and the runtime are not part of a fake run.
"""

from functools import cache
from pathlib import Path

import pytest

from app.jobs.job import parse_job
from cost_models.constants import prior_constants
from cost_models.layer.activations import layer_activations
from cost_models.shapes.layer_keys import layer_keys
from cost_models.shapes.strategy import StrategyBatch
from cost_models.step.stage_costs import stage_costs

LAYER_BYTES = 281_288_704
PEAK_BYTES = 50.17e9
OUTSIDE_A_FAKE_RUN = ("allocator_pool", "communicators", "runtime")
JOB = {
    "model": "llama-3.1-70b",
    "cluster": {"hardware": "h100-sxm-80gb", "num_devices": 64},
    "training": {"seq_length": 8192, "global_batch_size": 64},
    "software": {"stack": "megatron-lm"},
    "strategy": {"tp": 8, "pp": 4, "micro_batch_size": 1},
}


@cache
def layer() -> dict[str, float]:
    job = parse_job(JOB, folder=Path(), labels={})
    assert job.strategy is not None
    keys, _ = layer_keys(job.workload, StrategyBatch.of([job.strategy]))
    return {name: float(part[0]) for name, part in layer_activations(job.workload, keys, moe=False).saved.items()}


@cache
def first_rank() -> dict[str, float]:
    job = parse_job(JOB, folder=Path(), labels={})
    assert job.strategy is not None
    parts = stage_costs(job.workload, job.strategy, prior_constants(job.workload.cluster.profile.family)).memory_bytes
    return {name: float(part[0]) for name, part in parts.items() if name not in OUTSIDE_A_FAKE_RUN}


def test_a_layer_keeps_what_the_executed_layer_kept() -> None:
    assert sum(layer().values()) == pytest.approx(LAYER_BYTES, rel=0.005)


def test_the_first_rank_peaks_where_the_executed_rank_did() -> None:
    assert sum(first_rank().values()) == pytest.approx(PEAK_BYTES, rel=0.02)


def test_each_part_of_the_layer_that_is_left_out_shows() -> None:
    for name, part in layer().items():
        if part:
            assert sum(layer().values()) - part != pytest.approx(LAYER_BYTES, rel=0.005), name
