"""Twelve measured steps on a host of eight A100 PCIe cards, whose sockets share a port each; nothing is fitted to them.

Llama 3 70B cut to 12 layers, sequence 4,096, micro batch 1, BF16, Megatron-LM 0.12 with its distributed optimizer: TFLOPS a GPU
[simumax, assets/A100-Pcie.png, read off to half a TFLOPS]. They count the head, and attention as if it were not masked.
"""

from __future__ import annotations

from statistics import median

from app.jobs.job import parse_job
from calibration.files.calibrations import calibration_for
from cost_models.shapes.strategy import StrategyBatch
from cost_models.simulation.step_times import simulate

MICRO_BATCHES = (4, 8, 32)
MEASURED_TFLOPS = {
    (1, 2): (122.2, 151.2, 182.8),  # tensor and pipeline parallel
    (2, 1): (85.2, 113.3, 150.1),
    (4, 1): (62.3, 82.7, 108.4),
    (8, 1): (51.0, 51.6, 52.0),
}
LAYER = 2 * 8192 * (8192 + 1024) + 3 * 8192 * 28672
FLOPS_PER_TOKEN = 6 * (12 * LAYER + 8192 * 128256) + 12 * 12 * 8192 * 4096


def _steps(tp: int, pp: int, micro_batches: int, tflops: float) -> tuple[float, tuple[float, float], float]:
    """Predicted step time, its interval, and the measured one. [s]"""
    sequences = micro_batches * 8 // (tp * pp)
    job = parse_job(
        {
            "model": {
                "num_layers": 12,
                "hidden_size": 8192,
                "num_attention_heads": 64,
                "num_query_groups": 8,
                "ffn_hidden_size": 28672,
                "vocab_size": 128256,
            },
            "cluster": {"hardware": "a100-pcie-80gb", "num_devices": 8},
            "training": {"seq_length": 4096, "global_batch_size": sequences, "precision": "bf16"},
            "strategy": {"tp": tp, "pp": pp, "micro_batch_size": 1, "zero_stage": 1, "sequence_parallel": tp > 1},
            "software": {"stack": "megatron-lm", "year": 2025},
        }
    )
    assert job.strategy is not None
    calibration = calibration_for(job.workload)
    found = simulate(job.workload, StrategyBatch.of([job.strategy]), calibration.constants_of(job.workload))
    predicted_s = float(found.step_time_s[0])
    interval = calibration.interval(job.workload, predicted_s)
    return predicted_s, (interval.low_s, interval.high_s), FLOPS_PER_TOKEN * sequences * 4096 / 8 / (tflops * 1e12)


def test_steps_that_share_a_port_are_predicted_as_measured() -> None:
    errors = []
    for (tp, pp), row in MEASURED_TFLOPS.items():
        for micro_batches, tflops in zip(MICRO_BATCHES, row, strict=True):
            predicted_s, (low_s, high_s), measured_s = _steps(tp, pp, micro_batches, tflops)
            assert low_s <= measured_s <= high_s, (tp, pp, micro_batches)
            errors.append(abs(predicted_s / measured_s - 1.0))
    assert median(errors) < 0.08
    assert max(errors) < 0.14
