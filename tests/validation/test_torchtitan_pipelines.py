"""Llama 3.1 405B under FSDP2, tensor and pipeline parallelism, as torchtitan published it [torchtitan, tables 5 and 6].

The tables state neither micro batches nor when weights are freed: the defaults of the commit that they name apply. No constant
was fitted to these rows.
"""

from typing import Any

import pytest

from app.calibrations.constants import constants_for
from calibration.records.training import RunRecord, parse_run_record
from calibration.validation.predictions import validate
from cost_models.shapes.strategy import Schedule

LLAMA_405B = {
    "num_layers": 126,
    "hidden_size": 16384,
    "num_attention_heads": 128,
    "num_query_groups": 8,
    "kv_channels": 128,
    "ffn_hidden_size": 53248,
    "gated_linear_unit": True,
    "vocab_size": 128256,
}
GIB = 2**30


def published(
    tokens_per_s: float, gib: float, *, cp: int = 1, seq_length: int = 8192, local_batch: int = 32, **strategy: Any
) -> RunRecord:
    sequences = local_batch * 8 // cp
    record = parse_run_record(
        {
            "id": "published",
            "model": LLAMA_405B,
            "cluster": {"hardware": "h100-sxm-96gb-500w", "num_devices": 512, "inter_node_bytes_per_s_per_device": 5e10},
            "training": {"seq_length": seq_length, "global_batch_size": sequences, "precision": "fp8"},
            "strategy": {
                "tp": 8,
                "pp": 8,
                "cp": cp,
                "sequence_parallel": True,
                "schedule": "1f1b",
                "recompute": {"granularity": "full", "method": "uniform", "num_layers": 1},
                **strategy,
            },
            "software": {
                "framework": "torchtitan",
                "version": "2024-12",
                "backend": "PyTorch FSDP2/DTensor",
                "raw_flags": ["torch.compile", "Float8", "AsyncTP"],
            },
            "measured": {
                "step_time_s": sequences * seq_length / 512 / tokens_per_s,
                "peak_memory_bytes": int(gib * GIB),
                "peak_memory_basis": "reserved",
            },
        }
    )
    assert isinstance(record, RunRecord)
    return record


INTERLEAVED: dict[str, Any] = {"schedule": "interleaved-1f1b", "vpp": 2}


@pytest.mark.parametrize(
    ("row", "time_error", "memory_error"),
    [
        (published(100, 82.5), 0.09, 0.13),
        (published(128, 72.7, **INTERLEAVED), 0.11, 0.05),
        (published(76, 75.3, local_batch=8, seq_length=32768), 0.09, 0.06),
        (published(47, 75.9, local_batch=8, seq_length=65536, cp=2), 0.05, 0.06),
        (published(31, 77.1, local_batch=8, seq_length=131072, cp=4), 0.08, 0.07),
        (published(16, 84.9, local_batch=8, seq_length=262144, cp=8), 0.07, 0.16),
    ],
)
def test_pipelines_of_405b_take_the_time_and_memory_that_they_took(
    row: RunRecord, time_error: float, memory_error: float
) -> None:
    (found,) = validate([row], constants_for).rows
    assert found.error_fraction == pytest.approx(0.0, abs=time_error)
    assert found.memory_error_fraction == pytest.approx(0.0, abs=memory_error)


def test_unstated_modes_are_those_of_the_commit() -> None:
    strategy = published(100, 82.5).strategy
    assert (strategy.zero_stage, strategy.micro_batch_size, strategy.schedule) == (2, 4, Schedule.ONE_F_ONE_B)
    assert published(100, 82.5, zero_stage=3).strategy.zero_stage == 3
